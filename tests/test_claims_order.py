"""The order of checks, as tables: what answers when several things are wrong at once.

A row is an attempt. It has the row's own fault and every fault of the rows below it in its
table, so each row shows that its check comes before all that follow. The columns are the
fault, the events that the attempt leaves in the file, and the answer. ``attempts.py`` says
how each fault is brought about.
"""

import re

import pytest
from attempts import Attempt
from builders import Clock

from idkmesh import ClaimLedger

TIME = """
    clock                -                     invalid_clock
    rollback             -                     clock_rollback
"""
WHO = """
    foreign              -                     actor_scope_denied
    unproven             -                     actor_unauthenticated
    revoked              -                     actor_revoked
    ended                -                     actor_expired
"""
TASK = """
    unconfigured         -                     task_not_configured
"""
MAY = """
    no-rule              -                     no_policy_rule
    type                 -                     actor_type_denied
    role                 -                     role_denied
    clearance            -                     data_clearance_denied
    limit                -                     rule_data_limit_denied
"""
APPROVAL = """
    unapproved           -                     distinct_approval_required
    self                 -                     self_approval_forbidden
"""
APPROVER = """
    approver-foreign     -                     approver_scope_denied
    approver-unproven    -                     approver_unauthenticated
    approver-revoked     -                     approver_revoked
    approver-ended       -                     approver_expired
    approver-type        -                     approver_type_denied
    approver-role        -                     approver_role_denied
    approver-clearance   -                     approver_clearance_denied
"""
OWNED = """
    unknown              expired               claim_not_found
    epoch                expired               stale_claim
    other-owner          expired               claim_owner_denied
"""
OVER = """
    due                  expired               stale_claim
    released             -                     stale_claim
"""
COMMON = TIME + WHO + TASK + MAY

TABLES = {
    "configure_task": f"""
    resource             -                     invalid_input
    reference            -                     invalid_input
    {TIME + WHO + MAY + APPROVAL + APPROVER}
    conflict             expired               task_policy_conflict
    due                  expired               retained
    nothing              configured            created
    """,
    "claim": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    {COMMON}
    conflict             expired               request_conflict
    replay               expired               retained
    spent                expired               attempt_budget_exhausted
    taken                expired               task_capacity_reserved
    due                  expired granted       created
    nothing              granted               created
    """,
    "acknowledge": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    {COMMON + OWNED + OVER}
    nothing              acknowledged          answered
    """,
    "renew": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    {COMMON + OWNED + OVER}
    unacknowledged       -                     acknowledgement_required
    nothing              renewed               answered
    """,
    "progress": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    {COMMON + OWNED + OVER}
    unacknowledged       -                     acknowledgement_required
    nothing              progressed            answered
    """,
    "release": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    {COMMON + OWNED + OVER}
    unacknowledged       released              answered
    nothing              released              answered
    """,
    "reserve_dispatch": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    reference            -                     invalid_input
    {COMMON + APPROVAL}
    self-owner           -                     self_approval_forbidden
    {APPROVER}
    owner-foreign        -                     actor_scope_denied
    owner-unproven       -                     actor_unauthenticated
    owner-revoked        -                     actor_revoked
    owner-ended          -                     actor_expired
    owner-no-rule        -                     no_policy_rule
    owner-type           -                     actor_type_denied
    owner-role           -                     role_denied
    owner-clearance      -                     data_clearance_denied
    owner-limit          -                     rule_data_limit_denied
    owner-approver-role  -                     approver_role_denied
    {OWNED}
    reserved             expired               retained
    {OVER}
    unacknowledged       -                     acknowledgement_required
    nothing              reserved              created
    """,
    "reconcile_execution": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    status               -                     invalid_input
    evidence             -                     invalid_input
    reference            -                     invalid_input
    {COMMON + APPROVAL + APPROVER}
    unknown              expired               claim_not_found
    epoch                expired               stale_claim
    unreserved           expired               dispatch_intent_required
    ended-otherwise      expired               terminal_execution_conflict
    other-owner          expired reconciled    answered
    due                  expired reconciled    answered
    released             reconciled            answered
    nothing              reconciled            answered
    """,
    "record_submission": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    digest               -                     invalid_input
    reference            -                     invalid_input
    {COMMON + APPROVAL + APPROVER + OWNED + OVER}
    unacknowledged       -                     acknowledgement_required
    nothing              recorded              answered
    """,
    "record_submission again": f"""
    {OWNED + OVER}
    bound                -                     submission_conflict
    """,
    "snapshot": f"""
    resource             -                     invalid_input
    {COMMON}
    due                  expired               answered
    nothing              observed              answered
    """,
    "peek": f"""
    resource             -                     invalid_input
    clock                -                     invalid_clock
    {WHO + TASK + MAY}
    due                  -                     answered
    nothing              -                     answered
    """,
    "policy": f"""
    resource             -                     invalid_input
    clock                -                     invalid_clock
    {WHO + TASK + MAY}
    due                  -                     answered
    nothing              -                     answered
    """,
    "lookup": f"""
    resource             -                     invalid_input
    request-id           -                     invalid_input
    clock                -                     invalid_clock
    {WHO + TASK + MAY}
    unknown              -                     claim_not_found
    due                  -                     answered
    nothing              -                     answered
    """,
    "survey": f"""
    filter               -                     invalid_input
    clock                -                     invalid_clock
    {WHO}
    no-rule              -                     no_policy_rule
    type                 -                     actor_type_denied
    role                 -                     role_denied
    due                  -                     answered
    nothing              -                     answered
    """,
}


def attempts() -> list[object]:
    """Read the tables: each row becomes its attempt, what it leaves, and its answer."""
    cases: list[object] = []
    for name, table in TABLES.items():
        rows = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines() if line.strip()]
        for place, (fault, written, answer) in enumerate(rows):
            faults = frozenset(row[0] for row in rows[place:])
            attempt = Attempt(name.split()[0], faults)
            cases.append(pytest.param(attempt, written, answer, id=f"{name}-{fault}"))
    return cases


@pytest.mark.parametrize(("attempt", "written", "answer"), attempts())
def test_the_first_failing_check_answers(
    memory_ledger: ClaimLedger, clock: Clock, attempt: Attempt, written: str, answer: str
) -> None:
    """Of all that is wrong the earliest check answers, and only what is due is written."""
    assert attempt.outcome(memory_ledger, clock) == (written, answer)
