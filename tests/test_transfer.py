"""A ledger in motion: exported and imported, rebuilt into a new file, backed up while it lives."""

import json
import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from builders import START, Clock, granted, opened, task
from replay_builders import (
    DESK,
    SHORT,
    contents,
    edited,
    forge,
    found,
    life,
    problems,
    rows_of,
    told,
    world,
)
from store_checks import store_refused
from unit_builders import refusal

from idkmesh.replay import seal
from idkmesh.transfer import export_lines, import_lines, line_of

Lines = list[bytes]


def exported(path: Path) -> Lines:
    """Return a ledger's export."""
    return list(export_lines(path))


def left(folder: Path) -> set[str]:
    """Return what lies in a folder, but for what reading leaves beside a ledger."""
    return {each.name for each in folder.iterdir() if not each.name.endswith(("-wal", "-shm"))}


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Give the path of a ledger that is to be made, in a folder of its own."""
    folder = tmp_path / "new"
    folder.mkdir()
    return folder / "claims.sqlite3"


# The export.


def test_a_line_is_a_cloud_event(path: Path) -> None:
    """A line has the attributes of CloudEvents 1.0, the row's columns, and the body as data."""
    row = rows_of(life(path))[8]
    line = exported(path)[8]
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "specversion": "1.0",
        "id": "9",
        "source": "idkmesh:acme/apollo",
        "type": "clock.observed.v1",
        "subject": "acme/apollo/clock",
        "datacontenttype": "application/json",
        "time": "2023-11-14T22:13:27Z",
        "sequence": "9",
        "scope": "acme/apollo",
        "number": "9",
        "streamversion": "1",
        "epochseconds": "1700000007",
        "chain": row.chain.hex(),
        "data": {"type": "clock.observed.v1"},
    }


def test_every_line_keeps_to_cloud_events(path: Path) -> None:
    """Required attributes are there and not empty, names are lowercase, times are RFC 3339."""
    named = set()
    for line, row in zip(exported(world(path))[:-1], rows_of(path), strict=True):
        content: dict[str, Any] = json.loads(line)
        assert content["specversion"] == "1.0"
        assert all(content[name] for name in ("id", "source", "type", "subject"))
        attributes = content.keys() - {"data"}
        assert all(re.fullmatch("[a-z0-9]{1,20}", name) for name in attributes)
        assert all(isinstance(content[name], str) for name in attributes)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", content["time"])
        assert datetime.fromisoformat(content["time"]).timestamp() == row.at
        assert row.body.encode() in line
        named.add((content["source"], content["id"]))
    assert len(named) == 49


def test_a_time_beyond_the_calendar_is_null(path: Path) -> None:
    """RFC 3339 ends with the year 9999; behind it only the seconds say when, and they come back."""
    clock = Clock(253_402_300_799)
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DESK, SHORT)
        clock.now += 1
        ledger.configure_task(task("T-2"), DESK, SHORT)
    last, beyond = [json.loads(line)["time"] for line in exported(path)[:-1]]
    assert (last, beyond) == ("9999-12-31T23:59:59Z", None)
    assert import_lines(exported(path), path.with_name("new.sqlite3")).ok


@pytest.mark.parametrize("at", [-(2**63), -62_135_596_801, -1])
def test_a_time_before_the_epoch_is_null(path: Path, at: int) -> None:
    """A damaged row's negative time has no text, but its seconds are shown."""
    line = line_of(rows_of(life(path))[0]._replace(at=at))
    assert (line.time, line.epochseconds) == (None, str(at))


def test_a_time_at_the_epoch_has_its_text(path: Path) -> None:
    """The first second of all is one."""
    assert line_of(rows_of(life(path))[0]._replace(at=0)).time == "1970-01-01T00:00:00Z"


def test_deadlines_behind_the_last_second_travel(path: Path, new: Path) -> None:
    """A claim of the clock's greatest value ends behind it, and comes back with its end."""
    with opened(path, Clock(2**62 - 1)) as ledger:
        granted(ledger)
    assert import_lines(exported(path), new).ok
    assert contents(new) == contents(path)


def test_an_export_is_of_one_point(path: Path, clock: Clock) -> None:
    """What is committed while an export is under way is not in it."""
    clock.now = START + 30
    with opened(life(path), clock) as ledger:
        lines = export_lines(path)
        next(lines)
        ledger.configure_task(task("T-2"), DESK, SHORT)
        last = list(lines)[13]
    assert json.loads(last)["id"] == "14"
    assert json.loads(last)["data"]["seal"].startswith("idkmesh-seal-v1:14:")
    assert json.loads(exported(path)[15])["id"] == "15"


def test_a_file_that_is_no_ledger_is_not_exported(path: Path) -> None:
    """There is nothing to export without a ledger, and none is made."""
    with store_refused("store_readonly"):
        exported(path)
    assert not path.exists()


# The import.


@pytest.mark.parametrize("make", [life, world])
def test_an_import_is_the_same_ledger(path: Path, new: Path, make: Callable[[Path], Path]) -> None:
    """An export that is imported gives the same log, tables and seal, and a ledger that works."""
    made = import_lines(exported(make(path)), new)
    assert found(made) == []
    assert made.seal == seal(path) == seal(new)
    assert contents(new) == contents(path)
    assert exported(new) == exported(path)
    with opened(new, Clock(START + 500)) as ledger:
        assert ledger.configure_task(task("T-9"), DESK, SHORT)
    assert problems(new, made.seal) == []


@pytest.mark.parametrize("umask", [0, 0o777])
def test_an_import_makes_a_private_file(path: Path, new: Path, umask: int) -> None:
    """The new file is its owner's alone, to read and to write, under any umask."""
    lines = exported(life(path))
    before = os.umask(umask)
    try:
        assert import_lines(lines, new).ok
    finally:
        os.umask(before)
    assert new.stat().st_mode & 0o777 == 0o600


def test_an_import_makes_its_folders(path: Path, tmp_path: Path) -> None:
    """Folders on the way to the new file are made."""
    assert import_lines(exported(life(path)), tmp_path / "deep" / "down" / "claims.sqlite3").ok


def test_other_tools_may_lay_a_line_out_anew(path: Path, new: Path) -> None:
    """Blanks and another order around the data are no change; the data are kept to the byte."""
    lines = []
    *events, end = exported(life(path))
    for line in events:
        attributes, data = line.removesuffix(b"}\n").split(b',"data":')
        attributes = attributes.removeprefix(b"{").replace(b'","', b'" ,\t"')
        lines.append(b'{ "data" : ' + data + b" , " + attributes + b" }\r\n")
    lines.append(b" " + end.replace(b',"', b' ,\t"'))
    assert import_lines(lines, new).seal == seal(path)


def test_progress_is_told_in_passes(path: Path, new: Path) -> None:
    """The log checked, tables made, log verified, pages checked: each begins with nothing done."""
    steps: list[tuple[int, int]] = []
    import_lines(exported(life(path)), new, progress=lambda *step: steps.append(step))
    assert steps == [(0, 14), (14, 14), (0, 14), (0, 14), (14, 14), (0, 0)]


# Lines that are not as an export writes them: which, how, and what is said.


def replaced(number: int, old: bytes, new: bytes) -> Callable[[Lines], Lines]:
    """Replace a part of a line, which holds it."""

    def change(lines: Lines) -> Lines:
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)
        return lines

    return change


def line_is(number: int, content: bytes) -> Callable[[Lines], Lines]:
    """Put another line in the place of one."""
    return lambda lines: [*lines[: number - 1], content, *lines[number:]]


TORN = "expected line {} to end with a newline, but the file is torn there"
FOREIGN = "expected line {} to be an event of an export, but it does not read"
DISAGREES = "expected line {} as an export writes it, but its attributes disagree"
NEXT = "expected line {} to be the log's next, but it is not"
TWICE = "be a key that its object has once, but id is there already"
FALSE = "expected a log that verifies, but line {} does not: "
CHAIN = "the chain value does not follow from the rows before it and this one"

HOSTILE: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "torn at its end": (lambda lines: [*lines[:14], lines[14][:-1]], TORN.format(15)),
    "torn within": (lambda lines: [*lines[:4], lines[4][:300]], TORN.format(5)),
    "torn, then mended": (line_is(5, b'{"specversion":"1.0"\n'), FOREIGN.format(5)),
    "an empty line": (line_is(2, b"\n"), FOREIGN.format(2)),
    "a last empty line": (line_is(15, b"\n"), FOREIGN.format(15)),
    "no object": (line_is(1, b"[1]\n"), FOREIGN.format(1)),
    "no UTF-8": (line_is(3, b'{"id":"\xff"}\n'), FOREIGN.format(3)),
    "nested deeply": (
        line_is(3, b"[" * 30_000 + b"\n"),
        "expected line 3 at line 1, column 65 to be at most 64 levels deep, but it is deeper",
    ),
    "too long": (
        line_is(3, b" " * 65_536 + b"\n"),
        "expected line 3 to be at most 65536 bytes, but it is longer",
    ),
    "too long and torn": (
        line_is(3, b" " * 65_537),
        "expected line 3 to be at most 65536 bytes, but it is longer",
    ),
    "a key twice": (
        replaced(9, b'"id":"9"', b'"id":"9","id":"9"'),
        f"expected line 9 at line 1, column 31 to {TWICE}",
    ),
    "an endless number": (
        replaced(9, b'"id":"9"', b'"id":NaN'),
        "expected line 9 at line 1, column 27 to be a finite number, but it is not",
    ),
    "an unknown attribute": (replaced(9, b'"id"', b'"knative":"1","id"'), FOREIGN.format(9)),
    "an attribute missing": (replaced(9, b'"number":"9",', b""), FOREIGN.format(9)),
    "no data": (replaced(9, b',"data":{"type":"clock.observed.v1"}', b""), FOREIGN.format(9)),
    "an integer": (replaced(9, b'"number":"9"', b'"number":9'), FOREIGN.format(9)),
    "a sign": (replaced(9, b'"sequence":"9"', b'"sequence":"+9"'), FOREIGN.format(9)),
    "a zero before": (replaced(9, b'"sequence":"9"', b'"sequence":"09"'), FOREIGN.format(9)),
    "another script": (
        replaced(9, b'"sequence":"9"', '"sequence":"٩"'.encode()),
        FOREIGN.format(9),
    ),
    "a number beyond": (
        replaced(9, b'"sequence":"9"', b'"sequence":"4611686018427387904"'),
        FOREIGN.format(9),
    ),
    "a chain of no hex": (replaced(9, b'"chain":"', b'"chain":"z'), FOREIGN.format(9)),
    "another version": (replaced(9, b'"1.0"', b'"0.3"'), DISAGREES.format(9)),
    "another id": (replaced(9, b'"id":"9"', b'"id":"8"'), DISAGREES.format(9)),
    "another source": (replaced(9, b"idkmesh:", b"idkmesh:x"), DISAGREES.format(9)),
    "another time": (replaced(9, b":27Z", b":28Z"), DISAGREES.format(9)),
    "no time": (replaced(9, b'"2023-11-14T22:13:27Z"', b"null"), DISAGREES.format(9)),
    "another content": (replaced(9, b"application/json", b"text/json"), DISAGREES.format(9)),
    "a chain in capitals": (
        lambda lines: [
            re.sub(rb'"chain":"[^"]+"', lambda part: b'"chain"' + part[0][7:].upper(), lines[0]),
            *lines[1:],
        ],
        DISAGREES.format(1),
    ),
    "a line missing": (lambda lines: [*lines[:5], *lines[6:]], NEXT.format(6)),
    "the first missing": (lambda lines: lines[1:], NEXT.format(1)),
    "a line twice": (lambda lines: [*lines[:5], *lines[4:]], NEXT.format(6)),
    "two lines swapped": (
        lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
        NEXT.format(5),
    ),
    "another type": (
        replaced(9, b'"type":"clock.observed.v1"', b'"type":"claim.granted.v1"'),
        NEXT.format(9),
    ),
    "another chain": (
        lambda lines: [
            *lines[:8],
            re.sub(rb'"chain":"[^"]+"', b'"chain":"' + b"0" * 64 + b'"', lines[8]),
            *lines[9:],
        ],
        FALSE.format(9) + CHAIN,
    ),
    "other words": (replaced(10, b"exit-0", b"exit-1"), FALSE.format(10) + CHAIN),
    "blanks in the data": (replaced(9, b'"data":{', b'"data":{ '), FALSE.format(9) + CHAIN),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_line_that_is_no_exports_is_named(path: Path, new: Path, name: str) -> None:
    """A torn, altered or hostile export is refused at its line, and nothing is left behind."""
    change, message = HOSTILE[name]
    lines = change(exported(life(path)))
    error = refusal(lambda: import_lines(lines, new))
    assert (error.code, error.message) == ("invalid_input", message)
    assert list(new.parent.iterdir()) == []


LEASE = "expected an event of which its lease follows from the policy, but it is not so"
ELSEWHERE = "expected an event in a stream of its kind and scope, but it is in another"
ILLEGAL = {
    "an illegal step": (
        edited(4, lease_until=START + 23),
        f"line 4 does not: {LEASE}",
    ),
    "a decision of none": (
        edited(6, owner_by__action="claim"),
        "line 6 does not: the decision that allowed it was about another action",
    ),
    "no policy": (
        edited(1, policy__concurrent_slots=2),
        "line 1 does not: expected a competition_reason for more than one slot, but there is none",
    ),
    "a name that no task has": (
        told(1, stream="acme/apollo/task/-"),
        f"line 1 does not: {ELSEWHERE}",
    ),
    "a scope that is none": (
        told(9, scope="acme", stream="acme/clock"),
        "line 9 does not: scope is no tenant's project",
    ),
    "a later version's": (
        edited(14, type="prerequisite.observed.v2"),
        "line 14 does not: expected an event type of this version, but it is of a later one",
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_a_log_that_no_ledger_wrote_is_not_imported(path: Path, new: Path, name: str) -> None:
    """A well-formed export of a log that breaks the rules is refused at the line that does."""
    change, message = ILLEGAL[name]
    lines = exported(forge(life(path), change))
    error = refusal(lambda: import_lines(lines, new))
    assert error.code == "invalid_input"
    assert error.message == f"expected a log that verifies, but {message}"
    assert list(new.parent.iterdir()) == []
