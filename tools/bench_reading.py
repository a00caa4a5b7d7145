"""Rows: what costs nobody a lock: ``peek``, and the import."""

import multiprocessing
import os
import re
import subprocess
import sys
import time
from functools import partial
from importlib import metadata
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from bench_ledgers import BINDING, WORKER, Subject, build
from bench_measure import Bench, Bound, Result, row, summary, timed

from idkmesh import ErrorCode, StoreError
from idkmesh.events.sqlite_store import SqliteStore

_PEEK: Final = Bound(limit=10.0, at_most=False, unit="x durable")
_GOES_ON: Final = Bound(limit=0, at_most=True, unit="failed")
_IMPORT: Final = Bound(limit=80.0, at_most=True, unit="ms")
_OPTIONAL: Final = Bound(limit=0, at_most=True, unit="optional")

_PEEKS_A_RENEWAL: Final = 10
_WAIT_SECONDS: Final = 60
# msgspec imports typing_extensions where it finds one, which only this project's extras bring.
_IMPORTED: Final = "import sys; sys.modules['typing_extensions'] = None; import idkmesh"
_NO_BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"


@row("peek")
def peek(bench: Bench) -> list[Result]:
    """Looking at a task, in turns with renewals, and while another process may write."""
    settings = bench.settings
    path = bench.folder / "peek.sqlite3"
    with build(
        path,
        bench.bars,
        name="peek",
        tasks=settings.tasks,
        deep=settings.batch,
        seed=settings.seed,
    ) as subject:
        for task in subject.tasks:
            subject.ledger.claim(task, WORKER, request_id="r-2", binding=BINDING)
            subject.ledger.acknowledge(task, WORKER, request_id="r-2", epoch=2)
        peeks, renewals = _in_turns(bench, subject)
        held, failed = _while_held(bench, subject, path)
    rate, durable, while_held = (
        len(each) * 1_000_000_000 / sum(each) for each in (peeks, renewals, held)
    )
    rates = {
        "peeks_a_second": round(rate, 1),
        "renewals_a_second": round(durable, 1),
        "peeks_a_second_while_a_writer_holds_the_lock": round(while_held, 1),
    }
    heading = "Looking, beside renewals, and while another process holds the write lock"
    return [
        Result(
            row="peek",
            heading=heading,
            case="peek",
            bound=_PEEK,
            measured=round(rate / durable, 2),
            word="processor",
            latency=summary(peeks),
            figures={**rates, "renewals": summary(renewals)},
        ),
        Result(
            row="peek",
            heading=heading,
            case="beside a writer",
            bound=_GOES_ON,
            measured=failed,
            word="blocked",
            latency=summary(held),
            figures={"of_free_rate": round(while_held / rate, 3), "asked": len(held)},
        ),
    ]


def _in_turns(bench: Bench, subject: Subject) -> tuple[list[int], list[int]]:
    """Measure peeks and renewals in short turns."""
    peeks: list[int] = []
    renewals: list[int] = []
    tasks, turns = subject.tasks, bench.settings.samples // bench.settings.batch
    with bench.bars.phase("peek: measure", turns) as advance:
        for _ in range(turns):
            before = subject.written()
            for task in tasks:
                subject.clock.now += 1
                call = partial(subject.ledger.renew, task, WORKER, request_id="r-2", epoch=2)
                renewals += timed([call]).nanoseconds
            subject.require_written(before, "claim.renewed.v1", len(tasks))
            calls = [partial(subject.ledger.peek, task, WORKER) for task in tasks]
            peeks += timed(calls * _PEEKS_A_RENEWAL).nanoseconds
            advance(1)
    return peeks, renewals


def _while_held(bench: Bench, subject: Subject, path: Path) -> tuple[list[int], int]:
    """Peek while another process holds the write lock; return durations and failures."""
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    impatient = SqliteStore.open(path, busy_timeout_seconds=0)
    process = context.Process(target=_hold, args=(path, held, done), daemon=True)
    process.start()
    durations: list[int] = []
    failed = 0
    try:
        if not held.wait(_WAIT_SECONDS) or not _is_locked(impatient):
            message = "expected another process to hold the lock, but none does"
            raise RuntimeError(message)
        with bench.bars.phase("peek: beside a writer", bench.settings.samples) as advance:
            for turn in range(bench.settings.samples):
                task = subject.tasks[turn % len(subject.tasks)]
                start = time.perf_counter_ns()
                try:
                    subject.ledger.peek(task, WORKER)
                except StoreError:
                    failed += 1
                durations.append(time.perf_counter_ns() - start)
                if turn % bench.settings.batch == 0:
                    advance(bench.settings.batch)
    finally:
        done.set()
        process.join(_WAIT_SECONDS)
        impatient.close()
    return durations, failed


def _hold(path: Path, held: Event, done: Event) -> None:
    """Be the other process: hold the write lock until told otherwise."""
    with SqliteStore.open(path).write():
        held.set()
        done.wait(_WAIT_SECONDS)


def _is_locked(store: SqliteStore) -> bool:
    try:
        with store.write():
            return False
    except StoreError as error:
        return error.code is ErrorCode.STORE_LOCKED


@row("import")
def importing(bench: Bench) -> list[Result]:
    """``import idkmesh`` in a fresh interpreter, less a bare one, as without any extra."""
    bare: list[int] = []
    full: list[int] = []
    run = partial(_run, _with_bytecode(bench.folder))
    loaded = run("import idkmesh, sys; print(*sys.modules)").split()  # and compiles it
    with bench.bars.phase("import: measure", bench.settings.imports) as advance:
        for _ in range(bench.settings.imports):
            bare += timed([partial(run, "pass")]).nanoseconds
            full += timed([partial(run, _IMPORTED)]).nanoseconds
            advance(1)
    found = sorted(_optional_modules() & {module.split(".")[0] for module in loaded})
    with_import, without = summary(full), summary(bare)
    heading = "A fresh interpreter with the import, less a bare one"
    return [
        Result(
            row="import",
            heading=heading,
            case="import idkmesh",
            bound=_IMPORT,
            measured=round((with_import.median_us - without.median_us) / 1_000, 2),
            word="imports",
            latency=with_import,
            figures={"bare_interpreter": without},
        ),
        Result(
            row="import",
            heading=heading,
            case="optional packages",
            bound=_OPTIONAL,
            measured=len(found),
            word="imports",
            figures={"found": found, "looked_for": sorted(_optional_modules())},
        ),
    ]


def _with_bytecode(folder: Path) -> dict[str, str]:
    """Return an environment in which an import finds its bytecode, as an installed one does."""
    kept = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _run(environment: dict[str, str], program: str) -> str:
    return subprocess.run(  # noqa: S603  (this interpreter, on a text of this file)
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    ).stdout


def _optional_modules() -> set[str]:
    """Return the packages that only an extra of this distribution asks for."""
    asked = [each for each in metadata.requires("idkmesh") or [] if "extra ==" in each]
    names = {re.split(r"[^A-Za-z0-9_.-]", each)[0].lower() for each in asked}
    return names - {"idkmesh"}
