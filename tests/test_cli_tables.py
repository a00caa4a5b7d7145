"""Tables: laid out where they fit on a terminal, and else aligned lines."""

import io

import pytest
from cli_runs import COLOUR, Terminal

from idkmesh.cli.screen import Screen


def test_a_table_is_aligned_by_the_room_that_text_takes() -> None:
    """In a pipe a row is one line, its columns aligned, and nothing stands behind the last."""
    out = io.StringIO()
    rows = [[("任务一", ""), ("1", ""), ("", "")], [("T", ""), ("22", ""), ("end", "")]]
    Screen(out).table(["Task", "Slot", "Last"], rows)
    assert out.getvalue() == "Task    Slot  Last\n任务一  1\nT       22    end\n"


def test_a_long_table_is_shown_as_lines_on_a_terminal_too() -> None:
    """A table that fills many screens is not laid out as a whole first."""
    out = Terminal()
    Screen(out).table(["Task"], [[("T", "")] for _ in range(501)])
    assert COLOUR.sub("", out.getvalue()) == "Task\n" + "T\n" * 501
    short = Terminal()
    Screen(short).table(["Task"], [[("T", "")] for _ in range(500)])
    assert len(short.getvalue().splitlines()) > 502


def drawn(monkeypatch: pytest.MonkeyPatch, width: int) -> str:
    """Return a table of two columns as a terminal of that width shows it, without colours."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(width))
    out = Terminal()
    Screen(out).table(["Task", "Active owners"], [[("T-123456", "bold"), ("worker-1", "green")]])
    return COLOUR.sub("", out.getvalue())


@pytest.mark.parametrize("width", [1, 5, 14])
def test_a_table_that_does_not_fit_is_shown_as_lines(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """A terminal too narrow for the words of the headings gets the lines that a pipe gets."""
    assert drawn(monkeypatch, width) == "Task      Active owners\nT-123456  worker-1\n"


@pytest.mark.parametrize("width", [17, 30, 80])
def test_a_table_that_fits_is_laid_out(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Where the words of the headings fit, each column is there, long names folded."""
    lines = drawn(monkeypatch, width).splitlines()
    assert max(map(len, lines)) <= width
    heading = next(line for line in lines if "Task" in line)
    assert heading.split()[0] == "Task"
    assert "owners" in heading
    assert "".join(lines).count("\u2500") > 10
