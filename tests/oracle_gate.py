"""A plain model of executor admission over the model of the ledger.

It restates observations, readiness and the three phases; every question is answered
by looking at the whole graph again. A comparing test tells the model the real
digests with ``OracleGate.learn`` before it makes the same call here, so that the
records can be compared whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oracle_graph import Binding, DigestNames, OracleGraph
from oracle_terms import (
    Record,
    Refused,
    check_approval,
    check_task,
    demand,
    is_digest,
    is_text,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from oracle import Oracle, Turn

    from idkmesh import ActorContext, PrerequisiteObservation, ScopedResourceRef, TenantScope

__all__ = ["Binding", "DigestNames", "OracleGate", "OracleGraph", "Readiness"]

OBSERVATION_FIELDS = (
    "event_id",
    "sequence",
    "state",
    "inputs_digest",
    "integrated_revision",
    "artifacts_digest",
    "verification_reference",
    "integration_reference",
)


class Readiness(NamedTuple):
    """What the gate says about one unit."""

    ready: bool
    satisfied: bool
    inputs_digest: str | None
    blockers: tuple[str, ...]


class Look(NamedTuple):
    """One unit while the graph is walked: the number of its inputs when ready, its blockers."""

    inputs: int | None
    satisfied: bool
    blockers: tuple[str, ...]


def _place(scope: TenantScope) -> tuple[str, str]:
    return (scope.tenant_id, scope.project_id)


def _content(observation: PrerequisiteObservation) -> tuple[Hashable, ...]:
    fields = [getattr(observation, name) for name in OBSERVATION_FIELDS]
    return (_place(observation.scope), Binding.of(observation.binding), *fields)


class OracleGate:
    """The gate over one graph; gates over one oracle share its observations."""

    def __init__(
        self, graph: OracleGraph, oracle: Oracle, names: DigestNames | None = None
    ) -> None:
        """Put a gate before the oracle; give gates of one ledger the same ``names``."""
        self.graph = graph
        self.oracle = oracle
        self.names = names or DigestNames()

    def learn(
        self,
        node: str,
        *,
        inputs_digest: str | None = None,
        graph_digest: str | None = None,
        observation_digest: str | None = None,
    ) -> None:
        """Take the real gate's digests for the unit as it is now, before the same call here."""
        if inputs_digest is not None:
            inputs = self._look()[node].inputs
            assert inputs is not None, f"the real gate has inputs for {node}, which is not ready"
            self.names.teach(inputs, inputs_digest)
        if graph_digest is not None:
            self.names.teach(self._graph_number(), graph_digest)
        if observation_digest is not None:
            self.names.teach(self._observation_number(node), observation_digest)

    # Observations and readiness.

    def observe(self, observation: PrerequisiteObservation) -> bool:
        """Retain an observation, and tell whether it became its unit's latest."""
        demand(observation.scope == self.graph.scope, "scope_mismatch")
        unit = observation.binding.work_unit_id
        demand(unit in self.graph.bindings, "unknown_work_unit")
        now = self.oracle.read_clock()
        mark = self.oracle.total_events()
        kept = self.oracle.observed.setdefault(self.graph.scope, [])
        for other in kept:
            if other.event_id == observation.event_id:
                demand(_content(other) == _content(observation), "event_conflict")
                self.oracle.observe_clock(self.graph.scope, now, mark)
                return False
        sequences = [other.sequence for other in self.observations(unit)]
        demand(observation.sequence not in sequences, "sequence_conflict")
        demand(len(kept) < self.oracle.max_observations, "event_budget_exhausted")
        kept.append(observation)
        self.oracle.append("/".join((*_place(self.graph.scope), "observations")), "observed", now)
        return all(observation.sequence > sequence for sequence in sequences)

    def observations(self, node: str) -> tuple[PrerequisiteObservation, ...]:
        """Return the unit's observations, lowest sequence first."""
        self._check_node(node)
        kept = self.oracle.observed.get(self.graph.scope, [])
        of_unit = [one for one in kept if one.binding.work_unit_id == node]
        return tuple(sorted(of_unit, key=lambda one: one.sequence))

    def readiness(self, node: str) -> Readiness:
        """Return what the gate says about the unit now."""
        self._check_node(node)
        look = self._look()[node]
        digest = None if look.inputs is None else self.names.name(look.inputs)
        return Readiness(look.inputs is not None, look.satisfied, digest, look.blockers)

    def ready_units(self) -> tuple[str, ...]:
        """Return the units that are ready and not satisfied, in id order."""
        looks = self._look()
        return tuple(
            unit
            for unit in sorted(looks)
            if looks[unit].inputs is not None and not looks[unit].satisfied
        )

    # The three phases.

    def admit(
        self, node: str, task: ScopedResourceRef, actor: ActorContext, *, request_id: str
    ) -> tuple[Record, Record]:
        """Claim the task on the unit's inputs as they are now."""
        self._check_place(node, task)
        demand(is_text(request_id))
        turn = self.oracle.enter(task, actor, "claim")
        now = self.readiness(node)
        demand(not now.satisfied, "task_already_integrated")
        if not now.ready:
            raise Refused("task_not_ready", now.blockers)
        binding = {
            "work_unit_digest": self.graph.bindings[node].work_unit_digest,
            "source_revision": self.graph.bindings[node].source_revision,
            "inputs_digest": now.inputs_digest,
        }
        claim, created = self.oracle.claim_rules(turn, actor, request_id, binding)
        return claim, self._record("admission", node, claim, created=created)

    def reserve_execution(
        self,
        node: str,
        task: ScopedResourceRef,
        dispatcher: ActorContext,
        owner: ActorContext,
        *,
        request_id: str,
        epoch: int,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> tuple[Record, Record]:
        """Reserve the dispatch where the claim's inputs are still the unit's."""
        self._check_place(node, task)
        demand(is_text(request_id))
        check_approval(approver, approval_reference)
        turn = self.oracle.enter(task, dispatcher, "dispatch", approver=approver, owner=owner)
        self._check_inputs(turn, node, request_id)
        claim, created = self.oracle.reserve_rules(turn, owner, request_id, epoch)
        return claim, self._record("execution-reservation", node, claim, created=created)

    def submit(
        self,
        node: str,
        task: ScopedResourceRef,
        owner: ActorContext,
        *,
        request_id: str,
        epoch: int,
        artifact_digest: str,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> tuple[Record, Record]:
        """Record the submission where the claim's inputs are still the unit's."""
        self._check_place(node, task)
        demand(is_text(request_id) and is_digest(artifact_digest))
        check_approval(approver, approval_reference)
        turn = self.oracle.enter(task, owner, "execute", approver=approver)
        self._check_inputs(turn, node, request_id)
        claim, created = self.oracle.submission_rules(
            turn, owner, request_id, epoch, artifact_digest
        )
        return claim, self._record("submission", node, claim, created=created)

    # What the phases ask.

    def _check_node(self, node: object) -> None:
        demand(isinstance(node, str))
        demand(node in self.graph.bindings, "unknown_work_unit")

    def _check_place(self, node: str, task: ScopedResourceRef) -> None:
        self._check_node(node)
        check_task(task)
        demand(task.scope == self.graph.scope, "scope_mismatch")

    def _check_inputs(self, turn: Turn, node: str, request_id: str) -> None:
        grant = self.oracle.known(turn, request_id)
        if grant is None:
            refuse("claim_not_found")
        bound = grant.record["binding"]
        binding = self.graph.bindings[node]
        demand(bound["work_unit_digest"] == binding.work_unit_digest, "binding_mismatch")
        demand(bound["source_revision"] == binding.source_revision, "binding_mismatch")
        demand(bound["inputs_digest"] == self.readiness(node).inputs_digest, "inputs_changed")

    def _latest(self, unit: str) -> PrerequisiteObservation | None:
        seen = self.observations(unit)
        return seen[-1] if seen else None

    def _fault(self, unit: str, inputs: int | None) -> str | None:
        latest = self._latest(unit)
        if latest is None:
            return "prerequisite_missing"
        if inputs is None:
            return "prerequisite_blocked"
        if latest.state != "integrated":
            return "prerequisite_not_integrated"
        if Binding.of(latest.binding) != self.graph.bindings[unit]:
            return "prerequisite_binding_changed"
        if latest.inputs_digest != self.names.name(inputs):
            return "prerequisite_inputs_changed"
        return None

    def _look(self) -> dict[str, Look]:
        looks: dict[str, Look] = {}
        for unit in self.graph.order:
            needs = self.graph.requires[unit]
            faults = [(self._fault(need, looks[need].inputs), need) for need in needs]
            blockers = tuple(f"{code}:{need}" for code, need in faults if code is not None)
            inputs = None
            if not blockers:
                pins = tuple(self._pin(need, looks[need].inputs) for need in needs)
                content = (_place(self.graph.scope), self.graph.bindings[unit], pins)
                inputs = self.names.number(("inputs", *content))
            looks[unit] = Look(inputs, self._fault(unit, inputs) is None, blockers)
        return looks

    def _pin(self, need: str, inputs: int | None) -> tuple[Hashable, ...]:
        latest = self._latest(need)
        assert latest is not None, "only a satisfied prerequisite is pinned"
        binding = self.graph.bindings[need]
        return (binding, inputs, latest.integrated_revision, latest.artifacts_digest)

    def _graph_number(self) -> int:
        units = [
            (self.graph.bindings[unit], self.graph.requires[unit]) for unit in self.graph.order
        ]
        return self.names.number(("graph", _place(self.graph.scope), *sorted(units)))

    def _observation_number(self, node: str) -> int:
        latest = [self._latest(unit) for unit in self.graph.lineage(node)]
        contents = [_content(one) for one in latest if one is not None]
        return self.names.number(("observations", *contents))

    def _record(self, phase: str, node: str, claim: Record, *, created: bool) -> Record:
        scope = self.graph.scope
        authority = ("dispatch", "executes_worker", "accepts_candidate", "merge")
        return {
            "kind": "idkmesh-executor-admission",
            "schema_version": "0.1",
            "phase": phase,
            "scope": {"tenant_id": scope.tenant_id, "project_id": scope.project_id},
            "graph_digest": self.names.name(self._graph_number()),
            "observation_digest": self.names.name(self._observation_number(node)),
            "work_unit_id": node,
            "binding": self.graph.bindings[node]._asdict(),
            "inputs_digest": self.readiness(node).inputs_digest,
            "created": created,
            "claim": claim,
            "authority": dict.fromkeys(authority, False),
        }
