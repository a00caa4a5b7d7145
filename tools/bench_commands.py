"""Rows: every kind of command that writes, against the floor and in a large ledger."""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from bench_ledgers import (
    BINDING,
    DEPTH,
    DISPATCHER,
    LEASE_SECONDS,
    POLICY,
    WORKER,
    Floor,
    Subject,
    build,
    task_named,
)
from bench_measure import Bench, Bound, Result, Summary, Timed, row, summary, timed

from idkmesh import ClaimLedger, ScopedResourceRef

_ONE_COMMAND: Final = Bound(limit=1.6, at_most=True, unit="x floor", goal=1.4)
_LARGE: Final = Bound(limit=1.2, at_most=True, unit="x small")


class Step(NamedTuple):
    """One measured kind of command, as a moment in the life of a task.

    Attributes:
        kind: How the table speaks of it.
        tag: The type of the one event that it writes.
        call: The command.
        wait_seconds: How far time moves before a batch of it, beyond the second before
            each call.
        new_task: Whether it wants a task that does not exist yet.
    """

    kind: str
    tag: str
    call: Callable[[ClaimLedger, ScopedResourceRef], object]
    wait_seconds: int = 0
    new_task: bool = False


def _claim(request_id: str, ledger: ClaimLedger, task: ScopedResourceRef) -> object:
    return ledger.claim(task, WORKER, request_id=request_id, binding=BINDING)


def _owner(
    operation: str, request_id: str, epoch: int, ledger: ClaimLedger, task: ScopedResourceRef
) -> object:
    return getattr(ledger, operation)(task, WORKER, request_id=request_id, epoch=epoch)


def _configure(ledger: ClaimLedger, task: ScopedResourceRef) -> object:
    return ledger.configure_task(task, DISPATCHER, POLICY)


def _reserve(ledger: ClaimLedger, task: ScopedResourceRef) -> object:
    return ledger.reserve_dispatch(task, DISPATCHER, WORKER, request_id="r-2", epoch=2)


def _reconcile(status: str, ledger: ClaimLedger, task: ScopedResourceRef) -> object:
    return ledger.reconcile_execution(
        task,
        DISPATCHER,
        request_id="r-2",
        epoch=2,
        status=status,  # type: ignore[arg-type]  # the two steps below give the two that exist
        evidence_reference=f"https://runs.example.org/4711/{status}",
    )


def _submit(ledger: ClaimLedger, task: ScopedResourceRef) -> object:
    digest = "sha256:" + "d" * 64
    return ledger.record_submission(task, WORKER, request_id="r-2", epoch=2, artifact_digest=digest)


def _snapshot(ledger: ClaimLedger, task: ScopedResourceRef) -> object:
    return ledger.snapshot(task, WORKER)


# A task's second attempt runs from its grant to its release, the third until its lease is over.
STEPS: Final = (
    Step("configure_task", "task.configured.v1", _configure, new_task=True),
    Step("claim", "claim.granted.v1", partial(_claim, "r-2")),
    Step("acknowledge", "claim.acknowledged.v1", partial(_owner, "acknowledge", "r-2", 2)),
    Step("renew", "claim.renewed.v1", partial(_owner, "renew", "r-2", 2)),
    Step("progress", "claim.progressed.v1", partial(_owner, "progress", "r-2", 2)),
    Step("reserve_dispatch", "execution.reserved.v1", _reserve),
    Step("reconcile_execution", "execution.reconciled.v1", partial(_reconcile, "running")),
    Step("record_submission", "submission.recorded.v1", _submit),
    Step("reconcile_execution", "execution.reconciled.v1", partial(_reconcile, "terminal")),
    Step("release", "claim.released.v1", partial(_owner, "release", "r-2", 2)),
    Step("claim", "claim.granted.v1", partial(_claim, "r-3")),
    Step("acknowledge", "claim.acknowledged.v1", partial(_owner, "acknowledge", "r-3", 3)),
    Step("snapshot: an expiry", "claim.expired.v1", _snapshot, wait_seconds=LEASE_SECONDS),
    Step("snapshot: clock alone", "clock.observed.v1", _snapshot),
)
KINDS: Final = tuple(dict.fromkeys(step.kind for step in STEPS))


class _Samples:
    """What was measured of one kind of command in one place."""

    def __init__(self) -> None:
        self.batches: list[Timed] = []

    def summary(self) -> Summary:
        """Sum all batches up."""
        return summary([each for batch in self.batches for each in batch.nanoseconds])

    def processor_us(self) -> float:
        """Return the processor time of one call, in microseconds."""
        count = sum(len(batch.nanoseconds) for batch in self.batches)
        return round(sum(batch.processor_ns for batch in self.batches) / count / 1_000, 1)


@row("commands")
def commands(bench: Bench) -> list[Result]:
    """One durable command of each kind that writes, beside the floor."""
    settings = bench.settings
    deep = settings.samples + settings.batch
    with build(
        bench.folder / "commands.sqlite3",
        bench.bars,
        name="commands",
        tasks=settings.tasks,
        deep=deep,
        seed=settings.seed,
    ) as subject:
        found = _interleaved(bench, "commands", [subject])
    heading = f"One durable command: {settings.tasks:,} tasks, {DEPTH} events in the stream"
    results = []
    for kind, (floor, own) in found.items():
        processor_us = own.processor_us() - floor.processor_us()
        beyond_us = own.summary().median_us - floor.summary().median_us
        word = "processor" if processor_us > beyond_us / 2 else "pages"
        line = {"row": "commands", "heading": heading, "case": kind, "word": word}
        results.append(_compared(_ONE_COMMAND, own, floor, line))
    return results


@row("large")
def large(bench: Bench) -> list[Result]:
    """The same commands in a ledger of a million events, beside one of 10,000 tasks."""
    settings = bench.settings
    deep = settings.samples + settings.batch
    with (
        build(
            bench.folder / "small.sqlite3",
            bench.bars,
            name="small",
            tasks=settings.tasks,
            deep=deep,
            seed=settings.seed,
        ) as small,
        build(
            bench.folder / "large.sqlite3",
            bench.bars,
            name="large",
            tasks=settings.events // DEPTH,
            deep=settings.events // DEPTH,
            seed=settings.seed,
        ) as many,
    ):
        sizes = {"small_events": small.written(), "large_events": many.written()}
        found = _interleaved(bench, "large", [small, many])
    many_events = f"{sizes['large_events']:,} events in the ledger"
    heading = f"The same: {many_events}, beside {sizes['small_events']:,}"
    results = []
    for kind, (floor, other, own) in found.items():
        line = {"row": "large", "heading": heading, "case": kind, "word": "cache"}
        result = _compared(_LARGE, own, other, line)
        result.figures.update(sizes, floor=floor.summary())
        results.append(result)
    return results


def _interleaved(bench: Bench, name: str, subjects: list[Subject]) -> dict[str, list[_Samples]]:
    """Measure every kind in turns so short that a slow moment of the machine hits all.

    Each turn takes the next few tasks of every ledger through their second and third
    attempt. The first turn warms up and is forgotten; every other one runs the places in
    the opposite order.

    Args:
        bench: How much is measured.
        name: What the bar says.
        subjects: The ledgers.

    Returns:
        For each kind the samples of the floor and then of each ledger.
    """
    size = bench.settings.batch
    turns = -(-bench.settings.samples // size)
    found = {kind: [_Samples() for _ in range(len(subjects) + 1)] for kind in KINDS}
    with (
        Floor(bench.folder) as floor,
        bench.bars.phase(f"{name}: measure", (turns + 1) * len(STEPS) * size) as advance,
    ):
        for turn in range(turns + 1):
            for step in STEPS:
                runs = [partial(floor.run, size)]
                runs += [partial(_batch, subject, step, turn, size) for subject in subjects]
                places = list(zip(found[step.kind], runs, strict=True))
                for samples, run in places if turn % 2 else reversed(places):
                    batch = run()
                    if turn > 0:
                        samples.batches.append(batch)
                advance(size)
    return found


def _batch(subject: Subject, step: Step, turn: int, size: int) -> Timed:
    """Run one step for the next few tasks, and see that each command wrote one event."""
    tasks = subject.tasks[turn * size : (turn + 1) * size]
    if step.new_task:
        tasks = [task_named(f"new-{turn}-{number}") for number in range(size)]
    clock, ledger = subject.clock, subject.ledger

    def command(task: ScopedResourceRef) -> None:
        clock.now += 1
        step.call(ledger, task)

    before = subject.written()
    clock.now += step.wait_seconds
    batch = timed([partial(command, task) for task in tasks])
    subject.require_written(before, step.tag, size)
    return batch


def _compared(bound: Bound, own: _Samples, other: _Samples, line: dict[str, str]) -> Result:
    """Compare medians; the quartiles over single turns tell how sure the ratio is."""
    mine, theirs = own.summary(), other.summary()
    ratios = [
        statistics.median(one.nanoseconds) / statistics.median(another.nanoseconds)
        for one, another in zip(own.batches, other.batches, strict=True)
    ]
    quartiles = statistics.quantiles(ratios) if len(ratios) > 1 else ratios
    return Result(
        **line,
        bound=bound,
        measured=round(mine.median_us / theirs.median_us, 3),
        latency=mine,
        figures={
            "compared_with": theirs,
            "ratio_in_one_turn_quartiles": [round(each, 3) for each in quartiles],
            "processor_us": own.processor_us(),
            "compared_with_processor_us": other.processor_us(),
        },
    )
