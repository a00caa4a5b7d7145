"""A plain model of the claim ledger, to compare the real one against.

It restates the ledger's contract in the simplest way that could work: lists, no
storage, everything recomputed at each call. A test sets ``Oracle.now``, makes the
same call on the model and on a ledger, and compares the answers, the codes, the
watermark and the number of events. Nothing of the library runs in here. Objects
are taken to be well typed; scalars may be anything.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from oracle_books import Books, Entry, Grant, Turn, in_order
from oracle_terms import (
    Record,
    Refused,
    binding_record,
    canonical_digest,
    check_approval,
    check_task,
    demand,
    is_digest,
    is_text,
    owner_record,
    policy_record,
    task_record,
)

if TYPE_CHECKING:
    from idkmesh import ActorContext, ClaimBinding, ScopedResourceRef, TaskClaimPolicy

__all__ = ["Entry", "Grant", "Oracle", "Refused", "Turn", "canonical_digest"]

OWNER_OPERATIONS = ("acknowledge", "renew", "progress", "release")
RECONCILIATIONS_FROM_THE_RESERVE = 8


class Oracle(Books):
    """The whole ledger: the commands over the books."""

    def configure_task(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        policy: TaskClaimPolicy,
        *,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> bool:
        """Freeze a task's policy."""
        check_task(task)
        check_approval(approver, approval_reference)
        turn = self.enter(task, actor, "dispatch", approver=approver, offered=policy)
        if turn.stream not in self.policies:
            self.policies[turn.stream] = policy
            self.append(turn.stream, "configured", turn.now)
            return True
        demand(policy_record(turn.policy) == policy_record(policy), "task_policy_conflict")
        self.finish(turn)
        return False

    def claim(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        *,
        request_id: str,
        binding: ClaimBinding,
    ) -> tuple[Record, bool]:
        """Admit an attempt, or return the one this request was given."""
        check_task(task)
        demand(is_text(request_id))
        turn = self.enter(task, actor, "claim")
        return self.claim_rules(turn, actor, request_id, binding_record(binding))

    def claim_rules(
        self, turn: Turn, actor: ActorContext, request_id: str, binding: Record
    ) -> tuple[Record, bool]:
        """Decide a claim inside its transaction."""
        policy, now = turn.policy, turn.now
        identified = {
            "task": task_record(turn.task),
            "owner": owner_record(actor),
            "binding": binding,
            "policy": policy_record(policy),
        }
        digest = canonical_digest(identified)
        known = self.known(turn, request_id)
        if known is not None:
            demand(known.record["request_digest"] == digest, "request_conflict")
            self.finish(turn)
            return copy.deepcopy(known.record), False
        demand(len(self.of(turn.stream)) < policy.max_attempts, "attempt_budget_exhausted")
        demand(not self.only_endings_left(turn), "event_budget_exhausted")
        free = [slot for slot in range(policy.concurrent_slots) if not self.held(turn, slot)]
        demand(bool(free), "task_capacity_reserved")
        hard_until = now + policy.hard_seconds
        record: Record = {
            "kind": "idkmesh-task-claim",
            "schema_version": "0.1",
            "task": task_record(turn.task),
            "request_id": request_id,
            "request_digest": digest,
            "slot": free[0],
            "epoch": self.epoch(turn, free[0]) + 1,
            "owner": owner_record(actor),
            "binding": dict(binding),
            "state": "active",
            "created_at": now,
            "acknowledged_at": None,
            "ack_by": min(hard_until, now + policy.ack_seconds),
            "lease_until": min(hard_until, now + policy.lease_seconds),
            "progress_by": min(hard_until, now + policy.progress_seconds),
            "hard_until": hard_until,
            "occupancy": "none",
            "operation_id": None,
            "execution_reference": None,
            "submission_digest": None,
            "authority": {"executes_worker": False, "accepts_candidate": False, "merge": False},
        }
        self.grants.append(Grant(turn.stream, record))
        self.append(turn.stream, "granted", now)
        self.finish(turn)
        return copy.deepcopy(record), True

    def acknowledge(
        self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str, epoch: int
    ) -> Record:
        """Record the owner's consent, once."""
        return self.update_owner(
            task, actor, request_id=request_id, epoch=epoch, operation="acknowledge"
        )

    def renew(
        self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str, epoch: int
    ) -> Record:
        """Extend the lease."""
        return self.update_owner(task, actor, request_id=request_id, epoch=epoch, operation="renew")

    def progress(
        self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str, epoch: int
    ) -> Record:
        """Extend the progress window."""
        return self.update_owner(
            task, actor, request_id=request_id, epoch=epoch, operation="progress"
        )

    def release(
        self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str, epoch: int
    ) -> Record:
        """End ownership; an execution stays as it is."""
        return self.update_owner(
            task, actor, request_id=request_id, epoch=epoch, operation="release"
        )

    def update_owner(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        *,
        request_id: str,
        epoch: int,
        operation: str,
    ) -> Record:
        """Do one of the owner's four operations."""
        check_task(task)
        demand(is_text(request_id) and operation in OWNER_OPERATIONS)
        turn = self.enter(task, actor, "release" if operation == "release" else "claim")
        record = self.owned(turn, actor, request_id, epoch).record
        if operation in ("renew", "progress"):
            demand(record["acknowledged_at"] is not None, "acknowledgement_required")
        changes: Record = {}
        if operation == "release":
            changes["state"] = "released"
        elif operation == "renew":
            lease_until = turn.now + turn.policy.lease_seconds
            changes["lease_until"] = min(record["hard_until"], lease_until)
        elif operation == "progress":
            progress_by = turn.now + turn.policy.progress_seconds
            changes["progress_by"] = min(record["hard_until"], progress_by)
        elif record["acknowledged_at"] is None:
            changes["acknowledged_at"] = turn.now
        if any(record[name] != value for name, value in changes.items()):
            if operation in ("renew", "progress"):
                demand(not self.only_endings_left(turn), "event_budget_exhausted")
            record.update(changes)
            self.append(turn.stream, operation, turn.now)
        self.finish(turn)
        return copy.deepcopy(record)

    def reserve_dispatch(
        self,
        task: ScopedResourceRef,
        dispatcher: ActorContext,
        owner: ActorContext,
        *,
        request_id: str,
        epoch: int,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> tuple[Record, bool]:
        """Retain the intent to start an external execution."""
        check_task(task)
        demand(is_text(request_id))
        check_approval(approver, approval_reference)
        turn = self.enter(task, dispatcher, "dispatch", approver=approver, owner=owner)
        return self.reserve_rules(turn, owner, request_id, epoch)

    def reserve_rules(
        self, turn: Turn, owner: ActorContext, request_id: str, epoch: int
    ) -> tuple[Record, bool]:
        """Decide a reservation inside its transaction."""
        record = self.at_epoch(turn, request_id, epoch).record
        demand(record["owner"] == owner_record(owner), "claim_owner_denied")
        created = record["operation_id"] is None
        if created:
            demand(record["state"] == "active", "stale_claim")
            demand(record["acknowledged_at"] is not None, "acknowledgement_required")
            operation = {
                "task": turn.stream,
                "slot": record["slot"],
                "epoch": record["epoch"],
                "binding": record["binding"],
            }
            record["operation_id"] = canonical_digest(operation)
            record["occupancy"] = "unknown"
            self.append(turn.stream, "reserved", turn.now)
        self.finish(turn)
        return copy.deepcopy(record), created

    def reconcile_execution(
        self,
        task: ScopedResourceRef,
        dispatcher: ActorContext,
        *,
        request_id: str,
        epoch: int,
        status: str,
        evidence_reference: str,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> Record:
        """Record what is known about an execution."""
        check_task(task)
        demand(is_text(request_id) and is_text(evidence_reference))
        demand(status in ("running", "terminal"))
        check_approval(approver, approval_reference)
        turn = self.enter(task, dispatcher, "dispatch", approver=approver)
        grant = self.at_epoch(turn, request_id, epoch)
        record = grant.record
        demand(record["operation_id"] is not None, "dispatch_intent_required")
        known = (record["occupancy"], record["execution_reference"])
        if known != (status, evidence_reference):
            demand(record["occupancy"] != "terminal", "terminal_execution_conflict")
            if status == "running" and self.only_endings_left(turn):
                allowed = grant.from_reserve < RECONCILIATIONS_FROM_THE_RESERVE
                demand(allowed, "event_budget_exhausted")
                grant.from_reserve += 1
            record["occupancy"] = str(status)
            record["execution_reference"] = evidence_reference
            self.append(turn.stream, "reconciled", turn.now)
        self.finish(turn)
        return copy.deepcopy(record)

    def record_submission(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        *,
        request_id: str,
        epoch: int,
        artifact_digest: str,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> Record:
        """Bind the owner's candidate to the claim."""
        check_task(task)
        demand(is_text(request_id) and is_digest(artifact_digest))
        check_approval(approver, approval_reference)
        turn = self.enter(task, actor, "execute", approver=approver)
        return self.submission_rules(turn, actor, request_id, epoch, artifact_digest)[0]

    def submission_rules(
        self, turn: Turn, actor: ActorContext, request_id: str, epoch: int, artifact_digest: str
    ) -> tuple[Record, bool]:
        """Decide a submission inside its transaction, and tell whether it was written now."""
        record = self.owned(turn, actor, request_id, epoch).record
        demand(record["acknowledged_at"] is not None, "acknowledgement_required")
        demand(record["submission_digest"] in (None, artifact_digest), "submission_conflict")
        created = record["submission_digest"] is None
        if created:
            record["submission_digest"] = artifact_digest
            self.append(turn.stream, "submitted", turn.now)
        self.finish(turn)
        return copy.deepcopy(record), created

    def snapshot(self, task: ScopedResourceRef, actor: ActorContext) -> tuple[Record, ...]:
        """Return the task's claims after recording expiry."""
        check_task(task)
        turn = self.enter(task, actor, "read")
        self.finish(turn)
        return in_order([grant.record for grant in self.of(turn.stream)])
