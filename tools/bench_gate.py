"""Row: the gate on graphs of many sizes, all of them with the same ancestors."""

import statistics
import time
from functools import partial
from itertools import pairwise
from typing import Any, Final

from bench_ledgers import DISPATCHER, WORKER, Subject, task_named
from bench_measure import Bars, Bench, Bound, Result, row, summary, timed

from idkmesh import (
    DependencyGraph,
    ExecutorAdmission,
    PrerequisiteObservation,
    TaskClaimPolicy,
    canonical_digest,
)

_GATE: Final = Bound(limit=1.3, at_most=True, unit="x of 10 units")
_LINEAR: Final = Bound(limit=1.5, at_most=True, unit="x a unit")
_SIZES: Final = (10, 5_000, 100_000)
_QUICK_SIZES: Final = (10, 1_000)
_CHAIN: Final = 5
_OBSERVED: Final = 2_000
_REVISION: Final = "5e" * 20


def _unit(name: str, *requires: str) -> dict[str, object]:
    return {
        "schema_version": "0.2",
        "id": name,
        "version": 1,
        "security": {"risk_class": "low"},
        "dependencies": [{"work_unit_id": each, "relationship": "requires"} for each in requires],
        "provenance": {},
    }


class _Gated:
    """A gate on a graph of some size, over a ledger of its own."""

    def __init__(self, bench: Bench, size: int) -> None:
        chain = [f"base-{place}" for place in range(_CHAIN)]
        units = [_unit(chain[0])]
        units += [_unit(name, before) for before, name in pairwise(chain)]
        units.append(_unit("node", chain[-1]))
        others = [f"other-{place}" for place in range(size - len(units))]
        units += [_unit(name) for name in others]
        start = time.perf_counter_ns()
        graph = DependencyGraph(
            task_named("x").scope, units, {str(unit["id"]): _REVISION for unit in units}
        )
        self.build_ns = time.perf_counter_ns() - start
        self.size = size
        self.subject = Subject(f"{size}", bench.folder / f"gate-{size}.sqlite3")
        self.gate = ExecutorAdmission(graph, self.subject.ledger)
        self.nanoseconds: list[int] = []
        for name in chain:
            self._observe(name)
        for name in others[:_OBSERVED]:
            self._observe(name)

    def _observe(self, name: str) -> None:
        self.gate.observe(
            PrerequisiteObservation(
                scope=self.gate.graph.scope,
                event_id=f"{name} integrated",
                sequence=1,
                binding=self.gate.graph.bindings[name],
                state="integrated",
                inputs_digest=str(self.gate.readiness(name).inputs_digest),
                integrated_revision=_REVISION,
                artifacts_digest=canonical_digest(name),
                verification_reference="check",
                integration_reference="merge",
            )
        )

    def run(self, turn: int) -> None:
        """Take one task through the gate, and keep how long the three phases took."""
        task, ledger, gate = task_named(f"gated-{turn}"), self.subject.ledger, self.gate
        ledger.configure_task(task, DISPATCHER, TaskClaimPolicy())
        before = self.subject.written()
        own: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
        admit = partial(gate.admit, "node", task, WORKER, request_id="r-1")
        reserve = partial(gate.reserve_execution, "node", task, DISPATCHER, WORKER, **own)
        submit = partial(
            gate.submit, "node", task, WORKER, artifact_digest=canonical_digest(turn), **own
        )
        spent = timed([admit]).nanoseconds
        ledger.acknowledge(task, WORKER, request_id="r-1", epoch=1)
        spent += timed([reserve, submit]).nanoseconds
        if self.subject.written() != before + 4:
            message = "expected the gate to write one event a phase, but it did not"
            raise RuntimeError(message)
        self.nanoseconds.append(sum(spent))


def _gates(bench: Bench, sizes: tuple[int, ...], bars: Bars) -> list[_Gated]:
    with bars.phase("gate: build", sum(sizes)) as advance:
        gates = []
        for size in sizes:
            gates.append(_Gated(bench, size))
            advance(size)
        return gates


@row("gate")
def gate(bench: Bench) -> list[Result]:
    """Admit, reserve and submit on graphs of many sizes, in turns; and building the graphs."""
    sizes = _QUICK_SIZES if bench.settings.quick else _SIZES
    gates = _gates(bench, sizes, bench.bars)
    turns = bench.settings.samples // 2
    with bench.bars.phase("gate: measure", turns) as advance:
        for turn in range(turns):
            for each in gates:
                each.run(turn)
            advance(1)
    for each in gates:
        each.subject.ledger.close()
    smallest = statistics.median(gates[0].nanoseconds)
    a_unit = gates[1].build_ns / gates[1].size
    heading = "The gate's three phases, beside the same on ten units; and building the graph"
    results = [
        Result(
            row="gate",
            heading=heading,
            case=f"{each.size:,} units",
            bound=_GATE,
            measured=round(statistics.median(each.nanoseconds) / smallest, 3),
            word="processor",
            latency=summary(each.nanoseconds),
            figures={"observations": min(_OBSERVED, each.size - _CHAIN - 1) + _CHAIN},
        )
        for each in gates[1:]
    ]
    last = gates[-1]
    return [
        *results,
        Result(
            row="gate",
            heading=heading,
            case=f"build {last.size:,} units",
            bound=_LINEAR,
            measured=round(last.build_ns / last.size / a_unit, 3),
            word="processor",
            figures={
                f"seconds_for_{each.size}": round(each.build_ns / 1_000_000_000, 3)
                for each in gates
            },
        ),
    ]
