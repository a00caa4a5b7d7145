"""The owner's repair of a clock that ran ahead: nothing revived, nothing lost, time set back."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import ENDED, GRANT, OTHER_SCOPE, START, Clock, binding, opened, refused, task
from replay_builders import (
    ADA,
    BOB,
    DESK,
    EYE,
    GEMINI_T1,
    SHORT,
    T1,
    TEN_YEARS,
    contents,
    problems,
    rows_of,
)
from store_checks import store_refused
from unit_builders import refusal

from idkmesh import InvalidInput, StoreError, TaskClaimPolicy
from idkmesh.events.sessions import WriteSession
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.repair import plan_repair, repair_clock
from idkmesh.replay import seal

WHY = "the host's clock was ten years ahead"
PAIR = TaskClaimPolicy(
    concurrent_slots=2, max_attempts=4, competition_reason="two designs", lease_seconds=600
)


def locked(path: Path, clock: Clock) -> Path:
    """Make a ledger that a clock ten years ahead has locked; the clock is right again.

    Ada and Bob hold both slots of one task, Ada with an execution, and Ada holds the twin in
    the other scope. An earlier claim of Bob's was released. All of it is active and acknowledged.
    """
    twin = task("T-1", OTHER_SCOPE)
    with opened(path, clock) as ledger:
        ledger.configure_task(task("T-0"), DESK, SHORT)
        ledger.claim(task("T-0"), BOB, request_id="r-1", binding=binding("c"))
        ledger.release(task("T-0"), BOB, **GRANT)
        ledger.configure_task(task(), DESK, PAIR)
        ledger.configure_task(twin, DESK, SHORT)
        clock.now = START + TEN_YEARS
        owners = ((task(), ADA, "r-1"), (task(), BOB, "r-2"), (twin, ADA, "r-1"))
        for reference, worker, name in owners:
            ledger.claim(reference, worker, request_id=name, binding=binding())
            ledger.acknowledge(reference, worker, request_id=name, epoch=1)
        ledger.reserve_dispatch(task(), DESK, ADA, **GRANT)
    clock.now = START + 100
    return path


def named(claims: Any) -> list[str]:
    """Return claims as their task, slot, epoch and owner."""
    return [
        f"{claim.task.key} {claim.slot}/{claim.epoch} {claim.owner.principal_id}"
        for claim in claims
    ]


def attempts(path: Path, clock: Clock) -> tuple[Callable[[], object], ...]:
    """Return a plan and a repair that are yet to be made."""
    return (
        lambda: plan_repair(path, clock=clock),
        lambda: repair_clock(path, evidence=WHY, clock=clock),
    )


# The lockout, and a look at what a repair would do.


def test_a_clock_that_ran_ahead_locks_every_command(path: Path, clock: Clock) -> None:
    """After one command ten years ahead, commands are refused until real time catches up."""
    with opened(locked(path, clock), clock) as ledger:
        with refused("clock_rollback"):
            ledger.renew(task(), ADA, **GRANT)
        with refused("clock_rollback"):
            ledger.configure_task(task("T-2"), DESK, SHORT)
        with refused("clock_rollback"):
            ledger.reconcile_execution(task(), DESK, **ENDED)
        with refused("clock_rollback"):
            ledger.snapshot(task(), EYE)
        assert ledger.peek(task(), EYE)[0].state == "active"


def test_a_plan_shows_what_a_repair_would_end(path: Path, clock: Clock) -> None:
    """A plan names both times and every active claim of every scope, and changes nothing."""
    before = contents(locked(path, clock))
    plan = plan_repair(path, clock=clock)
    assert (plan.old_watermark, plan.now) == (START + TEN_YEARS, START + 100)
    assert named(plan.expired) == [
        "acme/apollo/task/T-1 0/1 ada",
        "acme/apollo/task/T-1 1/1 bob",
        "acme/gemini/task/T-1 0/1 ada",
    ]
    assert contents(path) == before
    assert plan == repair_clock(path, evidence=WHY, clock=clock)


def test_a_plan_takes_no_lock(path: Path, clock: Clock) -> None:
    """A plan is made while a writer holds the lock."""
    with opened(locked(path, clock), clock) as ledger, ledger.transactor.store.write():
        assert len(plan_repair(path, clock=clock).expired) == 3


# What a repair does.


def test_a_repair_ends_every_active_claim_and_sets_time_back(path: Path, clock: Clock) -> None:
    """One expiry for each active claim at the old watermark, then the one row that goes back."""
    rows = rows_of(locked(path, clock))
    repair_clock(path, evidence=WHY, clock=clock)
    added = rows_of(path)[len(rows) :]
    assert rows_of(path)[: len(rows)] == rows
    assert [(row.type, row.stream, row.at - START) for row in added] == [
        ("claim.expired.v1", T1, TEN_YEARS),
        ("claim.expired.v1", T1, TEN_YEARS),
        ("claim.expired.v1", GEMINI_T1, TEN_YEARS),
        ("clock.repaired.v1", "acme/apollo/clock", 100),
    ]
    assert added[-1].body == (
        '{"type":"clock.repaired.v1","old_watermark":2015360000,'
        '"evidence":"the host\'s clock was ten years ahead"}'
    )
    assert '"deadline":"clock_repair","due_at":2015360000}' in added[0].body
    assert problems(path) == []


def test_after_a_repair_nothing_is_revived_and_nothing_lost(path: Path, clock: Clock) -> None:
    """Every claim is still there, and no owner gets one back under a deadline of that time."""
    repair_clock(locked(path, clock), evidence=WHY, clock=clock)
    with opened(path, clock) as ledger:
        for worker, name in ((ADA, "r-1"), (BOB, "r-2")):
            held: dict[str, Any] = {"request_id": name, "epoch": 1}
            for method in (ledger.acknowledge, ledger.renew, ledger.progress, ledger.release):
                with refused("stale_claim"):
                    method(task(), worker, **held)
        for claim in (*ledger.peek(task(), EYE), *ledger.peek(task("T-1", OTHER_SCOPE), EYE)):
            assert claim.state == "expired"
            assert claim.acknowledged_at == START + TEN_YEARS
        assert ledger.peek(task("T-0"), EYE)[0].state == "released"
        assert ledger.claim(task(), ADA, request_id="r-1", binding=binding()).created is False


def test_after_a_repair_an_execution_holds_its_slot(path: Path, clock: Clock) -> None:
    """The slot with an execution stays held until evidence ends it; the other one is free."""
    repair_clock(locked(path, clock), evidence=WHY, clock=clock)
    with opened(path, clock) as ledger:
        assert [claim.occupancy for claim in ledger.peek(task(), EYE)] == ["unknown", "none"]
        second = ledger.claim(task(), BOB, request_id="r-3", binding=binding()).claim
        assert (second.slot, second.epoch) == (1, 2)
        with refused("task_capacity_reserved"):
            ledger.claim(task(), ADA, request_id="r-4", binding=binding())
        ledger.reconcile_execution(task(), DESK, **ENDED)
        third = ledger.claim(task(), ADA, request_id="r-4", binding=binding()).claim
        assert (third.slot, third.epoch) == (0, 2)
    assert problems(path) == []


def test_after_a_repair_time_goes_on_from_the_clock(path: Path, clock: Clock) -> None:
    """New claims get deadlines of the right time, which end them as any others."""
    repair_clock(locked(path, clock), evidence=WHY, clock=clock)
    with opened(path, clock) as ledger:
        claim = ledger.claim(task("T-0"), ADA, request_id="r-2", binding=binding()).claim
        assert (claim.created_at, claim.hard_until) == (START + 100, START + 160)
        clock.now = START + 99
        with refused("clock_rollback"):
            ledger.snapshot(task(), EYE)
        clock.now = START + 110
        assert ledger.snapshot(task("T-0"), EYE)[1].state == "expired"
    assert problems(path) == []


def test_a_log_that_was_repaired_is_rebuilt(path: Path, clock: Clock) -> None:
    """The tables of a repaired ledger are what its log folds to."""
    repair_clock(locked(path, clock), evidence=WHY, clock=clock)
    before = contents(path)
    with opened(path, clock) as ledger:
        ledger.rebuild()
    assert contents(path) == before


def test_a_ledger_without_an_active_claim_is_repaired(path: Path, clock: Clock) -> None:
    """Where nobody holds anything, setting time back is all that is to be done."""
    clock.now = START + TEN_YEARS
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DESK, SHORT)
    clock.now = START
    assert repair_clock(path, evidence=WHY, clock=clock).expired == ()
    assert [row.type for row in rows_of(path)] == ["task.configured.v1", "clock.repaired.v1"]
    assert problems(path) == []


def test_a_seal_from_before_fits_a_repaired_log(path: Path, clock: Clock) -> None:
    """A repair adds to the log and rewrites nothing, so an earlier seal still proves its past."""
    kept = seal(locked(path, clock))
    repair_clock(path, evidence=WHY, clock=clock)
    assert problems(path, kept) == []


def test_a_ledger_that_is_open_goes_on_after_the_repair(path: Path, clock: Clock) -> None:
    """A coordinator need not open the ledger again: its next command finds the time set back."""
    with opened(locked(path, clock), clock) as ledger:
        with refused("clock_rollback"):
            ledger.snapshot(task(), EYE)
        repair_clock(path, evidence=WHY, clock=clock)
        assert [claim.state for claim in ledger.snapshot(task(), EYE)] == ["expired", "expired"]


# When it is refused, and when it fails.


@pytest.mark.parametrize("seconds", [TEN_YEARS, TEN_YEARS + 1])
def test_a_clock_that_is_not_below_the_watermark_needs_no_repair(
    path: Path, clock: Clock, seconds: int
) -> None:
    """At the watermark and above it, plan and repair are refused and nothing is written."""
    before = contents(locked(path, clock))
    clock.now = START + seconds
    for attempt in attempts(path, clock):
        assert refusal(attempt).code == "invalid_input"
    assert contents(path) == before


def test_a_second_below_the_watermark_is_enough(path: Path, clock: Clock) -> None:
    """The smallest step back is a repair like any other."""
    locked(path, clock)
    clock.now = START + TEN_YEARS - 1
    assert repair_clock(path, evidence=WHY, clock=clock).now == START + TEN_YEARS - 1
    assert problems(path) == []


@pytest.mark.parametrize("moved", ["claimed", "released", "observed", "reserved"])
def test_a_plan_that_no_longer_fits_is_refused(path: Path, clock: Clock, moved: str) -> None:
    """Where the ledger's time or what would end is not as planned, nothing is changed."""
    plan = plan_repair(locked(path, clock), clock=clock)
    clock.now = START + TEN_YEARS + (moved == "observed")
    with opened(path, clock) as ledger:
        if moved == "claimed":
            ledger.claim(task("T-0"), ADA, request_id="r-2", binding=binding())
        elif moved == "released":
            ledger.release(task(), BOB, request_id="r-2", epoch=1)
        elif moved == "observed":
            ledger.configure_task(task("T-9"), DESK, SHORT)
        else:
            ledger.reserve_dispatch(task("T-1", OTHER_SCOPE), DESK, ADA, **GRANT)
    clock.now = START + 100
    before = contents(path)
    with pytest.raises(InvalidInput, match="expected the ledger as it was planned, but it has"):
        repair_clock(path, evidence=WHY, plan=plan, clock=clock)
    assert contents(path) == before


def test_a_plan_that_fits_is_done_a_moment_later(path: Path, clock: Clock) -> None:
    """A plan holds while the clock goes on and other things than claims and time change."""
    plan = plan_repair(locked(path, clock), clock=clock)
    clock.now = START + TEN_YEARS
    with opened(path, clock) as ledger:
        ledger.configure_task(task("T-9"), DESK, SHORT)
    clock.now = START + 107
    done = repair_clock(path, evidence=WHY, plan=plan, clock=clock)
    assert (done.old_watermark, done.now, done.expired) == (
        plan.old_watermark,
        START + 107,
        plan.expired,
    )
    with pytest.raises(TypeError):
        repair_clock(path, evidence=WHY, plan=plan.expired, clock=clock)  # type: ignore[arg-type]  # that is the test


def test_a_second_repair_is_refused(path: Path, clock: Clock) -> None:
    """Once repaired there is nothing to repair; after another lockout there is again."""
    repair_clock(locked(path, clock), evidence=WHY, clock=clock)
    clock.now += 5
    with refused("invalid_input"):
        repair_clock(path, evidence=WHY, clock=clock)
    clock.now += TEN_YEARS
    with opened(path, clock) as ledger:
        ledger.claim(task("T-0"), ADA, request_id="r-2", binding=binding())
    clock.now -= TEN_YEARS
    assert named(repair_clock(path, evidence=WHY, clock=clock).expired) == [
        "acme/apollo/task/T-0 0/2 ada"
    ]
    assert problems(path) == []


@pytest.mark.parametrize("evidence", ["", "  ", "a\nb", "\x1b[2J", "x" * 513, "\ud800", 7, None])
def test_evidence_is_free_text(path: Path, clock: Clock, evidence: Any) -> None:
    """Evidence that is blank, too long, no text or holds control characters is refused."""
    before = contents(locked(path, clock))
    with refused("invalid_input"):
        repair_clock(path, evidence=evidence, clock=clock)
    assert contents(path) == before


@pytest.mark.parametrize("now", [-1, 2**62, 1.5, True, None])
def test_a_clock_gives_whole_seconds(path: Path, clock: Clock, now: Any) -> None:
    """A clock that gives anything else is invalid_clock, and nothing is written."""
    before = contents(locked(path, clock))
    clock.now = now
    for attempt in attempts(path, clock):
        with refused("invalid_clock"):
            attempt()
    assert contents(path) == before


def test_without_a_clock_the_systems_decides(path: Path, clock: Clock) -> None:
    """By default the system's clock is asked, which is far below a watermark of the year 9999."""
    clock.now = 253_402_300_799
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DESK, SHORT)
    assert START < plan_repair(path).now < 253_402_300_799
    assert repair_clock(path, evidence=WHY).old_watermark == 253_402_300_799


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_repair_is_whole_or_not_at_all(
    path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    failing: int,
    error: type[BaseException],
) -> None:
    """Whichever of its events fails to be written, the file is as it was, and can be repaired."""
    before = contents(locked(path, clock))
    count = iter(range(1, failing + 1))
    append = WriteSession.append

    def fails(session: WriteSession, *columns: Any) -> None:
        if next(count) == failing:
            raise error
        append(session, *columns)

    with monkeypatch.context() as patch:
        patch.setattr(WriteSession, "append", fails)
        with pytest.raises(error):
            repair_clock(path, evidence=WHY, clock=clock)
    assert contents(path) == before
    repair_clock(path, evidence=WHY, clock=clock)
    assert problems(path) == []


def test_a_repair_makes_no_ledger(path: Path, clock: Clock) -> None:
    """Where there is no ledger, there is nothing to repair, and nothing is made."""
    for attempt in attempts(path, clock):
        with store_refused("store_readonly"):
            attempt()
    assert list(path.parent.iterdir()) == []


def test_a_repair_waits_its_turn(path: Path, clock: Clock) -> None:
    """While a writer is at work, a repair waits no longer than it was told to."""
    told: list[str] = []

    def attempt() -> None:
        try:
            repair_clock(path, evidence=WHY, clock=clock, busy_timeout_seconds=0)
        except StoreError as error:
            told.append(error.code)

    with opened(locked(path, clock), clock) as ledger, ledger.transactor.store.write():
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert told == ["store_locked"]


def test_a_repair_hands_its_patience_on(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The busy timeout that was asked for is the writer's, and half a minute by default."""
    patience: list[float] = []
    write = SqliteStore.write

    def spying(store: SqliteStore) -> Any:
        patience.append(store.busy_timeout_seconds)
        return write(store)

    monkeypatch.setattr(SqliteStore, "write", spying)
    repair_clock(locked(path, clock), evidence=WHY, clock=clock, busy_timeout_seconds=7)
    with pytest.raises(InvalidInput):
        repair_clock(path, evidence=WHY, clock=clock)
    assert patience[-2:] == [7, 30]
