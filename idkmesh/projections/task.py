"""The fold of one task's stream: its policy, its slots and its claims.

Commands and replay use this same fold. It mutates a private builder, since copying for
every event costs far more than the event, and it stops with ``store_corrupt`` at an event
that no command could have emitted in the state before it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from idkmesh.errors import ErrorCode, InvalidInput, StoreError
from idkmesh.events import types as facts
from idkmesh.events.types import TaskEvent
from idkmesh.policy import ClaimBinding, TaskClaimPolicy
from idkmesh.projections.deadlines import Due, Granted, first_due, granted, window_end
from idkmesh.records import OwnerIdentity
from idkmesh.scalars import MAX_SLOTS, ActorType, ClaimState, Occupancy

RESERVED_RECONCILIATIONS: Final = 8


class Claim(Struct, array_like=True):
    """One claim as the fold knows it; the fields are the table's columns in order."""

    slot: int
    epoch: int
    request_id: str
    request_digest: str
    principal_id: str
    issuer: str
    actor_type: ActorType
    work_unit_digest: str
    source_revision: str
    inputs_digest: str
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
    reconciled_from_reserve: int

    def owned_by(self, owner: OwnerIdentity) -> bool:
        """Say whether all three parts of an owner are this claim's."""
        return (
            self.principal_id == owner.principal_id
            and self.issuer == owner.issuer
            and self.actor_type == owner.actor_type
        )

    def binding(self) -> ClaimBinding:
        """Return what the claim works on.

        Raises:
            StoreError: Its row holds no such thing (``store_corrupt``).
        """
        try:
            return _binding(self.work_unit_digest, self.source_revision, self.inputs_digest)
        except InvalidInput as error:
            raise StoreError(ErrorCode.STORE_CORRUPT, error.message) from error

    def holds_slot(self) -> bool:
        """Say whether the claim keeps its slot from others: owned, or perhaps running."""
        return self.state == "active" or self.occupancy in {"unknown", "running"}

    def due(self, now: int) -> Due | None:
        """Return the deadline that an active claim has passed at ``now``, or None."""
        acknowledged = self.acknowledged_at is not None
        if self.state != "active" or (
            now < self.lease_until
            and now < self.progress_by
            and now < self.hard_until
            and (acknowledged or now < self.ack_by)
        ):
            return None
        deadlines = Granted(self.ack_by, self.lease_until, self.progress_by, self.hard_until)
        return first_due(deadlines, acknowledged=acknowledged)


@lru_cache(maxsize=4096)
def _binding(work_unit_digest: str, source_revision: str, inputs_digest: str) -> ClaimBinding:
    """Return a binding, its parts checked once and not for every answer."""
    return ClaimBinding(work_unit_digest, source_revision, inputs_digest)


class TaskState:
    """One task: what its stream folds to.

    Attributes:
        stream: The task's storage key.
        version: How many events the stream holds.
        policy: The frozen policy, or None before it.
        epochs: Each slot's fencing number.
        claims: Every claim by its request id.
        changed: Claims that differ from their stored rows, by slot and epoch.
        moved: Those of them that are new, or whose state or occupancy differs.
        task_changed: Whether the task's own row does.
    """

    __slots__ = (
        "changed",
        "claims",
        "epochs",
        "moved",
        "policy",
        "stream",
        "task_changed",
        "version",
    )

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.version = 0
        self.policy: TaskClaimPolicy | None = None
        self.epochs = [0] * MAX_SLOTS
        self.claims: dict[str, Claim] = {}
        self.changed: dict[tuple[int, int], Claim] = {}
        self.moved: set[tuple[int, int]] = set()
        self.task_changed = False

    @property
    def terms(self) -> TaskClaimPolicy:
        """The policy of a task that has one."""
        if self.policy is None:
            raise _impossible("its task is configured")
        return self.policy

    @property
    def only_endings_left(self) -> bool:
        """Whether only the events kept for endings are left."""
        terms = self.terms
        return terms.max_events - self.version <= terms.kept_for_endings

    def free_slot(self) -> int | None:
        """Return the lowest slot that no claim holds, or None."""
        held = {claim.slot for claim in self.claims.values() if claim.holds_slot()}
        for slot in range(self.terms.concurrent_slots):
            if slot not in held:
                return slot
        return None

    def in_order(self) -> list[Claim]:
        """Return the claims in the one order in which they are shown and expire."""
        claims = list(self.claims.values())
        if len(claims) > 1:
            claims.sort(key=attrgetter("created_at", "slot", "epoch"))
        return claims

    def due(self, now: int) -> Iterator[tuple[Claim, Due]]:
        """Yield each active claim that is past a deadline, in their order."""
        for claim in self.in_order():
            due = claim.due(now)
            if due is not None:
                yield claim, due

    def at(self, slot: int, epoch: int) -> Claim:
        """Return the claim that an event speaks of."""
        for claim in self.claims.values():
            if claim.slot == slot and claim.epoch == epoch:
                return claim
        raise _impossible("its claim was granted")

    def touch(self, claim: Claim) -> None:
        """Note that a claim's row must be written."""
        self.changed[claim.slot, claim.epoch] = claim

    def move(self, claim: Claim) -> None:
        """Note the same of a claim that began, ended, or whose occupancy changed."""
        self.touch(claim)
        self.moved.add((claim.slot, claim.epoch))

    def settle(self) -> None:
        """Note that every row is written."""
        self.changed.clear()
        self.moved.clear()
        self.task_changed = False


def evolve(state: TaskState, event: TaskEvent, at: int) -> None:
    """Apply one event to the task's state.

    Args:
        state: The state before; it is changed in place.
        event: The fact.
        at: The row's time, in epoch seconds.

    Raises:
        StoreError: No command could have emitted the event in this state (``store_corrupt``).
    """
    APPLIERS[type(event)](state, event, at)
    state.version += 1


def _configured(state: TaskState, event: facts.TaskConfigured, at: int) -> None:
    del at
    _expect(state.policy is None and state.version == 0, "it is the task's first")
    try:
        state.policy = event.policy.policy()
    except InvalidInput as error:
        raise StoreError(ErrorCode.STORE_CORRUPT, error.message) from error
    state.task_changed = True


def _granted(state: TaskState, event: facts.ClaimGranted, at: int) -> None:
    terms, actor = state.terms, event.by.actor
    _expect(len(state.claims) < terms.max_attempts, "an attempt is left")
    _expect(event.request_id not in state.claims, "its request is new")
    _expect(event.slot == state.free_slot(), "its slot is the lowest free one")
    _expect(event.epoch == state.epochs[event.slot] + 1, "its epoch is the slot's next")
    deadlines = Granted(event.ack_by, event.lease_until, event.progress_by, event.hard_until)
    _expect(deadlines == granted(terms, at), "its deadlines follow from the policy")
    _expect(not state.only_endings_left, "the event budget has room")
    claim = Claim(
        slot=event.slot,
        epoch=event.epoch,
        request_id=event.request_id,
        request_digest=event.request_digest,
        principal_id=actor.principal_id,
        issuer=actor.issuer,
        actor_type=actor.actor_type,
        work_unit_digest=event.binding.work_unit_digest,
        source_revision=event.binding.source_revision,
        inputs_digest=event.binding.inputs_digest,
        state="active",
        created_at=at,
        acknowledged_at=None,
        ack_by=event.ack_by,
        lease_until=event.lease_until,
        progress_by=event.progress_by,
        hard_until=event.hard_until,
        occupancy="none",
        operation_id=None,
        execution_reference=None,
        submission_digest=None,
        reconciled_from_reserve=0,
    )
    state.claims[event.request_id] = claim
    state.epochs[event.slot] = event.epoch
    state.task_changed = True
    state.move(claim)


def _acknowledged(state: TaskState, event: facts.ClaimAcknowledged, at: int) -> None:
    claim = _owned(state, event, at)
    _expect(claim.acknowledged_at is None, "it is the first acknowledgement")
    claim.acknowledged_at = at


def _renewed(state: TaskState, event: facts.ClaimRenewed, at: int) -> None:
    claim = _acknowledged_claim(state, event, at)
    end = window_end(claim.hard_until, at, state.terms.lease_seconds)
    _expect(event.lease_until == end, "its lease follows from the policy")
    _expect(event.lease_until > claim.lease_until, "it moves the lease")
    _expect(not state.only_endings_left, "the event budget has room")
    claim.lease_until = event.lease_until


def _progressed(state: TaskState, event: facts.ClaimProgressed, at: int) -> None:
    claim = _acknowledged_claim(state, event, at)
    end = window_end(claim.hard_until, at, state.terms.progress_seconds)
    _expect(event.progress_by == end, "its window follows from the policy")
    _expect(event.progress_by > claim.progress_by, "it moves the window")
    _expect(not state.only_endings_left, "the event budget has room")
    claim.progress_by = event.progress_by


def _released(state: TaskState, event: facts.ClaimReleased, at: int) -> None:
    claim = _owned(state, event, at)
    claim.state = "released"
    state.move(claim)


def _expired(state: TaskState, event: facts.ClaimExpired, at: int) -> None:
    claim = state.at(event.slot, event.epoch)
    if event.deadline == "clock_repair":
        _expect(claim.state == "active" and event.due_at == at, "its claim is active till then")
    else:
        _expect(claim.due(at) == (event.deadline, event.due_at), "that deadline has passed")
    claim.state = "expired"
    state.move(claim)


def _reserved(state: TaskState, event: facts.ExecutionReserved, at: int) -> None:
    claim = state.at(event.slot, event.epoch)
    _expect(claim.state == "active" and claim.due(at) is None, "its claim is active")
    _expect(claim.owned_by(event.owner_by.actor), "its owner is the claim's")
    _expect(claim.acknowledged_at is not None, "its claim is acknowledged")
    _expect(claim.occupancy == "none", "it is the first reservation")
    claim.occupancy = "unknown"
    claim.operation_id = event.operation_id
    state.move(claim)


def _reconciled(state: TaskState, event: facts.ExecutionReconciled, at: int) -> None:
    del at
    claim = state.at(event.slot, event.epoch)
    _expect(claim.occupancy in {"unknown", "running"}, "its execution is open")
    found = (claim.occupancy, claim.execution_reference)
    _expect(found != (event.status, event.evidence_reference), "it changes something")
    counted = event.status != "terminal" and state.only_endings_left
    _expect(event.from_reserve == counted, "it is counted as it should be")
    if event.from_reserve:
        spare = claim.reconciled_from_reserve < RESERVED_RECONCILIATIONS
        _expect(spare, "the reserve has room for it")
        claim.reconciled_from_reserve += 1
    claim.occupancy = event.status
    claim.execution_reference = event.evidence_reference
    state.move(claim)


def _submitted(state: TaskState, event: facts.SubmissionRecorded, at: int) -> None:
    claim = _acknowledged_claim(state, event, at)
    _expect(claim.submission_digest is None, "it is the first submission")
    claim.submission_digest = event.artifact_digest


APPLIERS: Final[dict[type[TaskEvent], Callable[[TaskState, Any, int], None]]] = {
    facts.TaskConfigured: _configured,
    facts.ClaimGranted: _granted,
    facts.ClaimAcknowledged: _acknowledged,
    facts.ClaimRenewed: _renewed,
    facts.ClaimProgressed: _progressed,
    facts.ClaimReleased: _released,
    facts.ClaimExpired: _expired,
    facts.ExecutionReserved: _reserved,
    facts.ExecutionReconciled: _reconciled,
    facts.SubmissionRecorded: _submitted,
}

_OwnerEvent = (
    facts.ClaimAcknowledged
    | facts.ClaimRenewed
    | facts.ClaimProgressed
    | facts.ClaimReleased
    | facts.SubmissionRecorded
)


def _owned(state: TaskState, event: _OwnerEvent, at: int) -> Claim:
    """Return the active claim that its owner acted on."""
    claim = state.at(event.slot, event.epoch)
    _expect(claim.state == "active" and claim.due(at) is None, "its claim is active")
    _expect(claim.owned_by(event.by.actor), "its actor is the claim's owner")
    state.touch(claim)
    return claim


def _acknowledged_claim(state: TaskState, event: _OwnerEvent, at: int) -> Claim:
    claim = _owned(state, event, at)
    _expect(claim.acknowledged_at is not None, "its claim is acknowledged")
    return claim


def _expect(holds: bool, what: str) -> None:  # noqa: FBT001  (an assertion's condition)
    if not holds:
        raise _impossible(what)


def _impossible(what: str) -> StoreError:
    message = f"expected an event of which {what}, but it is not so"
    return StoreError(ErrorCode.STORE_CORRUPT, message)
