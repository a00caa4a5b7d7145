"""Time: what a clock may answer, the watermark, the default clock, and looking in a lockout."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    OTHER_SCOPE,
    READER,
    SCOPE,
    START,
    WORKER,
    Clock,
    adds,
    binding,
    digest,
    granted,
    opened,
    refused,
    task,
)
from msgspec.structs import replace

from idkmesh import AuthorizationPolicy, ClaimLedger, StoreError, TaskClaimPolicy
from idkmesh.clock import SystemClock

LAST = 2**62 - 1
SECOND = 1_000_000_000
TASK_POLICY = TaskClaimPolicy()

COMMANDS: dict[str, Callable[[ClaimLedger], Any]] = {
    "configure": lambda ledger: ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy()),
    "claim": lambda ledger: ledger.claim(task(), WORKER, request_id="r-1", binding=binding()),
    "acknowledge": lambda ledger: ledger.acknowledge(task(), WORKER, **GRANT),
    "renew": lambda ledger: ledger.renew(task(), WORKER, **GRANT),
    "progress": lambda ledger: ledger.progress(task(), WORKER, **GRANT),
    "reserve": lambda ledger: ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT),
    "reconcile": lambda ledger: ledger.reconcile_execution(task(), DISPATCHER, **ENDED),
    "submit": lambda ledger: ledger.record_submission(
        task(), WORKER, **GRANT, artifact_digest=digest("c")
    ),
    "release": lambda ledger: ledger.release(task(), WORKER, **GRANT),
    "snapshot": lambda ledger: ledger.snapshot(task(), READER),
}
QUESTIONS: dict[str, Callable[[ClaimLedger], Any]] = {
    "peek": lambda ledger: ledger.peek(task(), READER),
    "policy": lambda ledger: ledger.policy(task(), READER),
    "lookup": lambda ledger: ledger.lookup(task(), READER, request_id="r-1"),
    "survey": lambda ledger: list(ledger.survey(SCOPE, READER)),
}
CALLS = {**COMMANDS, **QUESTIONS}


class Second(int):
    """A whole second that is not exactly an int."""


# What a clock may answer.


@pytest.mark.parametrize(
    "value", [-1, 2**62, 2**80, True, 1.0, float(START), Second(START), "1700000000", None, b""]
)
def test_a_clock_gives_whole_seconds_in_range(
    memory_ledger: ClaimLedger, clock: Clock, value: Any
) -> None:
    """Anything but an int in [0, 2**62) is invalid_clock for every method, and writes nothing."""
    granted(memory_ledger)
    clock.now = value
    for call in CALLS.values():
        with adds(memory_ledger), refused("invalid_clock"):
            call(memory_ledger)


def test_time_may_begin_at_zero(memory_ledger: ClaimLedger, clock: Clock) -> None:
    """The first second there is counts like any other."""
    clock.now = 0
    granted(memory_ledger)
    (claim,) = memory_ledger.snapshot(task(), READER)
    assert (claim.created_at, claim.acknowledged_at, claim.hard_until) == (0, 0, 86_400)


def test_the_last_second_is_no_trap(memory_ledger: ClaimLedger, clock: Clock) -> None:
    """At the clock's greatest value a claim is granted or refused by a code, never corrupt."""
    clock.now = LAST
    memory_ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    ask: dict[str, Any] = {"request_id": "r-1", "binding": binding()}
    claim = memory_ledger.claim(task(), WORKER, **ask).claim
    assert (claim.created_at, claim.hard_until) == (LAST, LAST + 86_400)
    assert memory_ledger.acknowledge(task(), WORKER, **GRANT).acknowledged_at == LAST
    assert memory_ledger.peek(task(), READER)[0].state == "active"


# The watermark.


@pytest.mark.parametrize("command", COMMANDS)
def test_below_the_watermark_no_command_goes_on(
    memory_ledger: ClaimLedger, clock: Clock, command: str
) -> None:
    """A second below the last recorded time is clock_rollback, and the time itself is not."""
    for step, call in COMMANDS.items():
        if step == command:
            break
        call(memory_ledger)
    clock.now = START + 5
    memory_ledger.configure_task(task("T-2"), DISPATCHER, TaskClaimPolicy())
    clock.now = START + 4
    with adds(memory_ledger), refused("clock_rollback"):
        COMMANDS[command](memory_ledger)
    clock.now = START + 5
    COMMANDS[command](memory_ledger)


def test_the_watermark_outlives_the_process_and_is_every_ones(path: Path) -> None:
    """After reopening, and from another coordinator and tenant, time cannot go back."""
    early, late = Clock(START), Clock(START + 100)
    there = {"scopes": frozenset({OTHER_SCOPE})}
    with opened(path, late) as ledger:
        ledger.configure_task(task("T-1", OTHER_SCOPE), replace(DISPATCHER, **there), TASK_POLICY)
    with opened(path, early) as ledger, opened(path, late) as other:
        with adds(ledger), refused("clock_rollback"):
            ledger.configure_task(task(), DISPATCHER, TASK_POLICY)
        assert other.configure_task(task(), DISPATCHER, TASK_POLICY) is True
        early.now = START + 99
        with adds(ledger), refused("clock_rollback"):
            ledger.snapshot(task(), READER)
        early.now = START + 100
        assert ledger.snapshot(task(), READER) == ()


def test_an_observed_time_is_a_watermark_too(path: Path, clock: Clock) -> None:
    """The time of an answer that changed nothing cannot be gone behind either."""
    with opened(path, clock) as ledger:
        granted(ledger)
        clock.now += 10
        ledger.snapshot(task(), READER)
    clock.now -= 1
    with opened(path, clock) as ledger, adds(ledger), refused("clock_rollback"):
        ledger.snapshot(task(), READER)


def test_a_jump_ahead_ends_claims_and_going_back_revives_none(
    memory_ledger: ClaimLedger, clock: Clock
) -> None:
    """An expiry recorded at a time too far ahead stays, however the clock is put right."""
    granted(memory_ledger)
    clock.now = START + 10_000
    assert memory_ledger.snapshot(task(), READER)[0].state == "expired"
    clock.now = START + 1
    assert memory_ledger.peek(task(), READER)[0].state == "expired"
    with refused("clock_rollback"):
        memory_ledger.renew(task(), WORKER, **GRANT)
    clock.now = START + 10_000
    with refused("stale_claim"):
        memory_ledger.renew(task(), WORKER, **GRANT)


# Looking during a lockout, and after the snapshot.


def test_questions_are_answered_during_a_lockout(memory_ledger: ClaimLedger, clock: Clock) -> None:
    """While the clock is behind, questions judge deadlines and identities at the watermark."""
    granted(memory_ledger)
    granted(memory_ledger, name="T-2")
    clock.now = START + 299
    memory_ledger.progress(task("T-2"), WORKER, **GRANT)
    clock.now = START
    with adds(memory_ledger):
        assert memory_ledger.peek(task(), READER)[0].state == "active"
        ending = replace(READER, expires_at_epoch=START + 299)
        with refused("actor_expired"):
            memory_ledger.peek(task(), ending)
    clock.now = START + 300
    memory_ledger.configure_task(task("T-3"), DISPATCHER, TASK_POLICY)
    clock.now = START
    with adds(memory_ledger):
        assert memory_ledger.peek(task(), READER)[0].state == "expired"
        assert memory_ledger.lookup(task(), READER, request_id="r-1").state == "expired"
        assert len(list(memory_ledger.survey(SCOPE, READER, overdue=True))) == 2
        assert memory_ledger.policy(task(), READER) == TASK_POLICY


def test_peek_fixes_its_point_before_it_reads_the_clock(path: Path, clock: Clock) -> None:
    """What is written while the clock is being read is not in the answer."""
    with opened(path, clock) as ledger:
        granted(ledger)

        def releasing() -> int:
            ledger.release(task(), WORKER, **GRANT)
            return START

        with opened(path, releasing) as reader:
            assert reader.peek(task(), READER)[0].state == "active"
        assert ledger.peek(task(), READER)[0].state == "released"


def test_a_command_reads_the_clock_under_the_lock(path: Path, clock: Clock) -> None:
    """While a command reads its clock no other can write, so no time goes unseen."""
    seen: list[str] = []
    with opened(path, clock) as ledger, opened(path, clock, busy_timeout_seconds=0) as other:
        granted(ledger)

        def looking() -> int:
            with pytest.raises(StoreError) as caught:
                other.snapshot(task(), READER)
            seen.append(str(caught.value.code))
            assert other.peek(task(), READER)[0].state == "active"
            return START + 1

        with opened(path, looking) as held:
            assert held.renew(task(), WORKER, **GRANT).lease_until == START + 301
    assert seen == ["store_locked"]


# The default clock, on a wall and a monotonic clock that the test moves.


class Hands:
    """A wall clock and a monotonic one, in nanoseconds, as far apart as the test likes."""

    def __init__(self) -> None:
        self.wall = START * SECOND + 700_000_000
        self.steady = 5 * SECOND

    def clock(self) -> SystemClock:
        """Start a default clock on these two."""
        return SystemClock(wall=lambda: self.wall, monotonic=lambda: self.steady)


def test_the_default_clock_is_the_wall_in_whole_seconds() -> None:
    """As long as both clocks run together the answer is the wall's second, cut off."""
    hands = Hands()
    clock = hands.clock()
    answers = []
    for _ in range(4):
        answers.append(clock() - START)
        hands.wall += 400_000_000
        hands.steady += 400_000_000
    assert answers == [0, 1, 1, 1]
    assert type(clock()) is int


def test_a_wall_that_stands_still_does_not_stop_time() -> None:
    """Deadlines run on with the monotonic clock where the wall clock hangs."""
    hands = Hands()
    clock = hands.clock()
    hands.steady += 40 * SECOND
    assert clock() == START + 40
    hands.steady += 300_000_000
    assert clock() == START + 41


def test_a_wall_that_jumps_ahead_is_followed() -> None:
    """The later of the two decides, so a forward jump ends what it passes."""
    hands = Hands()
    clock = hands.clock()
    hands.wall += 3_600 * SECOND
    hands.steady += 1 * SECOND
    assert clock() == START + 3_600


def test_a_wall_below_its_highest_reading_is_a_rollback_until_it_catches_up() -> None:
    """Going back by a second stops the clock; reaching the highest reading starts it again."""
    hands = Hands()
    clock = hands.clock()
    hands.wall += 100 * SECOND
    assert clock() == START + 100
    hands.wall -= 1 * SECOND
    hands.steady += 500 * SECOND
    for _ in range(2):
        with refused("clock_rollback"):
            clock()
    hands.wall += 1 * SECOND
    assert clock() == START + 500


def test_the_reading_at_opening_counts_as_one() -> None:
    """A wall clock that goes back before the first command is noticed all the same."""
    hands = Hands()
    clock = hands.clock()
    hands.wall -= 1 * SECOND
    with refused("clock_rollback"):
        clock()


def test_a_rollback_of_the_wall_locks_commands_and_not_questions(path: Path) -> None:
    """On the default clock too, a wall set back refuses commands and lets an operator look."""
    hands = Hands()
    with opened(path, hands.clock()) as ledger:
        granted(ledger)
        hands.wall += 50 * SECOND
        ledger.renew(task(), WORKER, **GRANT)
        hands.wall -= 10 * SECOND
        with adds(ledger), refused("clock_rollback"):
            ledger.renew(task(), WORKER, **GRANT)
        with adds(ledger):
            assert ledger.peek(task(), READER)[0].lease_until == START + 350
    with opened(path, hands.clock()) as ledger, adds(ledger), refused("clock_rollback"):
        ledger.renew(task(), WORKER, **GRANT)


def test_without_a_clock_the_default_one_decides(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger without an injected clock reads the system's through the default clock."""
    monkeypatch.setattr("idkmesh.clock.SystemClock", lambda: Clock(START + 7))
    with ClaimLedger.open(path) as ledger:
        granted(ledger)
        assert ledger.peek(task(), READER)[0].created_at == START + 7
        rules = AuthorizationPolicy.enterprise_baseline()
        again = ClaimLedger(ledger._store, rules)
        assert again.peek(task(), READER)[0].state == "active"
