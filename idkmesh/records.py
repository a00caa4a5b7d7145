"""The records that callers get: what a claim looks like from outside."""

from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from idkmesh.identity import ScopedResourceRef, TenantScope
from idkmesh.policy import ClaimBinding
from idkmesh.prerequisites import WorkUnitSourceBinding
from idkmesh.scalars import ActorType, ClaimState, Occupancy, PrincipalId

CLAIM_KIND: Final = "idkmesh-task-claim"
ADMISSION_KIND: Final = "idkmesh-executor-admission"
SCHEMA_VERSION: Final = "0.1"

Phase = Literal["admission", "execution-reservation", "submission"]


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


class AdmissionRecord(Struct, frozen=True, kw_only=True):
    """What one phase of the gate did, bound to the inputs that it saw in its transaction.

    It is metadata: the claim is the admission, and nothing accepts this record.

    Attributes:
        phase: admission, execution-reservation or submission.
        scope: The tenant's project.
        graph_digest: Which graph the gate looked through.
        observation_digest: The latest observations of the unit and all that it requires.
        binding: The unit, its content and revision.
        inputs_digest: The inputs that the claim is bound to.
        created: Whether this very call wrote what the phase is about.
        claim: The claim behind it.
    """

    phase: Phase
    scope: TenantScope
    graph_digest: str
    observation_digest: str
    binding: WorkUnitSourceBinding
    inputs_digest: str
    created: bool
    claim: TaskClaim

    @property
    def work_unit_id(self) -> str:
        """The unit's id."""
        return self.binding.work_unit_id

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of ``executor-admission-v0.1.schema.json``."""
        return {
            "kind": ADMISSION_KIND,
            "schema_version": SCHEMA_VERSION,
            "phase": self.phase,
            "scope": self.scope.to_dict(),
            "graph_digest": self.graph_digest,
            "observation_digest": self.observation_digest,
            "work_unit_id": self.work_unit_id,
            "binding": self.binding.to_dict(),
            "inputs_digest": self.inputs_digest,
            "created": self.created,
            "claim": self.claim.to_dict(),
            "authority": {
                "dispatch": False,
                "executes_worker": False,
                "accepts_candidate": False,
                "merge": False,
            },
        }


class Admitted(NamedTuple):
    """A claim, and whether this very call created what was asked for."""

    claim: TaskClaim
    created: bool


class Admission(NamedTuple):
    """A claim, and the record of the gate's phase."""

    claim: TaskClaim
    record: AdmissionRecord
