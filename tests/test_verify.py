"""Verification: clean where all is well, and each check of the log where just that fails."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import START, Clock, binding, opened, task
from replay_builders import (
    ADA,
    SEEN,
    T1,
    Change,
    Found,
    both,
    chained,
    edited,
    forge,
    found,
    life,
    ordered,
    problems,
    put_log,
    rows_of,
    told,
    unguarded,
    untyped,
    world,
    writers,
)
from store_checks import store_refused

from idkmesh.events.catalog import TAGS
from idkmesh.events.port import Row
from idkmesh.events.types import ClockObserved
from idkmesh.replay import seal, verify

CLOCK = "acme/apollo/clock"
T2 = "acme/apollo/task/T-2"
GEMINI_SEEN = "acme/gemini/observations"
CHAIN = "the chain value does not follow from the rows before it and this one"
FALLS = "expected time not to run backwards along the log, but it does"
STOOD = "the clock was observed although time had not moved"
MISTYPED = "the row holds a value that is not of its column's type"


# Where all is well.


def test_a_ledger_that_went_through_everything_verifies(path: Path) -> None:
    """Every type of event, two scopes, every deadline and a repaired clock: no problem."""
    checked = verify(world(path))
    assert found(checked) == []
    assert checked.ok
    assert (checked.events, checked.tasks, checked.claims) == (49, 4, 10)
    assert {row.type for row in rows_of(path)} == set(TAGS)
    assert {row.scope for row in rows_of(path)} == {"acme/apollo", "acme/gemini"}
    assert problems(path) == []


def test_an_empty_ledger_verifies(path: Path, clock: Clock) -> None:
    """A ledger without an event has no problem."""
    opened(path, clock).close()
    checked = verify(path)
    assert (checked.ok, checked.events, checked.tasks, checked.claims) == (True, 0, 0, 0)


def test_a_file_that_is_missing_or_no_ledger_is_no_verification(path: Path) -> None:
    """There is nothing to verify without a ledger, and none is made."""
    with store_refused("store_readonly"):
        verify(path)
    assert not path.exists()
    path.write_text("task T-1 is mine\n", encoding="utf-8")
    with store_refused("store_foreign"):
        verify(path)


def test_progress_is_told_in_passes(path: Path) -> None:
    """Events read and events there are; then the engine's check, which is of unknown length."""
    steps: list[tuple[int, int]] = []
    verify(world(path), progress=lambda done, total: steps.append((done, total)))
    assert steps == [(0, 49), (49, 49), (0, 0)]


def test_a_held_write_lock_is_not_waited_for(path: Path, clock: Clock) -> None:
    """While a writer holds the lock, a verification goes on and sees what was committed."""
    with opened(life(path), clock) as ledger, ledger.transactor.store.write() as session:
        session.append("acme/apollo", CLOCK, 2, START + 99, ClockObserved())
        checked = verify(path)
        assert (checked.ok, checked.events) == (True, 14)


def test_one_point_is_seen(path: Path, clock: Clock) -> None:
    """What is committed while a verification is under way is not in it."""
    clock.now = START + 30
    with opened(life(path), clock) as ledger:

        def claiming(_done: int, total: int) -> None:
            if total:
                ledger.claim(task(), ADA, request_id="r-3", binding=binding("c"))

        checked = verify(path, progress=claiming)
        assert (checked.ok, checked.events) == (True, 14)
        checked = verify(path)
        assert (checked.ok, checked.events) == (True, 15)


def test_a_ledger_verifies_while_other_processes_write(path: Path, clock: Clock) -> None:
    """Whatever two other processes commit meanwhile, every verification is clean."""
    opened(path, clock).close()
    counts = []
    with writers(path, "a", "b", tasks=40):
        for _ in range(5):
            checked = verify(path)
            assert found(checked) == []
            counts.append(checked.events)
    assert counts == sorted(counts)
    assert verify(path).events == 240


# The numbers.


def raised(column: str, whose: str | None) -> Change:
    """Raise a number by one from the ninth event on, everywhere or in its scope or stream."""

    def change(rows: list[Row]) -> list[Row]:
        return [
            row._replace(**{column: getattr(row, column) + 1})
            if row.sequence >= 9 and (not whose or getattr(row, whose) == getattr(rows[8], whose))
            else row
            for row in rows
        ]

    return change


@pytest.mark.parametrize(
    ("column", "whose", "sequence", "meaning"),
    [
        ("sequence", None, 10, "sequence is not the file's next: expected 9, not 10"),
        ("number", "scope", 9, "number is not the scope's next: expected 9, not 10"),
        ("version", "stream", 9, "version is not the stream's next: expected 1, not 2"),
    ],
)
def test_a_gap_is_found(
    path: Path, column: str, whose: str | None, sequence: int, meaning: str
) -> None:
    """A number that is not the next of its file, scope or stream is one problem, at its row."""
    put_log(path, chained(raised(column, whose)(rows_of(life(path)))))
    assert problems(path) == [("events", sequence, CLOCK, meaning)]


def test_a_missing_event_is_reported_where_it_is_missed(path: Path) -> None:
    """Behind an event that was taken out all numbers are off once, and nothing else is blamed."""
    put_log(path, ordered(1, 2, *range(4, 15))(rows_of(life(path))))
    assert problems(path) == [
        ("events", 4, T1, "sequence is not the file's next: expected 3, not 4"),
        ("events", 4, T1, "number is not the scope's next: expected 3, not 4"),
        ("events", 4, T1, "version is not the stream's next: expected 3, not 4"),
        ("events", 4, T1, CHAIN),
    ]


# Time.


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (told(9, at=5), [("events", 9, CLOCK, FALLS)]),
        (told(9, at=6), [("events", 9, CLOCK, STOOD)]),
        (told(9, at=8), []),
        (told(9, at=1_000), [("events", 10, T1, FALLS)]),
    ],
    ids=["falls", "stands", "runs", "ran ahead"],
)
def test_time_never_falls(path: Path, change: Change, expected: list[Found]) -> None:
    """A time below the last is named once; an observed clock without new time is, too."""
    forge(life(path), change)
    assert problems(path) == expected


# Bodies.

BREAKS = "expected an event of its type's shape, but it breaks it"
DIFFERS = "expected an event as it is written here, but the text differs"
LATER_FIELD = "expected an event of this version's shape, but it has a field of a later one"

BODIES: dict[str, tuple[str, str, str]] = {
    "another key order": (
        '"event_id":"delivery 81","sequence":7',
        '"sequence":7,"event_id":"delivery 81"',
        DIFFERS,
    ),
    "a blank": ('"sequence":', '"sequence": ', DIFFERS),
    "a newline at the end": ('"merge 4"}', '"merge 4"}\n', DIFFERS),
    "an escape": ("delivery", r"\u0064elivery", DIFFERS),
    "a key twice": ('"event_id"', '"event_id":"delivery 80","event_id"', DIFFERS),
    "a key twice, the same": ('"sequence":7', '"sequence":7,"sequence":7', DIFFERS),
    "an unknown field": ('"merge 4"}', '"merge 4","more":1}', LATER_FIELD),
    "an unknown field within": ('"binding":{', '"binding":{"more":1,', LATER_FIELD),
    "no end": ('"merge 4"}', '"merge 4"', BREAKS),
    "a field missing": ('"sequence":7,', "", BREAKS),
    "a float": ('"sequence":7', '"sequence":7.0', BREAKS),
    "no number": ('"sequence":7', '"sequence":NaN', BREAKS),
    "text for a number": ('"sequence":7', '"sequence":"7"', BREAKS),
    "below the range": ('"sequence":7', '"sequence":0', BREAKS),
    "above the range": ('"sequence":7', '"sequence":4611686018427387904', BREAKS),
    "a number of 5,000 digits": ('"sequence":7', '"sequence":' + "7" * 5_000, BREAKS),
    "null for text": ('"delivery 81"', "null", BREAKS),
    "NUL in text": ("delivery 81", r"\u0000", BREAKS),
    "a lone surrogate": ("delivery 81", r"\ud800", BREAKS),
    "an unknown word": ('"integrated"', '"merged"', BREAKS),
    "nested deeply": ('"delivery 81"', "[" * 7_000 + "]" * 7_000, BREAKS),
    "too long": (
        "delivery 81",
        "d" * 16_384,
        "expected an event of at most 16384 bytes, but it is longer",
    ),
}


def rebodied(sequence: int, old: str, new: str) -> Change:
    """Make the change of a body's text, which holds the old part once."""

    def change(rows: list[Row]) -> list[Row]:
        row = rows[sequence - 1]
        assert row.body.count(old) == 1
        rows[sequence - 1] = row._replace(body=row.body.replace(old, new))
        return rows

    return change


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_what_would_be_written(path: Path, name: str) -> None:
    """A body that does not read, or would be written in other bytes, is named with the reason."""
    old, new, meaning = BODIES[name]
    forge(life(path), rebodied(14, old, new))
    assert problems(path) == [("events", 14, SEEN, meaning)]


def test_an_event_of_a_later_version_is_told_from_a_broken_one(path: Path) -> None:
    """A type that this version does not know is named as a later version's."""
    forge(life(path), edited(14, type="prerequisite.observed.v2"))
    meaning = "expected an event type of this version, but it is of a later one"
    assert problems(path) == [("events", 14, SEEN, meaning)]


def test_the_types_column_is_the_bodys(path: Path) -> None:
    """A row whose type is not the one in its body is named."""
    forge(life(path), told(14, type="claim.granted.v1"))
    assert problems(path) == [("events", 14, SEEN, "type is not the one in the body")]


def test_an_unreadable_event_has_a_time_all_the_same(path: Path) -> None:
    """Where an event does not read and its row's time falls, both are reported."""
    forge(life(path), both(rebodied(14, '"sequence":7,', ""), told(14, at=19)))
    assert problems(path) == [("events", 14, SEEN, BREAKS), ("events", 14, SEEN, FALLS)]


# The chain.


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        (9, [("events", 9, CLOCK, CHAIN), ("events", 10, T1, CHAIN)]),
        (37, [("events", 37, GEMINI_SEEN, CHAIN), ("events", 38, GEMINI_SEEN, CHAIN)]),
        (48, [("events", 48, T2, CHAIN)]),
        (49, [("events", 49, "acme/gemini/clock", CHAIN)]),
    ],
)
def test_a_chain_value_is_recomputed(path: Path, sequence: int, expected: list[Found]) -> None:
    """One bit of a chain value: its row does not follow, nor does the next of the scope."""
    rows = rows_of(world(path))
    row = rows[sequence - 1]
    rows[sequence - 1] = row._replace(chain=bytes([row.chain[0] ^ 1]) + row.chain[1:])
    put_log(path, rows)
    assert problems(path) == expected


# Rows that hold what no column may, and rows that cannot be read.


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("scope", None),
        ("number", float("inf")),
        ("number", "five"),
        ("stream", b"acme/apollo/task/T-1"),
        ("version", 1.5),
        ("at", None),
        ("at", b"soon"),
        ("type", 5),
        ("body", b"{}"),
        ("chain", None),
        ("chain", 7),
        ("chain", "x" * 32),
    ],
)
def test_a_value_of_another_type_is_named(path: Path, column: str, value: Any) -> None:
    """A row with a value that its column's type forbids is named, and the rest judged."""
    with untyped(life(path), "events") as connection:
        connection.execute(f"UPDATE events SET {column} = ? WHERE sequence = 5", (value,))  # noqa: S608  (a constant)
    (schema, row, *rest) = problems(path)
    assert schema[0] == "schema"
    assert f"value in events.{column}" in schema[3]
    assert row == ("events", 5, None if column == "stream" else T1, MISTYPED)
    assert {sequence for _, sequence, _, _ in rest} <= {6}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        *((column, "BLOB") for column in ("scope", "stream", "type", "body")),
        *((column, "TEXT") for column in ("number", "version", "at", "chain")),
        ("number", "BLOB"),
        ("version", "BLOB"),
        ("at", "BLOB"),
    ],
)
def test_the_same_value_as_another_type_is_named(path: Path, column: str, kind: str) -> None:
    """A value that reads alike but is of another type is named, and the rest judged."""
    with untyped(life(path), "events") as connection:
        cast = f"hex({column})" if column == "chain" else column
        sql = f"UPDATE events SET {column} = CAST({cast} AS {kind}) WHERE sequence = 5"  # noqa: S608  (constants)
        connection.execute(sql)
    (schema, row, *rest) = problems(path)
    assert schema[0] == "schema"
    assert row == ("events", 5, None if column == "stream" else T1, MISTYPED)
    assert {sequence for _, sequence, _, _ in rest} <= {6}


@pytest.mark.parametrize("sequence", [1, 3, 9, 14])
@pytest.mark.parametrize(
    ("column", "other"),
    [
        *((column, str.encode) for column in ("scope", "stream", "type", "body")),
        *((column, float) for column in ("number", "version", "at")),
        *((column, str) for column in ("number", "version", "at")),
        *((column, lambda _: None) for column in ("scope", "stream", "type", "body")),
    ],
)
def test_a_forged_chain_hides_no_other_type(
    path: Path, column: str, other: Callable[[Any], Any], sequence: int
) -> None:
    """A value of another type is named even where every chain value was made from it."""
    rows = [
        row._replace(**{column: other(getattr(row, column))}) if row.sequence == sequence else row
        for row in rows_of(life(path))
    ]
    link = bytes(32)
    with untyped(path, "events") as connection:
        connection.execute("DELETE FROM events")
        for row in rows:
            framed = [str(each).encode() for each in row[:8]]
            link = hashlib.sha256(
                link + b"".join(len(each).to_bytes(8) + each for each in framed)
            ).digest()
            connection.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row[:8], link)
            )
    judged = problems(path)
    stream = None if column == "stream" else rows[sequence - 1].stream
    assert ("events", sequence, stream, MISTYPED) in judged


def test_rows_before_the_first_are_found(path: Path) -> None:
    """A row that another tool put before sequence 1, where readers of a task meet it, is named."""
    forged = rows_of(life(path))[2]._replace(sequence=-1, number=900, version=900)
    with unguarded(path) as connection:
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", forged)
    assert problems(path)[0] == ("events", None, None, "1 rows stand before the log's first")
    kept = seal(life(path.with_name("sound")))
    assert problems(path, kept)[0][0] == "events"


@pytest.mark.parametrize("at", [2**62, 2**63 - 1])
def test_a_time_that_no_clock_says_is_named(path: Path, at: int) -> None:
    """A row's time is at most 2**62 - 1, whatever the engine was made to take."""
    with unguarded(life(path)) as connection:
        connection.execute("UPDATE events SET at = ? WHERE sequence = 14", (at,))
    assert ("events", 14, SEEN, "the time is beyond what a clock may say") in problems(path)


def test_a_body_is_measured_in_bytes(path: Path) -> None:
    """A body of few characters that take more bytes than a body may is named."""
    long = "\U0001f642" * 5000
    with unguarded(life(path)) as connection:
        connection.execute(
            "UPDATE events SET body = json_set(body, '$.event_id', ?) WHERE sequence = 14", (long,)
        )
    meaning = "expected an event of at most 16384 bytes, but it is longer"
    assert ("events", 14, SEEN, meaning) in problems(path)


@pytest.mark.parametrize("sequence", [1, 7, 14])
def test_a_row_that_cannot_be_read_is_named(path: Path, sequence: int) -> None:
    """A row of bytes that are no text is named, and what lies behind it is judged."""
    with unguarded(life(path)) as connection:
        connection.execute(
            "UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE sequence = ?", (sequence,)
        )
        connection.execute("UPDATE events SET chain = zeroblob(32) WHERE sequence = 12")
    judged = problems(path)
    meaning = "the row cannot be read: expected text in UTF-8, but the file holds other bytes"
    assert [each for each in judged if each[3] == meaning] == [("events", sequence, None, meaning)]
    assert ("events", 12, T1, CHAIN) in judged


def test_a_log_that_is_all_unreadable_is_given_up(path: Path, monkeypatch: Any) -> None:
    """Behind so many unreadable rows that more say nothing new, verification says so and ends."""
    monkeypatch.setattr("idkmesh.verification._MOST_UNREADABLE", 3)
    with unguarded(life(path)) as connection:
        connection.execute("UPDATE events SET body = CAST(x'ff' AS TEXT)")
    judged = problems(path)
    assert [each[1] for each in judged[:4]] == [1, 2, 3, None]
    assert judged[3][3] == "too many rows cannot be read; the rest is not looked at"
