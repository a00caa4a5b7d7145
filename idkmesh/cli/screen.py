"""What may be shown, and where: harmless text on a terminal, plain text in a pipe, JSON lines.

Everything that a ledger says goes through ``safe`` before it is shown. A log may come from
anywhere, and a name in it must neither steer a terminal nor look like another name.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import Final, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from idkmesh.cli.program import json_line
from idkmesh.naming import escaped

Parts = Sequence[tuple[str, str]]
"""One line: texts, each with the style that a terminal shows it in."""

SHOWN: Final = 64
"""How much of a name a line or a table shows."""

_LONGEST_TABLE: Final = 500
_WIDEST: Final = 100_000
_LAST_RFC3339: Final = 253_402_300_799  # the end of the year 9999


def safe(value: object, most: int | None = None) -> str:
    """Return whatever a ledger says as it may be shown: escaped, as much of it as is asked for.

    Args:
        value: A text, or anything else that a damaged row may hold.
        most: How many characters are shown; of a longer text, the middle is left out.
    """
    text = value if isinstance(value, str) else str(value)
    if most is not None and len(text) > most:
        tail = most // 3
        text = f"{text[: most - tail - 3]}...{text[-tail:]}"
    return escaped(text)


def moment(at: object) -> str:
    """Return epoch seconds as ``--at`` and ``--since`` take them back."""
    if isinstance(at, int) and 0 <= at <= _LAST_RFC3339:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"@{safe(at)}"


def count(number: int, noun: str) -> str:
    """Return how many there are of something, as one says it."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Screen:
    """An output: with colours on a terminal, without any control code elsewhere.

    Args:
        out: Where everything is written.
    """

    def __init__(self, out: TextIO) -> None:
        if isinstance(out, TextIOWrapper):
            out.reconfigure(errors="backslashreplace")  # a text may hold any character
        self._out = out
        self._terminal = out.isatty()
        self._console = Console(file=out, highlight=False, markup=False, emoji=False)

    def line(self, *parts: tuple[str, str] | str) -> None:
        """Show one line; a terminal breaks it where it is too long, nothing else does."""
        if self._terminal:  # asked of the output alone: the environment may force codes on a pipe
            self._console.print(Text.assemble(*parts), soft_wrap=True)
        else:
            texts = (part if isinstance(part, str) else part[0] for part in parts)
            self._out.write("".join(texts) + "\n")

    def json(self, content: object) -> None:
        """Show one JSON object."""
        self._out.write(json_line(content) + "\n")

    def table(self, headings: Sequence[str], rows: Sequence[Parts]) -> None:
        """Show a table; one that is long, too wide or for a pipe as aligned lines, one a row."""
        table = None
        if self._terminal and len(rows) <= _LONGEST_TABLE:
            table = self._laid_out(headings, rows)
        if table is None:
            self._aligned([[(heading, "bold") for heading in headings], *rows])
        else:
            self._console.print(table)

    def _laid_out(self, headings: Sequence[str], rows: Sequence[Parts]) -> Table | None:
        """Return a table, or None where not even the words of its headings fit."""
        table = Table(box=box.SIMPLE_HEAD, border_style="dim", header_style="bold", pad_edge=False)
        for heading in headings:
            table.add_column(heading, overflow="fold")
        anywhere = self._console.options.update(width=_WIDEST)
        if Measurement.get(self._console, anywhere, table).minimum > self._console.width:
            return None
        for row in rows:
            table.add_row(*(Text(text, style) for text, style in row))
        return table

    def _aligned(self, rows: Sequence[Parts]) -> None:
        widths = [max(cell_len(text) for text, _ in column) for column in zip(*rows, strict=True)]
        for row in rows:
            last = max((at for at, (text, _) in enumerate(row) if text), default=0)
            gaps = [
                " " * (width + 2 - cell_len(text)) if at < last else ""
                for at, ((text, _), width) in enumerate(zip(row, widths, strict=True))
            ]
            self.line(*((text + gap, style) for (text, style), gap in zip(row, gaps, strict=True)))

    def flush(self) -> None:
        """Hand on everything that was shown."""
        self._out.flush()
