"""Row: replay with every check on, beside a loop that only reads and decodes the same rows."""

import multiprocessing
import resource
import time
from pathlib import Path
from typing import Final

from bench_ledgers import DEPTH, build
from bench_measure import Bench, Bound, Result, row

from idkmesh.events import codec
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.replay import verify

_REPLAY: Final = Bound(limit=4.0, at_most=True, unit="x the loop")
_PAGE: Final = 512
_ROUNDS: Final = 3


@row("replay")
def replay(bench: Bench) -> list[Result]:
    """Verification of a whole ledger, in turns with the loop, and the memory that it takes."""
    settings = bench.settings
    path = bench.folder / "replay.sqlite3"
    tasks = settings.events // DEPTH
    with build(path, bench.bars, name="replay", tasks=tasks, deep=tasks, seed=settings.seed):
        pass
    loops: list[float] = []
    checks: list[float] = []
    events = 0
    with bench.bars.phase("replay: measure", 1 if settings.quick else _ROUNDS) as advance:
        for _ in range(1 if settings.quick else _ROUNDS):
            start = time.perf_counter()
            events = _read_and_decode(path)
            loops.append(time.perf_counter() - start)
            start = time.perf_counter()
            found = verify(path)
            checks.append(time.perf_counter() - start)
            if found.problems or found.events != events:
                message = f"expected a ledger that verifies, but found {found.problems[:3]}"
                raise RuntimeError(message)
            advance(1)
    best = min(range(len(loops)), key=lambda turn: checks[turn] / loops[turn])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        peak_kib = pool.apply(_peak_kib, (path,))
    ratios = sorted(check / loop for check, loop in zip(checks, loops, strict=True))
    return [
        Result(
            row="replay",
            heading="Replay with every check on, beside a loop that reads and decodes",
            case=f"{events:,} events",
            bound=_REPLAY,
            measured=round(ratios[len(ratios) // 2], 2),
            word="processor",
            figures={
                "events_a_second": round(events / checks[best]),
                "seconds": [round(each, 2) for each in checks],
                "loop_seconds": [round(each, 2) for each in loops],
                "peak_mib_of_a_process_that_verifies": round(peak_kib / 1024),
            },
        )
    ]


def _read_and_decode(path: Path) -> int:
    store = SqliteStore.open(path, read_only=True)
    events = after = 0
    with store.read() as session:
        while page := session.page(after, _PAGE):
            for each in page:
                codec.decode(each.body)
            events += len(page)
            after = page[-1].sequence
    store.close()
    return events


def _peak_kib(path: Path) -> int:
    verify(path)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
