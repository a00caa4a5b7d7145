"""The order of checks in the three phases: what answers when several things are wrong at once.

The tables read as those of ``test_claims_order.py``, whose parts they use: a row has its own
fault and those of all rows below it, so each check is shown to come before all that follow.
Whatever stands above the first row about readiness or a claim tells nothing of either.
"""

import re
from typing import Any

import pytest
from attempts import APPROVED, CALLERS, LEASE, Attempt
from builders import (
    DISPATCHER,
    OTHER_SCOPE,
    RIVAL,
    START,
    WORKER,
    Clock,
    digest,
    task,
)
from gate_builders import OTHER_PARSE, PARSE, READ, gate_on, integrate, seen
from test_claims_order import APPROVAL, APPROVER, COMMON, OVER

from idkmesh import ClaimLedger, ExecutorAdmission, ScopedResourceRef

PHASES = {"claim": "admit", "reserve_dispatch": "reserve_execution", "record_submission": "submit"}

PLACE = """
    node-type            -                     invalid_input
    node                 -                     unknown_work_unit
    resource             -                     invalid_input
    other-scope          -                     scope_mismatch
"""
INPUTS = """
    unknown              expired               claim_not_found
    mismatch             expired               binding_mismatch
    blocked              expired               inputs_changed
    moved                expired               inputs_changed
    epoch                expired               stale_claim
    other-owner          expired               claim_owner_denied
"""
TABLES = {
    "claim": f"""
    {PLACE}
    request-id           -                     invalid_input
    {COMMON}
    integrated           expired               task_already_integrated
    blocked              expired               task_not_ready
    moved                expired               request_conflict
    replay               expired               retained
    spent                expired               attempt_budget_exhausted
    taken                expired               task_capacity_reserved
    due                  expired granted       created
    nothing              granted               created
    """,
    "reserve_dispatch": f"""
    {PLACE}
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
    {INPUTS}
    reserved             expired               retained
    {OVER}
    unacknowledged       -                     acknowledgement_required
    integrated           reserved              created
    nothing              reserved              created
    """,
    "record_submission": f"""
    {PLACE}
    request-id           -                     invalid_input
    digest               -                     invalid_input
    reference            -                     invalid_input
    {COMMON + APPROVAL + APPROVER + INPUTS + OVER}
    unacknowledged       -                     acknowledgement_required
    integrated           recorded              created
    nothing              recorded              created
    """,
    "record_submission again": f"""
    {INPUTS + OVER}
    bound                -                     submission_conflict
    """,
}


class GateAttempt(Attempt):
    """One call of a phase; the words are those of ``Attempt`` and the gate's own."""

    def _prepare(self, ledger: ClaimLedger, clock: Clock) -> None:
        """Configure, make the unit ready, and put everything there that the words ask for."""
        gate = gate_on(ledger)
        ledger.configure_task(task(), DISPATCHER, self._terms(), **APPROVED)
        integrate(gate, READ)
        if self.command != "claim" or self._any("moved", "replay", "spent", "taken", "due"):
            self._admit(gate, ledger)
        if self._any("moved"):
            integrate(gate, READ, artifacts="d")
        if self._any("integrated"):
            integrate(gate, PARSE)
        if self._any("blocked") and not (self.command == "claim" and self._any("integrated")):
            gate.observe(seen(gate, READ, "rejected"))
        clock.now = START + (LEASE if self._any("due") else 1)
        if self._any("rollback"):
            clock.now = START - 1
        if self._any("clock"):
            clock.now = "noon"

    def _admit(self, gate: ExecutorAdmission, ledger: ClaimLedger) -> None:
        """Grant r-1 to an owner, and take it as far as the words ask."""
        holder = RIVAL if self._any("other-owner") else WORKER
        request: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
        gate.admit(PARSE, task(), holder, request_id="r-1")
        reserved = self._any("reserved", "taken")
        if reserved or not self._any("unacknowledged"):
            ledger.acknowledge(task(), holder, **request)
        if reserved:
            gate.reserve_execution(PARSE, task(), DISPATCHER, holder, **request, **APPROVED)
        if self._any("bound"):
            bound: Any = {"artifact_digest": digest("b")}
            gate.submit(PARSE, task(), holder, **request, **bound, **APPROVED)
        if self._any("released") and not self._any("due"):
            ledger.release(task(), holder, **request)

    def _call(self, ledger: ClaimLedger) -> Any:
        gate = gate_on(ledger, *((OTHER_PARSE,) if self._any("mismatch") else ()))
        node: Any = 7 if self._any("node-type") else "feeds/none" if self._any("node") else PARSE
        action = {"claim": "claim", "reserve_dispatch": "dispatch"}.get(self.command, "execute")
        arguments = self._arguments()
        arguments.pop("binding", None)
        if self.command == "claim" and self._any("moved") and not self._any("request-id"):
            arguments["request_id"] = "r-1"
        parties = [self._spoilt(CALLERS[action], "")]
        if self.command == "reserve_dispatch":
            parties.append(arguments.pop("owner"))
        return getattr(gate, PHASES[self.command])(node, self._task(), *parties, **arguments)

    def _task(self) -> ScopedResourceRef:
        if self._any("other-scope") and not self._any("resource"):
            return task("T-1", OTHER_SCOPE)
        return super()._task()

    def _answer(self, answer: Any) -> str:
        return "created" if answer.record.created else "retained"


def attempts() -> list[object]:
    """Read the tables: each row becomes its attempt, what it leaves, and its answer."""
    cases: list[object] = []
    for name, table in TABLES.items():
        rows = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines() if line.strip()]
        for place, (fault, written, answer) in enumerate(rows):
            attempt = GateAttempt(name.split()[0], frozenset(row[0] for row in rows[place:]))
            phase = name.replace(attempt.command, PHASES[attempt.command])
            cases.append(pytest.param(attempt, written, answer, id=f"{phase}-{fault}"))
    return cases


@pytest.mark.parametrize(("attempt", "written", "answer"), attempts())
def test_the_first_failing_check_answers(
    memory_ledger: ClaimLedger, clock: Clock, attempt: GateAttempt, written: str, answer: str
) -> None:
    """Of all that is wrong the earliest check answers, and only what is due is written."""
    assert attempt.outcome(memory_ledger, clock) == (written, answer)
