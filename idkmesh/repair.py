"""The owner's repair of a clock that ran ahead: nothing revived, nothing lost, time set back."""

from collections.abc import Callable

from msgspec import Struct, structs

from idkmesh import clock as clocks
from idkmesh import scalars
from idkmesh.errors import InvalidInput
from idkmesh.events.catalog import clock_stream, task_of
from idkmesh.events.files import Target
from idkmesh.events.port import ReadSession
from idkmesh.events.sqlite_store import reading, writing
from idkmesh.events.types import ClaimExpired, ClockRepaired
from idkmesh.projections import tables
from idkmesh.projections.task import Claim, TaskState, evolve
from idkmesh.questions import record
from idkmesh.records import TaskClaim


class Repair(Struct, frozen=True):
    """What a repair of the clock does, or did.

    Attributes:
        old_watermark: The time that the ledger had reached, in epoch seconds.
        now: The time that it is set back to, in epoch seconds.
        expired: Every claim that was active, of every scope; executions keep their slots.
    """

    old_watermark: int
    now: int
    expired: tuple[TaskClaim, ...]


def plan_repair(target: Target, *, clock: Callable[[], int] | None = None) -> Repair:
    """Return what ``repair_clock`` would do now; nothing is changed.

    Args:
        target: The ledger's file.
        clock: Epoch seconds on call, for tests only; by default the system's.

    Raises:
        ClaimError: ``invalid_clock``; ``invalid_input`` where the clock is not below the
            watermark, so that there is nothing to repair, or ``target`` is no path.
        StoreError: The file or its tables cannot be read, with the codes of ``verify``.
        TypeError: ``clock`` is not callable, or ``target`` neither ``str`` nor a path object.
    """
    clocks.require_callable(clock)
    with reading(target) as session:
        return _repair(session, _owned(session), clock)


def repair_clock(
    target: Target,
    *,
    evidence: str,
    plan: Repair | None = None,
    clock: Callable[[], int] | None = None,
    busy_timeout_seconds: float = 30,
) -> Repair:
    """Set a ledger's time back to the clock's, in one transaction.

    Every active claim of every scope ends, so that no deadline of the wrong time survives
    and no lease is revived. Occupancies stay: an execution holds its slot until evidence
    ends it.

    Args:
        target: The ledger's file; whoever may write it may repair it.
        evidence: Why the watermark is known to be wrong: non-blank text, at most 512
            characters, without secrets.
        plan: What ``plan_repair`` returned: nothing is done unless the ledger is still as it
            was planned, in its time and in the claims that end.
        clock: Epoch seconds on call, for tests only; by default the system's.
        busy_timeout_seconds: How long to wait for the turn to write, in seconds.

    Returns:
        What was done.

    Raises:
        ClaimError: ``invalid_input`` (the evidence is no such text, the clock is not below the
            watermark, or the ledger is not as it was planned), ``invalid_clock``.
        StoreError: The file cannot be read, with the codes of ``verify``, or not written
            (``store_readonly``, ``store_locked``, ``store_full``): nothing was changed then, but
            that a file of an earlier version may have been upgraded. With ``outcome_unknown`` it
            may have been done; asked again, it is done now or answers ``invalid_input``.
        TypeError: ``clock`` is not callable, ``plan`` no ``Repair``, or ``target`` neither
            ``str`` nor a path object.
    """
    evidence = scalars.free_text(evidence, "evidence")
    if plan is not None:
        scalars.instance(plan, Repair, "plan")
    clocks.require_callable(clock)
    with writing(
        target, busy_timeout_seconds=busy_timeout_seconds, refold=tables.rebuild
    ) as session:
        states = _owned(session)
        repair = _repair(session, states, clock)
        if plan is not None and structs.replace(plan, now=repair.now) != repair:
            message = "expected the ledger as it was planned, but it has moved on"
            raise InvalidInput(message)
        scope = session.head().scope
        for state, claim in _active(states):
            expired = ClaimExpired(
                slot=claim.slot,
                epoch=claim.epoch,
                deadline="clock_repair",
                due_at=repair.old_watermark,
            )
            evolve(state, expired, repair.old_watermark)
            owner = task_of(state.stream).scope.key
            session.append(owner, state.stream, state.version, repair.old_watermark, expired)
        for state in states:
            tables.save(session, state)
        stream = clock_stream(scope)
        version = session.stream_version(stream) + 1
        event = ClockRepaired(old_watermark=repair.old_watermark, evidence=evidence)
        session.append(scope, stream, version, repair.now, event)
        session.commit()
        return repair


def _owned(session: ReadSession) -> list[TaskState]:
    return [tables.load(session, stream) for stream in tables.owned_streams(session)]


def _active(states: list[TaskState]) -> list[tuple[TaskState, Claim]]:
    return [
        (state, claim) for state in states for claim in state.in_order() if claim.state == "active"
    ]


def _repair(
    session: ReadSession, states: list[TaskState], clock: Callable[[], int] | None
) -> Repair:
    old_watermark = session.head().at
    now = clocks.now(clocks.SystemClock() if clock is None else clock, 0)
    if now >= old_watermark:
        message = "expected a clock below the watermark, but it is not, so nothing needs repair"
        raise InvalidInput(message)
    expired = tuple(record(task_of(state.stream), claim) for state, claim in _active(states))
    return Repair(old_watermark, now, expired)
