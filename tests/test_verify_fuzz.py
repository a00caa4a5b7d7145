"""Corruption at random: verification finds it, or the file cannot be read; it never crashes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import apsw
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from replay_builders import (
    Found,
    chained,
    found,
    numbered,
    put_log,
    rows_of,
    unguarded,
    untyped,
    world,
)

from idkmesh import StoreError
from idkmesh.replay import seal, verify

EVENTS = 49
INTEGERS = ("sequence", "number", "version", "at")
TEXTS = ("scope", "stream", "type", "body")
TABLES = ("tasks", "claims", "observations")
UNREADABLE: Found = ("file", None, None, "it cannot be read")

# The same examples each time: a failure is a change's, not chance's.
FUZZ = settings(derandomize=True, database=None)


@contextmanager
def ledger() -> Iterator[Path]:
    """Give a ledger of its own to each example."""
    with tempfile.TemporaryDirectory() as folder:
        yield world(Path(folder, "claims.sqlite3"))


@cache
def kept_seal() -> str:
    """Return the seal of the ledger that all examples corrupt."""
    with ledger() as path:
        return seal(path)


def judged(path: Path, kept: str | None = None) -> list[Found]:
    """Verify, and count a file that cannot be read as found out."""
    try:
        return found(verify(path, seal=kept))
    except StoreError:
        return [UNREADABLE]


def spoilt(value: Any, place: int, mask: int) -> Any:
    """Change one byte of a value."""
    if isinstance(value, int):
        return (value ^ mask << place % 7 * 8) & 2**62 - 1
    data = bytearray(value if isinstance(value, bytes) else value.encode())
    data[place % len(data)] ^= mask
    return bytes(data)


def change(connection: apsw.Connection, statement: str, *values: Any) -> None:
    """Run a statement, or give the example up where two rows would share a key."""
    try:
        connection.execute(statement, values)
    except apsw.ConstraintError:
        assume(condition=False)


masks = st.integers(1, 255)
places = st.integers(0, 2**14)
sequences = st.integers(1, EVENTS)


@settings(FUZZ, max_examples=80)
@given(
    sequence=sequences,
    column=st.sampled_from((*INTEGERS, *TEXTS, "chain")),
    place=places,
    mask=masks,
)
def test_any_byte_of_an_event(sequence: int, column: str, place: int, mask: int) -> None:
    """One byte of any column of any row of the log, changed in any way, is found."""
    with ledger() as path:
        old = getattr(rows_of(path)[sequence - 1], column)
        new = spoilt(old, place, mask)
        cast = "CAST(? AS TEXT)" if column in TEXTS else "?"
        with unguarded(path) as connection:
            statement = f"UPDATE events SET {column} = {cast} WHERE sequence = ?"  # noqa: S608  (constants)
            change(connection, statement, new, sequence)
        assert judged(path)


@settings(FUZZ, max_examples=80)
@given(
    table=st.sampled_from(TABLES),
    row=st.integers(0, 99),
    column=st.integers(0, 99),
    place=places,
    mask=masks,
)
def test_any_byte_of_a_table(table: str, row: int, column: int, place: int, mask: int) -> None:
    """One byte of any column of any row of any table, changed in any way, is found."""
    with ledger() as path:
        with unguarded(path) as connection:
            name, old, where, keys = cell(connection, table, row, column)
            new = spoilt(old, place, mask) if old is not None else mask
            value = "CAST(? AS TEXT)" if isinstance(new, bytes) else "?"
            statement = f"UPDATE {table} SET {name} = {value} WHERE {where}"  # noqa: S608  (constants)
            change(connection, statement, new, *keys)
        assert judged(path)


def cell(
    connection: apsw.Connection, table: str, row: int, column: int
) -> tuple[str, Any, str, tuple[Any, ...]]:
    """Pick a table's column and row: return its name and value, and where its row is."""
    cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608  (a constant)
    names = [name for name, _ in cursor.get_description()]
    rows = cursor.fetchall()
    keys = names[: {"tasks": 1, "events": 1}.get(table, 3)]
    chosen = rows[row % len(rows)]
    where = " AND ".join(f"{key} = ?" for key in keys)
    place = column % len(names)
    return names[place], chosen[place], where, chosen[: len(keys)]


values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.binary(max_size=40),
)


@settings(FUZZ, max_examples=100)
@given(
    table=st.sampled_from(("events", *TABLES)),
    row=st.integers(0, 99),
    column=st.integers(0, 99),
    value=values,
)
def test_any_value_of_any_type(table: str, row: int, column: int, value: object) -> None:
    """Any value, whatever its type, in any column of any row, is found if it is another."""
    with ledger() as path:
        with untyped(path, table) as connection:
            name, old, where, keys = cell(connection, table, row, column)
            assume((type(old), old) != (type(value), value))
            assume(name != "sequence" or table != "events" or type(value) is int)
            statement = f"UPDATE {table} SET {name} = ? WHERE {where}"  # noqa: S608  (constants)
            change(connection, statement, value, *keys)
        assert judged(path)


# Rows of the log, dropped, doubled and moved.

orders = st.lists(sequences, min_size=1, max_size=4)


@settings(FUZZ, max_examples=30)
@given(dropped=orders)
def test_dropped_events(dropped: list[int]) -> None:
    """Events that were taken out are found, the end of the log by a seal alone."""
    with ledger() as path:
        put_log(path, [row for row in rows_of(path) if row.sequence not in dropped])
        assert judged(path, kept_seal())
        assert judged(path) or set(dropped) == {EVENTS}


@settings(FUZZ, max_examples=30)
@given(sequence=sequences, behind=st.integers(0, EVENTS), rechained=st.booleans())
def test_a_doubled_event(sequence: int, behind: int, rechained: bool) -> None:  # noqa: FBT001  (drawn)
    """An event that comes a second time is found by the chain, or else by the seal."""
    with ledger() as path:
        rows = rows_of(path)
        rows.insert(behind, rows[sequence - 1])
        rows = numbered(rows)
        put_log(path, chained(rows) if rechained else rows)
        assert judged(path, kept_seal())
        assert rechained or judged(path)


@settings(FUZZ, max_examples=30)
@given(one=sequences, other=sequences, rechained=st.booleans())
def test_swapped_events(one: int, other: int, rechained: bool) -> None:  # noqa: FBT001  (drawn)
    """Two events that changed places are found by the chain, or else by the seal."""
    assume(one != other)
    with ledger() as path:
        rows = rows_of(path)
        rows[one - 1], rows[other - 1] = rows[other - 1], rows[one - 1]
        rows = numbered(rows)
        put_log(path, chained(rows) if rechained else rows)
        assert judged(path, kept_seal())
        assert rechained or judged(path)


@settings(FUZZ, max_examples=80)
@given(sequence=sequences, place=places, mask=st.integers(1, 127), data=st.data())
def test_a_forged_body(sequence: int, place: int, mask: int, data: st.DataObject) -> None:
    """A body that was changed and chained anew never crashes anything; the seal finds it."""
    with ledger() as path:
        rows = rows_of(path)
        row = rows[sequence - 1]
        if data.draw(st.booleans()):
            body = bytearray(row.body.encode())
            body[place % len(body)] ^= mask
            text = body.decode(errors="replace")
        else:
            text = rows[data.draw(sequences) - 1].body
        assume(text != row.body)
        rows[sequence - 1] = row._replace(body=text)
        put_log(path, chained(rows))
        assert judged(path, kept_seal())


# Rows of the tables, dropped and swapped.


@settings(FUZZ, max_examples=30)
@given(table=st.sampled_from(TABLES), row=st.integers(0, 99))
def test_a_dropped_row(table: str, row: int) -> None:
    """A row that is gone from any table is found."""
    with ledger() as path:
        with unguarded(path) as connection:
            _, _, where, keys = cell(connection, table, row, 0)
            connection.execute(f"DELETE FROM {table} WHERE {where}", keys)  # noqa: S608  (constants)
        assert [place for place, _, _, _ in judged(path)] == [table]


@settings(FUZZ, max_examples=30)
@given(table=st.sampled_from(TABLES), one=st.integers(0, 99), other=st.integers(0, 99))
def test_swapped_rows(table: str, one: int, other: int) -> None:
    """Two rows of a table that changed keys are both found."""
    with ledger() as path:
        with unguarded(path) as connection:
            column, value, where, keys = cell(connection, table, one, 2)
            _, theirs, there, others = cell(connection, table, other, 2)
            assume(value != theirs)
            statement = f"UPDATE {table} SET {column} = ? WHERE {{}}"  # noqa: S608  (constants)
            change(connection, statement.format(where), -1, *keys)
            change(connection, statement.format(there), value, *others)
            last = (*keys[:2], -1) if table != "tasks" else keys
            change(connection, statement.format(where), theirs, *last)
        assert {place for place, _, _, _ in judged(path)} == {table}


# Bytes of the file itself.


def content(data: bytes) -> object:
    """Return what a file says as a database: its schema and every row, or that it says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "copy.sqlite3")
        path.write_bytes(data)
        try:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")
                tables = [
                    connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608  (a constant)
                    for table in ("events", *TABLES)
                ]
                return repr((sorted(map(repr, schema)), tables))
            finally:
                connection.close(True)  # noqa: FBT003  (apsw's own signature)
        except (apsw.Error, UnicodeDecodeError):
            return None


@cache
def original() -> tuple[bytes, object]:
    """Return the sound file and what it says."""
    with ledger() as path:
        data = path.read_bytes()
        return data, content(data)


@settings(FUZZ, max_examples=150)
@given(place=st.integers(0, 2**17), mask=masks, more=st.lists(st.tuples(places, masks), max_size=2))
def test_any_byte_of_the_file(place: int, mask: int, more: list[tuple[int, int]]) -> None:
    """Bytes changed anywhere in the file are found where they change what it says."""
    data, said = original()
    spoiled = bytearray(data)
    for at, flips in ((place, mask), *more):
        spoiled[at % len(data)] ^= flips
    with ledger() as path:
        path.write_bytes(spoiled)
        problems = judged(path)
        assert path.read_bytes() == spoiled
    says_the_same = content(bytes(spoiled)) == said
    event("the content is the same" if says_the_same else "the content is another")
    assert problems or says_the_same
