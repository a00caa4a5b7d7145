"""What a verification knows beyond the fold: who could have emitted an event, and what must hold.

The fold refuses what it cannot apply. Here stands what a command's decision guarantees on
top of that, and the invariants that must hold behind every event.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from idkmesh.authorization import AUTHORIZED
from idkmesh.commands.acknowledge import Acknowledge
from idkmesh.commands.claim import ClaimTask, request_digest
from idkmesh.commands.configure import Configure
from idkmesh.commands.progress import Progress
from idkmesh.commands.reconcile import Reconcile
from idkmesh.commands.release import Release
from idkmesh.commands.renew import Renew
from idkmesh.commands.reserve import Reserve, operation_id
from idkmesh.commands.submit import Submit
from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import types as facts
from idkmesh.events.catalog import task_of
from idkmesh.events.port import Row
from idkmesh.events.types import Authority, Event, TaskEvent
from idkmesh.identity import TenantScope
from idkmesh.projections import watermark
from idkmesh.projections.task import Claim, TaskState
from idkmesh.records import OwnerIdentity
from idkmesh.scalars import MAX_INT, Action

_NEEDS: Final[dict[type[Event], tuple[Action, ...]]] = {
    facts.TaskConfigured: Configure.needs,
    facts.ClaimGranted: ClaimTask.needs,
    facts.ClaimAcknowledged: Acknowledge.needs,
    facts.ClaimRenewed: Renew.needs,
    facts.ClaimProgressed: Progress.needs,
    facts.ClaimReleased: Release.needs,
    facts.ExecutionReserved: Reserve.needs,
    facts.ExecutionReconciled: Reconcile.needs,
    facts.SubmissionRecorded: Submit.needs,
}
ABOUT_TIME: Final = frozenset({facts.ClockObserved, facts.ClockRepaired, facts.ClaimExpired})
"""The events that say something about time themselves, so that their place must be judged."""

_WITHOUT_APPROVER: Final = frozenset({"claim", "release"})


def is_scope(name: str) -> bool:
    """Say whether a scope's name is one of a tenant and a project."""
    try:
        tenant_id, project_id = name.split("/")
        return TenantScope(tenant_id, project_id).key == name
    except ValueError:
        return False


def require_stream(stream: str, expected: str) -> None:
    """Do nothing where an event is in the one stream of its kind and scope.

    Raises:
        StoreError: It is in another (``store_corrupt``).
    """
    if stream != expected:
        raise misplaced()


def require_task_stream(stream: str, scope: str) -> None:
    """Do nothing where a stream's name is that of a task in a scope.

    Raises:
        StoreError: It is not (``store_corrupt``).
    """
    try:
        task = task_of(stream)
    except StoreError as error:
        raise misplaced() from error
    if task.scope.key != scope:
        raise misplaced()


def misplaced() -> StoreError:
    """Return what is said of an event that is not where its kind belongs."""
    message = "expected an event in a stream of its kind and scope, but it is in another"
    return StoreError(ErrorCode.STORE_CORRUPT, message)


def impossible(state: TaskState, event: TaskEvent, at: int) -> list[str]:
    """Return why no command could have emitted an event, beyond what the fold refuses.

    Args:
        state: The task before the event.
        event: The event.
        at: The row's time, in epoch seconds.

    Returns:
        Each reason in a sentence; none where a command could have.

    Raises:
        StoreError: The task has no policy yet, or the event speaks of a claim that was never
            granted (``store_corrupt``).
    """
    if isinstance(event, facts.ClaimExpired):
        return _out_of_turn(state, event, at)
    needs = _NEEDS[type(event)]
    found = _unfounded(event.by, needs[0])
    for claim in state.claims.values():
        if claim.due(at) is not None:
            found.append("a claim of the task was past a deadline, and that was not recorded first")
            break
    if type(event) is facts.ClaimGranted:
        task = task_of(state.stream)
        made = request_digest(task, event.by.actor, event.binding, state.terms)
        if made != event.request_digest:
            found.append("request_digest is not the digest of the request")
    elif type(event) is facts.ExecutionReserved:
        found += _unfounded(event.owner_by, needs[1])
        found += _apart(event.by, event.owner_by)
        made = operation_id(state.stream, state.at(event.slot, event.epoch))
        if made != event.operation_id:
            found.append("operation_id is not the identity of the execution")
    return found


def _out_of_turn(state: TaskState, event: facts.ClaimExpired, at: int) -> list[str]:
    """Return why a claim was not the next to end, in the order of (created_at, slot, epoch)."""
    repaired = ends_for_a_repair(event)
    for claim in state.in_order():
        if claim.state == "active" if repaired else claim.due(at) is not None:
            if (claim.slot, claim.epoch) == (event.slot, event.epoch):
                break
            return ["another claim of the task was to end first"]
    return []


def _unfounded(by: Authority, action: str) -> list[str]:
    """Return why no policy could have come to a decision about an action."""
    found = []
    approval = by.approval
    if by.action != action:
        found.append("the decision that allowed it was about another action")
    if (approval is None) != (by.code == AUTHORIZED):
        found.append("the decision that allowed it and the approval that it names do not agree")
    if approval is not None:
        if action in _WITHOUT_APPROVER:
            found.append("the command takes no approver, and one is named")
        if approval.principal_id == by.actor.principal_id:
            found.append("the approver is one of the parties that act")
    return found


def _apart(first: Authority, second: Authority) -> list[str]:
    """Return why two decisions cannot be one command's: one policy, one approver of both."""
    found = []
    policies = {(by.policy_id, by.policy_revision) for by in (first, second)}
    approvals = {by.approval for by in (first, second) if by.approval is not None}
    if len(policies) > 1 or len(approvals) > 1:
        found.append("the two decisions that allowed it were not made together")
    if _approved_by(first, second.actor) or _approved_by(second, first.actor):
        found.append("the approver is one of the parties that act")
    return found


def _approved_by(by: Authority, party: OwnerIdentity) -> bool:
    return by.approval is not None and by.approval.principal_id == party.principal_id


class Course:
    """What rows must keep one after the other in the whole file: time, and what was begun.

    Attributes:
        at: The watermark: the time of the row before, in epoch seconds.
        scope: The scope of the row before, or nothing.
        begun: What the row before began and the next must go on with, or None.
    """

    __slots__ = ("_repair", "at", "begun", "scope")

    def __init__(self) -> None:
        self.at = 0
        self.scope = ""
        self.begun: Begun | None = None
        self._repair: tuple[str, str] | None = None  # a scope, and the last stream

    def judge(self, row: Row, event: Event) -> Iterator[str]:
        """Yield why no command could have written an event behind the row before it."""
        begun, self.begun = self.begun, None
        if begun is not None and not begun.goes_on(row, event):
            yield begun.meaning
        yield from self.judge_time(row, event)
        yield from self._judge_repair(row, event)

    def judge_time(self, row: Row, event: Event | None) -> Iterator[str]:
        """Yield what is wrong with a row's time; of one that does not read, there is no event."""
        if row.at > MAX_INT:
            yield "the time is beyond what a clock may say"
        try:
            watermark.evolve(self.at, event, row.at)
        except StoreError as error:
            yield error.message
        if type(event) is facts.ClockObserved:
            if row.at == self.at:
                yield "the clock was observed although time had not moved"
            if row.number == 1:
                yield "the clock was observed in a scope of which the log knew nothing"

    def _judge_repair(self, row: Row, event: Event) -> Iterator[str]:
        """Yield what is wrong with a repair, which stands in the scope of the row before it."""
        home, last = self._repair or (self.scope, "")
        if ends_for_a_repair(event):
            if row.at != self.at:
                yield "a clock repair ended a claim at another time than the watermark"
            if row.stream < last:
                yield "a clock repair ended claims in another order than their streams'"
            self._repair = (home, row.stream)
        elif type(event) is facts.ClockRepaired:
            self._repair = None
            if row.scope != home:
                yield "a clock repair stands in another scope than the row before it"

    def expired(self, state: TaskState, row: Row, event: TaskEvent) -> None:
        """Note what the next row must be, behind one that ended a claim."""
        if ends_for_a_repair(event):
            self.begun = Begun("a clock repair was begun and not ended", None, row.at)
        elif any(claim.due(row.at) for claim in state.claims.values()):
            meaning = "not every claim of the task that was past a deadline was expired"
            self.begun = Begun(meaning, row.stream, row.at)


class Begun(NamedTuple):
    """What one row began and the next must go on with.

    Attributes:
        meaning: What is wrong where it does not.
        stream: The task whose claims expire, or None for a repair of the clock.
        at: When, in epoch seconds.
    """

    meaning: str
    stream: str | None
    at: int

    def goes_on(self, row: Row, event: Event) -> bool:
        """Say whether a row goes on with it, or is found to be wrong for itself."""
        if self.stream is None:
            return type(event) is facts.ClockRepaired or ends_for_a_repair(event)
        if ends_for_a_repair(event) or row.stream != self.stream:
            return False
        return row.at == self.at or type(event) is not facts.ClaimExpired


def ends_for_a_repair(event: Event) -> bool:
    """Say whether an event ended a claim because the clock was about to be set back."""
    return type(event) is facts.ClaimExpired and event.deadline == "clock_repair"


def broken_invariant(  # noqa: PLR0911  (one return an invariant)
    state: TaskState, claim: Claim
) -> str | None:
    """Return the invariant that a claim breaks in its task, or None.

    Args:
        state: The task behind an event.
        claim: A claim that the event changed.
    """
    terms = state.terms
    end = claim.hard_until
    if claim.lease_until > end or claim.progress_by > end or claim.ack_by > end:
        return "a deadline lies beyond hard_until"
    if end != claim.created_at + terms.hard_seconds:
        return "hard_until has moved"
    if state.version > terms.max_events:
        return "the stream holds more than max_events"
    if len(state.claims) > terms.max_attempts:
        return "more claims were admitted than max_attempts"
    epochs = 0
    holders = 0
    for each in state.claims.values():
        if each.slot == claim.slot:
            epochs += 1
            holders += each.holds_slot()
            if each.epoch != epochs:
                return "the slot's epochs are not 1, 2, 3 and so on"
    if epochs != state.epochs[claim.slot]:
        return "the slot's epochs are not 1, 2, 3 and so on"
    if holders > 1:
        return "more than one claim holds the slot"
    return None
