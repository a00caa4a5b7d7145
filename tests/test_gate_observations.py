"""Observations: what is retained, which is the latest, what is refused and in which order."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    OTHER_SCOPE,
    START,
    Clock,
    adds,
    digest,
    log,
    opened,
    refused,
    task,
)
from gate_builders import OTHER_PARSE, PARSE, READ, TEST, gate_on, graph_of, integrate, seen
from msgspec.structs import replace

from idkmesh import (
    ClaimLedger,
    ExecutorAdmission,
    PrerequisiteObservation,
    TaskClaimPolicy,
    WorkUnitSourceBinding,
)

OBSERVED = "prerequisite.observed.v1"
CLOCK = "clock.observed.v1"


@pytest.fixture
def gate(memory_ledger: ClaimLedger) -> ExecutorAdmission:
    """Give a gate that knows of no observation."""
    return gate_on(memory_ledger)


# What becomes of an observation.


def test_an_observation_is_an_event_of_its_scope(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """It stands in the log as it was handed in, under no actor, in the scope's own stream."""
    with adds(memory_ledger, OBSERVED) as rows:
        assert gate.observe(seen(gate, READ, event_id="delivery 7", sequence=40)) is True
    (row,) = rows
    assert (row.scope, row.stream, row.version) == ("acme/apollo", "acme/apollo/observations", 1)
    assert row.at == START
    assert json.loads(row.body) == {
        "type": "prerequisite.observed.v1",
        "event_id": "delivery 7",
        "sequence": 40,
        "binding": gate.graph.bindings[READ].to_dict(),
        "state": "integrated",
        "inputs_digest": gate.readiness(READ).inputs_digest,
        "integrated_revision": "c" * 40,
        "artifacts_digest": digest("c"),
        "verification_reference": "check 1",
        "integration_reference": "merge 1",
    }


def test_an_observation_is_given_back_as_it_was(gate: ExecutorAdmission) -> None:
    """Every field is kept, the evidence of a state that needs none included."""
    made = [
        seen(gate, READ, "pending", sequence=1),
        seen(gate, READ, "candidate", sequence=2, artifacts_digest=digest("d")),
        seen(gate, READ, "rejected", sequence=3, verification_reference="check 2 failed"),
        seen(gate, READ, "integrated", sequence=2**62 - 1),
    ]
    for each in made:
        assert gate.observe(each) is True
    assert gate.observations(READ) == tuple(made)


def test_the_latest_is_the_one_of_the_highest_sequence(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """A late observation is kept and False; order of arrival and gaps count for nothing."""
    third, fifth, fourth, first = (
        seen(gate, READ, state, sequence=sequence)
        for state, sequence in (("pending", 3), ("integrated", 5), ("rejected", 4), ("pending", 1))
    )
    assert [gate.observe(each) for each in (third, fifth)] == [True, True]
    with adds(memory_ledger, OBSERVED, OBSERVED):
        assert [gate.observe(each) for each in (fourth, first)] == [False, False]
    assert gate.observations(READ) == (first, third, fourth, fifth)
    assert gate.readiness(READ).satisfied


def test_an_exact_redelivery_is_not_kept_twice(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """The same again is False and writes nothing, whether it is still the latest or not."""
    first, second = (seen(gate, READ, sequence=sequence) for sequence in (1, 2))
    gate.observe(first)
    with adds(memory_ledger):
        assert gate.observe(first) is False
    gate.observe(second)
    with adds(memory_ledger):
        assert [gate.observe(first), gate.observe(second)] == [False, False]
    assert gate.observations(READ) == (first, second)


def test_a_redelivery_differs_in_nothing_but_case(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """Revisions in capitals are the same revisions."""
    made = seen(gate, READ)
    gate.observe(made)
    binding = made.binding
    capitals = replace(
        made,
        integrated_revision="C" * 40,
        binding=WorkUnitSourceBinding(
            READ, 1, binding.work_unit_digest, binding.source_revision.upper()
        ),
    )
    with adds(memory_ledger):
        assert gate.observe(capitals) is False


def test_any_binding_of_a_known_unit_is_retained(gate: ExecutorAdmission) -> None:
    """An observation of other content, version or revision is kept, and is the latest."""
    bound = gate.graph.bindings[PARSE]
    bindings = [
        graph_of(OTHER_PARSE).bindings[PARSE],
        replace(bound, work_unit_version=9),
        replace(bound, source_revision="d" * 64),
    ]
    for each in bindings:
        assert gate.observe(seen(gate, PARSE, binding=each)) is True
    assert [each.binding for each in gate.observations(PARSE)] == bindings


def test_sequences_belong_to_a_unit(gate: ExecutorAdmission) -> None:
    """Two units may be at one sequence, each with its own latest."""
    for node in (READ, PARSE, TEST):
        assert gate.observe(seen(gate, node, "pending", sequence=1)) is True
        assert len(gate.observations(node)) == 1


def test_event_ids_belong_to_a_scope(memory_ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """Another scope may have the very same unit, event id and sequence."""
    elsewhere = gate_on(memory_ledger, scope=OTHER_SCOPE)
    assert gate.observe(seen(gate, READ)) is True
    assert elsewhere.observations(READ) == ()
    with adds(memory_ledger, OBSERVED) as rows:
        assert elsewhere.observe(seen(elsewhere, READ, "pending")) is True
    assert (rows[0].stream, rows[0].version) == ("acme/gemini/observations", 1)
    assert [each.state for each in gate.observations(READ)] == ["integrated"]


# What is refused, and that nothing is written then.


@pytest.mark.parametrize(
    "changes",
    [
        {"sequence": 2},
        {"state": "rejected"},
        {"inputs_digest": digest("d")},
        {"integrated_revision": "d" * 40},
        {"artifacts_digest": digest("d")},
        {"verification_reference": "check 2"},
        {"integration_reference": "merge 2"},
        {"binding": graph_of().bindings[PARSE]},
        {"binding": replace(graph_of().bindings[READ], work_unit_version=2)},
        {"binding": replace(graph_of().bindings[READ], work_unit_digest=digest("d"))},
        {"binding": replace(graph_of().bindings[READ], source_revision="d" * 40)},
    ],
    ids=str,
)
def test_one_event_id_has_one_content(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission, changes: dict[str, Any]
) -> None:
    """The same event id with any other content, the unit included, is ``event_conflict``."""
    made = seen(gate, READ)
    gate.observe(made)
    with adds(memory_ledger), refused("event_conflict"):
        gate.observe(replace(made, **changes))
    assert gate.observations(READ) == (made,)


def test_one_sequence_has_one_event(memory_ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """Another event at a sequence of the unit is ``sequence_conflict``, latest or not."""
    integrate(gate, READ, READ)
    for sequence in (1, 2):
        with adds(memory_ledger), refused("sequence_conflict"):
            gate.observe(seen(gate, READ, sequence=sequence, event_id="another"))


def test_a_graph_speaks_of_its_own_units_alone(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """Another scope is ``scope_mismatch``; a unit of no node is ``unknown_work_unit``."""
    made = seen(gate, READ)
    with adds(memory_ledger):
        with refused("scope_mismatch"):
            gate.observe(replace(made, scope=OTHER_SCOPE))
        with refused("unknown_work_unit"):
            gate.observe(replace(made, binding=replace(made.binding, work_unit_id="feeds/none")))


def test_only_an_observation_can_be_observed(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """What is no ``PrerequisiteObservation``, its own record included, is a TypeError."""
    wrong: list[Any] = [None, seen(gate, READ).to_dict(), gate.graph.bindings[READ], "feeds/read"]
    for each in wrong:
        with adds(memory_ledger), pytest.raises(TypeError, match="expected observation to be a"):
            gate.observe(each)


def _of_another_scope(made: PrerequisiteObservation) -> PrerequisiteObservation:
    return replace(made, scope=OTHER_SCOPE)


def _of_an_unknown_unit(made: PrerequisiteObservation) -> PrerequisiteObservation:
    return replace(made, binding=replace(made.binding, work_unit_id="feeds/none"))


def _of_a_taken_event(made: PrerequisiteObservation) -> PrerequisiteObservation:
    return replace(made, event_id="feeds/read 1")


ORDER = (
    ("scope_mismatch", _of_another_scope, START),
    ("unknown_work_unit", _of_an_unknown_unit, START),
    ("invalid_clock", None, "noon"),
    ("clock_rollback", None, START - 1),
    ("event_conflict", _of_a_taken_event, START),
    ("sequence_conflict", None, START),
)


@pytest.mark.parametrize("first", range(len(ORDER)), ids=[code for code, *_ in ORDER])
def test_the_first_failing_check_answers(clock: Clock, first: int) -> None:
    """With all that follows wrong as well, the earlier check answers and nothing is written."""
    with opened(":memory:", clock, max_observations=1) as ledger:
        gate = gate_on(ledger)
        gate.observe(seen(gate, READ))
        made = seen(gate, READ, "pending", sequence=1, event_id="another")
        for _, spoil, now in reversed(ORDER[first:]):
            made = spoil(made) if spoil else made
            clock.now = now
        with adds(ledger), refused(ORDER[first][0]):
            gate.observe(made)


# The budget.


def test_the_scopes_budget_is_the_openings(path: Path, clock: Clock) -> None:
    """A full scope refuses what is new, passes a redelivery, and has room at a wider opening."""
    with opened(path, clock, max_observations=3) as ledger:
        gate = gate_on(ledger)
        integrate(gate, READ, PARSE, READ)
        last = gate.observations(READ)[-1]
        with adds(ledger), refused("event_budget_exhausted"):
            gate.observe(seen(gate, READ))
        with adds(ledger):
            assert gate.observe(last) is False
    with opened(path, clock, max_observations=1) as ledger:
        gate = gate_on(ledger)
        with adds(ledger), refused("event_budget_exhausted"):
            gate.observe(seen(gate, READ))
    with opened(path, clock, max_observations=4) as ledger:
        gate = gate_on(ledger)
        assert gate.observe(seen(gate, READ)) is True
        with adds(ledger), refused("event_budget_exhausted"):
            gate.observe(seen(gate, READ))


def test_the_budget_counts_late_observations_too_and_no_other_scopes(clock: Clock) -> None:
    """Whatever is kept counts; what another scope keeps, and times observed, do not."""
    with opened(":memory:", clock, max_observations=2) as ledger:
        elsewhere, gate = gate_on(ledger, scope=OTHER_SCOPE), gate_on(ledger)
        integrate(elsewhere, READ, READ)
        last = seen(gate, READ, sequence=9)
        assert gate.observe(last) is True
        clock.now += 1
        with adds(ledger, CLOCK):
            assert gate.observe(last) is False
        assert gate.observe(seen(gate, READ, sequence=1)) is False
        with adds(ledger), refused("event_budget_exhausted"):
            gate.observe(seen(gate, READ, sequence=2))


# The clock.


def test_a_redelivery_leaves_the_time_that_it_saw(clock: Clock) -> None:
    """Where time has moved by the ledger's resolution, a redelivery records it, else nothing."""
    with opened(":memory:", clock, clock_resolution_seconds=5) as ledger:
        gate = gate_on(ledger)
        made = seen(gate, READ)
        gate.observe(made)
        clock.now = START + 4
        with adds(ledger):
            assert gate.observe(made) is False
        clock.now = START + 5
        with adds(ledger, CLOCK) as rows:
            assert gate.observe(made) is False
        assert (rows[0].stream, rows[0].at) == ("acme/apollo/clock", START + 5)


def test_a_refused_observation_leaves_no_time(
    memory_ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """A refusal writes nothing, however far time has moved."""
    made = seen(gate, READ)
    gate.observe(made)
    clock.now = START + 1_000
    with adds(memory_ledger):
        with refused("event_conflict"):
            gate.observe(replace(made, state="rejected"))
        with refused("sequence_conflict"):
            gate.observe(replace(made, event_id="another"))


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (START - 1, "clock_rollback"),
        (None, "invalid_clock"),
        (True, "invalid_clock"),
        (2**62, "invalid_clock"),
    ],
)
def test_observing_obeys_the_clock(
    memory_ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission, now: Any, code: str
) -> None:
    """Neither a new observation nor a redelivery passes a clock that no command passes."""
    made = seen(gate, READ)
    gate.observe(made)
    clock.now = now
    with adds(memory_ledger):
        for each in (made, seen(gate, READ)):
            with refused(code):
                gate.observe(each)


def test_an_observation_moves_the_watermark(
    memory_ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """After an observation no command acts at an earlier time, in any scope of the file."""
    clock.now = START + 10
    gate.observe(seen(gate, READ))
    assert log(memory_ledger)[-1].at == START + 10
    clock.now = START + 9
    calls: list[Callable[[], object]] = [
        lambda: memory_ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy()),
        lambda: gate_on(memory_ledger, scope=OTHER_SCOPE).observe(
            seen(gate, READ, scope=OTHER_SCOPE)
        ),
    ]
    for call in calls:
        with refused("clock_rollback"):
            call()
