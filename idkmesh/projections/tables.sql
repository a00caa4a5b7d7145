-- name: task
-- One task's row and how many events its stream holds.
SELECT policy, epoch_0, epoch_1, epoch_2,
    (SELECT max(version) FROM events WHERE stream = tasks.stream)
FROM tasks WHERE stream = ?;

-- name: claims
-- Every claim of one task.
SELECT slot, epoch, request_id, request_digest, principal_id, issuer, actor_type,
    work_unit_digest, source_revision, inputs_digest, state, created_at, acknowledged_at,
    ack_by, lease_until, progress_by, hard_until, occupancy, operation_id,
    execution_reference, submission_digest, reconciled_from_reserve
FROM claims WHERE stream = ?;

-- name: put_task
INSERT INTO tasks (stream, scope, task_id, data_classification, policy, attempts,
    epoch_0, epoch_1, epoch_2)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (stream) DO UPDATE SET attempts = excluded.attempts,
    epoch_0 = excluded.epoch_0, epoch_1 = excluded.epoch_1, epoch_2 = excluded.epoch_2;

-- name: put_claim
INSERT INTO claims (stream, slot, epoch, request_id, request_digest, principal_id, issuer,
    actor_type, work_unit_digest, source_revision, inputs_digest, state, created_at,
    acknowledged_at, ack_by, lease_until, progress_by, hard_until, occupancy, operation_id,
    execution_reference, submission_digest, reconciled_from_reserve)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (stream, slot, epoch) DO UPDATE SET state = excluded.state,
    acknowledged_at = excluded.acknowledged_at, lease_until = excluded.lease_until,
    progress_by = excluded.progress_by, occupancy = excluded.occupancy,
    operation_id = excluded.operation_id,
    execution_reference = excluded.execution_reference,
    submission_digest = excluded.submission_digest,
    reconciled_from_reserve = excluded.reconciled_from_reserve;

-- name: extend_claim
-- What moves while a claim lives on: no column that the index of live claims looks at, so
-- that a renewal touches one row and no index.
UPDATE claims SET acknowledged_at = ?, lease_until = ?, progress_by = ?, submission_digest = ?
WHERE stream = ? AND slot = ? AND epoch = ?;

-- name: survey
-- The next claims of a scope behind a place in the table's order. The bounds are the
-- scope's first and last possible stream, so no other scope's rows are touched.
SELECT claims.stream, slot, epoch, request_id, request_digest, principal_id, issuer,
    actor_type, work_unit_digest, source_revision, inputs_digest, state, created_at,
    acknowledged_at, ack_by, lease_until, progress_by, hard_until, occupancy, operation_id,
    execution_reference, submission_digest, reconciled_from_reserve,
    tasks.policy ->> '$.risk', tasks.data_classification
FROM claims JOIN tasks ON tasks.stream = claims.stream
WHERE (claims.stream, slot, epoch) > (?, ?, ?) AND claims.stream < ?
ORDER BY claims.stream, slot, epoch LIMIT ?;

-- name: survey_live
-- The same, of the claims that are active or may be running.
SELECT claims.stream, slot, epoch, request_id, request_digest, principal_id, issuer,
    actor_type, work_unit_digest, source_revision, inputs_digest, state, created_at,
    acknowledged_at, ack_by, lease_until, progress_by, hard_until, occupancy, operation_id,
    execution_reference, submission_digest, reconciled_from_reserve,
    tasks.policy ->> '$.risk', tasks.data_classification
FROM claims INDEXED BY claims_live JOIN tasks ON tasks.stream = claims.stream
WHERE (claims.stream, slot, epoch) > (?, ?, ?) AND claims.stream < ?
    AND (state = 'active' OR occupancy IN ('unknown', 'running'))
ORDER BY claims.stream, slot, epoch LIMIT ?;

-- name: stored_tasks
SELECT * FROM tasks ORDER BY stream;

-- name: stored_claims
SELECT * FROM claims ORDER BY stream, slot, epoch;

-- name: stored_observations
SELECT * FROM observations ORDER BY scope, work_unit_id, sequence;

-- name: owned
-- Every task with an active claim, in any scope.
SELECT DISTINCT stream FROM claims INDEXED BY claims_live
WHERE (state = 'active' OR occupancy IN ('unknown', 'running')) AND state = 'active'
ORDER BY stream;
