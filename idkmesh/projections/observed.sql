-- name: by_event
SELECT work_unit_id, sequence, event_id, work_unit_version, work_unit_digest,
    source_revision, state, inputs_digest, integrated_revision, artifacts_digest,
    verification_reference, integration_reference
FROM observations WHERE scope = ? AND event_id = ?;

-- name: by_place
SELECT work_unit_id, sequence, event_id, work_unit_version, work_unit_digest,
    source_revision, state, inputs_digest, integrated_revision, artifacts_digest,
    verification_reference, integration_reference
FROM observations WHERE scope = ? AND work_unit_id = ? AND sequence = ?;

-- name: latest
-- One unit's observation of the highest sequence: the last of the key's range.
SELECT work_unit_id, sequence, event_id, work_unit_version, work_unit_digest,
    source_revision, state, inputs_digest, integrated_revision, artifacts_digest,
    verification_reference, integration_reference
FROM observations WHERE scope = ? AND work_unit_id = ? ORDER BY sequence DESC LIMIT 1;

-- name: all_latest
-- Every unit's. With a lone max(), SQLite takes the other columns from that same row.
SELECT work_unit_id, max(sequence), event_id, work_unit_version, work_unit_digest,
    source_revision, state, inputs_digest, integrated_revision, artifacts_digest,
    verification_reference, integration_reference
FROM observations WHERE scope = ? GROUP BY work_unit_id;

-- name: of_unit
-- One unit's, oldest first.
SELECT work_unit_id, sequence, event_id, work_unit_version, work_unit_digest,
    source_revision, state, inputs_digest, integrated_revision, artifacts_digest,
    verification_reference, integration_reference
FROM observations WHERE scope = ? AND work_unit_id = ? ORDER BY sequence;

-- name: put
INSERT INTO observations (scope, work_unit_id, sequence, event_id, work_unit_version,
    work_unit_digest, source_revision, state, inputs_digest, integrated_revision,
    artifacts_digest, verification_reference, integration_reference)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
