"""The authorization kernel: the baseline's table, and the order of its checks."""

import re
from itertools import product
from typing import Any

import pytest
from builders import OTHER_SCOPE, SCOPE, START, actor, task
from msgspec.structs import replace

from idkmesh import ActorContext, AuthorizationPolicy, InvalidInput, PolicyRule, TenantScope
from idkmesh.authorization import AuthorizationDecision, AuthorizationRequest, authorize
from idkmesh.scalars import Risk

TYPES = ("human", "github_app", "github_actions", "service", "provider", "node")
ROLES = (
    *("owner", "admin", "integrator", "worker"),
    *("reviewer", "dispatcher", "node_operator", "auditor"),
)
RISKS = ("low", "medium", "high", "critical")
CLASSES = ("public", "internal", "confidential", "restricted")
BASELINE = AuthorizationPolicy.enterprise_baseline()

# The baseline, by hand: who may, from which risk of the task on with an approver, and whose.
# A risk floor of the action shows in the risk from which approval is asked.
TABLE = """
    action         roles                              types    approval  approvers' roles
    read           all                                all      never     -
    claim          worker dispatcher node_operator    all      never     -
    release        worker dispatcher node_operator    all      never     -
    dispatch       dispatcher admin owner             hs       high      owner admin dispatcher integrator
    execute        worker node_operator               all      high      dispatcher admin owner
    verify         reviewer auditor                   hs       never     -
    integrate      integrator admin owner             human    high      integrator admin owner
    manage_policy  admin owner                        human    low       admin owner
    audit_export   auditor admin owner                app      critical  auditor admin owner
"""  # noqa: E501  (a table's row)
TYPE_SETS = {
    "all": TYPES,
    "hs": ("human", "github_app", "github_actions", "service"),
    "human": ("human",),
    "app": ("human", "github_app", "service"),
}


def table() -> dict[str, tuple[set[str], set[str], str, set[str]]]:
    """Read the baseline's table."""
    rows = {}
    for line in TABLE.strip().splitlines()[1:]:
        action, roles, types, approval, approvers = re.split(r"\s{2,}", line.strip())
        allowed = set(ROLES) if roles == "all" else set(roles.split())
        rows[action] = (allowed, set(TYPE_SETS[types]), approval, set(approvers.split()))
    return rows


def request(**fields: Any) -> AuthorizationRequest:
    """Make a question that the baseline answers with authorized, but for the fields given."""
    settled: dict[str, Any] = {
        "scope": SCOPE,
        "resource": task(),
        "action": "execute",
        "actor": actor("worker-1", "worker"),
        "risk": "low",
        "data_classification": "public",
        "now": START,
    }
    return AuthorizationRequest(**{**settled, **fields})


def code(policy: AuthorizationPolicy = BASELINE, **fields: Any) -> str:
    """Return the code of the kernel's answer."""
    return str(authorize(request(**fields), policy).code)


@pytest.mark.parametrize(("action", "row"), list(table().items()))
def test_the_baseline_lets_in_whom_its_table_names(action: str, row: Any) -> None:
    """Of every type with every role, just those of the table may take the action."""
    roles, types, _, _ = row
    for kind, role in product(TYPES, ROLES):
        expected = (
            "actor_type_denied"
            if kind not in types
            else "role_denied"
            if role not in roles
            else "authorized_with_distinct_approval"
            if action == "manage_policy"
            else "authorized"
        )
        approver = actor("boss", "owner")
        who = actor("someone", role, actor_type=kind)
        assert code(action=action, actor=who, approver=approver) == expected


@pytest.mark.parametrize(("action", "row"), list(table().items()))
def test_the_baseline_asks_for_approval_from_the_tables_risk(action: str, row: Any) -> None:
    """Below the risk of the table nobody approves; from it on a human with a role of the table."""
    roles, _, threshold, approving = row
    who = actor("someone", min(roles))  # a human, whom every rule lets in
    for risk in RISKS:
        needed = threshold != "never" and RISKS.index(risk) >= RISKS.index(threshold)
        ask: dict[str, Any] = {"action": action, "actor": who, "risk": risk}
        expected = "distinct_approval_required" if needed else "authorized"
        assert code(**ask) == expected
        for kind, role in product(TYPES, ROLES):
            answer = (
                "authorized"
                if not needed
                else "approver_type_denied"
                if kind != "human"
                else "approver_role_denied"
                if role not in approving
                else "authorized_with_distinct_approval"
            )
            assert code(**ask, approver=actor("boss", role, actor_type=kind)) == answer


def test_the_baseline_is_revision_0_1_of_nine_rules() -> None:
    """The baseline has one rule for each of nine actions and reaches every data class."""
    assert BASELINE.revision == "0.1"
    assert {rule.action for rule in BASELINE.rules} == set(table())
    assert {rule.max_data_classification for rule in BASELINE.rules} == {"restricted"}
    raised = {rule.action: rule.risk_floor for rule in BASELINE.rules if rule.risk_floor != "low"}
    assert raised == {"manage_policy": "high", "audit_export": "medium"}


def test_the_effects_are_allow_deny_and_requires_approval() -> None:
    """A missing approver is no denial: it is asked for, and all other failures deny."""
    ask: dict[str, Any] = {"risk": "high"}
    boss = actor("boss", "owner")
    assert authorize(request(), BASELINE) == AuthorizationDecision("allow", "authorized")
    assert authorize(request(**ask, approver=boss), BASELINE) == AuthorizationDecision(
        "allow", "authorized_with_distinct_approval"
    )
    assert authorize(request(**ask), BASELINE) == AuthorizationDecision(
        "requires_approval", "distinct_approval_required"
    )
    assert authorize(request(action="dispatch"), BASELINE) == AuthorizationDecision(
        "deny", "role_denied"
    )


# Each row's fault comes with all faults of the rows below it; the last row has none.
ORDER = """
    elsewhere            scope_mismatch
    foreign              actor_scope_denied
    unproven             actor_unauthenticated
    revoked              actor_revoked
    ended                actor_expired
    no-rule              no_policy_rule
    type                 actor_type_denied
    role                 role_denied
    clearance            data_clearance_denied
    limit                rule_data_limit_denied
    unapproved           distinct_approval_required
    self                 self_approval_forbidden
    approver-foreign     approver_scope_denied
    approver-unproven    approver_unauthenticated
    approver-revoked     approver_revoked
    approver-ended       approver_expired
    approver-type        approver_type_denied
    approver-role        approver_role_denied
    approver-clearance   approver_clearance_denied
    nothing              authorized_with_distinct_approval
"""
FAULTS = [tuple(line.split()) for line in ORDER.strip().splitlines()]


def spoilt(faults: set[str], mark: str, name: str, role: str) -> ActorContext:
    """Make an identity with the faults that carry this mark."""
    fields: dict[str, Any] = {
        "scopes": frozenset({OTHER_SCOPE if f"{mark}foreign" in faults else SCOPE}),
        "authenticated": f"{mark}unproven" not in faults,
        "revoked": f"{mark}revoked" in faults,
        "expires_at_epoch": START if f"{mark}ended" in faults else START + 1,
        "actor_type": "provider" if f"{mark}type" in faults else "human",
        "data_clearance": "public" if f"{mark}clearance" in faults else "internal",
    }
    return actor(name, "reviewer" if f"{mark}role" in faults else role, **fields)


@pytest.mark.parametrize("row", range(len(FAULTS)), ids=[fault for fault, _ in FAULTS])
def test_the_first_failing_check_decides(row: int) -> None:
    """Of all that fails at once the kernel names the first in the order of its contract."""
    faults = {fault for fault, _ in FAULTS[row:]}
    rule = PolicyRule(
        "execute",
        frozenset({"worker"}),
        frozenset({"human"}),
        max_data_classification="public" if "limit" in faults else "internal",
        distinct_approval_at_risk="medium",
        approval_roles=frozenset({"owner"}),
    )
    approver = spoilt(faults, "approver-", "worker-1" if "self" in faults else "boss", "owner")
    answer = code(
        AuthorizationPolicy("p", "1", () if "no-rule" in faults else (rule,)),
        resource=task("T-1", OTHER_SCOPE) if "elsewhere" in faults else task(),
        actor=spoilt(faults, "", "worker-1", "worker"),
        risk="medium",
        data_classification="internal",
        approver=None if "unapproved" in faults else approver,
    )
    assert answer == FAULTS[row][1]


@pytest.mark.parametrize(("needed", "held"), list(product(range(4), range(4))))
def test_a_clearance_reaches_up_to_its_class(needed: int, held: int) -> None:
    """An actor, a rule and an approver each reach the data classes up to their own."""
    ask: dict[str, Any] = {"data_classification": CLASSES[needed], "risk": "high"}
    boss = actor("boss", "owner", data_clearance=CLASSES[held])
    below = actor("worker-1", "worker", data_clearance=CLASSES[held])
    rules = [replace(rule, max_data_classification=CLASSES[held]) for rule in BASELINE.rules]
    enough = held >= needed
    good = "authorized_with_distinct_approval"
    assert code(**ask, approver=boss) == (good if enough else "approver_clearance_denied")
    assert code(**ask, approver=actor("boss", "owner"), actor=below) == (
        good if enough else "data_clearance_denied"
    )
    limited = AuthorizationPolicy("p", "1", tuple(rules))
    assert code(limited, **ask, approver=actor("boss", "owner")) == (
        good if enough else "rule_data_limit_denied"
    )


@pytest.mark.parametrize(
    ("risk", "floor", "threshold"), list(product(RISKS, RISKS, (*RISKS, None)))
)
def test_the_higher_of_risk_and_floor_meets_the_threshold(
    risk: Risk, floor: Risk, threshold: Risk | None
) -> None:
    """Approval is asked where the task's risk or the rule's floor reaches the threshold."""
    rule = PolicyRule(
        "execute",
        frozenset({"worker"}),
        frozenset({"human"}),
        risk_floor=floor,
        distinct_approval_at_risk=threshold,
    )
    reached = threshold is not None and (
        RISKS.index(risk) >= RISKS.index(threshold) or RISKS.index(floor) >= RISKS.index(threshold)
    )
    expected = "distinct_approval_required" if reached else "authorized"
    assert code(AuthorizationPolicy("p", "1", (rule,)), risk=risk) == expected


def test_an_identity_ends_at_its_second() -> None:
    """An actor is good one second before its expiry, and expired at it and after."""
    who = actor("worker-1", "worker", expires_at_epoch=START + 10)
    answers = [code(actor=who, now=START + second) for second in (9, 10, 11)]
    assert answers == ["authorized", "actor_expired", "actor_expired"]


def test_any_one_role_and_any_one_scope_are_enough() -> None:
    """An actor with several roles and scopes acts by the one that fits."""
    scopes = frozenset({OTHER_SCOPE, SCOPE, TenantScope("umbrella", "apollo")})
    assert code(actor=actor("w-1", "auditor", "worker", scopes=scopes)) == "authorized"
    assert code(actor=actor("w-1", scopes=scopes)) == "role_denied"
    assert code(actor=actor("w-1", "worker", scopes=frozenset())) == "actor_scope_denied"


def test_a_rule_lets_nobody_approve_unless_it_says_who() -> None:
    """By default a rule reaches all data, asks no approval, and no role may give one."""
    rule = PolicyRule("execute", frozenset({"worker"}), frozenset({"human"}))
    assert (rule.max_data_classification, rule.risk_floor) == ("restricted", "low")
    assert (rule.distinct_approval_at_risk, rule.approval_roles) == (None, frozenset())
    assert rule.approval_actor_types == frozenset({"human"})
    strict = replace(rule, distinct_approval_at_risk="low")
    boss = actor("boss", *ROLES)
    assert code(AuthorizationPolicy("p", "1", (strict,)), approver=boss) == "approver_role_denied"


def test_a_policy_has_one_rule_an_action() -> None:
    """Two rules for one action would leave the answer open, so they are refused."""
    rule = PolicyRule("execute", frozenset({"worker"}), frozenset({"human"}))
    with pytest.raises(InvalidInput):
        AuthorizationPolicy("p", "1", (rule, replace(rule, allowed_roles=frozenset({"owner"}))))
