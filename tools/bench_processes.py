"""Row: many processes on one file, next to one process with the same work."""

import mmap
import multiprocessing
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

from bench_ledgers import BINDING, DISPATCHER, WORKER, Subject, task_named
from bench_measure import Bench, Bound, Result, row, summary

from idkmesh import ClaimError, ClaimLedger, ScopedResourceRef, StoreError, TaskClaimPolicy

_THROUGHPUT: Final = Bound(limit=0.7, at_most=False, unit="x one process")
_FAIRNESS: Final = Bound(limit=0.8, at_most=False, unit="x the fastest")
_SLOWEST: Final = Bound(limit=250.0, at_most=True, unit="ms")
_ERRORS: Final = Bound(limit=0, at_most=True, unit="errors")

_TASKS_EACH: Final = 8
_WEEK_SECONDS: Final = 604_800
_POLICY: Final = TaskClaimPolicy(
    ack_seconds=_WEEK_SECONDS,
    lease_seconds=_WEEK_SECONDS // 2,
    progress_seconds=_WEEK_SECONDS,
    hard_seconds=_WEEK_SECONDS,
    max_events=1_000_000,
)
_LEAD_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 120


class _Run(NamedTuple):
    """An order to a worker: renew from one moment of the monotonic clock to another."""

    start: float
    end: float


class _Report(NamedTuple):
    """What a worker did in one run: commands in time, their durations, refusals by code."""

    nanoseconds: list[int]
    errors: Counter[str]


class _SharedClock:
    """One clock for all processes: a number in a file that each reading moves on.

    The ledger reads its clock under the write lock, so no two processes read at once, and
    every command finds a second that no other one had.
    """

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._number = mmap.mmap(file.fileno(), 8)

    def __call__(self) -> int:
        """Return the next epoch second."""
        (now,) = struct.unpack("q", self._number[:])
        self._number[:] = struct.pack("q", now + 1)
        return int(now)


class _Worker(NamedTuple):
    """One process and the line to it."""

    process: multiprocessing.process.BaseProcess
    line: "Connection[object, object]"


@row("processes")
def processes(bench: Bench) -> list[Result]:
    """Renewals by many processes on one file, in turns with one process alone."""
    settings = bench.settings
    path, clock_path = bench.folder / "shared.sqlite3", bench.folder / "shared.clock"
    with Subject("shared", path) as subject:
        for number in range(settings.processes):
            for task in _tasks_of(number):
                subject.clock.now += 1
                subject.ledger.configure_task(task, DISPATCHER, _POLICY)
                subject.ledger.claim(task, WORKER, request_id="r-1", binding=BINDING)
                subject.ledger.acknowledge(task, WORKER, request_id="r-1", epoch=1)
        before = subject.written()
    clock_path.write_bytes(struct.pack("q", subject.clock.now + 1))
    alone: list[_Report] = []
    together: list[list[_Report]] = []
    with (
        _workers(settings.processes, path, clock_path) as workers,
        bench.bars.phase("processes: measure", settings.rounds * 2) as advance,
    ):
        for _ in range(settings.rounds):
            alone += _run(workers[:1], settings.seconds)
            advance(1)
            together.append(_run(workers, settings.seconds))
            advance(1)
    with Subject("shared", path) as subject:
        written = subject.written() - before
    return _results(bench, alone, together, written)


def _results(
    bench: Bench, alone: list[_Report], together: list[list[_Report]], written: int
) -> list[Result]:
    """Judge the runs, and see that every command wrote one event."""
    everybody = [report for reports in together for report in reports]
    durations = [each for report in everybody for each in report.nanoseconds]
    one = [each for report in alone for each in report.nanoseconds]
    errors = sum((report.errors for report in [*alone, *everybody]), Counter[str]())
    if not errors and written != len(durations) + len(one):
        message = f"expected {len(durations) + len(one)} events, but the file got {written}"
        raise RuntimeError(message)
    counts = [[len(report.nanoseconds) for report in reports] for reports in together]
    fairness = [min(each) / max(each) for each in counts]
    seconds = bench.settings.seconds * bench.settings.rounds
    heading = f"{bench.settings.processes} processes on one file, beside one process"
    result = partial(Result, row="processes", heading=heading)
    return [
        result(
            case="throughput",
            bound=_THROUGHPUT,
            measured=round(len(durations) / len(one), 3),
            word="turns",
            latency=summary(durations),
            figures={
                "commands_a_second": round(len(durations) / seconds, 1),
                "one_process_commands_a_second": round(len(one) / seconds, 1),
                "one_process": summary(one),
            },
        ),
        result(
            case="slowest process",
            bound=_FAIRNESS,
            measured=round(min(fairness), 3),
            word="starvation",
            figures={"commands_by_process": counts},
        ),
        result(
            case="slowest command",
            bound=_SLOWEST,
            measured=round(max(durations) / 1_000_000, 2),
            word="stall",
        ),
        result(
            case="errors",
            bound=_ERRORS,
            measured=errors.total(),
            word="refusals",
            figures={"by_code": dict(errors)},
        ),
    ]


def _tasks_of(number: int) -> list[ScopedResourceRef]:
    return [task_named(f"process-{number:03}-{each}") for each in range(_TASKS_EACH)]


@contextmanager
def _workers(count: int, path: Path, clock_path: Path) -> Iterator[list[_Worker]]:
    """Start processes that have the ledger open and wait for orders; end them in the end."""
    context = multiprocessing.get_context("spawn")
    workers = []
    try:
        for number in range(count):
            line, far_end = context.Pipe()
            process = context.Process(
                target=_work, args=(far_end, path, clock_path, number), daemon=True
            )
            process.start()
            far_end.close()
            workers.append(_Worker(process, line))
        for worker in workers:
            _answer(worker)
        yield workers
        for worker in workers:
            worker.line.send(None)
            worker.process.join(_ANSWER_SECONDS)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _run(workers: list[_Worker], seconds: float) -> list[_Report]:
    """Let some workers run for a while, and collect what they did."""
    start = time.monotonic() + _LEAD_SECONDS
    for worker in workers:
        worker.line.send(_Run(start, start + seconds))
    time.sleep(_LEAD_SECONDS + seconds)
    reports = [_answer(worker) for worker in workers]
    return [report for report in reports if isinstance(report, _Report)]


def _answer(worker: _Worker) -> object:
    """Wait for what a worker says."""
    if not worker.line.poll(_ANSWER_SECONDS):
        message = f"expected an answer within {_ANSWER_SECONDS} s, but the process gave none"
        raise RuntimeError(message)
    return worker.line.recv()


def _work(line: "Connection[object, object]", path: Path, clock_path: Path, number: int) -> None:
    """Be one process: renew its own claims whenever it is told to."""
    tasks = cycle(_tasks_of(number))
    with ClaimLedger.open(path, clock=_SharedClock(clock_path)) as ledger:
        line.send("ready")
        while isinstance(order := line.recv(), _Run):
            time.sleep(max(0.0, order.start - time.monotonic()))
            line.send(_renewals(ledger, tasks, order.end))


def _renewals(ledger: ClaimLedger, tasks: Iterator[ScopedResourceRef], end: float) -> _Report:
    durations: list[int] = []
    errors: Counter[str] = Counter()
    for task in tasks:
        start = time.perf_counter_ns()
        try:
            ledger.renew(task, WORKER, request_id="r-1", epoch=1)
        except (ClaimError, StoreError) as error:
            errors[error.code] += 1
        durations.append(time.perf_counter_ns() - start)
        if time.monotonic() >= end:
            break
    return _Report(durations, errors)
