"""Rows: replay with every check on, beside a loop that only reads and decodes the same rows."""

import multiprocessing
import multiprocessing.pool
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from bench_ledgers import DEPTH, build
from bench_measure import Bench, Bound, Result, row

from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.events.types import Event
from idkmesh.replay import verify

_REPLAY: Final = Bound(limit=4.0, at_most=True, unit="x the loop")
_MEMORY: Final = Bound(limit=1.1, at_most=True, unit="x a tenth's")
_PAGE: Final = 512
_ROUNDS: Final = 3


@row("replay")
def replay(bench: Bench) -> list[Result]:
    """Verification of a whole ledger, in turns with the loop, and the memory that it takes."""
    settings = bench.settings
    tasks = settings.events // DEPTH
    counts = {depth: tasks * depth for depth in (DEPTH, DEPTH // 10)}
    paths = {depth: bench.folder / f"{depth}.sqlite3" for depth in counts}
    for depth, path in paths.items():
        name, seed = f"replay, {depth} events a task", settings.seed
        build(
            path, bench.bars, name=name, tasks=tasks, deep=tasks, seed=seed, depth=depth
        ).ledger.close()
    rounds = 1 if settings.quick else _ROUNDS
    with bench.bars.phase("replay: measure", rounds) as advance:
        runs = []
        for _ in range(rounds):
            runs.append(_beside_the_loop(paths[DEPTH], counts[DEPTH]))
            advance(1)
    with bench.bars.phase("replay: memory", len(paths)) as advance, _fresh_processes() as pool:
        peaks = []
        for depth, path in paths.items():
            peaks.append(pool.apply(_peak_mib, (path, counts[depth])))
            advance(1)
    heading = "Replay with every check on, beside a loop that only reads and decodes"
    return [
        Result(
            row="replay",
            heading=heading,
            case=f"{counts[DEPTH]:,} events",
            bound=_REPLAY,
            measured=round(statistics.median(each.check / each.loop for each in runs), 2),
            word="processor",
            figures={
                "events_a_second": round(counts[DEPTH] / min(each.check for each in runs)),
                "seconds": [round(each.check, 2) for each in runs],
                "loop_seconds": [round(each.loop, 2) for each in runs],
            },
        ),
        Result(
            row="replay",
            heading=heading,
            case="memory at its peak",
            bound=_MEMORY,
            measured=round(peaks[0] / peaks[1], 2),
            word="memory",
            figures={
                "tasks": tasks,
                "events": list(counts.values()),
                "peak_mib": [round(each, 1) for each in peaks],
            },
        ),
    ]


class _Seconds(NamedTuple):
    """How long the verification of a file took, and how long the loop over its rows."""

    check: float
    loop: float


def _beside_the_loop(path: Path, events: int) -> _Seconds:
    """Verify a file, and after every thousand events let the loop run over the same rows.

    Both are slowed down alike where the machine is, since their turns are milliseconds.
    """
    decode = msgspec.json.Decoder(Event).decode
    after = 0
    loop = 0.0
    with closing(SqliteStore.open(path, read_only=True)) as store, store.read() as session:

        def catch_up(verified: int, _: int) -> None:
            nonlocal after, loop
            start = time.perf_counter()
            while after < verified:
                page = session.page(after, _PAGE)
                for each in page:
                    decode(each.body)
                after = page[-1].sequence
            loop += time.perf_counter() - start

        start = time.perf_counter()
        _verify(path, events, catch_up)
        took = time.perf_counter() - start
    if after != events:
        message = f"expected the loop to read {events} events, but it read {after}"
        raise RuntimeError(message)
    return _Seconds(took - loop, loop)


def _verify(path: Path, events: int, progress: Callable[[int, int], None] | None = None) -> None:
    """Verify a file.

    Raises:
        RuntimeError: It does not verify, or holds another number of events: what was timed is
            not what the table says.
    """
    found = verify(path, progress=progress)
    if found.problems or found.events != events:
        message = f"expected {events} sound events, but of {found.events}: {found.problems[:3]}"
        raise RuntimeError(message)


def _fresh_processes() -> multiprocessing.pool.Pool:
    """Return where each run gets a process of its own, so that its peak is its own."""
    return multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1)


def _peak_mib(path: Path, events: int) -> float:
    _verify(path, events)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
