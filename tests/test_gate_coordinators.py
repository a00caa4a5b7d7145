"""Observations belong to the scope: they outlive coordinators and serve whichever graph fits."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    GRANT,
    OTHER_SCOPE,
    READER,
    START,
    WORKER,
    Clock,
    adds,
    digest,
    opened,
    refused,
    task,
)
from gate_builders import (
    OTHER_PARSE,
    PARSE,
    READ,
    REVIEW,
    STYLE,
    TEST,
    admitted,
    configured,
    gate_on,
    integrate,
    seen,
)
from unit_builders import OTHER_REVISION, REVISION, unit

from idkmesh import (
    ClaimError,
    ClaimLedger,
    DependencyGraph,
    ExecutorAdmission,
    StoreError,
    TaskReadiness,
)

CANDIDATE: dict[str, Any] = {"artifact_digest": digest("e")}


def everything(gate: ExecutorAdmission) -> list[object]:
    """Read all that a gate can tell."""
    told: list[object] = [gate.ready_units()]
    for node in sorted(gate.graph.bindings):
        told += [gate.readiness(node), gate.observations(node)]
    return told


# One file, any number of coordinators.


def test_observations_survive_a_restart(path: Path, clock: Clock) -> None:
    """What was seen before a restart decides after it."""
    with opened(path, clock) as ledger:
        gate = gate_on(ledger)
        integrate(gate, READ)
        gate.observe(seen(gate, PARSE, "candidate"))
        before = everything(gate)
    with opened(path, clock) as ledger:
        gate = gate_on(ledger)
        assert everything(gate) == before
        configured(ledger)
        assert admitted(gate, ledger) == 1


def test_every_phase_may_have_a_coordinator_of_its_own(path: Path, clock: Clock) -> None:
    """Between any two phases the ledger may be closed and opened again by another."""
    with opened(path, clock) as ledger:
        configured(ledger)
    with opened(path, clock) as ledger:
        integrate(gate_on(ledger), READ)
    with opened(path, clock) as ledger:
        first = gate_on(ledger).admit(PARSE, task(), WORKER, request_id="r-1")
    with opened(path, clock) as ledger:
        again = gate_on(ledger).admit(PARSE, task(), WORKER, request_id="r-1")
        assert (again.claim, again.record.created) == (first.claim, False)
        ledger.acknowledge(task(), WORKER, **GRANT)
    with opened(path, clock) as ledger:
        gate = gate_on(ledger)
        reserved = gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
        assert reserved.record.created
    with opened(path, clock) as ledger:
        gate = gate_on(ledger)
        reserved = gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
        assert not reserved.record.created
    with opened(path, clock) as ledger:
        assert gate_on(ledger).submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE).record.created
    with opened(path, clock) as ledger:
        integrate(gate_on(ledger), READ, artifacts="d")
    with opened(path, clock) as ledger, adds(ledger), refused("inputs_changed"):
        gate_on(ledger).submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE)


def test_a_second_coordinator_needs_the_same_graph_and_nothing_else(
    path: Path, clock: Clock
) -> None:
    """Two ledger objects on one file decide alike at once, whichever of them was told."""
    with opened(path, clock) as one, opened(path, clock) as other:
        first, second = gate_on(one), gate_on(other)
        assert first.graph is not second.graph
        configured(one)
        integrate(first, READ)
        assert everything(second) == everything(first)
        admitted(second, other)
        integrate(second, READ, artifacts="d")
        with adds(one), refused("inputs_changed"):
            first.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE)
        with adds(other), refused("sequence_conflict"):
            second.observe(seen(second, READ, sequence=1, event_id="another"))


def test_a_rebuilt_table_decides_alike(path: Path, clock: Clock) -> None:
    """Observations refolded from the log are the observations that were retained."""
    with opened(path, clock) as ledger:
        gate = gate_on(ledger)
        gate.observe(seen(gate, READ, "pending", sequence=8))
        gate.observe(seen(gate, READ, sequence=9))
        gate.observe(seen(gate, READ, "rejected", sequence=2))
        integrate(gate, PARSE)
        before = everything(gate)
        ledger.rebuild()
        assert everything(gate) == before


def test_another_scope_has_its_own_observations(memory_ledger: ClaimLedger) -> None:
    """The same units in another scope are not ready because of what was seen in this one."""
    gate, elsewhere = gate_on(memory_ledger), gate_on(memory_ledger, scope=OTHER_SCOPE)
    integrate(gate, READ, PARSE)
    assert elsewhere.ready_units() == (STYLE, READ)
    assert elsewhere.readiness(PARSE).blockers == ("prerequisite_missing:feeds/read",)
    assert gate.readiness(READ).inputs_digest != elsewhere.readiness(READ).inputs_digest


def test_threads_may_share_one_gate(ledger: ClaimLedger) -> None:
    """Of many threads that ask one gate for one task at once, exactly one is admitted."""
    gate = gate_on(ledger)
    configured(ledger)
    integrate(gate, READ)
    together = threading.Barrier(8)
    told: list[str] = []

    def ask(number: int) -> None:
        together.wait()
        try:
            gate.admit(PARSE, task(), WORKER, request_id=f"r-{number}")
        except ClaimError as refusal:
            told.append(str(refusal.code))
        else:
            told.append("created")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["created", *["task_capacity_reserved"] * 7]
    assert len(ledger.peek(task(), READER)) == 1


# The graph changes.


def test_a_changed_graph_keeps_the_evidence_that_matches_it(memory_ledger: ClaimLedger) -> None:
    """Units that are bound as before stay satisfied; one that is not must be seen anew."""
    integrate(gate_on(memory_ledger), READ, PARSE, TEST)
    changed = gate_on(memory_ledger, OTHER_PARSE)
    assert changed.readiness(READ).satisfied
    assert changed.readiness(PARSE).ready
    assert not changed.readiness(PARSE).satisfied
    assert changed.readiness(TEST).blockers == ("prerequisite_binding_changed:feeds/parse",)
    assert changed.ready_units() == (STYLE, PARSE)
    assert len(changed.observations(TEST)) == 1
    integrate(changed, PARSE)
    assert changed.readiness(TEST).ready


def test_the_latest_is_the_latest_whatever_graph_was_used(memory_ledger: ClaimLedger) -> None:
    """What is seen through a new graph ends what the old one rested on, and back again."""
    old, new = gate_on(memory_ledger), gate_on(memory_ledger, OTHER_PARSE)
    integrate(old, READ, PARSE)
    was = old.readiness(TEST)
    integrate(new, PARSE)
    assert old.readiness(TEST).blockers == ("prerequisite_binding_changed:feeds/parse",)
    assert new.readiness(TEST).ready
    integrate(old, PARSE)
    assert old.readiness(TEST) == was
    assert new.readiness(TEST).blockers == ("prerequisite_binding_changed:feeds/parse",)
    assert [len(gate.observations(PARSE)) for gate in (old, new)] == [3, 3]


def test_a_changed_graph_moves_the_inputs_of_what_it_touches(ledger: ClaimLedger) -> None:
    """A claim goes on where unit and inputs are bound as before, whatever else has changed."""
    configured(ledger)
    gate = gate_on(ledger)
    integrate(gate, READ)
    record = gate.admit(PARSE, task(), WORKER, request_id="r-1").record
    ledger.acknowledge(task(), WORKER, **GRANT)
    apart = gate_on(ledger, unit(TEST, PARSE, STYLE), unit("feeds/new", PARSE))
    again = apart.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT).record
    assert again.graph_digest != record.graph_digest
    assert (again.binding, again.inputs_digest) == (record.binding, record.inputs_digest)
    rebound = gate_on(ledger, revisions={READ: OTHER_REVISION})
    for changed in (rebound, gate_on(ledger, unit(READ, STYLE))):
        with adds(ledger), refused("inputs_changed"):
            changed.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE)
    integrate(rebound, READ)  # the same artifacts, of another revision of the prerequisite
    assert rebound.readiness(PARSE).ready
    with adds(ledger), refused("inputs_changed"):
        rebound.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE)


def test_a_graph_sees_what_another_was_told_of_a_unit_that_it_lacked(
    memory_ledger: ClaimLedger,
) -> None:
    """A unit that leaves the graph is unknown to it, and its observations wait for its return."""
    gate = gate_on(memory_ledger)
    integrate(gate, READ)
    small = ExecutorAdmission(
        DependencyGraph(gate.graph.scope, [unit(STYLE)], {STYLE: REVISION}), memory_ledger
    )
    assert small.ready_units() == (STYLE,)
    with adds(memory_ledger):
        for ask in (small.readiness, small.observations):
            with refused("unknown_work_unit"):
                ask(READ)
        with refused("unknown_work_unit"):
            small.observe(seen(gate, READ))
    assert gate_on(memory_ledger).readiness(PARSE).ready


# Reading.


def test_readers_need_no_clock_and_write_nothing(memory_ledger: ClaimLedger, clock: Clock) -> None:
    """Readiness and observations are told while the clock is behind or broken."""
    gate = gate_on(memory_ledger)
    integrate(gate, READ)
    before = everything(gate)
    for now in (START - 1_000, START + 1_000, "noon", None):
        clock.now = now
        with adds(memory_ledger):
            assert everything(gate) == before


def test_a_ledger_that_only_reads_has_a_gate_that_only_reads(path: Path, clock: Clock) -> None:
    """On a ledger opened for reading the readers answer and every phase is refused."""
    with opened(path, clock) as ledger:
        gate = gate_on(ledger)
        configured(ledger)
        integrate(gate, READ)
        before = everything(gate)
        with opened(path, clock, read_only=True) as reading:
            looking = gate_on(reading)
            assert everything(looking) == before
            calls: list[Callable[[], object]] = [
                lambda: looking.observe(seen(gate, READ)),
                lambda: looking.admit(PARSE, task(), WORKER, request_id="r-1"),
                lambda: looking.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT),
                lambda: looking.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE),
            ]
            with adds(ledger):
                for call in calls:
                    with pytest.raises(StoreError) as caught:
                        call()
                    assert caught.value.code == "store_readonly"


def test_a_closed_ledger_has_a_closed_gate(path: Path, clock: Clock) -> None:
    """After close, whatever needs the file answers ``store_closed``, arguments first."""
    with opened(path, clock) as ledger:
        gate = gate_on(ledger)
        made = seen(gate, READ)
    calls: list[Callable[[], object]] = [
        lambda: gate.observe(made),
        gate.ready_units,
        lambda: gate.readiness(READ),
        lambda: gate.observations(READ),
        lambda: gate.admit(PARSE, task(), WORKER, request_id="r-1"),
    ]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.code == "store_closed"
    with refused("unknown_work_unit"):
        gate.readiness("feeds/none")


def test_readers_look_at_one_point(memory_ledger: ClaimLedger) -> None:
    """Answers are values: what is observed later does not change what was told before."""
    gate = gate_on(memory_ledger)
    before = gate.readiness(REVIEW)
    configured(memory_ledger)
    with pytest.raises(ClaimError) as caught:
        gate.admit(REVIEW, task(), WORKER, request_id="r-1")
    integrate(gate, READ, PARSE)
    blockers = ("prerequisite_missing:feeds/parse", "prerequisite_missing:feeds/read")
    assert before == TaskReadiness(
        ready=False, satisfied=False, inputs_digest=None, blockers=blockers
    )
    assert caught.value.blockers == blockers
    assert gate.readiness(REVIEW).ready
    assert memory_ledger.peek(task(), READER) == ()
