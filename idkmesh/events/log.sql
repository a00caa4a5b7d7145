-- name: head
-- The file's last row: its sequence and the watermark, and what its scope goes on from.
SELECT sequence, at, scope, number, chain FROM events ORDER BY sequence DESC LIMIT 1;

-- name: last_sequence
SELECT sequence FROM events ORDER BY sequence DESC LIMIT 1;

-- name: scope_head
-- The scope's last row: what the next one is numbered and chained after.
SELECT number, chain FROM events WHERE scope = ? ORDER BY number DESC LIMIT 1;

-- name: stream_version
-- How many events the stream holds; answered from the index alone.
SELECT max(version) FROM events WHERE stream = ?;

-- name: append
INSERT INTO events (sequence, scope, number, stream, version, at, type, body, chain)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: stream
-- One stream's events in order.
SELECT sequence, scope, number, stream, version, at, type, body, chain
FROM events WHERE stream = ? ORDER BY version;

-- name: streams
-- Every stream once.
SELECT DISTINCT stream FROM events ORDER BY stream;

-- name: log
-- The whole log after a sequence, in the file's order.
SELECT sequence, scope, number, stream, version, at, type, body, chain
FROM events WHERE sequence > ? ORDER BY sequence;

-- name: scope_heads
-- Each scope's last row. With a lone max(), SQLite takes chain from that same row.
SELECT scope, max(number), chain FROM events GROUP BY scope ORDER BY scope;

-- name: before_the_first
-- A check refuses such rows, but a file can be written past it.
SELECT count(*) FROM events WHERE sequence < 1;

-- name: next_sequence
-- The first sequence behind another; answered without reading any text.
SELECT min(sequence) FROM events WHERE sequence > ?;

-- name: last_until
-- The last row of a time or before it; times fall where a clock was repaired.
SELECT coalesce(max(sequence), 0) FROM events WHERE at <= ?;

-- name: page
-- A part of the log behind a sequence, in the file's order.
SELECT sequence, scope, number, stream, version, at, type, body, chain
FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?;
