"""The graph of the gate's model: WorkUnits, their bindings, and digests known by content.

Where the bytes under a digest are the library's own affair (inputs, observations,
graph), the model knows only what the digest is over: equal contents must have one
digest and different contents two. ``DigestNames`` holds that against the real ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from oracle_terms import canonical_digest, demand, is_digest, refuse

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from idkmesh import TenantScope, WorkUnitSourceBinding


class DigestNames:
    """Numbers for contents, and the real digest of each number as far as it is known."""

    def __init__(self) -> None:
        """Know no content yet."""
        self._numbers: dict[Hashable, int] = {}
        self._names: dict[int, str] = {}

    def number(self, content: Hashable) -> int:
        """Return the content's number: one for equal contents, another for every other."""
        return self._numbers.setdefault(content, len(self._numbers))

    def name(self, number: int) -> str:
        """Return the real digest, or a stand-in where it was never taught."""
        return self._names.get(number) or canonical_digest({"stand_in": number})

    def teach(self, number: int, digest: str) -> None:
        """Pair a number with its real digest; AssertionError where that breaks the pairing."""
        assert is_digest(digest), f"not a digest: {digest!r}"
        known = self._names.get(number, digest)
        assert known == digest, f"one content, two digests: {known} and {digest}"
        twins = [other for other, name in self._names.items() if name == digest]
        assert twins in ([], [number]), f"two contents, one digest: {digest}"
        self._names[number] = digest


class Binding(NamedTuple):
    """The four fields of a WorkUnit's binding."""

    work_unit_id: str
    work_unit_version: int
    work_unit_digest: str
    source_revision: str

    @classmethod
    def of(cls, binding: WorkUnitSourceBinding) -> Binding:
        """Return the fields of a binding object."""
        return cls(*(getattr(binding, name) for name in cls._fields))


class OracleGraph:
    """Well-formed WorkUnits as bindings and sorted prerequisites; faults between them refused."""

    def __init__(
        self,
        scope: TenantScope,
        work_units: Iterable[Mapping[str, Any]],
        source_revisions: Mapping[str, str],
    ) -> None:
        """Bind the units and put them in an order with prerequisites first."""
        units = list(work_units)
        ids = [unit["id"] for unit in units]
        demand(bool(ids))
        demand(len(set(ids)) == len(ids), "duplicate_work_unit")
        self.scope = scope
        self.bindings = {unit["id"]: _bind(unit, source_revisions) for unit in units}
        for unit in units:
            for edge in unit["dependencies"]:
                if edge["relationship"] == "requires":
                    demand(edge.get("condition") is None, "unsupported_condition")
        for unit in units:
            edges = [(edge["work_unit_id"], edge["relationship"]) for edge in unit["dependencies"]]
            demand(len(set(edges)) == len(edges), "duplicate_dependency")
        self.requires = {
            unit["id"]: tuple(
                sorted(
                    edge["work_unit_id"]
                    for edge in unit["dependencies"]
                    if edge["relationship"] == "requires"
                )
            )
            for unit in units
        }
        for needs in self.requires.values():
            demand(set(needs) <= set(ids), "missing_prerequisite")
        self.order: list[str] = []
        while len(self.order) < len(ids):
            placed = set(self.order)
            free = [
                unit for unit in ids if unit not in placed and set(self.requires[unit]) <= placed
            ]
            demand(bool(free), "dependency_cycle")
            self.order += free

    def lineage(self, node: str) -> list[str]:
        """Return the unit and all its ancestors in id order."""
        found = {node}
        for unit in reversed(self.order):
            if unit in found:
                found.update(self.requires[unit])
        return sorted(found)


def _bind(unit: Mapping[str, Any], source_revisions: Mapping[str, str]) -> Binding:
    revision = source_revisions.get(unit["id"])
    pattern = r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}"
    if not isinstance(revision, str) or not re.fullmatch(pattern, revision):
        refuse("source_binding_invalid")
    stated = unit["provenance"].get("source_revision", revision)
    demand(isinstance(stated, str) and stated.lower() == revision.lower(), "source_binding_invalid")
    return Binding(unit["id"], unit["version"], canonical_digest(unit), revision.lower())
