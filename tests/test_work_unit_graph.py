"""The dependency graph: what it holds, what it refuses, and in which order."""

import itertools
from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit_builders import (
    ABSENT,
    OTHER_REVISION,
    REVISION,
    SCOPE,
    Unit,
    build,
    edge,
    refusal,
    sha256,
    unit,
)

from idkmesh import graph_units
from idkmesh.errors import ErrorCode, InvalidInput
from idkmesh.graph import DependencyGraph
from idkmesh.identity import TenantScope
from idkmesh.prerequisites import WorkUnitSourceBinding

# The graph: what it holds.


def test_a_unit_is_bound_to_its_canonical_json_and_its_revision() -> None:
    """The digest is over sorted, blank-free JSON of the whole unit."""
    whole = unit("ä/parse", version=3, note={"b": [1.5, None], "a": True})
    text = (
        '{"dependencies":[],"id":"ä/parse","note":{"a":true,"b":[1.5,null]},"provenance":{},'
        '"schema_version":"0.2","security":{"risk_class":"low"},"version":3}'
    )
    graph = DependencyGraph(SCOPE, [whole], source_revisions={"ä/parse": OTHER_REVISION.upper()})
    assert dict(graph.bindings) == {
        "ä/parse": WorkUnitSourceBinding("ä/parse", 3, sha256(text), OTHER_REVISION)
    }


def test_only_requires_gates_and_it_is_sorted() -> None:
    """The other relationships are no prerequisites and may name units of elsewhere."""
    others = [edge("far", each) for each in ("blocks", "informs", "validates", "derived_from")]
    last = unit("c", dependencies=[*others, edge("b"), edge("a")])
    graph = build(last, unit("b"), unit("a"))
    assert dict(graph.requires) == {"a": (), "b": (), "c": ("a", "b")}


def test_the_graph_digest_is_over_scope_bindings_and_requires_in_id_order() -> None:
    """The digest is that of the text written out here, whatever the order of the units."""
    units = (unit("b", "a"), unit("a"))
    graph = build(*units)
    a, b = graph.bindings["a"].work_unit_digest, graph.bindings["b"].work_unit_digest
    text = (
        '{"scope":{"project_id":"bikes","tenant_id":"acme"},"units":['
        f'{{"binding":{{"source_revision":"{REVISION}","work_unit_digest":"{a}",'
        '"work_unit_id":"a","work_unit_version":1},"requires":[]},'
        f'{{"binding":{{"source_revision":"{REVISION}","work_unit_digest":"{b}",'
        '"work_unit_id":"b","work_unit_version":1},"requires":["a"]}]}'
    )
    assert graph.digest == sha256(text)
    assert build(*reversed(units)).digest == graph.digest
    assert build(*reversed(units)).order == graph.order == ("a", "b")
    assert build(unit("c"), unit("b"), unit("a")).order == ("a", "b", "c")


@pytest.mark.parametrize(
    "other",
    [
        build(unit("b", "a"), unit("a"), a=OTHER_REVISION),
        build(unit("b"), unit("a")),
        build(unit("b", "a", note="new"), unit("a")),
        DependencyGraph(
            TenantScope("acme", "cars"),
            [unit("b", "a"), unit("a")],
            {"a": REVISION, "b": REVISION},
        ),
    ],
    ids=["revision", "requires", "content", "scope"],
)
def test_whatever_the_graph_rests_on_moves_its_digest(other: DependencyGraph) -> None:
    """Another revision, edge, content or scope is another digest."""
    assert other.digest != build(unit("b", "a"), unit("a")).digest


def test_the_graph_is_detached_from_the_callers_objects() -> None:
    """Changing what was handed in changes nothing in the graph."""
    units = [unit("b", "a"), unit("a")]
    revisions = {"a": REVISION, "b": REVISION}
    graph = DependencyGraph(SCOPE, units, revisions)
    before = (dict(graph.bindings), dict(graph.requires), graph.digest, graph.risk("b"))
    units[0]["dependencies"].clear()
    units[0]["security"]["risk_class"] = "critical"
    units.clear()
    revisions["a"] = OTHER_REVISION
    assert (dict(graph.bindings), dict(graph.requires), graph.digest, graph.risk("b")) == before


@pytest.mark.parametrize(
    "name", ["scope", "bindings", "requires", "digest", "order", "anything_else"]
)
def test_the_graph_cannot_be_changed(name: str) -> None:
    """No attribute can be set, and the mappings take no item."""
    graph = build(unit("a"))
    with pytest.raises(AttributeError):
        setattr(graph, name, None)
    for mapping in (graph.bindings, graph.requires):
        with pytest.raises(TypeError):
            mapping["a"] = None  # type: ignore[index]  # the very thing that must not work


def test_work_units_may_come_from_an_iterator() -> None:
    """Any iterable will do; it is walked once."""
    graph = DependencyGraph(SCOPE, iter([unit("a"), unit("b", "a")]), dict.fromkeys("ab", REVISION))
    assert graph.order == ("a", "b")


def test_the_risk_of_a_unit_is_known() -> None:
    """Each unit's risk class can be asked for."""
    graph = build(*(unit(risk, security={"risk_class": risk}) for risk in ("low", "critical")))
    assert (graph.risk("low"), graph.risk("critical")) == ("low", "critical")


# The graph: what it refuses.


def test_the_scope_must_be_a_tenant_scope() -> None:
    """Another object for the scope is a TypeError, before anything else is looked at."""
    with pytest.raises(TypeError, match="expected scope to be a TenantScope, but it is a str"):
        DependencyGraph("acme/bikes", 5, 5)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    "work_units",
    [[], {}, None, 5, "units", {"a": 1}, [[]], [None], [UserDict(unit("a"))]],
    ids=repr,
)
def test_work_units_must_be_some_dicts(work_units: object) -> None:
    """No unit at all, and what is no dict, is invalid input."""
    call = lambda: DependencyGraph(SCOPE, work_units, {})  # type: ignore[arg-type]  # noqa: E731
    assert isinstance(refusal(call), InvalidInput)


def test_a_unit_that_is_no_dict_is_named_by_its_place() -> None:
    """Where a unit has no id to name it by, its place does."""
    units: Any = [unit("a"), ["b"]]
    message = refusal(lambda: DependencyGraph(SCOPE, units, {})).message
    assert message == "expected work_units[1] to be a dict, but it is a list"


def test_an_endless_iterator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """More units than a graph may hold are refused without being read to the end."""
    monkeypatch.setattr(graph_units, "MAX_UNITS", 20)
    endless = (unit(f"u{number}") for number in itertools.count())
    assert refusal(lambda: DependencyGraph(SCOPE, endless, {})).code == "invalid_input"
    assert next(endless)["id"] == "u21"


MALFORMED = [
    ({"id": ABSENT}, "invalid_input"),
    ({"id": " \t"}, "invalid_input"),
    ({"id": "a\n"}, "invalid_input"),
    ({"id": "x" * 513}, "invalid_input"),
    ({"id": ["a"]}, "invalid_input"),
    ({"version": ABSENT}, "invalid_input"),
    ({"version": 0}, "invalid_input"),
    ({"version": True}, "invalid_input"),
    ({"version": 1.0}, "invalid_input"),
    ({"version": "1"}, "invalid_input"),
    ({"version": 2**62}, "invalid_input"),
    ({"schema_version": ABSENT}, "unsupported_work_unit"),
    ({"schema_version": "0.1"}, "unsupported_work_unit"),
    ({"schema_version": 0.2}, "unsupported_work_unit"),
    ({"provenance": ABSENT}, "source_binding_invalid"),
    ({"provenance": [REVISION]}, "source_binding_invalid"),
    ({"provenance": {"source_revision": OTHER_REVISION}}, "source_binding_invalid"),
    ({"provenance": {"source_revision": None}}, "source_binding_invalid"),
    ({"provenance": {"source_revision": 5}}, "source_binding_invalid"),
    ({"security": ABSENT}, "invalid_work_unit_security"),
    ({"security": "low"}, "invalid_work_unit_security"),
    ({"security": {}}, "invalid_work_unit_security"),
    ({"security": {"risk_class": "severe"}}, "invalid_work_unit_security"),
    ({"security": {"risk_class": ["low"]}}, "invalid_work_unit_security"),
    ({"dependencies": ABSENT}, "invalid_dependency"),
    ({"dependencies": {}}, "invalid_dependency"),
    ({"dependencies": ["b"]}, "invalid_dependency"),
    ({"dependencies": [{"work_unit_id": "b"}]}, "invalid_dependency"),
    ({"dependencies": [{"relationship": "requires"}]}, "invalid_dependency"),
    ({"dependencies": [edge("b", weight=2)]}, "invalid_dependency"),
    ({"dependencies": [edge("b", "needs")]}, "invalid_dependency"),
    ({"dependencies": [edge("b", "Requires")]}, "invalid_dependency"),
    ({"dependencies": [edge(" ")]}, "invalid_dependency"),
    ({"dependencies": [{"work_unit_id": 5, "relationship": "requires"}]}, "invalid_dependency"),
    ({"dependencies": [edge("b", condition="on main")]}, "unsupported_condition"),
    ({"dependencies": [edge("b", condition="")]}, "unsupported_condition"),
    ({"dependencies": [edge("b", condition=False)]}, "unsupported_condition"),
    ({"dependencies": [edge("b"), edge("b")]}, "duplicate_dependency"),
    ({"dependencies": [edge("b", "informs"), edge("b", "informs")]}, "duplicate_dependency"),
    ({"dependencies": [edge("c")]}, "missing_prerequisite"),
    ({"dependencies": [edge("a")]}, "dependency_cycle"),
]


@pytest.mark.parametrize(("parts", "code"), MALFORMED, ids=repr)
def test_a_malformed_part_has_its_code(parts: Unit, code: str) -> None:
    """Each part that a graph looks at is refused with its own code where it is malformed."""
    units = [unit("b"), unit("a", **parts)]
    revisions = dict.fromkeys("ab", REVISION)
    assert refusal(lambda: DependencyGraph(SCOPE, units, revisions)).code == code


@pytest.mark.parametrize(
    "dependencies",
    [
        [edge("b", condition=None)],
        [edge("b"), edge("b", "validates")],
        [edge("b", "informs", condition="on main"), edge("b")],
    ],
)
def test_a_dependency_may_have_a_null_condition_and_a_twin_of_another_kind(
    dependencies: list[Unit],
) -> None:
    """Null is no condition; only ``requires`` must have none; one target may be named twice."""
    assert build(unit("a", dependencies=dependencies), unit("b")).requires["a"] == ("b",)


@pytest.mark.parametrize("revision", [ABSENT, None, "", "main", "5e0c" * 11, REVISION + "\n", 5])
def test_a_unit_needs_a_well_formed_revision(revision: object) -> None:
    """No revision, or a malformed one, is an invalid source binding."""
    revisions: Any = {} if revision is ABSENT else {"a": revision}
    error = refusal(lambda: DependencyGraph(SCOPE, [unit("a")], revisions))
    assert error.code == "source_binding_invalid"


def test_source_revisions_must_be_a_mapping() -> None:
    """A list of revisions is invalid input."""
    revisions: Any = [("a", REVISION)]
    assert refusal(lambda: DependencyGraph(SCOPE, [unit("a")], revisions)).code == "invalid_input"


def test_a_stated_revision_may_differ_in_case_alone() -> None:
    """The provenance states the trusted revision in either case."""
    stated = unit("a", provenance={"source_revision": REVISION.upper()})
    assert build(stated).bindings["a"].source_revision == REVISION


def test_two_units_of_one_id_are_refused_by_name() -> None:
    """A repeated id is refused, also where the two units are the same."""
    error = refusal(lambda: build(unit("a/b"), unit("a/b")))
    assert (error.code, "a/b" in error.message) == ("duplicate_work_unit", True)


# One attempt a row: a unit that breaks one rule, and the code; highest precedence first.
PRECEDENCE: list[tuple[Unit, str]] = [
    (unit("u1", version=0), "invalid_input"),
    (unit("u2", schema_version="0.3"), "unsupported_work_unit"),
    (unit("twin"), "duplicate_work_unit"),
    (unit("u4", provenance=0), "source_binding_invalid"),
    (unit("u5", security=0), "invalid_work_unit_security"),
    (unit("u6", dependencies=0), "invalid_dependency"),
    (unit("u7", dependencies=[edge("twin", condition="c")]), "unsupported_condition"),
    (unit("u8", "twin", "twin"), "duplicate_dependency"),
    (unit("u9", "nowhere"), "missing_prerequisite"),
    (unit("u10", "u10"), "dependency_cycle"),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_first_broken_rule_decides_wherever_it_is_broken(first: int) -> None:
    """Of all broken rules the one that stands first is raised, whichever unit breaks it."""
    faulty = [each for each, _ in PRECEDENCE[first:]]
    assert refusal(lambda: build(*reversed(faulty), unit("twin"))).code == PRECEDENCE[first][1]


def test_the_precedence_is_that_of_the_error_codes() -> None:
    """The rules of the graph stand in the order in which the codes do."""
    codes = [code for _, code in PRECEDENCE]
    assert codes == [code for code in ErrorCode if code in codes]


def test_a_missing_prerequisite_is_named() -> None:
    """The message names the unit that is not there and the one that requires it."""
    error = refusal(lambda: build(unit("lib/build", "lib/design")))
    assert error.code == "missing_prerequisite"
    assert "lib/build requires lib/design, which is not" in error.message


@pytest.mark.parametrize(
    ("units", "route"),
    [
        ([unit("a", "a")], "a -> a"),
        ([unit("b", "a"), unit("a", "b")], "a -> b -> a"),
        ([unit("b", "c"), unit("c", "a"), unit("a", "b"), unit("z", "a")], "a -> b -> c -> a"),
        ([unit("p", "b"), unit("b", "x", "c"), unit("c", "b"), unit("x")], "b -> c -> b"),
        ([unit("a", "c"), unit("b", "c"), unit("c", "b")], "b -> c -> b"),
    ],
    ids=["itself", "two", "three and a bystander", "beside a good branch", "behind another unit"],
)
def test_a_cycle_is_named(units: list[Unit], route: str) -> None:
    """The message gives the circle, each unit before the one that it requires."""
    error = refusal(lambda: build(*units))
    assert error.code == "dependency_cycle"
    assert error.message == f"expected no unit to require itself, but {route} is a circle"


def test_a_long_cycle_is_named_in_part() -> None:
    """A circle of thousands is shown by its first and last units."""
    size = 3_000
    circle = [unit(f"u{each:04}", f"u{(each + 1) % size:04}") for each in range(size)]
    message = refusal(lambda: build(*circle)).message
    assert "u0000 -> u0001" in message
    assert "u2999 -> u0000 is a circle" in message
    assert "(2988 more)" in message
    assert len(message) < 300


def test_a_name_in_a_message_is_short_and_harmless() -> None:
    """A long id loses its middle, and what does not print is escaped."""
    message = refusal(lambda: build(unit("a", "\u202eevil" + "x" * 400 + "end"))).message
    assert "\\u202eevilxxx" in message
    assert "...xxxxxxxxxxxxxxxxxend" in message
    assert len(message) < 250
    assert message.isprintable()


# Ancestors.


def test_ancestors_are_the_unit_and_all_that_it_requires() -> None:
    """Every prerequisite stands before what requires it, once, and nothing else is there."""
    graph = build(
        unit("d", "b", "c"), unit("b", "a"), unit("c", "a"), unit("a"), unit("e", "d"), unit("f")
    )
    assert graph.ancestors("d") == ("a", "b", "c", "d")
    assert graph.ancestors("c") == ("a", "c")
    assert graph.ancestors("f") == ("f",)


def test_a_deep_graph_needs_no_stack() -> None:
    """A chain of thousands is ordered and walked without recursion."""
    names = [f"u{each}" for each in range(5_000)]
    chain = [unit(each, *before) for each, *before in zip(names[1:], names, strict=False)]
    graph = build(*reversed(chain), unit(names[0]))
    assert graph.order == tuple(names)
    assert graph.ancestors(names[-1]) == tuple(names)


def test_only_ancestors_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of ancestors does not grow with the rest of the graph.

    It looks behind the graph's attribute, since no time could show the same as surely.
    """
    crowd = [unit(f"crowd/{each}", "a") for each in range(50)]
    graph = build(unit("a"), unit("b", "a"), *crowd)
    looked_at = []

    class Watched(UserDict[str, tuple[str, ...]]):
        def __getitem__(self, key: str) -> tuple[str, ...]:
            looked_at.append(key)
            return super().__getitem__(key)

    monkeypatch.setattr(graph, "_requires", Watched(graph.requires))
    assert graph.ancestors("b") == ("a", "b")
    assert sorted(looked_at) == ["a", "b"]


@pytest.mark.parametrize("method", ["ancestors", "risk"])
def test_a_node_must_be_in_the_graph(method: str) -> None:
    """Another id is an unknown unit; what is no text is invalid input."""
    ask: Callable[[object], object] = getattr(build(unit("a")), method)
    assert refusal(lambda: ask("b")).code == "unknown_work_unit"
    assert refusal(lambda: ask("\ud800" * 9_000)).code == "unknown_work_unit"
    for no_text in (None, 5, ["a"], b"a"):
        assert refusal(lambda given=no_text: ask(given)).code == "invalid_input"  # type: ignore[misc]


@given(st.data())
def test_every_order_puts_prerequisites_first(data: st.DataObject) -> None:
    """In a graph without circles each unit stands once and after all that it requires."""
    size = data.draw(st.integers(1, 12))
    edges = [
        data.draw(st.lists(st.integers(0, each - 1), unique=True)) if each else []
        for each in range(size)
    ]
    units = [unit(f"u{each}", *(f"u{need}" for need in needs)) for each, needs in enumerate(edges)]
    graph = build(*data.draw(st.permutations(units)))
    for each in (graph.order, graph.ancestors(f"u{size - 1}")):
        assert len(set(each)) == len(each)
        for place, node in enumerate(each):
            assert set(graph.requires[node]) <= set(each[:place])
    assert set(graph.order) == set(graph.requires)
