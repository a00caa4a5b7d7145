-- The ledger file. Everything that anybody may find in it is named here; a file that
-- holds more, less or something else is refused before it is used.

-- name: log
-- The log, the only truth. One row an event, in the file's own order.
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY CHECK (sequence > 0),
    scope TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    stream TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    at INTEGER NOT NULL CHECK (at >= 0 AND at < 4611686018427387904),
    type TEXT NOT NULL,
    body TEXT NOT NULL CHECK (octet_length(body) <= 16384),
    chain BLOB NOT NULL CHECK (length(chain) = 32),
    -- IS, not =: a body without a tag would give NULL, which a CHECK lets pass.
    CHECK (type IS body ->> '$.type'),
    UNIQUE (scope, number),
    UNIQUE (stream, version)
) STRICT;

CREATE TRIGGER events_are_kept BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

CREATE TRIGGER events_are_facts BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

-- INSERT OR REPLACE fires no DELETE trigger, so an insert must also be the next of everything.
CREATE TRIGGER events_are_next BEFORE INSERT ON events
BEGIN
    SELECT RAISE(ABORT, 'sequence is not the next of the file')
    WHERE new.sequence IS NOT 1 + coalesce((SELECT max(sequence) FROM events), 0);
    SELECT RAISE(ABORT, 'number is not the next of the scope')
    WHERE new.number IS NOT
        1 + coalesce((SELECT max(number) FROM events WHERE scope = new.scope), 0);
    SELECT RAISE(ABORT, 'version is not the next of the stream')
    WHERE new.version IS NOT
        1 + coalesce((SELECT max(version) FROM events WHERE stream = new.stream), 0);
    SELECT RAISE(ABORT, 'at is below the last')
    WHERE new.at < (SELECT at FROM events ORDER BY sequence DESC LIMIT 1)
        AND new.type <> 'clock.repaired.v1';
END;

-- name: tables
-- What the log folds to. A cache: dropped and refolded whenever anybody doubts it.
CREATE TABLE tasks (
    stream TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    task_id TEXT NOT NULL,
    data_classification TEXT NOT NULL,
    policy TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    epoch_0 INTEGER NOT NULL,
    epoch_1 INTEGER NOT NULL,
    epoch_2 INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
    stream TEXT NOT NULL,
    slot INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    request_digest TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    issuer TEXT NOT NULL,
    actor_type TEXT NOT NULL,
    work_unit_digest TEXT NOT NULL,
    source_revision TEXT NOT NULL,
    inputs_digest TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    acknowledged_at INTEGER,
    ack_by INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    progress_by INTEGER NOT NULL,
    hard_until INTEGER NOT NULL,
    occupancy TEXT NOT NULL,
    operation_id TEXT,
    execution_reference TEXT,
    submission_digest TEXT,
    reconciled_from_reserve INTEGER NOT NULL,
    PRIMARY KEY (stream, slot, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE observations (
    scope TEXT NOT NULL,
    work_unit_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    work_unit_version INTEGER NOT NULL,
    work_unit_digest TEXT NOT NULL,
    source_revision TEXT NOT NULL,
    state TEXT NOT NULL,
    inputs_digest TEXT NOT NULL,
    integrated_revision TEXT,
    artifacts_digest TEXT,
    verification_reference TEXT,
    integration_reference TEXT,
    PRIMARY KEY (scope, work_unit_id, sequence),
    UNIQUE (scope, event_id)
) STRICT, WITHOUT ROWID;

-- What a coordinator asks for after a crash. A row enters when a claim begins and leaves
-- when it has ended, so a renewal never touches this index.
CREATE INDEX claims_live ON claims (stream, slot, epoch)
WHERE state = 'active' OR occupancy IN ('unknown', 'running');
