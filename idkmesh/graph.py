"""The dependency graph of WorkUnits: bound to revisions, without a cycle, fixed for ever."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from idkmesh import graph_units, scalars
from idkmesh.digests import canonical_digest
from idkmesh.errors import ClaimError, ErrorCode, InvalidInput
from idkmesh.graph_units import Edge, GraphUnit
from idkmesh.identity import TenantScope
from idkmesh.naming import shown
from idkmesh.prerequisites import WorkUnitSourceBinding
from idkmesh.scalars import Risk

REQUIRES: Final = "requires"

_NAMED_IN_A_CYCLE: Final = 12


class DependencyGraph:
    """WorkUnits of one scope, each bound to its content and revision, and what they require.

    It keeps nothing of the caller's objects and never changes. Building it takes time in
    proportion to the units and their dependencies.

    Where several rules are broken, the one whose code stands first below is raised, looked
    for in all units before the next; within one rule, the first unit in the order given.
    That is the order of precedence of ``ErrorCode``.

    Args:
        scope: The tenant's project that the units belong to.
        work_units: 1 to 1,000,000 WorkUnits as plain dicts of JSON content (no subclasses,
            which could tell each reader something else), each of at most 1,048,576 characters
            and members and 64 levels. Of their parts only ``schema_version``, ``id``, ``version``,
            ``security.risk_class``, ``dependencies`` and ``provenance.source_revision`` are
            looked at; the rest counts towards the unit's digest alone. A null ``condition``
            is none. Units may be named by any relationship but ``requires`` without being
            in the graph.
        source_revisions: The trusted source revision of each unit by its id: 40 or 64 hex
            digits in either case. Revisions of other units are left alone.

    Raises:
        InvalidInput: There is no unit or too many, a unit is no dict or holds what JSON
            cannot carry, its ``id`` is no text of 1-512 characters or blank, its ``version``
            is no int from 1, or ``source_revisions`` is no mapping (``invalid_input``).
        ClaimError: A ``schema_version`` is not "0.2" (``unsupported_work_unit``); two units
            share an id (``duplicate_work_unit``); a unit has no revision or a malformed one,
            or its ``provenance`` is no object or states another (``source_binding_invalid``);
            ``security`` is no object or its ``risk_class`` no risk
            (``invalid_work_unit_security``); ``dependencies`` is no list, or one of its
            members has unknown or missing fields, a malformed id or an unknown relationship
            (``invalid_dependency``); a ``requires`` dependency has a condition
            (``unsupported_condition``); a unit has two dependencies of the same id and
            relationship (``duplicate_dependency``); a required unit is not there
            (``missing_prerequisite``); units require each other in a circle
            (``dependency_cycle``). The message names the unit, the missing one, the circle.
        TypeError: ``scope`` is no ``TenantScope``; looked at before everything else.
    """

    __slots__ = ("_bindings", "_digest", "_order", "_requires", "_risks", "_scope")

    def __init__(
        self,
        scope: TenantScope,
        work_units: Iterable[Mapping[str, Any]],
        source_revisions: Mapping[str, str],
    ) -> None:
        self._scope = scalars.instance(scope, TenantScope, "scope")
        if not isinstance(source_revisions, Mapping):
            kind = type(source_revisions).__name__
            message = f"expected source_revisions to be a mapping, but it is a {kind}"
            raise InvalidInput(message)
        units = graph_units.read_units(work_units)
        for unit in units:
            graph_units.check_version(unit)
        _check_distinct(units)
        bindings = {unit.id: graph_units.bind(unit, source_revisions) for unit in units}
        self._risks = {unit.id: graph_units.risk(unit) for unit in units}
        edges = {unit.id: graph_units.edges(unit) for unit in units}
        _check_unconditional(edges)
        _check_edges_distinct(edges)
        requires = {unit: _required(each) for unit, each in edges.items()}
        _check_present(requires)
        self._order = _prerequisites_first(requires)
        self._bindings = MappingProxyType(bindings)
        self._requires = MappingProxyType(requires)
        self._digest = _digest(self._scope, bindings, requires)

    @property
    def scope(self) -> TenantScope:
        """The tenant's project that the units belong to."""
        return self._scope

    @property
    def bindings(self) -> Mapping[str, WorkUnitSourceBinding]:
        """Each unit's binding by its id; read-only."""
        return self._bindings

    @property
    def requires(self) -> Mapping[str, tuple[str, ...]]:
        """The sorted ids that each unit requires, by its id; read-only."""
        return self._requires

    @property
    def digest(self) -> str:
        """The digest over the scope and, in id order, each binding and its ``requires``."""
        return self._digest

    @property
    def order(self) -> tuple[str, ...]:
        """Every id once, after all that it requires; the same for the same ``digest``."""
        return self._order

    def risk(self, node: str) -> Risk:
        """Return the unit's risk class.

        Args:
            node: A unit's id.

        Raises:
            InvalidInput: ``node`` is no ``str`` (``invalid_input``).
            ClaimError: It is not in the graph (``unknown_work_unit``).
        """
        return self._risks[self.require(node)]

    def ancestors(self, node: str) -> tuple[str, ...]:
        """Return the unit and all that it requires, directly or through others.

        Each id stands after all that it requires, so ``node`` is the last. The cost is in
        proportion to the answer and its dependencies, whatever else the graph holds.

        Args:
            node: A unit's id.

        Raises:
            InvalidInput: ``node`` is no ``str`` (``invalid_input``).
            ClaimError: It is not in the graph (``unknown_work_unit``).
        """
        node = self.require(node)
        placed: list[str] = []
        seen = {node}
        path = [(node, iter(self._requires[node]))]
        while path:
            unit, rest = path[-1]
            need = next((each for each in rest if each not in seen), None)
            if need is None:
                path.pop()
                placed.append(unit)
            else:
                seen.add(need)
                path.append((need, iter(self._requires[need])))
        return tuple(placed)

    def require(self, node: object) -> str:
        """Return ``node`` where it is a unit of the graph.

        Raises:
            InvalidInput: It is no ``str`` (``invalid_input``).
            ClaimError: It is not in the graph (``unknown_work_unit``).
        """
        unit = scalars.plain(node, "node")
        if unit not in self._bindings:
            message = "expected node to be a unit of this graph, but it is not"
            raise ClaimError(ErrorCode.UNKNOWN_WORK_UNIT, message)
        return unit

    def __repr__(self) -> str:
        return f"DependencyGraph({self._scope.key} units={len(self._bindings)} {self._digest})"


def _check_distinct(units: list[GraphUnit]) -> None:
    seen: set[str] = set()
    for unit in units:
        if unit.id in seen:
            message = f"expected one unit an id, but two have the id {shown(unit.id)}"
            raise ClaimError(ErrorCode.DUPLICATE_WORK_UNIT, message)
        seen.add(unit.id)


def _check_unconditional(edges: dict[str, list[Edge]]) -> None:
    for unit, its_edges in edges.items():
        for edge in its_edges:
            if edge.relationship == REQUIRES and edge.conditional:
                message = (
                    "expected a requires dependency to have no condition, but unit "
                    f"{shown(unit)} has one on {shown(edge.target)}"
                )
                raise ClaimError(ErrorCode.UNSUPPORTED_CONDITION, message)


def _check_edges_distinct(edges: dict[str, list[Edge]]) -> None:
    for unit, its_edges in edges.items():
        seen: set[tuple[str, str]] = set()
        for edge in its_edges:
            content = (edge.target, edge.relationship)
            if content in seen:
                message = (
                    f"expected one dependency an id and relationship, but unit {shown(unit)} "
                    f"has two of {edge.relationship} {shown(edge.target)}"
                )
                raise ClaimError(ErrorCode.DUPLICATE_DEPENDENCY, message)
            seen.add(content)


def _required(edges: list[Edge]) -> tuple[str, ...]:
    return tuple(sorted(edge.target for edge in edges if edge.relationship == REQUIRES))


def _check_present(requires: dict[str, tuple[str, ...]]) -> None:
    for unit, needs in requires.items():
        for need in needs:
            if need not in requires:
                message = (
                    "expected every required unit to be in the graph, but unit "
                    f"{shown(unit)} requires {shown(need)}, which is not"
                )
                raise ClaimError(ErrorCode.MISSING_PREREQUISITE, message)


def _prerequisites_first(requires: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return all ids, each after those that it requires, by Kahn's algorithm."""
    open_needs = {unit: len(requires[unit]) for unit in sorted(requires)}
    required_by: dict[str, list[str]] = {unit: [] for unit in open_needs}
    for unit in open_needs:
        for need in requires[unit]:
            required_by[need].append(unit)
    order = [unit for unit, count in open_needs.items() if count == 0]
    for need in order:  # grows while it is walked
        for unit in required_by[need]:
            open_needs[unit] -= 1
            if open_needs[unit] == 0:
                order.append(unit)
    if len(order) < len(requires):
        stuck = {unit for unit, count in open_needs.items() if count > 0}
        raise _circle(_find_circle(requires, stuck))
    return tuple(order)


def _find_circle(requires: dict[str, tuple[str, ...]], stuck: set[str]) -> list[str]:
    """Return the units of one circle, each before the one that it requires.

    Every stuck unit requires a stuck one, so a walk along them must come back to itself.
    """
    path: dict[str, None] = {}
    unit = min(stuck)
    while unit not in path:
        path[unit] = None
        unit = next(need for need in requires[unit] if need in stuck)
    walked = list(path)
    circle = walked[walked.index(unit) :]
    first = circle.index(min(circle))
    return circle[first:] + circle[:first]


def _circle(circle: list[str]) -> ClaimError:
    names = [shown(unit) for unit in circle]
    if len(names) > _NAMED_IN_A_CYCLE:
        half = _NAMED_IN_A_CYCLE // 2
        left_out = len(names) - 2 * half
        names = [*names[:half], f"({left_out} more)", *names[-half:]]
    route = " -> ".join([*names, names[0]])
    message = f"expected no unit to require itself, but {route} is a circle"
    return ClaimError(ErrorCode.DEPENDENCY_CYCLE, message)


def _digest(
    scope: TenantScope,
    bindings: dict[str, WorkUnitSourceBinding],
    requires: dict[str, tuple[str, ...]],
) -> str:
    content = {
        "scope": scope.to_dict(),
        "units": [
            {"binding": bindings[unit].to_dict(), "requires": requires[unit]}
            for unit in sorted(bindings)
        ],
    }
    return canonical_digest(content)
