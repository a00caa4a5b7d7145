"""The last line of an export, which holds its seal: what was cut or extended is no export."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import START, Clock, opened
from replay_builders import forge, life, told
from test_transfer import FOREIGN, TORN, Lines, exported, replaced
from unit_builders import refusal

from idkmesh.replay import seal
from idkmesh.transfer import import_lines

LAST = "expected line {} to be the export's last, but more follows"
UNENDED = "expected line {} to be the last and hold the seal, but the file is torn there"
SEAL = "expected line {} to hold the seal of those before it, but it does not"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Give the path of a ledger that is to be made, in a folder of its own."""
    folder = tmp_path / "new"
    folder.mkdir()
    return folder / "claims.sqlite3"


def test_the_last_line_holds_the_seal(path: Path) -> None:
    """An export ends with a CloudEvent of its own type: how many events, and the log's seal."""
    line = exported(life(path))[14]
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "specversion": "1.0",
        "id": "14",
        "source": "idkmesh:",
        "type": "idkmesh.export.ended.v1",
        "datacontenttype": "application/json",
        "data": {"seal": seal(path)},
    }


ENDS: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "an empty line behind the end": (lambda lines: [*lines, b"\n"], LAST.format(15)),
    "an event behind the end": (lambda lines: [*lines, lines[13]], LAST.format(15)),
    "a torn line behind the end": (lambda lines: [*lines, lines[13][:9]], LAST.format(15)),
    "two ends": (lambda lines: [*lines, lines[14]], LAST.format(15)),
    "two exports": (lambda lines: [*lines, *lines], LAST.format(15)),
    "no end": (lambda lines: lines[:14], UNENDED.format(15)),
    "no line": (lambda _: [], UNENDED.format(1)),
    "the end alone": (lambda lines: lines[14:], SEAL.format(1)),
    "an end too early": (lambda lines: [*lines[:5], lines[14], *lines[5:14]], SEAL.format(6)),
    "another's seal": (
        lambda lines: [
            *lines[:14],
            re.sub(rb":14:[0-9a-f]{64}", b":14:" + b"0" * 64, lines[14]),
        ],
        SEAL.format(15),
    ),
    "a seal of fewer": (replaced(15, b"v1:14:", b"v1:13:"), SEAL.format(15)),
    "no seal": (replaced(15, b"idkmesh-seal-v1:", b""), SEAL.format(15)),
    "a seal that is no text": (replaced(15, b'"seal":"', b'"seal":1,"x":"'), FOREIGN.format(15)),
    "an end of another count": (replaced(15, b'"id":"14"', b'"id":"13"'), SEAL.format(15)),
    "an end of another version": (replaced(15, b'"1.0"', b'"0.3"'), SEAL.format(15)),
    "an end of another source": (replaced(15, b"idkmesh:", b"idkmesh:x"), SEAL.format(15)),
    "an end of another content": (
        replaced(15, b"application/json", b"text/json"),
        SEAL.format(15),
    ),
    "an end of a later version": (replaced(15, b"ended.v1", b"ended.v2"), FOREIGN.format(15)),
    "an end with more": (replaced(15, b'"id"', b'"subject":"x","id"'), FOREIGN.format(15)),
    "an end without data": (
        lambda lines: [*lines[:14], re.sub(rb',"data":.*}}', b"}", lines[14])],
        FOREIGN.format(15),
    ),
    "the last event missing": (lambda lines: [*lines[:13], lines[14]], SEAL.format(14)),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_export_ends_with_its_seal(path: Path, new: Path, name: str) -> None:
    """Another end, none, or more behind it is refused at its line, and nothing is left behind."""
    change, message = ENDS[name]
    lines = change(exported(life(path)))
    error = refusal(lambda: import_lines(lines, new))
    assert (error.code, error.message) == ("invalid_input", message)
    assert list(new.parent.iterdir()) == []


def test_an_export_that_is_cut_at_a_line_is_torn(path: Path, new: Path) -> None:
    """Cut behind any line but its last, an export is torn at the next, and makes nothing."""
    lines = exported(life(path))
    for kept in range(15):
        error = refusal(lambda kept=kept: import_lines(lines[:kept], new))  # type: ignore[misc]
        assert (error.code, error.message) == ("invalid_input", UNENDED.format(kept + 1))
        assert list(new.parent.iterdir()) == []


def test_an_export_that_is_cut_within_a_line_is_torn(path: Path, new: Path) -> None:
    """Cut within any of its lines, even just before a newline, an export is torn in that line."""
    lines = exported(life(path))
    for number, line in enumerate(lines, 1):
        for size in (1, len(line) // 2, len(line) - 1):
            cut = [*lines[: number - 1], line[:size]]
            error = refusal(lambda cut=cut: import_lines(cut, new))  # type: ignore[misc]
            assert (error.code, error.message) == ("invalid_input", TORN.format(number))
            assert list(new.parent.iterdir()) == []


def test_an_event_forged_to_the_end_breaks_the_seal(path: Path, new: Path) -> None:
    """A last event that is sound and not the sealed log's is refused at the line of the seal."""
    *_, end = exported(life(path))
    forge(path, told(14, at=START + 17))
    error = refusal(lambda: import_lines([*exported(path)[:14], end], new))
    assert error.message == SEAL.format(15)
    assert list(new.parent.iterdir()) == []


def test_an_empty_ledgers_export_is_its_end(path: Path, new: Path, clock: Clock) -> None:
    """A log without events is exported as the line with its seal, and imported as it was."""
    opened(path, clock).close()
    lines = exported(path)
    assert [json.loads(line)["id"] for line in lines] == ["0"]
    made = import_lines(lines, new)
    assert (made.ok, made.events, made.seal) == (True, 0, seal(path))
