"""The claim's own rules, which hold behind the gate as they do without it."""

from typing import Any

import pytest
from builders import (
    APPROVER,
    DISPATCHER,
    GRANT,
    READER,
    RIVAL,
    START,
    WORKER,
    Clock,
    actor,
    adds,
    digest,
    log,
    refused,
    task,
)
from gate_builders import PARSE, READ, STYLE, admitted, configured, gate_on, integrate, seen

from idkmesh import ActorContext, ClaimLedger, ErrorCode, ExecutorAdmission, TaskClaimPolicy
from idkmesh.events import codec
from idkmesh.events.types import ExecutionReserved, SubmissionRecorded

CANDIDATE: dict[str, Any] = {"artifact_digest": digest("e")}
APPROVED: dict[str, Any] = {"approver": APPROVER, "approval_reference": "change-2"}


@pytest.fixture
def gate(ledger: ClaimLedger) -> ExecutorAdmission:
    """Give a gate whose reading is integrated, so that parsing is ready, and a task."""
    configured(ledger)
    gate = gate_on(ledger)
    integrate(gate, READ)
    return gate


# Slots, epochs, attempts.


def test_attempts_are_counted_for_the_task(ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """A task has its slots, epochs and attempts, whichever unit it is claimed for."""
    configured(ledger, "T-2", TaskClaimPolicy(max_attempts=2))
    full = ("task_capacity_reserved", "attempt_budget_exhausted")
    for epoch, node, code in ((1, PARSE, full[0]), (2, STYLE, full[1])):
        claim = gate.admit(node, task("T-2"), WORKER, request_id=f"r-{epoch}").claim
        assert (claim.slot, claim.epoch) == (0, epoch)
        with adds(ledger), refused(code):
            gate.admit(node, task("T-2"), RIVAL, request_id="r-9")
        ledger.release(task("T-2"), WORKER, request_id=f"r-{epoch}", epoch=epoch)


def test_a_spent_event_budget_admits_nobody(
    ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """Once only the events for endings are left, an admission is refused, a submission not."""
    policy = TaskClaimPolicy(
        concurrent_slots=2, competition_reason="two designs", max_attempts=2, max_events=256
    )
    configured(ledger, "T-2", policy)
    claim = gate.admit(PARSE, task("T-2"), WORKER, request_id="r-1").claim
    grant: dict[str, Any] = {"request_id": "r-1", "epoch": claim.epoch}
    ledger.acknowledge(task("T-2"), WORKER, **grant)
    with refused("event_budget_exhausted"):
        for _ in range(256):
            clock.now += 1
            ledger.renew(task("T-2"), WORKER, **grant)
    with adds(ledger), refused("event_budget_exhausted"):
        gate.admit(PARSE, task("T-2"), RIVAL, request_id="r-2")
    assert gate.submit(PARSE, task("T-2"), WORKER, **grant, **CANDIDATE).record.created


def test_one_slot_for_each_competitor(ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """With two slots, two workers are admitted on the same inputs, and each may submit."""
    policy = TaskClaimPolicy(concurrent_slots=2, competition_reason="two designs")
    configured(ledger, "T-2", policy)
    claims = []
    for worker in (WORKER, RIVAL):
        request = worker.principal_id
        claim = gate.admit(PARSE, task("T-2"), worker, request_id=request).claim
        grant: dict[str, Any] = {"request_id": request, "epoch": claim.epoch}
        ledger.acknowledge(task("T-2"), worker, **grant)
        claims.append(gate.submit(PARSE, task("T-2"), worker, **grant, **CANDIDATE).claim)
    assert [(claim.slot, claim.epoch) for claim in claims] == [(0, 1), (1, 1)]
    assert len({claim.binding for claim in claims}) == 1


# The fence.


@pytest.mark.parametrize(
    ("code", "owner", "changes", "ends"),
    [
        ("claim_not_found", WORKER, {"request_id": "r-2"}, False),
        ("stale_claim", WORKER, {"epoch": 2}, False),
        ("claim_owner_denied", RIVAL, {}, False),
        ("claim_owner_denied", actor("worker-1", "worker", issuer="https:other"), {}, False),
        ("acknowledgement_required", WORKER, {}, False),
        ("stale_claim", WORKER, {}, True),
    ],
)
def test_the_fences_codes_come_through(
    ledger: ClaimLedger,
    gate: ExecutorAdmission,
    code: ErrorCode,
    owner: ActorContext,
    changes: dict[str, Any],
    *,
    ends: bool,
) -> None:
    """Unknown requests, stale epochs, other owners, no consent, ended claims: as in the ledger."""
    admitted(gate, ledger, acknowledged=False)
    if ends:
        ledger.release(task(), WORKER, **GRANT)
    named = {**GRANT, **changes}
    with adds(ledger):
        with refused(code):
            gate.reserve_execution(PARSE, task(), DISPATCHER, owner, **named)
        with refused(code):
            gate.submit(PARSE, task(), owner, **named, **CANDIDATE)


def test_a_request_is_known_in_its_own_task_alone(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """The request of another task is ``claim_not_found``, although the unit is the same."""
    admitted(gate, ledger)
    configured(ledger, "T-2")
    with adds(ledger):
        with refused("claim_not_found"):
            gate.reserve_execution(PARSE, task("T-2"), DISPATCHER, WORKER, **GRANT)
        with refused("claim_not_found"):
            gate.submit(PARSE, task("T-2"), WORKER, **GRANT, **CANDIDATE)


def test_the_owners_acts_stay_on_the_ledger(
    ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """Renewal, progress, release and evidence ask nothing about inputs, moved or not."""
    admitted(gate, ledger)
    gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
    gate.observe(seen(gate, READ, "rejected"))
    clock.now += 10
    assert ledger.renew(task(), WORKER, **GRANT).lease_until == START + 310
    assert ledger.progress(task(), WORKER, **GRANT).progress_by == START + 1_810
    assert ledger.release(task(), WORKER, **GRANT).state == "released"
    ended = {**GRANT, "status": "terminal", "evidence_reference": "run 1"}
    assert ledger.reconcile_execution(task(), DISPATCHER, **ended).occupancy == "terminal"
    assert not {"acknowledge", "renew", "progress", "release", "reconcile_execution"} & {*dir(gate)}


# Expiry.


def test_an_intent_is_answered_after_its_claim_expired(
    ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """While the inputs stand, the intent of an expired claim is given again."""
    admitted(gate, ledger)
    gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
    clock.now += 300
    with adds(ledger, "claim.expired.v1"):
        claim, record = gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
    assert (claim.state, claim.occupancy, record.created) == ("expired", "unknown", False)


def test_an_expired_claim_submits_nothing(
    ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """At its deadline a claim is over, current inputs or not; one second before, it is not."""
    admitted(gate, ledger)
    clock.now = START + 300
    with adds(ledger, "claim.expired.v1"), refused("stale_claim"):
        gate.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE)
    clock.now = START + 301
    with adds(ledger, "claim.granted.v1"):
        gate.admit(PARSE, task(), WORKER, request_id="r-2")
    ledger.acknowledge(task(), WORKER, request_id="r-2", epoch=2)
    clock.now = START + 600
    grant: dict[str, Any] = {"request_id": "r-2", "epoch": 2}
    assert gate.submit(PARSE, task(), WORKER, **grant, **CANDIDATE).record.created


@pytest.mark.parametrize("phase", ["admit", "reserve_execution", "submit"])
def test_a_gates_refusal_leaves_due_expiries_alone(
    ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission, phase: str
) -> None:
    """Of a refusal by moved inputs, only what was due is on record, and of a repeat nothing."""
    gate.admit(PARSE, task(), WORKER, request_id="r-1")
    gate.observe(seen(gate, READ, "pending"))
    calls: dict[str, tuple[str, Any]] = {
        "admit": (
            "task_not_ready",
            lambda: gate.admit(PARSE, task(), RIVAL, request_id="r-2"),
        ),
        "reserve_execution": (
            "inputs_changed",
            lambda: gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT),
        ),
        "submit": (
            "inputs_changed",
            lambda: gate.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE),
        ),
    }
    code, call = calls[phase]
    clock.now = START + 300
    with adds(ledger, "claim.expired.v1") as rows, refused(code):
        call()
    assert [row.at for row in rows] == [START + 300]
    clock.now = START + 400
    with adds(ledger), refused(code):
        call()


# Approval.


@pytest.fixture
def risky(ledger: ClaimLedger) -> ExecutorAdmission:
    """Give a gate whose parsing is ready, and a task of high risk."""
    configured(ledger, policy=TaskClaimPolicy(risk="high"), **APPROVED)
    gate = gate_on(ledger)
    integrate(gate, READ)
    return gate


def test_high_risk_needs_an_approver_for_all_but_admission(
    ledger: ClaimLedger, risky: ExecutorAdmission
) -> None:
    """Reserving and submitting at high risk need a distinct approver, admitting does not."""
    admitted(risky, ledger)
    owner_too = {**APPROVED, "approver": actor("worker-1", "admin")}
    dispatcher_too = {**APPROVED, "approver": actor("dispatcher-1", "admin")}
    with adds(ledger):
        with refused("distinct_approval_required"):
            risky.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)
        with refused("distinct_approval_required"):
            risky.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE)
        for approval in (owner_too, dispatcher_too):
            with refused("self_approval_forbidden"):
                risky.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT, **approval)
        with refused("self_approval_forbidden"):
            risky.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE, **owner_too)
        with refused("approver_role_denied"):
            unfit = {**APPROVED, "approver": actor("integrator-1", "integrator")}
            risky.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE, **unfit)


def test_an_approval_is_kept_in_the_events(ledger: ClaimLedger, risky: ExecutorAdmission) -> None:
    """Whose approval let a reservation and a submission pass is on record, with its reference."""
    admitted(risky, ledger)
    risky.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT, **APPROVED)
    risky.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE, **APPROVED)
    reserved, submitted = (codec.decode(row.body) for row in log(ledger)[-2:])
    assert isinstance(reserved, ExecutionReserved)
    assert isinstance(submitted, SubmissionRecorded)
    for authority in (reserved.by, reserved.owner_by, submitted.by):
        assert authority.code == "authorized_with_distinct_approval"
        assert authority.approval is not None
        assert authority.approval.principal_id == "admin-1"
        assert authority.approval.reference == "change-2"
    actors = [reserved.by.actor, reserved.owner_by.actor, submitted.by.actor]
    assert [each.principal_id for each in actors] == ["dispatcher-1", "worker-1", "worker-1"]


def test_an_approval_that_nobody_asked_for_is_not_kept(
    ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """Below the threshold an approver is ignored, even one who may not approve."""
    admitted(gate, ledger)
    nobody = {**APPROVED, "approver": actor("worker-1", "worker", revoked=True)}
    gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT, **nobody)
    gate.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE, **nobody)
    assert ['"approval":null' in row.body for row in log(ledger)[-2:]] == [True, True]
    assert ["change-2" in row.body for row in log(ledger)[-2:]] == [False, False]


def test_moved_inputs_are_no_news_for_whoever_lacks_an_approval(
    ledger: ClaimLedger, risky: ExecutorAdmission
) -> None:
    """The missing approval is answered, whatever has become of the inputs."""
    admitted(risky, ledger)
    risky.observe(seen(risky, READ, "rejected"))
    with adds(ledger), refused("distinct_approval_required"):
        risky.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE)
    with adds(ledger), refused("inputs_changed"):
        risky.submit(PARSE, task(), WORKER, **GRANT, **CANDIDATE, **APPROVED)
    assert ledger.lookup(task(), READER, request_id="r-1").submission_digest is None
