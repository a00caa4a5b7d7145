"""What must hold along a whole log: repairs of the clock, budgets, invariants; and its cost."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    GRANT,
    READER,
    START,
    WORKER,
    Clock,
    binding,
    granted,
    opened,
    task,
)
from msgspec.structs import replace
from replay_builders import (
    GEMINI_T1,
    T1,
    TEN_YEARS,
    Change,
    Found,
    body_with,
    both,
    chained,
    edited,
    forge,
    life,
    numbered,
    ordered,
    problems,
    put_log,
    rows_of,
    told,
    world,
)

from idkmesh import TaskClaimPolicy
from idkmesh.events.port import Row
from idkmesh.legality import broken_invariant
from idkmesh.projections import tables
from idkmesh.projections.task import Claim, TaskState
from idkmesh.replay import rebuild, verify

CLOCK = "acme/apollo/clock"
C1 = "acme/apollo/task/C-1"
T2 = "acme/apollo/task/T-2"
FALLS = "expected time not to run backwards along the log, but it does"
UNENDED = "a clock repair was begun and not ended"
WRONG_REPAIR = "expected a repair to set back the watermark that it names, but it does not"
FAR = "a clock repair stands in another scope than the row before it"
TURN = "another claim of the task was to end first"
DISORDER = "a clock repair ended claims in another order than their streams'"


# The repair of a clock: in the world, event 42 is the only one of the wrong time, 43 to 46
# end ownership, and 47 sets time back.

REPAIRS: dict[str, tuple[Change, list[Found]]] = {
    "of another watermark": (
        edited(47, old_watermark=START + 150 + TEN_YEARS - 1),
        [("events", 47, CLOCK, WRONG_REPAIR)],
    ),
    "that goes nowhere": (
        told(47, at=150 + TEN_YEARS),
        [("events", 47, CLOCK, WRONG_REPAIR), ("events", 48, T2, FALLS)],
    ),
    "that is missing": (
        ordered(*range(1, 47), 48, 49),
        [("events", 47, T2, UNENDED), ("events", 47, T2, FALLS)],
    ),
    "that the log ends before": (ordered(*range(1, 45)), [("events", 44, None, UNENDED)]),
    "that another event precedes": (
        both(
            told(38, at=150 + TEN_YEARS),
            ordered(*range(1, 38), *range(39, 44), 38, *range(44, 50)),
        ),
        [("events", 43, "acme/gemini/observations", UNENDED)],
    ),
    "at two times": (
        both(
            *(edited(event, due_at=START + 151 + TEN_YEARS) for event in range(43, 47)),
            *(told(event, at=151 + TEN_YEARS) for event in range(43, 47)),
            edited(47, old_watermark=START + 151 + TEN_YEARS),
        ),
        [("events", 43, C1, "a clock repair ended a claim at another time than the watermark")],
    ),
    "in a scope of its own": (
        told(47, scope="acme/ghost", stream="acme/ghost/clock"),
        [("events", 47, "acme/ghost/clock", FAR)],
    ),
    "in another scope": (
        told(47, scope="acme/gemini", stream="acme/gemini/clock"),
        [("events", 47, "acme/gemini/clock", FAR)],
    ),
    "in another order of tasks": (
        ordered(*range(1, 43), 46, 43, 44, 45, 47, 48, 49),
        [("events", 44, C1, DISORDER)],
    ),
    "in another order of claims": (
        ordered(*range(1, 43), 44, 43, 45, 46, 47, 48, 49),
        [("events", 43, C1, TURN)],
    ),
    "due at another time": (
        edited(43, due_at=START + 149 + TEN_YEARS),
        [
            (
                "events",
                43,
                C1,
                "expected an event of which its claim is active till then, but it is not so",
            )
        ],
    ),
    "that leaves a claim": (
        ordered(*range(1, 46), 47, 48, 49),
        [("events", 46, GEMINI_T1, "a clock repair left this task's claim active")],
    ),
}


@pytest.mark.parametrize("name", REPAIRS)
def test_a_repair_of_the_clock_is_whole(path: Path, name: str) -> None:
    """A repair names the watermark, goes back, and ends every active claim just before it."""
    change, expected = REPAIRS[name]
    forge(world(path), change)
    judged = [each for each in problems(path) if each[0] == "events"]
    assert sorted(judged, key=str) == sorted(expected, key=str)


def test_a_claim_that_met_another_problem_is_not_blamed_on_the_repair(path: Path) -> None:
    """Where a task's events do not fold, its claims say nothing about a repair."""
    forge(world(path), edited(20, operation_id="x"))
    assert [each[:3] for each in problems(path)] == [("events", 20, C1)]


# Claims that are due together: one command records them all, in one order.

CONTEST = TaskClaimPolicy(
    concurrent_slots=3, max_attempts=4, ack_seconds=10, competition_reason="the better of three"
)
PART = "not every claim of the task that was past a deadline was expired"


@pytest.fixture
def contest(path: Path) -> Path:
    """Give a ledger of three claims that expire together (5 to 7), then of another task (8)."""
    clock = Clock()
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DISPATCHER, CONTEST)
        for number in (1, 2, 3):
            ledger.claim(task(), WORKER, request_id=f"r-{number}", binding=binding())
        clock.now += 10
        ledger.snapshot(task(), READER)
        clock.now += 1
        ledger.configure_task(task("T-2"), DISPATCHER, CONTEST)
    assert problems(path) == []
    return path


EXPIRIES: dict[str, tuple[Change, list[tuple[int, str]]]] = {
    "in another order": (ordered(1, 2, 3, 4, 6, 5, 7, 8), [(5, TURN)]),
    "but not all": (ordered(1, 2, 3, 4, 5, 8), [(6, PART)]),
    "until the log ends": (ordered(1, 2, 3, 4, 5, 6), [(6, PART)]),
    "with another task between": (
        both(told(8, at=10), ordered(1, 2, 3, 4, 5, 8, 6, 7)),
        [(6, PART)],
    ),
    "at two times": (both(told(7, at=11), told(8, at=11)), [(7, PART)]),
    "and not partly by a repair": (
        both(
            ordered(1, 2, 3, 4, 5, 6, 7),
            *(edited(row, deadline="clock_repair", due_at=START + 10) for row in (6, 7)),
        ),
        [(6, PART), (7, UNENDED)],
    ),
}


@pytest.mark.parametrize("name", EXPIRIES)
def test_what_is_due_together_ends_together(contest: Path, name: str) -> None:
    """A command records every claim of its task that is due, one behind the other, in order."""
    change, expected = EXPIRIES[name]
    forge(contest, change)
    assert [each[1::2] for each in problems(contest) if each[0] == "events"] == expected


# The event budget: 256 events, of which the last 16 are kept for endings.

POLICY = TaskClaimPolicy(
    max_attempts=1,
    lease_seconds=1_000,
    progress_seconds=604_800,
    hard_seconds=604_800,
    max_events=256,
)
ROOM = "expected an event of which the event budget has room, but it is not so"
SPARE = "expected an event of which the reserve has room for it, but it is not so"


def renewed(path: Path, policy: TaskClaimPolicy, times: int) -> list[Row]:
    """Make the log of a claim that was reserved, and renewed so many times, a second each."""
    clock = Clock()
    with opened(path, clock) as ledger:
        granted(ledger, policy=policy)
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
        clock.now += 1
        ledger.renew(task(), WORKER, **GRANT)
        ledger.reconcile_execution(
            task(), DISPATCHER, **GRANT, status="running", evidence_reference="run-0"
        )
    *rows, renewal, running = rows_of(path)
    for second in range(1, times + 1):
        at = START + second
        rows.append(body_with(renewal, lease_until=at + 1_000)._replace(at=at))
    return [*rows, running]


def laid(path: Path, rows: list[Row]) -> None:
    """Lay a log, numbered and chained, and refold its tables."""
    put_log(path, chained(numbered(rows)))
    rebuild(path)


def test_a_renewal_leaves_the_events_for_endings(path: Path) -> None:
    """A renewal as the 240th event is lawful, as the 241st it is not."""
    *rows, _ = renewed(path, POLICY, 236)
    laid(path, rows)
    assert len(rows) == 240
    assert problems(path) == []
    rows.append(body_with(rows[-1], lease_until=START + 1_237)._replace(at=START + 237))
    put_log(path, chained(numbered(rows)))
    assert problems(path) == [("events", 241, T1, ROOM)]


def test_progress_leaves_the_events_for_endings(path: Path) -> None:
    """A report of progress as the 241st event is named, although the rest of it fits."""
    *rows, _ = renewed(path, replace(POLICY, progress_seconds=1_000), 236)
    text = rows[-1].body.replace("claim.renewed.v1", "claim.progressed.v1")
    text = text.replace("lease_until", "progress_by")
    rows.append(rows[-1]._replace(type="claim.progressed.v1", body=text))
    put_log(path, chained(numbered(rows)))
    assert problems(path) == [("events", 241, T1, ROOM)]


def test_a_claim_leaves_the_events_for_endings(path: Path) -> None:
    """A grant where only the events for endings are left is named, although its slot is free."""
    policy = replace(POLICY, concurrent_slots=2, max_attempts=2, competition_reason="two designs")
    *rows, _ = renewed(path, policy, 220)
    grant = body_with(
        rows[1],
        request_id="r-2",
        slot=1,
        ack_by=START + 520,
        lease_until=START + 1_220,
        progress_by=START + 605_020,
        hard_until=START + 605_020,
    )
    rows.append(grant._replace(at=START + 220))
    put_log(path, chained(numbered(rows)))
    assert len(rows) == 225
    assert problems(path) == [("events", 225, T1, ROOM)]


def test_evidence_takes_eight_events_of_the_reserve(path: Path) -> None:
    """Eight changes of evidence are taken from the events for endings; a ninth is named."""
    *rows, running = renewed(path, POLICY, 236)
    for number in range(1, 9):
        evidence = body_with(running, evidence_reference=f"run-{number}", from_reserve=True)
        rows.append(evidence._replace(at=rows[-1].at))
    laid(path, rows)
    assert problems(path) == []
    ninth = body_with(rows[-1], evidence_reference="run-9")
    put_log(path, chained(numbered([*rows, ninth])))
    assert problems(path) == [("events", 249, T1, SPARE)]


def test_evidence_out_of_the_reserve_is_counted(path: Path) -> None:
    """Evidence as the 241st event that does not say so is named."""
    *rows, running = renewed(path, POLICY, 236)
    put_log(path, chained(numbered([*rows, running._replace(at=rows[-1].at)])))
    meaning = "expected an event of which it is counted as it should be, but it is not so"
    assert problems(path) == [("events", 241, T1, meaning)]


# The invariants. No log that folds breaks one, so each is broken here in a state made so.

Breaking = Callable[[TaskState, Claim], Any]


def _set(**fields: Any) -> Breaking:
    def breaking(_: TaskState, claim: Claim) -> None:
        for name, value in fields.items():
            setattr(claim, name, value)

    return breaking


def _limit(**fields: Any) -> Breaking:
    def breaking(state: TaskState, _: Claim) -> None:
        state.policy = replace(state.terms, **fields)

    return breaking


def _grown(state: TaskState, _: Claim) -> None:
    state.version = 10_001


def _moved_on(state: TaskState, _: Claim) -> None:
    state.epochs[0] = 3


def _running(state: TaskState, _: Claim) -> None:
    state.claims["r-1"].occupancy = "running"
    state.claims["r-2"].state = "active"


INVARIANTS: dict[str, tuple[Breaking, str | None]] = {
    "sound": (_set(), None),
    "lease": (_set(lease_until=START + 71), "a deadline lies beyond hard_until"),
    "progress": (_set(progress_by=START + 71), "a deadline lies beyond hard_until"),
    "acknowledgement": (_set(ack_by=START + 71), "a deadline lies beyond hard_until"),
    "end": (_set(hard_until=START + 71), "hard_until has moved"),
    "budget": (_grown, "the stream holds more than max_events"),
    "attempts": (_limit(max_attempts=1), "more claims were admitted than max_attempts"),
    "epoch": (_set(epoch=3), "the slot's epochs are not 1, 2, 3 and so on"),
    "slot": (_moved_on, "the slot's epochs are not 1, 2, 3 and so on"),
    "holders": (_running, "more than one claim holds the slot"),
}


@pytest.mark.parametrize("name", INVARIANTS)
def test_an_invariant_that_is_broken_is_named(path: Path, name: str) -> None:
    """Each invariant of a task is looked at, and holds in the state that the story folds to."""
    state = TaskState(T1)
    for row in rows_of(life(path)):
        if row.stream == T1:
            tables.apply(state, row)
    breaking, meaning = INVARIANTS[name]
    breaking(state, state.claims["r-2"])
    assert broken_invariant(state, state.claims["r-2"]) == meaning


def test_the_invariants_are_looked_at_behind_every_event(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken invariant is reported at the event behind which it is broken, and the next."""

    def broken(state: TaskState, claim: Claim) -> str | None:
        return f"{state.version}: {claim.state}" if claim.epoch == 2 else None

    monkeypatch.setattr("idkmesh.verification.broken_invariant", broken)
    assert problems(life(path)) == [
        ("events", 12, T1, "11: active"),
        ("events", 13, T1, "12: expired"),
    ]


# What it costs.


def _peak(path: Path) -> int:
    tracemalloc.start()
    try:
        assert verify(path).ok
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_flat_in_the_number_of_events(path: Path) -> None:
    """Four times as many events of the same task take no more memory to verify."""
    rows = renewed(path, replace(POLICY, max_events=1_000_000), 4_000)
    laid(path, rows[:1_000])
    _peak(path)  # what is made once is made now
    few = _peak(path)
    laid(path, rows[:4_000])
    assert _peak(path) < 1.1 * few
