"""What an executor may rely on: the gate's contract, a test a rule.

This file is the heart of it: the three phases. Its companions ``test_gate_*.py`` hold
observations, readiness, records, arguments, the claim's own rules, the order of checks,
coordinators and processes side by side, and random runs; ``test_work_unit_graph.py`` has the
graph.
"""

import pytest
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    READER,
    RIVAL,
    WORKER,
    Clock,
    adds,
    binding,
    digest,
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
from unit_builders import OTHER_REVISION, REVISION

from idkmesh import ClaimBinding, ClaimError, ClaimLedger, ExecutorAdmission

GRANTED = "claim.granted.v1"
RESERVED = "execution.reserved.v1"
SUBMITTED = "submission.recorded.v1"
EXPIRED = "claim.expired.v1"
CLOCK = "clock.observed.v1"
CANDIDATE = digest("e")


@pytest.fixture
def gate(ledger: ClaimLedger) -> ExecutorAdmission:
    """Give a gate whose reading is integrated, so that parsing is ready, and a task."""
    configured(ledger)
    gate = gate_on(ledger)
    integrate(gate, READ)
    return gate


# Admission.


def test_an_admission_binds_the_claim_to_the_units_inputs(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """The claim is for the unit's digest and revision and the inputs that made it ready."""
    inputs = gate.readiness(PARSE).inputs_digest
    assert inputs is not None
    with adds(ledger, GRANTED):
        claim, record = gate.admit(PARSE, task(), WORKER, request_id="r-1")
    unit_digest = gate.graph.bindings[PARSE].work_unit_digest
    assert claim.binding == ClaimBinding(unit_digest, REVISION, inputs)
    assert (claim.task, claim.request_id, claim.slot, claim.epoch) == (task(), "r-1", 0, 1)
    assert (claim.state, claim.owner.principal_id) == ("active", "worker-1")
    assert (record.phase, record.created) == ("admission", True)
    assert ledger.peek(task(), READER) == (claim,)


def test_a_blocked_unit_is_not_admitted(ledger: ClaimLedger) -> None:
    """A unit that waits is ``task_not_ready``: blockers in text and on the error, no claim."""
    configured(ledger)
    gate = gate_on(ledger)
    gate.observe(seen(gate, READ, "candidate"))
    with adds(ledger), pytest.raises(ClaimError) as caught:
        gate.admit(REVIEW, task(), WORKER, request_id="r-1")
    assert caught.value.code == "task_not_ready"
    assert caught.value.blockers == (
        "prerequisite_missing:feeds/parse",
        "prerequisite_not_integrated:feeds/read",
    )
    assert str(caught.value) == (
        "task_not_ready: expected a ready unit, but it is blocked by "
        "prerequisite_missing:feeds/parse, prerequisite_not_integrated:feeds/read"
    )
    assert ledger.peek(task(), READER) == ()


def test_an_integrated_unit_is_not_admitted(ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """A satisfied unit is ``task_already_integrated``, with no blockers and no claim."""
    integrate(gate, PARSE)
    with adds(ledger), pytest.raises(ClaimError) as caught:
        gate.admit(PARSE, task(), WORKER, request_id="r-1")
    assert (caught.value.code, caught.value.blockers) == ("task_already_integrated", ())
    assert ledger.peek(task(), READER) == ()


def test_an_integrated_unit_is_open_again_once_its_inputs_move(gate: ExecutorAdmission) -> None:
    """What was integrated on other inputs than today's can be admitted."""
    integrate(gate, PARSE)
    integrate(gate, READ, artifacts="d")
    assert gate.admit(PARSE, task(), WORKER, request_id="r-1").record.created


def test_a_node_and_a_task_must_be_known(ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """A unit outside the graph and a task without a policy are refused by their codes."""
    with adds(ledger):
        with refused("unknown_work_unit"):
            gate.admit("feeds/none", task(), WORKER, request_id="r-1")
        with refused("task_not_configured"):
            gate.admit(PARSE, task("T-2"), WORKER, request_id="r-1")


def test_an_admission_replayed_gives_the_retained_claim(
    ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """A replay renews nothing and takes no attempt; only the time that it saw is written."""
    claim = gate.admit(PARSE, task(), WORKER, request_id="r-1").claim
    with adds(ledger):
        again, record = gate.admit(PARSE, task(), WORKER, request_id="r-1")
    assert (again, record.created, record.claim) == (claim, False, claim)
    clock.now += 7
    with adds(ledger, CLOCK):
        assert gate.admit(PARSE, task(), WORKER, request_id="r-1") == (claim, record)


def test_an_ended_claim_is_given_again_as_it_is(
    ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """A replay after release or expiry gives the ended claim, which stays ended."""
    epoch = admitted(gate, ledger)
    ledger.release(task(), WORKER, request_id="r-1", epoch=epoch)
    assert gate.admit(PARSE, task(), WORKER, request_id="r-1").claim.state == "released"
    gate.admit(PARSE, task(), WORKER, request_id="r-2")
    clock.now += 300
    with adds(ledger, EXPIRED):
        claim, record = gate.admit(PARSE, task(), WORKER, request_id="r-2")
    assert (claim.state, record.created) == ("expired", False)


def test_an_admission_replayed_on_moved_inputs_is_a_conflict(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """The old request conflicts; releasing its claim and asking anew is the way on."""
    epoch = admitted(gate, ledger)
    integrate(gate, READ, artifacts="d")
    with adds(ledger), refused("request_conflict"):
        gate.admit(PARSE, task(), WORKER, request_id="r-1")
    with adds(ledger), refused("task_capacity_reserved"):
        gate.admit(PARSE, task(), WORKER, request_id="r-2")
    ledger.release(task(), WORKER, request_id="r-1", epoch=epoch)
    claim, record = gate.admit(PARSE, task(), WORKER, request_id="r-2")
    assert (claim.epoch, record.created) == (2, True)
    assert claim.binding.inputs_digest == gate.readiness(PARSE).inputs_digest


def test_an_admission_replayed_for_another_unit_or_owner_is_a_conflict(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """A request id stands for one unit and one owner within its task."""
    admitted(gate, ledger)
    with adds(ledger):
        with refused("request_conflict"):
            gate.admit(STYLE, task(), WORKER, request_id="r-1")
        with refused("request_conflict"):
            gate.admit(PARSE, task(), RIVAL, request_id="r-1")


def test_a_task_outlives_a_rebase(ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """Another revision of the unit is another binding of the same task, under its next epoch."""
    epoch = admitted(gate, ledger)
    ledger.release(task(), WORKER, request_id="r-1", epoch=epoch)
    rebased = gate_on(ledger, revisions={PARSE: OTHER_REVISION})
    claim = rebased.admit(PARSE, task(), WORKER, request_id="r-2").claim
    assert (claim.epoch, claim.binding.source_revision) == (2, OTHER_REVISION)
    assert [each.epoch for each in ledger.snapshot(task(), READER)] == [1, 2]


# Reservation and submission, on the inputs of the admission.


def test_a_reservation_retains_the_intent_once(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """The first reservation is created, its replay is retained and authorizes no second."""
    admitted(gate, ledger)
    with adds(ledger, RESERVED):
        claim, record = gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
    assert (record.phase, record.created) == ("execution-reservation", True)
    assert (claim.occupancy, claim.operation_id is None) == ("unknown", False)
    with adds(ledger):
        again, record = gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
    assert (again, record.created) == (claim, False)


def test_a_submission_is_bound_once(ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """The same digest again changes nothing; another one is ``submission_conflict``."""
    admitted(gate, ledger)
    with adds(ledger, SUBMITTED):
        claim, record = gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=CANDIDATE)
    assert (record.phase, record.created) == ("submission", True)
    assert claim.submission_digest == CANDIDATE
    with adds(ledger):
        again, record = gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=CANDIDATE)
        assert (again, record.created) == (claim, False)
        with refused("submission_conflict"):
            gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=digest("f"))


@pytest.mark.parametrize("moved", ["blocked again", "other artifacts", "further up"])
def test_moved_inputs_let_nothing_pass(
    ledger: ClaimLedger, gate: ExecutorAdmission, moved: str
) -> None:
    """Blocked again, or ready on other inputs: ``inputs_changed``, and nothing is written."""
    integrate(gate, PARSE)
    node = TEST if moved == "further up" else PARSE
    if node == PARSE:  # it is integrated on the inputs before these, so open again
        integrate(gate, READ, artifacts="d")
    admitted(gate, ledger, node)
    match moved:
        case "blocked again":
            gate.observe(seen(gate, READ, "rejected"))
        case "other artifacts":
            integrate(gate, READ, artifacts="e")
        case "further up":
            integrate(gate, READ, artifacts="e")
            integrate(gate, PARSE)  # with the very same artifacts, but out of other ones
    with adds(ledger):
        with refused("inputs_changed"):
            gate.reserve_execution(node, task(), DISPATCHER, WORKER, **GRANT)
        with refused("inputs_changed"):
            gate.submit(node, task(), WORKER, **GRANT, artifact_digest=CANDIDATE)
    (claim,) = ledger.peek(task(), READER)
    assert (claim.occupancy, claim.operation_id, claim.submission_digest) == ("none", None, None)


def test_inputs_that_come_back_let_the_claim_go_on(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """Only what the inputs are counts, not how often they moved in between."""
    admitted(gate, ledger)
    integrate(gate, READ, artifacts="d")
    with refused("inputs_changed"):
        gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=CANDIDATE)
    integrate(gate, READ, artifacts="c")
    assert gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=CANDIDATE).record.created


def test_a_retained_intent_stays_readable_once_the_inputs_moved(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """A replayed reservation is then ``inputs_changed``; the snapshot still shows the intent."""
    admitted(gate, ledger)
    intent = gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT).claim
    integrate(gate, READ, artifacts="d")
    with adds(ledger), refused("inputs_changed"):
        gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
    assert ledger.snapshot(task(), READER) == (intent,)
    assert ledger.reconcile_execution(task(), DISPATCHER, **ENDED).occupancy == "terminal"


def test_a_submitted_candidate_is_not_given_again_once_the_inputs_moved(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """A replayed submission is then ``inputs_changed``, and the first one stands."""
    admitted(gate, ledger)
    gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=CANDIDATE)
    integrate(gate, READ, artifacts="d")
    for candidate in (CANDIDATE, digest("f")):
        with adds(ledger), refused("inputs_changed"):
            gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=candidate)
    assert ledger.lookup(task(), READER, request_id="r-1").submission_digest == CANDIDATE


def test_a_unit_that_was_integrated_meanwhile_can_be_finished(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """Reserving and submitting go on for a satisfied unit, as long as its inputs stand."""
    admitted(gate, ledger)
    integrate(gate, PARSE)
    assert gate.readiness(PARSE).satisfied
    assert gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT).record.created
    assert gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=CANDIDATE).record.created


def test_an_unrelated_branch_leaves_an_admission_current(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """What neither the unit nor its ancestors are about does not touch the claim."""
    admitted(gate, ledger)
    integrate(gate, STYLE)
    gate.observe(seen(gate, TEST, "candidate"))
    gate.observe(seen(gate, REVIEW, "rejected"))
    gate.observe(seen(gate, PARSE, "candidate"))
    assert gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT).record.created
    assert gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=CANDIDATE).record.created


def test_a_claim_counts_for_its_own_binding_alone(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """Another unit, its other content or revision, or a claim made past the gate: refused."""
    admitted(gate, ledger)
    others = (
        (gate, STYLE),
        (gate_on(ledger, OTHER_PARSE), PARSE),
        (gate_on(ledger, revisions={PARSE: OTHER_REVISION}), PARSE),
    )
    for other, node in others:
        with adds(ledger):
            with refused("binding_mismatch"):
                other.reserve_execution(node, task(), DISPATCHER, WORKER, **GRANT)
            with refused("binding_mismatch"):
                other.submit(node, task(), WORKER, **GRANT, artifact_digest=CANDIDATE)
    configured(ledger, "T-2")
    ledger.claim(task("T-2"), WORKER, request_id="r-1", binding=binding())
    with adds(ledger), refused("binding_mismatch"):
        gate.submit(PARSE, task("T-2"), WORKER, **GRANT, artifact_digest=CANDIDATE)


# The whole story.


def test_from_blocked_to_moved(ledger: ClaimLedger) -> None:
    """Blocked, then admitted, reserved and submitted; once the inputs moved, nothing more."""
    configured(ledger)
    gate = gate_on(ledger)
    with adds(ledger), refused("task_not_ready"):
        gate.admit(PARSE, task(), WORKER, request_id="r-1")
    integrate(gate, READ)
    with adds(ledger, GRANTED, "claim.acknowledged.v1", RESERVED, SUBMITTED):
        admitted(gate, ledger)
        gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
        gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=CANDIDATE)
    integrate(gate, READ, artifacts="d")
    with adds(ledger), refused("inputs_changed"):
        gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=digest("f"))
    (claim,) = ledger.snapshot(task(), READER)
    assert (claim.state, claim.occupancy) == ("active", "unknown")
    assert claim.submission_digest == CANDIDATE
