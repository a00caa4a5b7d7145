"""Verification: clean where all is well, and each check of the log where just that fails."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from builders import SCOPE, START, WORKER, Clock, binding, granted, opened, task
from replay_builders import (
    ADA,
    SEEN,
    T1,
    TEN_YEARS,
    Change,
    body_with,
    both,
    chained,
    edited,
    forge,
    found,
    life,
    numbered,
    ordered,
    problems,
    put_log,
    renewals,
    rows_of,
    told,
    unguarded,
    untyped,
    world,
    writers,
)
from store_checks import store_refused

from idkmesh import TaskClaimPolicy
from idkmesh.events.catalog import TAGS
from idkmesh.events.port import Row
from idkmesh.replay import verify

CHAIN = "the chain value does not follow from the rows before it and this one"
FALLS = "expected time not to run backwards along the log, but it does"
CLOCK = "acme/apollo/clock"


# Where all is well.


def test_a_ledger_that_went_through_everything_verifies(path: Path) -> None:
    """Every type of event, two scopes, every deadline and a repaired clock: no problem."""
    checked = verify(world(path))
    assert found(checked) == []
    assert checked.ok
    assert (checked.events, checked.tasks, checked.claims) == (49, 4, 10)
    assert {row.type for row in rows_of(path)} == set(TAGS)
    assert {row.scope for row in rows_of(path)} == {"acme/apollo", "acme/gemini"}


def test_an_empty_ledger_verifies(path: Path, clock: Clock) -> None:
    """A ledger without an event has no problem."""
    opened(path, clock).close()
    checked = verify(path)
    assert (checked.ok, checked.events, checked.tasks, checked.claims) == (True, 0, 0, 0)


def test_progress_is_told_in_passes(path: Path) -> None:
    """The engine's check is of unknown length; then events read and events there are."""
    told_steps: list[tuple[int, int]] = []
    verify(world(path), progress=lambda done, total: told_steps.append((done, total)))
    assert told_steps == [(0, 0), (0, 49), (49, 49)]


def test_a_held_write_lock_is_not_waited_for(path: Path, clock: Clock) -> None:
    """While a writer holds the lock, a verification goes on and sees what was committed."""
    with opened(life(path), clock) as ledger, ledger.transactor.store.write() as session:
        session.append("acme/apollo", CLOCK, 2, START + 99, _event_of(path, 9))
        assert found(verify(path)) == []
        assert verify(path).events == 14


def test_one_point_is_seen(path: Path, clock: Clock) -> None:
    """What is committed while a verification is under way is not in it."""
    with opened(life(path), clock) as ledger:
        clock.now = START + 30

        def claim_once(_done: int, total: int) -> None:
            if total:
                ledger.claim(task(), ADA, request_id="r-3", binding=binding("c"))

        checked = verify(path, progress=claim_once)
        assert (checked.ok, checked.events) == (True, 14)
        assert (verify(path).ok, verify(path).events) == (True, 15)


def test_a_ledger_verifies_while_other_processes_write(path: Path, clock: Clock) -> None:
    """Whatever two other processes commit meanwhile, every verification is clean."""
    opened(path, clock).close()
    counts = []
    with writers(path, "a", "b", tasks=30):
        for _ in range(6):
            checked = verify(path)
            assert found(checked) == []
            counts.append(checked.events)
    assert counts == sorted(counts)
    assert verify(path).events == 180


# The numbering.


def _later(column: str, first: int) -> Change:
    """Raise a column by one from an event on, in that event's scope or stream."""

    def change(rows: list[Row]) -> list[Row]:
        row = rows[first - 1]
        whose = {"sequence": None, "number": "scope", "version": "stream"}[column]
        return [
            each._replace(**{column: getattr(each, column) + 1})
            if each.sequence >= first
            and (whose is None or getattr(each, whose) == getattr(row, whose))
            else each
            for each in rows
        ]

    return change


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (
            "sequence",
            ("events", 10, T1, "sequence is not the file's next: expected 9, not 10"),
        ),
        ("number", ("events", 9, CLOCK, "number is not the scope's next: expected 9, not 10")),
        ("version", ("events", 9, CLOCK, "version is not the stream's next: expected 1, not 2")),
    ],
)
def test_a_gap_is_found(path: Path, column: str, problem: tuple[Any, ...]) -> None:
    """A sequence, number or version that is not the next is named, and nothing else is."""
    rows = _later(column, 9)(rows_of(life(path)))
    put_log(path, chained(rows))
    if column == "sequence":
        problem = ("events", 10, CLOCK, "sequence is not the file's next: expected 9, not 10")
    assert problems(path) == [problem]
