"""Every event of today, as facts: what happened, to which slot and epoch, who allowed it.

No field has a default, so an old event can never be read with a new meaning. A change of
shape is a new tag: the old class moves to ``legacy.py`` with its way up.
"""

from typing import Self

from msgspec import Struct

from idkmesh.authorization import DecisionCode
from idkmesh.policy import ClaimBinding, TaskClaimPolicy
from idkmesh.prerequisites import ObservationSequence, ObservationState, WorkUnitSourceBinding
from idkmesh.records import OwnerIdentity
from idkmesh.scalars import (
    Action,
    ActorType,
    Attempts,
    DataClass,
    DeadlineSeconds,
    Digest,
    EndedBy,
    Epoch,
    EventBudget,
    ExecutionStatus,
    FreeText,
    PrincipalId,
    RevisionId,
    Risk,
    Seconds,
    Slot,
    Slots,
    SourceRevision,
    Window,
)


class Approval(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who approved an action, and where that is written down."""

    principal_id: PrincipalId
    issuer: PrincipalId
    actor_type: ActorType
    identity_revision: RevisionId
    reference: PrincipalId


class Authority(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision that allowed an action: who asked, under which revision of which policy."""

    action: Action
    code: DecisionCode
    policy_id: RevisionId
    policy_revision: RevisionId
    actor: OwnerIdentity
    identity_revision: RevisionId
    approval: Approval | None


class PolicyRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task's policy as it was frozen, every field written out."""

    concurrent_slots: Slots
    max_attempts: Attempts
    ack_seconds: Window
    lease_seconds: Window
    progress_seconds: Window
    hard_seconds: Window
    competition_reason: FreeText | None
    risk: Risk
    data_classification: DataClass
    max_events: EventBudget

    @classmethod
    def of(cls, policy: TaskClaimPolicy) -> Self:
        """Write a policy down."""
        return cls(**{field: getattr(policy, field) for field in cls.__struct_fields__})

    def policy(self) -> TaskClaimPolicy:
        """Read the policy back, through all of its own checks."""
        return TaskClaimPolicy(**{field: getattr(self, field) for field in self.__struct_fields__})


class _Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What every event's class has in common: nothing but its shape's strictness."""


class TaskConfigured(_Event, frozen=True, kw_only=True, tag="task.configured.v1"):
    """A task's policy was frozen."""

    by: Authority
    policy: PolicyRecord


class ClaimGranted(_Event, frozen=True, kw_only=True, tag="claim.granted.v1"):
    """A claim was admitted into a slot, whose epoch grew; ``by.actor`` owns it."""

    by: Authority
    request_id: FreeText
    request_digest: Digest
    slot: Slot
    epoch: Epoch
    binding: ClaimBinding
    ack_by: DeadlineSeconds
    lease_until: DeadlineSeconds
    progress_by: DeadlineSeconds
    hard_until: DeadlineSeconds


class ClaimAcknowledged(_Event, frozen=True, kw_only=True, tag="claim.acknowledged.v1"):
    """The owner consented."""

    by: Authority
    slot: Slot
    epoch: Epoch


class ClaimRenewed(_Event, frozen=True, kw_only=True, tag="claim.renewed.v1"):
    """The lease was extended."""

    by: Authority
    slot: Slot
    epoch: Epoch
    lease_until: DeadlineSeconds


class ClaimProgressed(_Event, frozen=True, kw_only=True, tag="claim.progressed.v1"):
    """The owner reported progress, which extended the progress window."""

    by: Authority
    slot: Slot
    epoch: Epoch
    progress_by: DeadlineSeconds


class ClaimReleased(_Event, frozen=True, kw_only=True, tag="claim.released.v1"):
    """The owner withdrew."""

    by: Authority
    slot: Slot
    epoch: Epoch


class ClaimExpired(_Event, frozen=True, kw_only=True, tag="claim.expired.v1"):
    """Ownership ended: which deadline passed, and when it stood.

    With ``clock_repair`` no deadline passed: time itself is about to be set back, so
    ownership ends at the old watermark, which is ``due_at`` then.
    """

    slot: Slot
    epoch: Epoch
    deadline: EndedBy
    due_at: DeadlineSeconds


class ExecutionReserved(_Event, frozen=True, kw_only=True, tag="execution.reserved.v1"):
    """An external execution may be started: ``by`` dispatches, ``owner_by`` executes."""

    by: Authority
    owner_by: Authority
    slot: Slot
    epoch: Epoch
    operation_id: Digest


class ExecutionReconciled(_Event, frozen=True, kw_only=True, tag="execution.reconciled.v1"):
    """Evidence about an execution; ``from_reserve`` where it used the events kept for endings."""

    by: Authority
    slot: Slot
    epoch: Epoch
    status: ExecutionStatus
    evidence_reference: FreeText
    from_reserve: bool


class SubmissionRecorded(_Event, frozen=True, kw_only=True, tag="submission.recorded.v1"):
    """The owner's candidate was bound to the claim."""

    by: Authority
    slot: Slot
    epoch: Epoch
    artifact_digest: Digest


class ClockRepaired(_Event, frozen=True, kw_only=True, tag="clock.repaired.v1"):
    """The owner of the file set time back to this row's: the only row that may go back."""

    old_watermark: Seconds
    evidence: FreeText


class ClockObserved(_Event, frozen=True, kw_only=True, tag="clock.observed.v1"):
    """A command that changed nothing was answered at this row's time."""


class PrerequisiteObserved(_Event, frozen=True, kw_only=True, tag="prerequisite.observed.v1"):
    """A trusted adapter saw a unit in a state; no actor is named."""

    event_id: FreeText
    sequence: ObservationSequence
    binding: WorkUnitSourceBinding
    state: ObservationState
    inputs_digest: Digest
    integrated_revision: SourceRevision | None
    artifacts_digest: Digest | None
    verification_reference: FreeText | None
    integration_reference: FreeText | None


TaskEvent = (
    TaskConfigured
    | ClaimGranted
    | ClaimAcknowledged
    | ClaimRenewed
    | ClaimProgressed
    | ClaimReleased
    | ClaimExpired
    | ExecutionReserved
    | ExecutionReconciled
    | SubmissionRecorded
)
Event = TaskEvent | PrerequisiteObserved | ClockObserved | ClockRepaired
