"""The books of the model: what is recorded, how a transaction opens and ends, what readers see.

``oracle.py`` puts the commands on top. The books are three plain collections, and
the watermark, slots, epochs and counts are worked out from them at each call.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from oracle_terms import (
    DATA_CLASSES,
    Record,
    authorize,
    check_task,
    demand,
    identity_fault,
    is_principal,
    is_text,
    owner_record,
    refuse,
    storage_key,
)

if TYPE_CHECKING:
    from idkmesh import ActorContext, ScopedResourceRef, TaskClaimPolicy, TenantScope

STATES = ("active", "released", "expired")
OCCUPANCIES = ("none", "unknown", "running", "terminal")
ENDING_EVENTS_PER_ATTEMPT = 16


def past_deadline(record: Record, now: int) -> bool:
    """Tell whether an active claim is over; ``ack_by`` counts until the acknowledgement."""
    deadlines = [record["hard_until"], record["lease_until"], record["progress_by"]]
    if record["acknowledged_at"] is None:
        deadlines.append(record["ack_by"])
    return bool(record["state"] == "active" and now >= min(deadlines))


def shown(record: Record, at: int) -> Record:
    """Return a copy of the record as a reader sees it at this time."""
    copied = copy.deepcopy(record)
    if past_deadline(record, at):
        copied["state"] = "expired"
    return copied


def in_order(records: list[Record]) -> tuple[Record, ...]:
    """Return copies of the records by (created_at, slot, epoch)."""
    order = sorted(records, key=lambda one: (one["created_at"], one["slot"], one["epoch"]))
    return tuple(copy.deepcopy(order))


def identify(actor: ActorContext, scope: TenantScope, now: int) -> None:
    """Refuse an actor whose identity does not hold in this scope now."""
    fault = identity_fault(actor, scope, now, "actor")
    if fault is not None:
        refuse(fault)


def permit(
    action: str,
    scope: TenantScope,
    actor: ActorContext,
    *,
    policy: TaskClaimPolicy,
    now: int,
    approver: ActorContext | None = None,
    parties: tuple[ActorContext, ...] = (),
) -> None:
    """Refuse an actor who may not do this to a task of such a policy."""
    code = authorize(
        action,
        scope,
        actor,
        risk=policy.risk,
        data_class=policy.data_classification,
        now=now,
        approver=approver,
        others=parties,
    )
    demand(code.startswith("authorized"), code)


class Entry(NamedTuple):
    """One event: its stream, what happened in a word, and when."""

    stream: str
    kind: str
    at: int


@dataclass
class Grant:
    """One admitted claim, and how many of its reconciliations came out of the reserve."""

    stream: str
    record: Record
    from_reserve: int = 0


class Turn(NamedTuple):
    """One transaction past authorization and expiry: its task, time, and the log before it."""

    task: ScopedResourceRef
    stream: str
    policy: TaskClaimPolicy
    now: int
    mark: int


class Books:
    """Three plain collections: policies, grants, and the log."""

    def __init__(
        self, clock_resolution_seconds: int = 1, *, max_observations: int = 100_000
    ) -> None:
        """Start an empty ledger; the gate's model keeps its observations here as well."""
        self.now: int = 0
        self.resolution = clock_resolution_seconds
        self.max_observations = max_observations
        self.observed: dict[TenantScope, list[Any]] = {}
        self.log: list[Entry] = []
        self.policies: dict[str, TaskClaimPolicy] = {}
        self.grants: list[Grant] = []

    # What a test compares besides the answers.

    @property
    def watermark(self) -> int | None:
        """The latest time at which anything was recorded."""
        return self.log[-1].at if self.log else None

    def event_count(self, task: ScopedResourceRef) -> int:
        """Return the number of events in one task's stream."""
        return self._count(storage_key(task))

    def total_events(self) -> int:
        """Return the number of events in the file, observed times included."""
        return len(self.log)

    # The transaction that every command goes through; the gate's model uses it too.

    def read_clock(self) -> int:
        """Return the time for a command."""
        demand(type(self.now) is int and 0 <= self.now < 2**62, "invalid_clock")
        demand(self.watermark is None or self.now >= self.watermark, "clock_rollback")
        return self.now

    def enter(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        action: str,
        *,
        approver: ActorContext | None = None,
        owner: ActorContext | None = None,
        offered: TaskClaimPolicy | None = None,
    ) -> Turn:
        """Check clock, identity, policy and authority, then record the task's due expiries."""
        now = self.read_clock()
        stream = storage_key(task)
        identify(actor, task.scope, now)
        policy = self.policies.get(stream, offered)
        if policy is None:
            refuse("task_not_configured")
        parties = (actor,) if owner is None else (actor, owner)
        rest: dict[str, Any] = {
            "policy": policy,
            "now": now,
            "approver": approver,
            "parties": parties,
        }
        permit(action, task.scope, actor, **rest)
        if owner is not None:
            permit("execute", task.scope, owner, **rest)
        turn = Turn(task, stream, policy, now, len(self.log))
        for grant in self.of(stream):
            if past_deadline(grant.record, now):
                grant.record["state"] = "expired"
                self.append(stream, "expired", now)
        return turn

    def append(self, stream: str, kind: str, now: int) -> None:
        """Record one event."""
        self.log.append(Entry(stream, kind, now))

    def observe_clock(self, scope: TenantScope, now: int, mark: int) -> None:
        """After a success: record the time where nothing else was, if it has moved."""
        moved = self.watermark is None or now >= self.watermark + self.resolution
        if len(self.log) == mark and moved:
            self.append(f"{scope.tenant_id}/{scope.project_id}/clock", "clock", now)

    def finish(self, turn: Turn) -> None:
        """End a command that succeeded."""
        self.observe_clock(turn.task.scope, turn.now, turn.mark)

    # What the rules ask.

    def known(self, turn: Turn, request_id: str) -> Grant | None:
        """Return the task's claim under this request, if any."""
        for grant in self.of(turn.stream):
            if grant.record["request_id"] == request_id:
                return grant
        return None

    def at_epoch(self, turn: Turn, request_id: str, epoch: object) -> Grant:
        """Return the claim under this request, if it has this epoch."""
        grant = self.known(turn, request_id)
        if grant is None:
            refuse("claim_not_found")
        demand(type(epoch) is int and epoch == grant.record["epoch"], "stale_claim")
        return grant

    def owned(self, turn: Turn, actor: ActorContext, request_id: str, epoch: object) -> Grant:
        """Return the claim under this request, if the actor's ownership of it holds."""
        grant = self.at_epoch(turn, request_id, epoch)
        record = grant.record
        demand(record["owner"] == owner_record(actor), "claim_owner_denied")
        demand(record["state"] == "active", "stale_claim")
        demand(record["epoch"] == self.epoch(turn, record["slot"]), "stale_claim")
        return grant

    def of(self, stream: str) -> list[Grant]:
        """Return one task's grants in order of admission."""
        return [grant for grant in self.grants if grant.stream == stream]

    def in_slot(self, turn: Turn, slot: int) -> list[Record]:
        """Return the claims ever admitted into one slot."""
        records = [grant.record for grant in self.of(turn.stream)]
        return [record for record in records if record["slot"] == slot]

    def epoch(self, turn: Turn, slot: int) -> int:
        """Return the slot's epoch, 0 before its first claim."""
        return max((record["epoch"] for record in self.in_slot(turn, slot)), default=0)

    def held(self, turn: Turn, slot: int) -> bool:
        """Tell whether a claim or an execution keeps the slot."""
        return any(
            record["state"] == "active" or record["occupancy"] in ("unknown", "running")
            for record in self.in_slot(turn, slot)
        )

    def _count(self, stream: str) -> int:
        return sum(entry.stream == stream for entry in self.log)

    def only_endings_left(self, turn: Turn) -> bool:
        """Tell whether only the reserve for endings is left of the task's budget."""
        left: int = turn.policy.max_events - self._count(turn.stream)
        reserve: int = ENDING_EVENTS_PER_ATTEMPT * turn.policy.max_attempts
        return left <= reserve

    # Readers: they write nothing, and while the clock is behind they judge at the watermark.

    def peek(self, task: ScopedResourceRef, actor: ActorContext) -> tuple[Record, ...]:
        """Return the task's claims as they stand at the reading time."""
        check_task(task)
        at = self._reading_time()
        self._readable(task, actor, at)
        return in_order([shown(grant.record, at) for grant in self.of(storage_key(task))])

    def policy(self, task: ScopedResourceRef, actor: ActorContext) -> TaskClaimPolicy:
        """Return the task's frozen policy."""
        check_task(task)
        return self._readable(task, actor, self._reading_time())

    def lookup(self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str) -> Record:
        """Return one claim as it stands at the reading time."""
        check_task(task)
        demand(is_text(request_id))
        at = self._reading_time()
        self._readable(task, actor, at)
        records = [grant.record for grant in self.of(storage_key(task))]
        found = [record for record in records if record["request_id"] == request_id]
        demand(bool(found), "claim_not_found")
        return shown(found[0], at)

    def survey(
        self,
        scope: TenantScope,
        actor: ActorContext,
        *,
        state: str | None = None,
        occupancy: str | None = None,
        overdue: bool | None = None,
        owner: str | None = None,
    ) -> tuple[Record, ...]:
        """Return the scope's claims that pass every filter given, in order of admission."""
        demand(state is None or state in STATES)
        demand(occupancy is None or occupancy in OCCUPANCIES)
        demand(overdue is None or isinstance(overdue, bool))
        demand(owner is None or is_principal(owner))
        at = self._reading_time()
        code = authorize("read", scope, actor, risk="low", data_class="public", now=at)
        demand(code == "authorized", code)
        found = []
        for grant in self.grants:
            record = shown(grant.record, at)
            place = (record["task"]["tenant_id"], record["task"]["project_id"])
            data_class = self.policies[grant.stream].data_classification
            cleared = DATA_CLASSES.index(data_class) <= DATA_CLASSES.index(actor.data_clearance)
            if (
                place == (scope.tenant_id, scope.project_id)
                and cleared
                and state in (None, record["state"])
                and occupancy in (None, record["occupancy"])
                and overdue in (None, past_deadline(grant.record, at))
                and owner in (None, record["owner"]["principal_id"])
            ):
                found.append(record)
        return tuple(found)

    def _reading_time(self) -> int:
        demand(type(self.now) is int and 0 <= self.now < 2**62, "invalid_clock")
        return max(self.now, self.watermark or 0)

    def _readable(self, task: ScopedResourceRef, actor: ActorContext, at: int) -> TaskClaimPolicy:
        identify(actor, task.scope, at)
        policy = self.policies.get(storage_key(task))
        if policy is None:
            refuse("task_not_configured")
        permit("read", task.scope, actor, policy=policy, now=at)
        return policy
