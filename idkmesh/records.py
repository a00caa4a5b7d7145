"""The records that callers get: what a claim looks like from outside."""

from typing import Any, Final, NamedTuple

from msgspec import Struct

from idkmesh.identity import ScopedResourceRef
from idkmesh.policy import ClaimBinding
from idkmesh.scalars import ActorType, ClaimState, Occupancy, PrincipalId

CLAIM_KIND: Final = "idkmesh-task-claim"
SCHEMA_VERSION: Final = "0.1"


class OwnerIdentity(Struct, frozen=True, forbid_unknown_fields=True):
    """Who holds a claim; all three parts count."""

    principal_id: PrincipalId
    issuer: PrincipalId
    actor_type: ActorType

    def to_dict(self) -> dict[str, str]:
        """Return the owner's JSON record."""
        return {
            "principal_id": self.principal_id,
            "issuer": self.issuer,
            "actor_type": self.actor_type,
        }


class TaskClaim(Struct, frozen=True, kw_only=True):
    """One admitted attempt at a task, as it stood when the answer was given.

    A record is never a capability: no command accepts one. Times are epoch seconds.

    Attributes:
        task: The task.
        request_id: The identity of the request that was granted.
        request_digest: What that request asked for.
        slot: The task's place that the claim holds, 0-2.
        epoch: The slot's fencing number, from 1.
        owner: Who holds the claim.
        binding: What it works on.
        state: active, released or expired.
        created_at: When it was granted.
        acknowledged_at: When the owner consented, or None.
        ack_by: The end of the acknowledgement window.
        lease_until: The end of the lease.
        progress_by: The end of the progress window.
        hard_until: The end that nothing moves.
        occupancy: Whether an execution may be running: none, unknown, running, terminal.
        operation_id: The identity of the reserved execution, or None.
        execution_reference: The last evidence about it, or None.
        submission_digest: The candidate's digest, or None.
    """

    task: ScopedResourceRef
    request_id: str
    request_digest: str
    slot: int
    epoch: int
    owner: OwnerIdentity
    binding: ClaimBinding
    state: ClaimState
    created_at: int
    acknowledged_at: int | None
    ack_by: int
    lease_until: int
    progress_by: int
    hard_until: int
    occupancy: Occupancy
    operation_id: str | None
    execution_reference: str | None
    submission_digest: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as the JSON object of ``task-claim-v0.1.schema.json``."""
        return {
            "kind": CLAIM_KIND,
            "schema_version": SCHEMA_VERSION,
            "task": self.task.to_dict(),
            "request_id": self.request_id,
            "request_digest": self.request_digest,
            "slot": self.slot,
            "epoch": self.epoch,
            "owner": self.owner.to_dict(),
            "binding": self.binding.to_dict(),
            "state": self.state,
            "created_at": self.created_at,
            "acknowledged_at": self.acknowledged_at,
            "ack_by": self.ack_by,
            "lease_until": self.lease_until,
            "progress_by": self.progress_by,
            "hard_until": self.hard_until,
            "occupancy": self.occupancy,
            "operation_id": self.operation_id,
            "execution_reference": self.execution_reference,
            "submission_digest": self.submission_digest,
            "authority": {"executes_worker": False, "accepts_candidate": False, "merge": False},
        }

    def __repr__(self) -> str:
        # Free text could hold what an adapter should not have put there, so none is shown.
        return f"TaskClaim({self.task.key} slot={self.slot} epoch={self.epoch} {self.state})"


class Admitted(NamedTuple):
    """A claim, and whether this very call created what was asked for."""

    claim: TaskClaim
    created: bool
