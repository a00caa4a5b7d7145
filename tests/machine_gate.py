"""A real gate on a real file beside the model of it: every call is made on both.

It goes on from the pair of ledger and model: answers, records and readiness are compared,
and the table of observations with the log, once by the library's fold and once by hand.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from builders import OTHER_SCOPE, SCOPE, digest, opened
from gate_builders import STYLE
from machine_gate_moves import (
    ENDING,
    STYLE_REVISIONS,
    UNITS,
    Asking,
    Clearing,
    Passing,
    Sighting,
    Work,
)
from machine_moves import Move, Tick
from machine_pair import WORDS, Answer, Pair
from msgspec.structs import replace
from oracle_gate import DigestNames, OracleGate, OracleGraph
from oracle_terms import Refused
from unit_builders import REVISION, unit

from idkmesh import (
    ClaimError,
    ClaimLedger,
    DependencyGraph,
    ExecutorAdmission,
    PrerequisiteObservation,
    TaskReadiness,
    WorkUnitSourceBinding,
)
from idkmesh.events.port import ReadSession
from idkmesh.projections import observed
from idkmesh.records import Admission

WORDS["prerequisite.observed"] = "observed"
PHASES = {"claim": "admit", "reserve_dispatch": "reserve_execution", "record_submission": "submit"}
OBSERVATION_COLUMNS = (
    "scope",
    "work_unit_id",
    "sequence",
    "event_id",
    "work_unit_version",
    "work_unit_digest",
    "source_revision",
    "state",
    "inputs_digest",
    "integrated_revision",
    "artifacts_digest",
    "verification_reference",
    "integration_reference",
)


class GatePair(Pair):
    """Gates over two graphs, on the ledger under test and on its model.

    Args:
        folder: Where the ledger's file is made.
        clock_resolution_seconds: As for ``ClaimLedger.open``.
        max_observations: As for ``ClaimLedger.open``.
    """

    def __init__(
        self, folder: Path, clock_resolution_seconds: int = 1, max_observations: int = 100_000
    ) -> None:
        """Open an empty ledger and an empty model, each with a gate a graph."""
        self.most = max_observations
        self.table: list[dict[str, Any]] = []
        self.graphs, models = {}, {}
        for name, units in UNITS.items():
            everything = (*units, unit(STYLE))
            revisions = {each["id"]: REVISION for each in everything}
            revisions[STYLE] = STYLE_REVISIONS[name]
            self.graphs[name] = DependencyGraph(SCOPE, everything, revisions)
            models[name] = OracleGraph(SCOPE, everything, revisions)
        super().__init__(folder, clock_resolution_seconds)
        self.oracle.max_observations = max_observations
        names = DigestNames()
        self.models = {name: OracleGate(each, self.oracle, names) for name, each in models.items()}
        self._compare_readiness()

    # What happens to the file besides calls.

    def restart_with(self, max_observations: int) -> None:
        """Open the file again with another budget for observations."""
        self.most = self.oracle.max_observations = max_observations
        self.restart()
        self._compare_readiness()

    def look(self) -> None:
        """Look as the pair does, and hold the table of observations against the log."""
        super().look()
        with self.watcher.read() as session:
            columns = ", ".join(OBSERVATION_COLUMNS)
            rows = session.rows(f"SELECT {columns} FROM observations ORDER BY 1, 2, 3")  # noqa: S608 - the names are constants
            table = [dict(zip(OBSERVATION_COLUMNS, row, strict=True)) for row in rows]
            refolded = _refolded(session)
        assert table == refolded, "the table of observations is not what its log folds to"
        told = [_told(row.scope, row.body) for row in self.image.rows if "observed" in row.type]
        told = [each for each in told if "event_id" in each]
        assert table == sorted(
            told, key=lambda row: [row[name] for name in OBSERVATION_COLUMNS[:3]]
        )
        moved, self.table = table != self.table, table
        if moved:
            self._compare_readiness()

    # Calls.

    def take(self, step: Sighting | Clearing | Passing | Work | Asking) -> None:
        """Take a step, whatever it is."""
        match step:
            case Sighting():
                self.observe(step)
            case Clearing():
                self.clear(step)
            case Passing():
                self.play_phase(step)
            case Work():
                self._work(step)
            case Asking():
                self.ask_gate(step)

    def _work(self, work: Work) -> None:
        graph, node = work.unit
        self.clear(Clearing(node, graph))
        claim = Move("claim", work.task, work.worker, "fresh", extra=(("binding", "a"),))
        if self.play_phase(Passing(node, graph, claim)).refusal is not None:
            return
        self.play(Move("acknowledge", work.task, among="active"))
        needs = self.graphs[graph].requires[node] or (node,)
        for turn in work.script:
            match turn:
                case Sighting():
                    seen = needs[turn.place % len(needs)] if turn.node == "its need" else node
                    self.observe(dataclasses.replace(turn, node=seen, graph=graph))
                case Tick():
                    self.pass_time(turn)
                case Move():
                    move = dataclasses.replace(turn, task=work.task)
                    self.play_phase(Passing("its own", graph, move))
        for move in ENDING if work.ends else ():
            self.play(dataclasses.replace(move, task=work.task))

    def observe(self, sighting: Sighting) -> Answer:
        """Let an adapter tell both of an observation, and compare."""
        self.calls += 1
        if type(self.clock.now) is int:
            self.clock.now += sighting.after
        made = self._observation(sighting)
        model = self.models[sighting.graph]
        expected = self._answer_of(lambda: model.observe(made))
        gate = self._gate(sighting.graph, second=sighting.second)
        found = self._answer_of(lambda: gate.observe(made))
        assert found == expected, f"{sighting}: the gate gives {found}, the model {expected}"
        self.look()
        return found

    def clear(self, clearing: Clearing) -> None:
        """Have all that a unit requires integrated, the furthest first."""
        graph = self.graphs[clearing.graph]
        if clearing.node not in graph.bindings:
            return
        for unit_id in graph.ancestors(clearing.node)[:-1]:
            if not self.models[clearing.graph].readiness(unit_id).satisfied:
                self.observe(Sighting(unit_id, clearing.graph))

    def play_phase(self, passing: Passing) -> Answer:
        """Go through a phase on both, and compare claims, records and refusals."""
        self.calls += 1
        call = self.prepare(passing.move)
        node = self._node(passing)
        named = {name: value for name, value in call.named.items() if name != "binding"}
        arguments = (node, *call.arguments)
        gate = self._gate(passing.graph, second=call.second)
        model = self.models[passing.graph]
        phase = PHASES[passing.move.call]
        found = self._answer_of(lambda: getattr(gate, phase)(*arguments, **named))
        if found.refusal is None:
            record = found.value[1]
            digests = ("inputs_digest", "graph_digest", "observation_digest")
            model.learn(node, **{name: record[name] for name in digests})
        expected = self._answer_of(lambda: getattr(model, phase)(*arguments, **named))
        assert found == expected, f"{passing}: the gate gives {found}, the model {expected}"
        before = self.image
        self.look()
        if found.refusal is not None:
            left = [row.type for row in self.image.rows[len(before.rows) :]]
            assert set(left) <= {"claim.expired.v1"}, f"{passing} was refused and left {left}"
        return found

    def ask_gate(self, asking: Asking) -> Answer:
        """Ask both a question, and compare; nothing may be written."""
        self.calls += 1
        arguments = () if asking.call == "ready_units" else (asking.node,)
        model = self.models[asking.graph]
        gate = self._gate(asking.graph, second=asking.second)
        expected = self._answer_of(lambda: getattr(model, asking.call)(*arguments))
        found = self._answer_of(lambda: getattr(gate, asking.call)(*arguments))
        assert found == expected, f"{asking}: the gate gives {found}, the model {expected}"
        before = self.image
        self.look()
        assert self.image == before, f"{asking} wrote"
        return found

    def _ledger(self) -> ClaimLedger:
        return opened(
            self.path,
            self.clock,
            clock_resolution_seconds=self.resolution,
            max_observations=self.most,
        )

    def _gate(self, graph: str, *, second: bool) -> ExecutorAdmission:
        return ExecutorAdmission(self.graphs[graph], self.ledgers[-1 if second else 0])

    def _compare_readiness(self) -> None:
        """Teach the model every inputs digest, requirements first, and compare all readiness."""
        if not hasattr(self, "models"):  # the pair looks once before there are any
            return
        for name, model in self.models.items():
            gate = self._gate(name, second=False)
            for node in model.graph.order:
                found = gate.readiness(node)
                if found.inputs_digest is not None:
                    model.learn(node, inputs_digest=found.inputs_digest)
                assert _plain(found) == tuple(model.readiness(node)), f"{node} of graph {name}"

    def _answer_of(self, ask: Any) -> Answer:
        self.oracle.now = self.clock.now
        try:
            return Answer(value=_plain(ask()))
        except (ClaimError, Refused) as refused:
            return Answer(value=refused.blockers or None, refusal=str(refused.code))

    def _node(self, passing: Passing) -> str:
        """Return the unit that is meant: where it is the claim's own, found by its digest."""
        if passing.node != "its own":
            return passing.node
        move: Move = passing.move
        _, grant = self.meant(move.task, move.among, move.place)
        bindings = {**self.graphs["new"].bindings, **self.graphs["old"].bindings}
        bindings |= self.graphs[passing.graph].bindings
        bound = grant.record["binding"]["work_unit_digest"] if grant else None
        own = [node for node, each in bindings.items() if each.work_unit_digest == bound]
        return own[0] if own else "feeds/parse"

    def _observation(self, sighting: Sighting) -> PrerequisiteObservation:
        retained: list[PrerequisiteObservation] = self.oracle.observed.get(SCOPE, [])
        meant = retained[-1 - sighting.place % len(retained)] if retained else None
        if meant is not None and sighting.event == "redelivered":
            return meant
        known = [each for each in retained if each.binding.work_unit_id == sighting.node]
        sequences = {each.sequence for each in known}
        highest = max(sequences, default=0)
        free = [each for each in range(1, highest + 2) if each not in sequences]
        sequence = {
            "next": highest + 2,  # so that there is room for a late one
            "late": free[0],
            "taken": known[-1 - sighting.place % len(known)].sequence if known else 1,
        }[sighting.sequence]
        integrated = sighting.state == "integrated"
        made = PrerequisiteObservation(
            scope=OTHER_SCOPE if sighting.elsewhere else SCOPE,
            event_id=f"event {len(retained) + 1}",
            sequence=sequence,
            binding=self._binding(sighting),
            state=sighting.state,  # type: ignore[arg-type]  # one of the four, drawn as text
            inputs_digest=self._inputs(sighting, known),
            integrated_revision=sighting.result[0] * 40 if integrated else None,
            artifacts_digest=digest(sighting.result[1]) if integrated else None,
            verification_reference=f"check {sequence}" if integrated else None,
            integration_reference=f"merge {sequence}" if integrated else None,
        )
        if meant is not None and sighting.event == "known":
            return replace(made, event_id=meant.event_id)
        return made

    def _binding(self, sighting: Sighting) -> WorkUnitSourceBinding:
        node, binding = sighting.node, sighting.binding
        right = self.graphs[sighting.graph].bindings.get(node)
        other = self.graphs["new" if sighting.graph == "old" else "old"].bindings.get(node)
        bound = right or other or WorkUnitSourceBinding(node, 1, digest("0"), REVISION)
        fields = bound.to_dict()
        match binding:
            case "other" if other is not None:
                return other
            case "version":
                fields["work_unit_version"] = 2
            case "revision":
                fields["source_revision"] = "f" * 40
            case "capitals":
                fields["source_revision"] = bound.source_revision.upper()
        return WorkUnitSourceBinding(**fields)  # type: ignore[arg-type]  # text and a number

    def _inputs(self, sighting: Sighting, known: list[PrerequisiteObservation]) -> str:
        if sighting.inputs == "last" and known:
            return known[-1].inputs_digest
        if sighting.inputs == "right" and sighting.node in self.graphs[sighting.graph].bindings:
            now = self.models[sighting.graph].readiness(sighting.node).inputs_digest
            return now or digest("0")
        return digest("9")


def _plain(value: Any) -> Any:
    """Return an answer of either side as plain data."""
    if isinstance(value, Admission):
        return value.claim.to_dict(), value.record.to_dict()
    if isinstance(value, TaskReadiness):
        return value.ready, value.satisfied, value.inputs_digest, value.blockers
    return tuple(value) if isinstance(value, tuple) else value


def _told(scope: str, body: str) -> dict[str, Any]:
    """Return the row that an observation's event tells of."""
    event: dict[str, Any] = json.loads(body)
    event.update(event.pop("binding", {}))
    del event["type"]
    return {"scope": scope, **event}


def _refolded(session: ReadSession) -> list[dict[str, Any]]:
    """Return the rows that the library's fold makes of the log."""
    rows = []
    for stream in session.streams():
        if stream.endswith("/observations") and stream.count("/") == 2:
            state = observed.fold(stream, session.stream(stream))
            rows += [observed.row(state, each) for each in state.added]
    key = slice(0, 3)
    rows.sort(key=lambda row: row[key])
    return [dict(zip(OBSERVATION_COLUMNS, row, strict=True)) for row in rows]
