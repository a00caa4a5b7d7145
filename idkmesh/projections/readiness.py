"""Readiness: a pure function of the graph and each unit's latest observation.

A unit is ready when all that it requires is satisfied; it is satisfied when it is ready and
was last seen integrated, as the graph binds it and on the inputs that it has now (admission
contract, Readiness).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from idkmesh.digests import canonical_digest
from idkmesh.graph import DependencyGraph
from idkmesh.prerequisites import WorkUnitSourceBinding
from idkmesh.projections.observations import Observed


class TaskReadiness(Struct, frozen=True):
    """Whether a unit can be worked on, and on which inputs.

    Attributes:
        ready: Whether all that it requires is satisfied.
        satisfied: Whether it is integrated itself, on these inputs.
        inputs_digest: The digest of those inputs; None while it is not ready.
        blockers: ``code:unit_id`` of each requirement that is not satisfied, by id.
    """

    ready: bool
    satisfied: bool
    inputs_digest: str | None
    blockers: tuple[str, ...]


class Inputs(NamedTuple):
    """What a gate decision rests on, as one transaction saw it."""

    binding: WorkUnitSourceBinding
    readiness: TaskReadiness
    observation_digest: str


def resolve(
    graph: DependencyGraph, units: Iterable[str], latest: Mapping[str, Observed]
) -> dict[str, TaskReadiness]:
    """Return the readiness of units, each of which stands after all that it requires.

    Args:
        graph: The graph.
        units: Ids in an order such as ``graph.ancestors`` or ``graph.order`` gives.
        latest: The latest observation of each unit that has one.
    """
    known: dict[str, TaskReadiness] = {}
    for unit in units:
        known[unit] = _readiness(graph, unit, known, latest)
    return known


def inputs_of(
    graph: DependencyGraph, ancestors: Sequence[str], latest: Mapping[str, Observed]
) -> Inputs:
    """Return what a gate decision about a unit rests on.

    Args:
        graph: The graph.
        ancestors: What ``graph.ancestors`` gives for the unit, which is the last of them.
        latest: The latest observation of each of them that has one.
    """
    node = ancestors[-1]
    resolved = resolve(graph, ancestors, latest)
    seen = [latest[unit].observation(graph.scope).to_dict() for unit in sorted(latest)]
    return Inputs(graph.bindings[node], resolved[node], canonical_digest(seen))


def _readiness(
    graph: DependencyGraph,
    unit: str,
    known: Mapping[str, TaskReadiness],
    latest: Mapping[str, Observed],
) -> TaskReadiness:
    required = graph.requires[unit]
    blockers = []
    for need in required:
        reason = _blocker(graph, need, known[need], latest.get(need))
        if reason is not None:
            blockers.append(f"{reason}:{need}")
    if blockers:
        return TaskReadiness(
            ready=False, satisfied=False, inputs_digest=None, blockers=tuple(blockers)
        )
    digest = canonical_digest(
        {
            "scope": graph.scope.to_dict(),
            "binding": graph.bindings[unit].to_dict(),
            "prerequisites": [
                {
                    "binding": graph.bindings[need].to_dict(),
                    "inputs_digest": known[need].inputs_digest,
                    "integrated_revision": latest[need].integrated_revision,
                    "artifacts_digest": latest[need].artifacts_digest,
                }
                for need in required
            ],
        }
    )
    own = latest.get(unit)
    satisfied = (
        own is not None
        and own.state == "integrated"
        and own.is_of(graph.bindings[unit])
        and own.inputs_digest == digest
    )
    return TaskReadiness(ready=True, satisfied=satisfied, inputs_digest=digest, blockers=())


def _blocker(
    graph: DependencyGraph, unit: str, readiness: TaskReadiness, last: Observed | None
) -> str | None:
    """Return the first reason for which a required unit is not satisfied, or None."""
    if last is None:
        return "prerequisite_missing"
    if not readiness.ready:
        return "prerequisite_blocked"
    if last.state != "integrated":
        return "prerequisite_not_integrated"
    if not last.is_of(graph.bindings[unit]):
        return "prerequisite_binding_changed"
    if last.inputs_digest != readiness.inputs_digest:
        return "prerequisite_inputs_changed"
    return None
