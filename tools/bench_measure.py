"""What every row of the benchmark shares: samples, bounds, results, the bar, the registry."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_REFRESH_SECONDS: Final = 0.2
_NANOSECONDS_PER_MICROSECOND: Final = 1_000


class Settings(Struct, frozen=True, kw_only=True):
    """How much is measured; all of it goes into the JSON document.

    Args:
        quick: Whether this is the short form, which no bound fails.
        seed: What the choice and the order of tasks follow from.
        tasks: Tasks in the ledger that others are compared with.
        events: Events in the large ledger; a hundred for each of its tasks.
        samples: Measured calls of each kind of command.
        batch: Calls in a row before the next kind has its turn.
        processes: Processes that share one file.
        rounds: Times that they all run, each next to a run of one process.
        seconds: How long each of these runs takes, in seconds.
        imports: Interpreters started with the import, and as many without.
    """

    quick: bool
    seed: int
    tasks: int
    events: int
    samples: int
    batch: int
    processes: int
    rounds: int
    seconds: float
    imports: int


class Summary(Struct, frozen=True):
    """What many durations come to, in microseconds."""

    count: int
    median_us: float
    p99_us: float
    maximum_us: float


def summary(nanoseconds: list[int]) -> Summary:
    """Sum durations up; the 99th percentile is the smallest that 99 % do not exceed."""
    ordered = sorted(nanoseconds)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    found = (statistics.median(ordered), p99, ordered[-1])
    median_us, p99_us, maximum_us = (each / _NANOSECONDS_PER_MICROSECOND for each in found)
    return Summary(len(ordered), round(median_us, 2), round(p99_us, 2), round(maximum_us, 2))


class Bound(Struct, frozen=True, kw_only=True):
    """What a measured figure must keep.

    Args:
        limit: The figure that just passes.
        at_most: Whether less is better.
        unit: What the figure counts, as it is shown behind it.
        goal: A figure worth aiming at, which fails nobody.
    """

    limit: float
    at_most: bool
    unit: str
    goal: float | None = None

    def holds(self, measured: float) -> bool:
        """Say whether a measured figure keeps the bound."""
        return measured <= self.limit if self.at_most else measured >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.limit:g} {self.unit}"


WORDS: Final = {
    "processor": "most of what is beyond the floor is this program's own computing",
    "pages": "most of what is beyond the floor is pages written to the disk",
    "cache": "pages that were near in the small ledger had to be fetched in the large one",
    "turns": "handing the lock from process to process costs too much",
    "starvation": "some processes got their turn less often than others",
    "stall": "a command waited too long for its turn or for the disk",
    "refusals": "commands were refused that should have succeeded",
    "blocked": "readers were held up by a writer",
    "memory": "what is held in memory grows with the events",
    "imports": "too much is imported, or too early",
}
"""What a missed bound comes down to, in a word."""


class Result(Struct, frozen=True, kw_only=True):
    """One line of the table.

    Args:
        row: The row of the registry that it belongs to.
        heading: What the row's lines have in common, as it stands above them.
        case: What was measured.
        bound: What it must keep.
        measured: The figure that the bound speaks of.
        word: One of ``WORDS``; shown only where the bound is missed.
        latency: The durations behind the figure, where it has any.
        figures: Everything else that was counted on the way.
    """

    row: str
    heading: str
    case: str
    bound: Bound
    measured: float
    word: str
    latency: Summary | None = None
    figures: dict[str, object] = {}

    @property
    def ok(self) -> bool:
        """Whether the bound is kept."""
        return self.bound.holds(self.measured)

    @property
    def verdict(self) -> str:
        """What the table says of it."""
        if not self.ok:
            return f"missed: {self.word}"
        goal = self.bound.goal
        reached = goal is None or msgspec.structs.replace(self.bound, limit=goal).holds(
            self.measured
        )
        return "ok" if reached else f"ok, above {goal:g}"

    def to_dict(self) -> dict[str, object]:
        """Return the line for machines."""
        return {
            "row": self.row,
            "heading": self.heading,
            "case": self.case,
            "bound": {
                "text": str(self.bound),
                "limit": self.bound.limit,
                "at_most": self.bound.at_most,
                "unit": self.bound.unit,
                "goal": self.bound.goal,
            },
            "measured": self.measured,
            "ok": self.ok,
            "word": None if self.ok else self.word,
            "latency": self.latency,
            "figures": self.figures,
        }


class Timed(NamedTuple):
    """How long each of some calls took, and the processor's part of all."""

    nanoseconds: list[int]
    processor_ns: int


def timed(calls: Iterable[Callable[[], object]]) -> Timed:
    """Make each call, one after the other, and measure it."""
    samples = []
    processor = time.thread_time_ns()
    for call in calls:
        start = time.perf_counter_ns()
        call()
        samples.append(time.perf_counter_ns() - start)
    return Timed(samples, time.thread_time_ns() - processor)


class _Rate(ProgressColumn):
    """How many steps a second the bar makes."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


class Bars:
    """Progress on a terminal, drawn only between measurements.

    A bar that redraws itself does so from a thread of its own, in the middle of whatever is
    being timed; so this one redraws when it is moved on, at most five times a second.
    """

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            SpinnerColumn(),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show one phase's bar; the value given moves it on by so many steps."""
        task = self._progress.add_task(name, total=total)
        drawn = 0.0
        self._progress.refresh()

        def advance(steps: int) -> None:
            nonlocal drawn
            self._progress.advance(task, steps)
            if time.monotonic() - drawn >= _REFRESH_SECONDS:
                self._progress.refresh()
                drawn = time.monotonic()

        yield advance
        if total is None:
            self._progress.update(task, total=1, completed=1)
        self._progress.refresh()


class Bench(NamedTuple):
    """What a row works with: how much to measure, where, and the bar to move on."""

    settings: Settings
    folder: Path
    bars: Bars


Measure = Callable[[Bench], list[Result]]
ROWS: Final[dict[str, Measure]] = {}


def row(name: str) -> Callable[[Measure], Measure]:
    """Enter a function as a row of the benchmark; its docstring says what is measured."""

    def enter(measure: Measure) -> Measure:
        ROWS[name] = measure
        return measure

    return enter
