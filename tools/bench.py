"""Measure the ledger and say which bounds it keeps: a table for people, JSON for machines.

Every figure that has a bound, but for the import and the slowest command, is a ratio inside
this run, measured in turns so short that a slow moment of the machine hits both sides. The
floor is one INSERT of a 300-byte row and its commit on an otherwise empty database of the
same engine and folder. A row of the benchmark is one function entered with
``bench_measure.row``; the table, the document and ``--rows`` follow from that.
"""

import shutil
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

import bench_commands
import bench_gate
import bench_processes
import bench_reading
import bench_replay
import click
import msgspec
from bench_ledgers import DEPTH
from bench_machine import FLUSHES_NOWHERE, file_system, load, machine, versions
from bench_measure import ROWS, WORDS, Bars, Bench, Measure, Result, Settings
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

MODULES: Final = (bench_commands, bench_processes, bench_reading, bench_gate, bench_replay)
"""Where the rows are; importing a module enters its rows."""

FULL: Final = Settings(
    quick=False,
    seed=1,
    tasks=10_000,
    events=1_000_000,
    samples=1_000,
    batch=10,
    processes=16,
    rounds=3,
    seconds=5.0,
    imports=15,
)
QUICK: Final = Settings(
    quick=True,
    seed=1,
    tasks=1_000,
    events=20_000,
    samples=100,
    batch=10,
    processes=4,
    rounds=1,
    seconds=1.0,
    imports=3,
)
_BYTES_AN_EVENT: Final = 2_000
_WIDTH_WITHOUT_TERMINAL: Final = 120
_CALM_LOAD: Final = 0.7
_WIDTH_TO_ALIGN: Final = 100
_COLUMNS: Final[tuple[tuple[str, Literal["left", "right"], int], ...]] = (
    ("case", "left", 19),
    ("bound", "right", 19),
    ("measured", "right", 8),
    ("median", "right", 7),
    ("p99", "right", 7),
    ("max", "right", 7),
    ("verdict", "left", 17),
)


def settled(*, quick: bool, given: dict[str, object]) -> Settings:
    """Return the settings of the chosen form, but for what was given.

    Raises:
        click.UsageError: The numbers do not go together.
    """
    preset = QUICK if quick else FULL
    chosen = {field: value for field, value in given.items() if value is not None}
    settings = msgspec.structs.replace(preset, **chosen)
    batch = min(settings.batch, settings.samples)
    settings = msgspec.structs.replace(settings, batch=batch)
    needed = settings.samples + batch
    if settings.tasks < needed:
        message = f"expected --tasks to be at least {needed:,} for so many samples"
        raise click.UsageError(message)
    if settings.events < needed * DEPTH:
        message = f"expected --events to be at least {needed * DEPTH:,} for so many samples"
        raise click.UsageError(message)
    return settings


def measured(rows: list[Measure], settings: Settings, folder: Path | None) -> list[Result]:
    """Measure the rows in a fresh folder, which is gone afterwards.

    Raises:
        click.UsageError: The folder has too little room.
    """
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="idkmesh-bench-", dir=folder) as made:
        needed = settings.events * _BYTES_AN_EVENT
        if shutil.disk_usage(made).free < needed:
            message = f"expected {needed / 1e9:.1f} GB of free room for the ledgers"
            raise click.UsageError(message)
        with Bars(Console(stderr=True)) as bars:
            for measure in rows:
                own = Path(made) / measure.__name__
                own.mkdir()
                results += measure(Bench(settings, own, bars))
                shutil.rmtree(own)
    return results


def table(heading: str, results: list[Result], *, aligned: bool) -> Table:
    """Lay one row's lines out for people.

    Args:
        heading: What stands above.
        results: The lines.
        aligned: Whether there is room for columns as wide as every other row's.
    """
    shown = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, justify, width in _COLUMNS:
        keeps = aligned or name == "case"
        shown.add_column(name, justify=justify, min_width=width if keeps else None)
    for result in results:
        times = ["", "", ""]
        if (latency := result.latency) is not None:
            found = (latency.median_us, latency.p99_us, latency.maximum_us)
            times = [f"{each:,.0f}" for each in found]
        verdict = Text(result.verdict, style="green" if result.ok else "red")
        shown.add_row(result.case, str(result.bound), f"{result.measured:,.2f}", *times, verdict)
    return shown


def document(results: list[Result], settings: Settings, **more: object) -> bytes:
    """Write the results down for machines."""
    content = {
        "kind": "idkmesh-bench",
        "schema_version": "0.1",
        **more,
        "machine": machine(),
        "versions": versions(),
        "settings": settings,
        "engine": {"journal_mode": "wal", "synchronous": "full"},
        "floor": "BEGIN IMMEDIATE, INSERT of 300 bytes, COMMIT; an otherwise empty database",
        "results": [result.to_dict() for result in results],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def exit_status(results: list[Result], settings: Settings) -> int:
    """Return 1 where a bound is missed, but never in the short form."""
    return 0 if settings.quick or all(result.ok for result in results) else 1


def _rows(_: click.Context, __: click.Parameter, value: str | None) -> list[Measure]:
    names = list(ROWS) if value is None else value.split(",")
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        message = f"expected some of {', '.join(ROWS)}, but got {', '.join(unknown)}"
        raise click.BadParameter(message)
    return [ROWS[name] for name in names]


@click.command(
    epilog="Ends with status 1 where a bound is missed, except with --quick. Rows: "
    + " ".join(f"{name}: {measure.__doc__}" for name, measure in ROWS.items())
)
@click.option("--quick", is_flag=True, help="A short form for CI, which no bound fails.")
@click.option("--rows", callback=_rows, help=f"Only these, with commas: {','.join(ROWS)}.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("bench.json"),
    show_default=True,
    help="Where the figures go.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder whose disk is measured; the system's temporary folder by default.",
)
@click.option("--seed", type=int, help="What the choice and the order of tasks follow from.")
@click.option("--tasks", type=click.IntRange(1), help="Tasks in the ledger of most rows.")
@click.option("--events", type=click.IntRange(1), help="Events in the large ledger.")
@click.option("--samples", type=click.IntRange(1), help="Measured calls of each command.")
@click.option("--batch", type=click.IntRange(1), help="Calls of one kind in a row.")
@click.option("--processes", type=click.IntRange(1), help="Processes on one file.")
@click.option("--rounds", type=click.IntRange(1), help="Runs of all processes.")
@click.option("--seconds", type=click.FloatRange(0.1), help="Seconds that such a run takes.")
@click.option("--imports", type=click.IntRange(1), help="Interpreters started.")
def main(
    *, quick: bool, rows: list[Measure], json_path: Path, folder: Path | None, **given: object
) -> None:
    """Measure the ledger against its bounds; print a table and write JSON beside it."""
    settings = settled(quick=quick, given=given)
    if not json_path.absolute().parent.is_dir():
        message = "expected a folder for the JSON document, but there is none"
        raise click.BadParameter(message, param_hint="--json")
    started, busy = time.time(), load()
    results = measured(rows, settings, folder)
    kind = file_system(folder or Path(tempfile.gettempdir()))
    facts = {
        "started_at": round(started),
        "took_seconds": round(time.time() - started, 1),
        "file_system": kind,
        "load_before": busy,
    }
    json_path.write_bytes(document(results, settings, **facts))
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL)
    for heading, group in groupby(results, lambda result: result.heading):
        console.print(table(heading, list(group), aligned=console.width >= _WIDTH_TO_ALIGN))
    console.print("Times are in microseconds.")
    for word in sorted({result.word for result in results if not result.ok}):
        console.print(f"{word}: {WORDS[word]}")
    if kind in FLUSHES_NOWHERE:
        console.print(f"The folder is on {kind}, where a flush costs nothing: choose --folder.")
    if busy is not None and busy > _CALM_LOAD:
        console.print(f"The machine was busy (load {busy:g}): ratios to the floor come out low.")
    console.print(f"Figures: {json_path}", highlight=False)
    sys.exit(exit_status(results, settings))


if __name__ == "__main__":
    main()
