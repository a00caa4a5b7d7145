"""A bar on the error output for work that takes longer than a moment: how far, how fast, how long.

It is drawn on a terminal only, and taken back when the work is done.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import BinaryIO, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

_SHOWN_AFTER_SECONDS: Final = 0.8
_LINES_A_LOOK: Final = 256
_MEGABYTE: Final = 1_000_000
BYTES: Final = "bytes"


class Pace(ProgressColumn):
    """How far a step is, how fast it goes, and how long it will take."""

    def render(self, task: Task) -> Text:
        """Return all three where they are known."""
        if task.total is None or not task.speed:
            return Text("")
        unit = task.fields["unit"]
        speed = f"{task.speed:,.0f} {unit}/s"
        if unit == BYTES:
            speed = f"{task.speed / _MEGABYTE:,.1f} MB/s"
        left = task.time_remaining or 0
        gone = f"{task.percentage:3.0f}%  {speed}, {timedelta(seconds=round(left))} left"
        return Text(gone, "dim")


class Steps:
    """One bar for work of several steps, to be called with what is done and what there is.

    A step begins with nothing done; 0 of 0 is one of unknown length.

    Args:
        labels: What each step does, in order.
        unit: What is counted.
        shown_after_seconds: How long the work may take without a bar, in seconds.
        clock: Seconds from any fixed moment; for tests.
    """

    def __init__(
        self,
        *labels: str,
        unit: str = "events",
        shown_after_seconds: float = _SHOWN_AFTER_SECONDS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            Pace(),
            console=Console(file=sys.stderr),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not sys.stderr.isatty(),
            get_time=clock,
        )
        self._labels = iter(labels)
        self._unit = unit
        self._task = self._bar.add_task(labels[0], total=None, unit=unit)
        self._over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(shown_after_seconds, self.draw)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if not self._bar.disable:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._bar.live.is_started:  # or rich would leave an empty line
                self._bar.stop()

    def draw(self) -> None:
        """Draw the bar from now on."""
        with self._lock:
            if not self._over:
                self._bar.start()

    def __call__(self, done: int, total: int) -> None:
        """Say how much is done of how much."""
        self._advance(done, total, self._unit)

    def lines(self, source: BinaryIO, size: int, most: int) -> Iterator[bytes]:
        """Yield a file's lines, and say how much of it is read.

        Args:
            source: The file.
            size: How many bytes it has, 0 where nobody knows.
            most: How long a line may be; of a longer one, the beginning is yielded.
        """
        read = 0
        self._advance(read, size, BYTES)
        for number, line in enumerate(iter(partial(source.readline, most + 1), b""), 1):
            read += len(line)
            if size and not number % _LINES_A_LOOK:
                self._advance(read, size, BYTES)
            yield line

    def _advance(self, done: int, total: int, unit: str) -> None:
        if done == 0:
            label = next(self._labels, "finishing")
            self._bar.reset(self._task, total=total or None, description=label, unit=unit)
        self._bar.update(self._task, completed=done)
