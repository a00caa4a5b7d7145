"""The log's table defends itself: whatever another tool tries, only the next event goes in."""

import hashlib
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from builders import DISPATCHER, START, Clock, granted, opened, task
from store_checks import foreign, log_of, require_chained

from idkmesh import TaskClaimPolicy
from idkmesh.events import chain
from idkmesh.events.port import Row

INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
NEXT = Row(
    sequence=5,
    scope="acme/apollo",
    number=5,
    stream="acme/apollo/task/T-1",
    version=4,
    at=START,
    type="claim.renewed.v1",
    body='{"type":"claim.renewed.v1"}',
    chain=bytes(32),
)


@pytest.fixture
def tool(path: Path, clock: Clock) -> Iterator[apsw.Connection]:
    """Give another tool's connection to a ledger of four events, three of them of T-1."""
    with opened(path, clock) as ledger:
        granted(ledger)
        ledger.configure_task(task("T-2"), DISPATCHER, TaskClaimPolicy())
    connection = foreign(path)
    yield connection
    connection.close()


def test_the_next_event_of_all_is_let_in(tool: apsw.Connection) -> None:
    """A row that is next in file, scope and stream, and not earlier, is what the table takes."""
    tool.execute(INSERT, NEXT)
    tool.execute(INSERT, NEXT._replace(sequence=6, number=6, version=5, at=START + 9))
    first = NEXT._replace(sequence=7, scope="new/one", number=1, stream="new", version=1)
    tool.execute(INSERT, first._replace(at=START + 9))


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 7},
        {"sequence": 4},
        {"sequence": 1},
        {"sequence": 0},
        {"sequence": -1},
        {"sequence": None},
        {"number": 6},
        {"number": 4},
        {"number": 0},
        {"number": None},
        {"scope": "acme/gemini"},
        {"scope": None},
        {"version": 5},
        {"version": 3},
        {"version": None},
        {"stream": "acme/apollo/task/T-2"},
        {"stream": None},
        {"at": START - 1},
        {"at": -1},
        {"at": 2**62},
        {"at": "now"},
        {"at": None},
        {"type": "claim.released.v1"},
        {"type": None},
        {"body": "{}"},
        {"body": '{"type":null}'},
        {"body": "no JSON"},
        {"body": ""},
        {"body": None},
        {"body": '{"type":"claim.renewed.v1","more":"' + "x" * 16_384 + '"}'},
        {"chain": bytes(31)},
        {"chain": b""},
        {"chain": "0" * 32},
        {"chain": None},
    ],
    ids=lambda change: "{}={!r:.20}".format(*next(iter(change.items()))),
)
def test_a_row_that_is_not_the_next_is_kept_out(
    path: Path, tool: apsw.Connection, change: dict[str, Any]
) -> None:
    """A gap, a repetition, an earlier time, a wrong tag or type: the table itself refuses."""
    before = log_of(path)
    row = NEXT._replace(**change)
    for verb in ("INSERT", "INSERT OR REPLACE", "INSERT OR FAIL", "REPLACE"):
        with pytest.raises((apsw.ConstraintError, apsw.SQLError)):
            tool.execute(INSERT.replace("INSERT", verb, 1), row)
    with suppress(apsw.ConstraintError, apsw.SQLError):
        # This verb may pass over the row without a word, but it must not let it in.
        tool.execute(INSERT.replace("INSERT", "INSERT OR IGNORE", 1), row)
    assert log_of(path) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = replace(body, 'worker-1', 'worker-2')",
        "UPDATE events SET at = at + 1 WHERE sequence = 4",
        "UPDATE OR REPLACE events SET sequence = 1 WHERE sequence = 4",
        "UPDATE OR IGNORE events SET chain = zeroblob(32)",
        "DELETE FROM events",
        "DELETE FROM events WHERE sequence = 4",
        "REPLACE INTO events SELECT * FROM events WHERE sequence = 2",
        (
            "INSERT OR REPLACE INTO events SELECT 5, scope, 2, stream, 4, at, type, body, chain"
            " FROM events WHERE sequence = 2"
        ),
        (
            "INSERT OR REPLACE INTO events SELECT 5, scope, 5, stream, 2, at, type, body, chain"
            " FROM events WHERE sequence = 2"
        ),
        (
            "INSERT INTO events SELECT * FROM events WHERE sequence = 2"
            " ON CONFLICT DO UPDATE SET at = 0"
        ),
    ],
)
def test_what_is_written_stays(path: Path, tool: apsw.Connection, statement: str) -> None:
    """No UPDATE, DELETE or REPLACE in any guise gets at a row of the log."""
    before = log_of(path)
    with pytest.raises(apsw.ConstraintError):
        tool.execute(statement)
    assert log_of(path) == before


def test_only_a_repair_of_the_clock_goes_back(tool: apsw.Connection) -> None:
    """A row earlier than the last is let in as a repair of the clock, and then time is there."""
    repair = NEXT._replace(
        at=START - 90, type="clock.repaired.v1", body='{"type":"clock.repaired.v1"}'
    )
    tool.execute(INSERT, repair)
    tool.execute(INSERT, NEXT._replace(sequence=6, number=6, version=5, at=START - 89))


# The chain.


def test_a_changed_byte_in_a_body_breaks_the_chain(path: Path, tool: apsw.Connection) -> None:
    """One bit of an event flipped in the file passes the engine's check and not the chain's."""
    tool.close()
    before = log_of(path)
    require_chained(before)
    content = path.read_bytes()
    place = content.rindex(b'"principal_id":"worker-1"') + len(b'"principal_id":"w')
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    checker = foreign(path)
    assert checker.pragma("integrity_check") == "ok"
    checker.close()
    after = log_of(path)
    changed = [row.sequence for old, row in zip(before, after, strict=True) if old != row]
    assert changed == [2]
    with pytest.raises(AssertionError, match="row 2 breaks the chain"):
        require_chained(after)


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 6},
        {"scope": "acme/apollo2"},
        {"number": 6},
        {"stream": "acme/apollo/task/T-11"},
        {"version": 5},
        {"at": START + 1},
        {"type": "claim.renewed.v2"},
        {"body": '{"type":"claim.renewed.v1" }'},
        {"scope": "acme/apollo5", "number": ""},
        {"number": 54, "version": ""},
    ],
    ids=str,
)
def test_the_chain_commits_to_every_column(change: dict[str, Any]) -> None:
    """No column can change, and nothing can move over to its neighbour, under one chain value."""
    assert chain.link(bytes(32), *NEXT._replace(**change)[:-1]) != chain.link(bytes(32), *NEXT[:-1])


@pytest.mark.parametrize("word", ["plain", "Zoë", "ÿ", "łódź", "漢字", "🙂", "\x80"])
@pytest.mark.parametrize("column", ["scope", "stream", "type", "body"])
def test_the_chain_is_over_utf8_behind_its_length(column: str, word: str) -> None:
    """A chain value is a SHA-256 over each column's UTF-8 behind its length in eight bytes."""
    columns = NEXT._replace(**{column: word * 40})[:-1]  # type: ignore[arg-type]
    framed = bytes(range(32))
    for each in columns:
        text = f"{each}".encode()
        framed += struct.pack(">Q", len(text)) + text
    assert chain.link(bytes(range(32)), *columns) == hashlib.sha256(framed).digest()


def test_the_chain_commits_to_all_before(path: Path, tool: apsw.Connection) -> None:
    """Every row's chain value is made from its scope's previous one."""
    tool.close()
    rows = log_of(path)
    assert chain.link(bytes(32), *rows[0][:-1]) == rows[0].chain
    for previous, row in pairwise(rows):
        assert chain.link(previous.chain, *row[:-1]) == row.chain
        assert chain.link(bytes(32), *row[:-1]) != row.chain
