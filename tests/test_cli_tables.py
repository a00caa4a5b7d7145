"""Tables: laid out where they fit on a terminal, and else aligned lines."""

import io

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
