"""Replay: tasks as they stood at a point of the log, and what each event of a task changed."""

from pathlib import Path
from typing import Any

import pytest
from builders import OTHER_SCOPE, SCOPE, START, Clock, digest, opened, task
from replay_builders import (
    ADA,
    C1,
    GEMINI_T1,
    SHORT,
    T1,
    edited,
    forge,
    life,
    ordered,
    rows_of,
    world,
)
from unit_builders import refusal

from idkmesh import InvalidInput, StoreError
from idkmesh.records import TaskClaim
from idkmesh.replay import TaskAsOf, history, logged, state_at

Brief = dict[str, list[str]]


def brief(tasks: tuple[TaskAsOf, ...]) -> Brief:
    """Return each task's claims in a few words."""
    return {
        each.task.key: [
            f"{claim.slot}/{claim.epoch} {claim.owner.principal_id} {claim.state} {claim.occupancy}"
            for claim in each.claims
        ]
        for each in tasks
    }


# As of a point.


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        (0, {}),
        (1, {T1: []}),
        (2, {T1: ["0/1 ada active none"]}),
        (6, {T1: ["0/1 ada active unknown"]}),
        (7, {T1: ["0/1 ada active running"]}),
        (10, {T1: ["0/1 ada active terminal"]}),
        (11, {T1: ["0/1 ada released terminal"]}),
        (12, {T1: ["0/1 ada released terminal", "0/2 bob active none"]}),
        (13, {T1: ["0/1 ada released terminal", "0/2 bob expired none"]}),
        (14, {T1: ["0/1 ada released terminal", "0/2 bob expired none"]}),
        (None, {T1: ["0/1 ada released terminal", "0/2 bob expired none"]}),
    ],
)
def test_a_ledger_as_of_a_sequence(path: Path, sequence: int | None, expected: Brief) -> None:
    """Behind each event the tasks and claims are what a command would have found there."""
    assert brief(state_at(life(path), sequence=sequence)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, {}),
        (0, {T1: ["0/1 ada active none"]}),
        (8, {T1: ["0/1 ada active terminal"]}),
        (19, {T1: ["0/1 ada released terminal", "0/2 bob active none"]}),
        (20, {T1: ["0/1 ada released terminal", "0/2 bob expired none"]}),
    ],
)
def test_a_ledger_as_of_a_time(path: Path, seconds: int, expected: Brief) -> None:
    """A time is behind the last event of it or before it."""
    assert brief(state_at(life(path), time=START + seconds)) == expected


def test_a_deadline_that_had_passed_shows_although_nobody_recorded_it(path: Path) -> None:
    """As of a time a claim past its deadline is expired, as of the event before it is not."""
    forge(life(path), ordered(*range(1, 13)))
    for seconds, state in ((19, "active"), (20, "expired")):
        (found,) = state_at(path, time=START + seconds)
        assert found.claims[1].state == state
    assert state_at(path, sequence=12)[0].claims[1].state == "active"


def test_a_time_that_came_twice_is_the_later_one(path: Path) -> None:
    """Before the clock ran ahead nothing of it shows; after the repair all of it has happened."""
    world(path)
    running = "0/4 bob active unknown"
    before = brief(state_at(path, time=START + 159))
    assert before[GEMINI_T1][-1] == running
    assert "acme/apollo/task/T-2" not in before
    after = brief(state_at(path, time=START + 160))
    assert after[GEMINI_T1][-1] == running.replace("active", "expired")
    assert after["acme/apollo/task/T-2"] == ["0/1 ada active none"]


def test_a_task_or_a_scope_alone(path: Path) -> None:
    """The whole ledger, one scope or one task; sorted by key, and nothing of others."""
    world(path)
    everything = ["acme/apollo/task/C-1", T1, "acme/apollo/task/T-2", GEMINI_T1]
    assert list(brief(state_at(path))) == everything
    assert list(brief(state_at(path, scope=SCOPE))) == everything[:3]
    assert list(brief(state_at(path, scope=OTHER_SCOPE))) == everything[3:]
    assert list(brief(state_at(path, task=task("C-1")))) == [C1]
    assert state_at(path, task=task("C-1"), scope=OTHER_SCOPE) == ()
    assert state_at(path, task=task("T-9")) == ()


def test_the_records_are_those_of_the_ledger(path: Path, clock: Clock) -> None:
    """As of the end each claim's record is the one that the ledger gives, to the last field."""
    clock.now = START + 21
    found = state_at(life(path))
    assert found[0].policy == SHORT
    with opened(path, clock) as ledger:
        assert found[0].claims == ledger.peek(task(), ADA)
    assert all(isinstance(claim, TaskClaim) for claim in found[0].claims)


def test_progress_is_told_stream_by_stream(path: Path) -> None:
    """The streams folded and the streams there are, of all kinds."""
    steps: list[tuple[int, int]] = []
    state_at(life(path), progress=lambda done, total: steps.append((done, total)))
    assert steps == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    "points",
    [
        {"sequence": 1, "time": START},
        {"sequence": -1},
        {"sequence": True},
        {"sequence": "1"},
        {"time": 2**62},
        {"time": 1.0},
    ],
)
def test_a_point_is_one_whole_number(path: Path, points: dict[str, Any]) -> None:
    """Two points at once, or one that is no whole number in range, are invalid_input."""
    assert refusal(lambda: state_at(path, **points)).code == "invalid_input"
    assert not path.exists()


def test_a_sequence_behind_the_end_is_refused(path: Path) -> None:
    """A point that the log has not come to is invalid_input, for one task as for all."""
    life(path)
    assert len(state_at(path, sequence=14)) == 1
    for sequence in (15, 2**62 - 1):
        for only in (None, task("T-9")):
            with pytest.raises(InvalidInput, match="the log ends before it"):
                state_at(path, sequence=sequence, task=only)


def test_other_objects_than_a_task_and_a_scope_are_refused(path: Path) -> None:
    """A text is no task and no scope, and another kind of resource is no task."""
    with pytest.raises(TypeError):
        state_at(life(path), task="T-1")  # type: ignore[arg-type]  # that is the test
    with pytest.raises(TypeError):
        state_at(path, scope="acme/apollo")  # type: ignore[arg-type]  # that is the test
    with pytest.raises(TypeError):
        list(history(path, "T-1"))  # type: ignore[arg-type]  # that is the test


def test_a_log_that_does_not_fold_is_refused_from_there_on(path: Path) -> None:
    """As of a point before the first wrong event all is well; behind it the event is named."""
    forge(life(path), edited(4, lease_until=START + 23))
    assert brief(state_at(path, sequence=3)) == {T1: ["0/1 ada active none"]}
    with pytest.raises(StoreError, match="event 4 does not fold") as caught:
        state_at(path)
    assert caught.value.code == "store_corrupt"


# A task's history.


def test_a_history_says_what_each_event_changed(path: Path) -> None:
    """Every event of a task in order, with each field that it changed, before and behind."""
    changes = {each.logged.sequence: each.changes for each in history(life(path), task())}
    first, second, later = changes.pop(1), changes.pop(2), changes.pop(12)
    operation_id = state_at(path)[0].claims[0].operation_id
    assert changes == {
        3: {"claim[0/1].acknowledged_at": (None, START + 1)},
        4: {"claim[0/1].lease_until": (START + 20, START + 22)},
        5: {"claim[0/1].progress_by": (START + 30, START + 33)},
        6: {
            "claim[0/1].occupancy": ("none", "unknown"),
            "claim[0/1].operation_id": (None, operation_id),
        },
        7: {
            "claim[0/1].occupancy": ("unknown", "running"),
            "claim[0/1].execution_reference": (None, "run-1"),
        },
        8: {"claim[0/1].submission_digest": (None, digest("c"))},
        10: {
            "claim[0/1].occupancy": ("running", "terminal"),
            "claim[0/1].execution_reference": ("run-1", "run-1:exit-0"),
        },
        11: {"claim[0/1].state": ("active", "released")},
        13: {"claim[0/2].state": ("active", "expired")},
    }
    assert list(changes) == sorted(changes)
    assert first["policy.max_attempts"] == (None, 4)
    assert first["epoch[0]"] == (None, 0)
    assert second["epoch[0]"] == (0, 1)
    assert second["claim[0/1].principal_id"] == (None, "ada")
    assert "claim[0/1].acknowledged_at" not in second
    assert later["epoch[0]"] == (1, 2)
    assert not any(name.startswith("claim[0/1]") for name in later)


def test_a_task_without_events_has_no_history(path: Path) -> None:
    """A task that nobody configured, or of another scope, has none."""
    assert list(history(life(path), task("T-9"))) == []
    assert list(history(path, task("T-1", OTHER_SCOPE))) == []


def test_an_event_is_logged_with_its_envelope(path: Path) -> None:
    """An event's JSON is its row: the columns by name, the body as an object, chain in hex."""
    row = rows_of(life(path))[8]
    assert logged(row).to_dict() == {
        "sequence": 9,
        "scope": "acme/apollo",
        "number": 9,
        "stream": "acme/apollo/clock",
        "version": 1,
        "at": START + 7,
        "type": "clock.observed.v1",
        "body": {"type": "clock.observed.v1"},
        "chain": row.chain.hex(),
    }
