"""Readiness: what blocks a unit, what satisfies it, and which inputs it stands on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    GRANT,
    OTHER_SCOPE,
    SCOPE,
    WORKER,
    Clock,
    digest,
    opened,
    task,
)
from gate_builders import (
    OTHER_PARSE,
    PARSE,
    READ,
    REVIEW,
    STYLE,
    TEST,
    UNITS,
    admitted,
    configured,
    gate_on,
    graph_of,
    integrate,
    seen,
)
from msgspec.structs import replace
from unit_builders import OTHER_REVISION, REVISION, edge, sha256, unit

from idkmesh import (
    ClaimLedger,
    DependencyGraph,
    ExecutorAdmission,
    TaskReadiness,
    WorkUnitSourceBinding,
)
from idkmesh.events.sessions import Session


@pytest.fixture
def gate(memory_ledger: ClaimLedger) -> ExecutorAdmission:
    """Give a gate that knows of no observation."""
    return gate_on(memory_ledger)


# Inputs.


def _bound(gate: ExecutorAdmission, node: str, version: int = 1) -> str:
    """Write a binding out as canonical JSON."""
    unit_digest = gate.graph.bindings[node].work_unit_digest
    return (
        f'{{"source_revision":"{REVISION}","work_unit_digest":"{unit_digest}",'
        f'"work_unit_id":"{node}","work_unit_version":{version}}}'
    )


def test_a_unit_that_requires_nothing_is_ready_at_once(gate: ExecutorAdmission) -> None:
    """Its inputs are the scope and its own binding, with no prerequisite."""
    text = (
        f'{{"binding":{_bound(gate, READ)},"prerequisites":[],'
        '"scope":{"project_id":"apollo","tenant_id":"acme"}}'
    )
    assert gate.readiness(READ) == TaskReadiness(
        ready=True, satisfied=False, inputs_digest=sha256(text), blockers=()
    )


def test_the_inputs_pin_each_prerequisite_in_id_order(gate: ExecutorAdmission) -> None:
    """A pin has a prerequisite's binding, inputs, integrated revision and artifacts."""
    gate.observe(
        seen(gate, READ, integrated_revision="D" * 40, artifacts_digest=digest("1"), sequence=70)
    )
    gate.observe(
        seen(gate, PARSE, integrated_revision="e" * 64, artifacts_digest=digest("2"), event_id="x")
    )
    read, parse = (gate.readiness(node).inputs_digest for node in (READ, PARSE))
    text = (
        f'{{"binding":{_bound(gate, REVIEW)},"prerequisites":['
        f'{{"artifacts_digest":"{digest("2")}","binding":{_bound(gate, PARSE)},'
        f'"inputs_digest":"{parse}","integrated_revision":"{"e" * 64}"}},'
        f'{{"artifacts_digest":"{digest("1")}","binding":{_bound(gate, READ)},'
        f'"inputs_digest":"{read}","integrated_revision":"{"d" * 40}"}}'
        '],"scope":{"project_id":"apollo","tenant_id":"acme"}}'
    )
    assert gate.readiness(REVIEW) == TaskReadiness(
        ready=True, satisfied=False, inputs_digest=sha256(text), blockers=()
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"event_id": "delivered again"},
        {"sequence": 77},
        {"verification_reference": "check 2"},
        {"integration_reference": "merge 2"},
        {"integrated_revision": "C" * 40},
    ],
    ids=str,
)
def test_delivery_does_not_move_inputs(gate: ExecutorAdmission, changes: dict[str, Any]) -> None:
    """Which event brought it, who checked it, and the case of revisions are no inputs."""
    integrate(gate, READ)
    before = gate.readiness(PARSE)
    assert gate.observe(seen(gate, READ, **changes)) is True
    assert gate.readiness(PARSE) == before


@pytest.mark.parametrize(
    "changes",
    [{"integrated_revision": "d" * 40}, {"artifacts_digest": digest("d")}],
    ids=str,
)
def test_a_result_moves_inputs_all_the_way_down(
    gate: ExecutorAdmission, changes: dict[str, Any]
) -> None:
    """Another result moves what requires it; further down, all waits for what is between."""
    integrate(gate, READ, PARSE)
    parse, test = (gate.readiness(node).inputs_digest for node in (PARSE, TEST))
    gate.observe(seen(gate, READ, **changes))
    moved = gate.readiness(PARSE)
    assert (moved.ready, moved.satisfied, moved.inputs_digest == parse) == (True, False, False)
    assert gate.readiness(TEST).blockers == ("prerequisite_inputs_changed:feeds/parse",)
    integrate(gate, PARSE)  # the same artifacts, made out of other inputs
    assert gate.readiness(TEST).ready
    assert gate.readiness(TEST).inputs_digest != test


@pytest.mark.parametrize(
    "graph",
    [
        graph_of(OTHER_PARSE),
        graph_of(unit(PARSE, READ, version=2)),
        graph_of(unit(PARSE, READ, STYLE)),
        graph_of(revisions={PARSE: OTHER_REVISION}),
    ],
    ids=["content", "version", "requires", "revision"],
)
def test_a_units_own_binding_is_one_of_its_inputs(
    gate: ExecutorAdmission, memory_ledger: ClaimLedger, graph: DependencyGraph
) -> None:
    """Other content, version, requirements or revision of the unit are other inputs."""
    integrate(gate, READ, STYLE)
    changed = ExecutorAdmission(graph, memory_ledger).readiness(PARSE)
    assert changed.ready
    assert changed.inputs_digest != gate.readiness(PARSE).inputs_digest


def test_the_scope_is_one_of_the_inputs(
    gate: ExecutorAdmission, memory_ledger: ClaimLedger
) -> None:
    """The same unit in another scope stands on other inputs."""
    elsewhere = gate_on(memory_ledger, scope=OTHER_SCOPE)
    assert elsewhere.readiness(READ).inputs_digest != gate.readiness(READ).inputs_digest


def test_the_case_of_a_revision_moves_nothing(
    gate: ExecutorAdmission, memory_ledger: ClaimLedger
) -> None:
    """A graph given its revisions in capitals is the same graph, with the same inputs."""
    capitals = dict.fromkeys((READ, PARSE, TEST, REVIEW, STYLE), REVISION.upper())
    shouted = gate_on(memory_ledger, revisions=capitals)
    assert shouted.graph.digest == gate.graph.digest
    assert gate.observe(seen(shouted, READ)) is True
    assert shouted.readiness(PARSE) == gate.readiness(PARSE)
    assert shouted.readiness(PARSE).ready


def test_unrelated_branches_move_nothing(gate: ExecutorAdmission) -> None:
    """Neither a stranger's observations, nor a descendant's, nor one's own are inputs."""
    integrate(gate, READ)
    before = gate.readiness(PARSE)
    integrate(gate, STYLE)
    for node in (STYLE, TEST, REVIEW, PARSE):
        gate.observe(seen(gate, node, "rejected"))
        assert gate.readiness(PARSE) == before


# Blockers.

# What was last seen of PARSE while READ is in order or not, and what that is to TEST. In each
# row everything below it in its column is wrong as well: the first reason wins.
BLOCKERS = """
    read      seen        binding   inputs    blocker
    waits     never       -         -         prerequisite_missing
    done      never       -         -         prerequisite_missing
    waits     pending     other     other     prerequisite_blocked
    waits     integrated  right     other     prerequisite_blocked
    done      pending     other     other     prerequisite_not_integrated
    done      candidate   other     other     prerequisite_not_integrated
    done      rejected    right     right     prerequisite_not_integrated
    done      integrated  version   other     prerequisite_binding_changed
    done      integrated  digest    other     prerequisite_binding_changed
    done      integrated  revision  right     prerequisite_binding_changed
    done      integrated  right     other     prerequisite_inputs_changed
    moved     integrated  right     old       prerequisite_inputs_changed
    done      integrated  right     right     -
"""


def _binding(gate: ExecutorAdmission, which: str) -> WorkUnitSourceBinding:
    bound = gate.graph.bindings[PARSE]
    return {
        "right": bound,
        "other": replace(bound, work_unit_version=2, work_unit_digest=digest("d")),
        "version": replace(bound, work_unit_version=2),
        "digest": replace(bound, work_unit_digest=digest("d")),
        "revision": replace(bound, source_revision="d" * 40),
    }[which]


@pytest.mark.parametrize("row", [line.split() for line in BLOCKERS.split("\n")[2:-1]], ids=" ".join)
def test_the_first_reason_blocks(gate: ExecutorAdmission, row: list[str]) -> None:
    """Missing, itself blocked, not integrated, bound otherwise, on other inputs: in this order."""
    read, state, binding, inputs, blocker = row
    if read != "waits":
        integrate(gate, READ)
    right = gate.readiness(PARSE).inputs_digest
    if state != "never":
        standing = digest("d") if inputs == "other" else right
        made = {"binding": _binding(gate, binding), "inputs_digest": standing}
        gate.observe(seen(gate, PARSE, state, **made))
    if read == "moved":
        integrate(gate, READ, artifacts="d")
    blockers = () if blocker == "-" else (f"{blocker}:feeds/parse",)
    told = gate.readiness(TEST)
    assert told.blockers == blockers
    assert told.ready is (blocker == "-")
    assert (told.inputs_digest is None) is (blocker != "-")


def test_a_unit_of_another_name_is_bound_otherwise(memory_ledger: ClaimLedger) -> None:
    """An observation counts for the unit that it names and for no other of the same content."""
    gate = gate_on(memory_ledger)
    integrate(gate, READ)
    borrowed = replace(gate.graph.bindings[READ], work_unit_id=PARSE)
    gate.observe(seen(gate, PARSE, binding=borrowed))
    assert gate.readiness(TEST).blockers == ("prerequisite_binding_changed:feeds/parse",)


def test_each_requirement_has_its_blocker_in_id_order(gate: ExecutorAdmission) -> None:
    """All requirements that are not satisfied are named, sorted; those further up are not."""
    assert gate.readiness(REVIEW).blockers == (
        "prerequisite_missing:feeds/parse",
        "prerequisite_missing:feeds/read",
    )
    gate.observe(seen(gate, PARSE, "candidate"))
    assert gate.readiness(REVIEW).blockers == (
        "prerequisite_blocked:feeds/parse",
        "prerequisite_missing:feeds/read",
    )
    assert gate.readiness(TEST).blockers == ("prerequisite_blocked:feeds/parse",)
    integrate(gate, READ)
    assert gate.readiness(REVIEW).blockers == ("prerequisite_not_integrated:feeds/parse",)


def test_only_requires_gates(memory_ledger: ClaimLedger) -> None:
    """Dependencies of every other kind leave a unit ready, whatever was seen of their targets."""
    others = [edge(READ, kind) for kind in ("blocks", "informs", "validates", "derived_from")]
    gate = gate_on(memory_ledger, unit(STYLE, dependencies=others))
    gate.observe(seen(gate, READ, "rejected"))
    assert gate.readiness(STYLE).ready


# Satisfaction.


def test_satisfied_is_integrated_as_bound_on_the_inputs_of_now(gate: ExecutorAdmission) -> None:
    """A unit that is ready is satisfied by its latest observation alone, if that is in order."""
    integrate(gate, READ)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("pending", {}),
        ("candidate", {"integrated_revision": "c" * 40, "artifacts_digest": digest("c")}),
        ("rejected", {}),
        ("integrated", {"binding": _binding(gate, "version")}),
        ("integrated", {"binding": _binding(gate, "digest")}),
        ("integrated", {"binding": _binding(gate, "revision")}),
        ("integrated", {"inputs_digest": digest("d")}),
    ]
    for state, changes in wrong:
        integrate(gate, PARSE)
        before = gate.readiness(PARSE)
        assert before.satisfied
        gate.observe(seen(gate, PARSE, state, **changes))
        assert gate.readiness(PARSE) == replace(before, satisfied=False)


def test_a_blocked_unit_is_never_satisfied(gate: ExecutorAdmission) -> None:
    """A unit whose requirements are no longer satisfied is not, although it is integrated."""
    integrate(gate, READ, PARSE)
    assert gate.readiness(PARSE).satisfied
    gate.observe(seen(gate, READ, "rejected"))
    assert gate.readiness(PARSE) == TaskReadiness(
        ready=False,
        satisfied=False,
        inputs_digest=None,
        blockers=("prerequisite_not_integrated:feeds/read",),
    )


def test_a_late_observation_satisfies_nothing(gate: ExecutorAdmission) -> None:
    """An integration of a lower sequence than the latest observation counts for nothing."""
    gate.observe(seen(gate, READ, "rejected", sequence=5))
    assert gate.observe(seen(gate, READ, sequence=4)) is False
    assert not gate.readiness(READ).satisfied


# What can be handed out.


def test_ready_units_are_ready_and_not_satisfied(gate: ExecutorAdmission) -> None:
    """The ids come sorted; a unit leaves when it is integrated and returns when that is over."""
    steps: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        ((), (STYLE, READ)),
        ((READ,), (STYLE, PARSE)),
        ((PARSE,), (STYLE, REVIEW, TEST)),
        ((STYLE, REVIEW, TEST), ()),
    ]
    for done, ready in steps:
        integrate(gate, *done)
        assert gate.ready_units() == ready
        for node in gate.graph.bindings:
            told = gate.readiness(node)
            assert (node in ready) is (told.ready and not told.satisfied)
    integrate(gate, READ, artifacts="d")
    assert gate.ready_units() == (PARSE,)
    gate.observe(seen(gate, READ, "pending"))
    assert gate.ready_units() == (READ,)


def test_ready_units_come_by_id_and_not_by_rank(memory_ledger: ClaimLedger) -> None:
    """A unit that waited for others stands before one that waited for none, if its id does."""
    gate = gate_on(memory_ledger, unit("ads/last", READ))
    integrate(gate, READ)
    assert gate.ready_units() == ("ads/last", STYLE, PARSE)


# Cost.


@contextmanager
def _asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[object, ...]]]:
    """Note what each statement on the table of observations was asked with."""
    asked: list[tuple[object, ...]] = []
    rows = Session.rows

    def noting(self: Session, sql: str, bindings: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if "FROM observations" in sql:
            asked.append(tuple(bindings))
        return rows(self, sql, bindings)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "rows", noting)
        yield asked


@pytest.mark.parametrize("others", [0, 300])
def test_only_ancestors_are_looked_at_each_once(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, others: int
) -> None:
    """Whatever else the graph holds, a reader and each phase ask for those rows alone."""
    names = [f"other/{number}" for number in range(others)]
    units = [*UNITS, *(unit(name, READ) for name in names)]
    graph = DependencyGraph(SCOPE, units, {each["id"]: REVISION for each in units})
    with opened(":memory:", clock) as ledger:
        gate = ExecutorAdmission(graph, ledger)
        configured(ledger)
        integrate(gate, READ, READ, PARSE, *names)
        calls: list[Callable[[], object]] = [
            lambda: gate.readiness(REVIEW),
            lambda: admitted(gate, ledger, REVIEW),
            lambda: gate.reserve_execution(REVIEW, task(), DISPATCHER, WORKER, **GRANT),
            lambda: gate.submit(REVIEW, task(), WORKER, **GRANT, artifact_digest=digest("e")),
        ]
        for call in calls:
            with _asked(monkeypatch) as asked:
                call()
            assert sorted(asked) == [("acme/apollo", node) for node in (PARSE, READ, REVIEW)]
