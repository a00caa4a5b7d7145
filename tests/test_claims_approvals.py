"""Authority in the ledger: asked anew by every command, and written into what it allowed."""

from collections.abc import Callable
from typing import Any

import pytest
from builders import (
    APPROVER,
    DISPATCHER,
    GRANT,
    READER,
    RUNNING,
    START,
    WORKER,
    Clock,
    actor,
    adds,
    binding,
    digest,
    log,
    refused,
    task,
)
from msgspec import json
from msgspec.structs import replace

from idkmesh import AuthorizationPolicy, ClaimLedger, TaskClaimPolicy

APPROVED: dict[str, Any] = {"approver": APPROVER, "approval_reference": "change-7"}
HIGH = TaskClaimPolicy(risk="high")
APPROVAL = {
    "principal_id": "admin-1",
    "issuer": "https:idp",
    "actor_type": "human",
    "identity_revision": "rev-1",
    "reference": "change-7",
}

# Every command that may need an approver, in the order in which a claim meets them.
STEPS: dict[str, Callable[..., Any]] = {
    "configure": lambda ledger, policy, **approval: ledger.configure_task(
        task(), DISPATCHER, policy, **approval
    ),
    "reserve": lambda ledger, _, **approval: ledger.reserve_dispatch(
        task(), DISPATCHER, WORKER, **GRANT, **approval
    ),
    "reconcile": lambda ledger, _, **approval: ledger.reconcile_execution(
        task(), DISPATCHER, **RUNNING, **approval
    ),
    "submit": lambda ledger, _, **approval: ledger.record_submission(
        task(), WORKER, **GRANT, artifact_digest=digest("c"), **approval
    ),
}


@pytest.fixture
def ledger(memory_ledger: ClaimLedger) -> ClaimLedger:
    """Give a ledger without a file."""
    return memory_ledger


def run(ledger: ClaimLedger, policy: TaskClaimPolicy, until: str, **approval: Any) -> None:
    """Take T-1 through the steps before ``until``; claims need no approver at any risk."""
    for name, step in STEPS.items():
        if name == until:
            return
        step(ledger, policy, **approval)
        if name == "configure":
            ledger.claim(task(), WORKER, request_id="r-1", binding=binding())
            ledger.acknowledge(task(), WORKER, **GRANT)


def authority(action: str, who: dict[str, str], *, approved: bool = False) -> dict[str, Any]:
    """Write down a decision of the baseline as an event holds it."""
    return {
        "action": action,
        "code": "authorized_with_distinct_approval" if approved else "authorized",
        "policy_id": "enterprise-baseline",
        "policy_revision": "0.1",
        "actor": who,
        "identity_revision": "rev-1",
        "approval": APPROVAL if approved else None,
    }


WORKING = {"principal_id": "worker-1", "issuer": "https:idp", "actor_type": "human"}
DISPATCHING = {"principal_id": "dispatcher-1", "issuer": "https:idp", "actor_type": "service"}


@pytest.mark.parametrize("approved", [False, True], ids=["low", "high"])
def test_every_event_says_who_allowed_it(ledger: ClaimLedger, *, approved: bool) -> None:
    """Each event holds the decision behind it; an approver is there just where one was needed."""
    run(ledger, TaskClaimPolicy(risk="high" if approved else "low"), "", **APPROVED)
    ledger.progress(task(), WORKER, **GRANT)
    ledger.release(task(), WORKER, **GRANT)
    events = [json.decode(row.body) for row in log(ledger)]
    assert [(event["type"], event["by"], event.get("owner_by")) for event in events] == [
        ("task.configured.v1", authority("dispatch", DISPATCHING, approved=approved), None),
        ("claim.granted.v1", authority("claim", WORKING), None),
        ("claim.acknowledged.v1", authority("claim", WORKING), None),
        (
            "execution.reserved.v1",
            authority("dispatch", DISPATCHING, approved=approved),
            authority("execute", WORKING, approved=approved),
        ),
        ("execution.reconciled.v1", authority("dispatch", DISPATCHING, approved=approved), None),
        ("submission.recorded.v1", authority("execute", WORKING, approved=approved), None),
        ("claim.released.v1", authority("release", WORKING), None),
    ]


@pytest.mark.parametrize("risk", ["high", "critical"])
@pytest.mark.parametrize("step", STEPS)
def test_a_high_risk_needs_a_distinct_approver(ledger: ClaimLedger, step: str, risk: Any) -> None:
    """From high risk on the four privileged commands are refused without an approver."""
    policy = TaskClaimPolicy(risk=risk)
    run(ledger, policy, step, **APPROVED)
    with adds(ledger), refused("distinct_approval_required"):
        STEPS[step](ledger, policy)
    STEPS[step](ledger, policy, **APPROVED)


@pytest.mark.parametrize("step", STEPS)
def test_below_the_threshold_an_approver_is_ignored(ledger: ClaimLedger, step: str) -> None:
    """Where none is needed, even an approver who could approve nothing does no harm."""
    policy = TaskClaimPolicy(risk="medium")
    run(ledger, policy, step)
    useless = replace(DISPATCHER, revoked=True, scopes=frozenset())
    STEPS[step](ledger, policy, approver=useless, approval_reference="change-7")
    assert "change-7" not in log(ledger)[-1].body


@pytest.mark.parametrize("step", STEPS)
def test_an_approver_and_a_reference_come_together(ledger: ClaimLedger, step: str) -> None:
    """One without the other, or a reference that is no identifier, is refused at any risk."""
    policy = TaskClaimPolicy()
    run(ledger, policy, step)
    wrong: list[dict[str, Any]] = [{"approver": APPROVER}, {"approval_reference": "change-7"}]
    bad: list[Any] = ["", " ", "a b", "-x", "x\n", "x" * 257, 7, None, b"x"]
    wrong += [{"approver": APPROVER, "approval_reference": reference} for reference in bad]
    for approval in wrong:
        with adds(ledger), refused("invalid_input"):
            STEPS[step](ledger, policy, **approval)
    longest = "x" + "._:/@-" * 42 + "xyz"
    STEPS[step](ledger, policy, approver=APPROVER, approval_reference=longest)


def test_nobody_approves_an_act_of_their_own(ledger: ClaimLedger) -> None:
    """The same principal under another issuer, type or role is still not distinct."""
    run(ledger, HIGH, "reserve", **APPROVED)
    disguise = {"issuer": "https:elsewhere", "actor_type": "human", "roles": frozenset({"owner"})}
    for party in (DISPATCHER, WORKER):
        self_made = {"approver": replace(party, **disguise), "approval_reference": "change-7"}
        with adds(ledger), refused("self_approval_forbidden"):
            STEPS["reserve"](ledger, HIGH, **self_made)
    assert STEPS["reserve"](ledger, HIGH, **APPROVED).created is True
    for step, party in (("reconcile", DISPATCHER), ("submit", WORKER)):
        self_made = {"approver": replace(party, **disguise), "approval_reference": "change-7"}
        with adds(ledger), refused("self_approval_forbidden"):
            STEPS[step](ledger, HIGH, **self_made)


def test_who_did_not_take_part_may_approve(ledger: ClaimLedger) -> None:
    """The owner may approve the dispatcher's other acts, and the dispatcher the owner's."""
    run(ledger, HIGH, "reconcile", **APPROVED)
    worker = replace(WORKER, roles=frozenset({"admin"}))
    dispatcher = replace(DISPATCHER, actor_type="human")
    STEPS["reconcile"](ledger, HIGH, approver=worker, approval_reference="change-8")
    STEPS["submit"](ledger, HIGH, approver=dispatcher, approval_reference="change-9")


def test_one_approver_must_satisfy_both_rules(ledger: ClaimLedger) -> None:
    """An integrator may approve dispatching and not executing, so not a reservation."""
    integrator = {"approver": actor("i-1", "integrator"), "approval_reference": "change-7"}
    run(ledger, HIGH, "reserve", **APPROVED)
    with adds(ledger), refused("approver_role_denied"):
        STEPS["reserve"](ledger, HIGH, **integrator)
    STEPS["reserve"](ledger, HIGH, **APPROVED)
    assert STEPS["reconcile"](ledger, HIGH, **integrator).occupancy == "running"


@pytest.mark.parametrize(
    ("stored", "offered", "answer"),
    [
        ("low", "high", "task_policy_conflict"),
        ("high", "low", "distinct_approval_required"),
        ("high", "high", "distinct_approval_required"),
    ],
)
def test_a_stored_risk_decides_over_an_offered_one(
    ledger: ClaimLedger, stored: Any, offered: Any, answer: str
) -> None:
    """A caller can neither lower the risk that is stored nor be held to one only offered."""
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy(risk=stored), **APPROVED)
    with adds(ledger), refused(answer):
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy(risk=offered))


def test_a_stored_data_class_decides_over_an_offered_one(ledger: ClaimLedger) -> None:
    """For a new task the offered class counts, later the stored one, for every command."""
    low = replace(DISPATCHER, data_clearance="internal")
    secret = TaskClaimPolicy(data_classification="restricted")
    with adds(ledger), refused("data_clearance_denied"):
        ledger.configure_task(task(), low, secret)
    ledger.configure_task(task(), DISPATCHER, secret)
    with adds(ledger), refused("data_clearance_denied"):
        ledger.configure_task(task(), low, TaskClaimPolicy())
    worker = replace(WORKER, data_clearance="confidential")
    with adds(ledger), refused("data_clearance_denied"):
        ledger.claim(task(), worker, request_id="r-1", binding=binding())
    with adds(ledger), refused("data_clearance_denied"):
        ledger.snapshot(task(), replace(READER, data_clearance="public"))


def test_authority_is_asked_anew_each_time(ledger: ClaimLedger, clock: Clock) -> None:
    """An owner whose identity was revoked or ran out gets no further, not even a replay."""
    run(ledger, TaskClaimPolicy(), "reserve")
    gone = replace(WORKER, revoked=True)
    ending = replace(WORKER, expires_at_epoch=START + 10)
    calls: list[Callable[[Any], Any]] = [
        lambda who: ledger.claim(task(), who, request_id="r-1", binding=binding()),
        lambda who: ledger.acknowledge(task(), who, **GRANT),
        lambda who: ledger.reserve_dispatch(task(), DISPATCHER, who, **GRANT),
        lambda who: ledger.record_submission(task(), who, **GRANT, artifact_digest=digest("c")),
    ]
    for call in calls:
        with adds(ledger), refused("actor_revoked"):
            call(gone)
    clock.now = START + 9
    for call in calls:
        call(ending)
    clock.now = START + 10
    for call in calls:
        with adds(ledger), refused("actor_expired"):
            call(ending)


def test_the_rules_in_force_are_named(ledger: ClaimLedger, clock: Clock) -> None:
    """An event names the policy and the revision that allowed it, not the ledger's first."""
    run(ledger, TaskClaimPolicy(), "reserve")
    rules = AuthorizationPolicy.enterprise_baseline().rules
    later = ClaimLedger(ledger._store, AuthorizationPolicy("house", "2.7", rules), clock=clock)
    later.release(task(), WORKER, **GRANT)
    named = [json.decode(row.body)["by"] for row in log(ledger)]
    assert [(by["policy_id"], by["policy_revision"]) for by in named] == [
        ("enterprise-baseline", "0.1"),
        ("enterprise-baseline", "0.1"),
        ("enterprise-baseline", "0.1"),
        ("house", "2.7"),
    ]
