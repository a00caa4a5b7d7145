"""Refusals as objects: stable codes, and messages that help without giving anything away."""

import pickle
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from builders import DISPATCHER, GRANT, WORKER, Clock, actor, binding, granted, opened, task

from idkmesh import (
    ClaimError,
    ClaimLedger,
    ErrorCode,
    InvalidInput,
    StoreError,
    TaskClaimPolicy,
    TenantScope,
)

# Every code that the claim ledger's contract names.
CODES = """
    invalid_input invalid_clock clock_rollback
    scope_mismatch actor_scope_denied actor_unauthenticated actor_revoked actor_expired
    task_not_configured no_policy_rule actor_type_denied role_denied
    data_clearance_denied rule_data_limit_denied
    distinct_approval_required self_approval_forbidden approver_scope_denied
    approver_unauthenticated approver_revoked approver_expired approver_type_denied
    approver_role_denied approver_clearance_denied
    task_policy_conflict request_conflict attempt_budget_exhausted event_budget_exhausted
    task_capacity_reserved claim_not_found stale_claim claim_owner_denied
    acknowledgement_required dispatch_intent_required terminal_execution_conflict
    submission_conflict
    store_locked store_newer store_foreign store_corrupt store_readonly store_full
    store_closed store_unsafe outcome_unknown
"""


def test_every_code_of_the_contract_is_a_word() -> None:
    """Codes are members of a StrEnum, equal to their words, and the contract's are all there."""
    assert issubclass(ErrorCode, StrEnum)
    assert set(CODES.split()) <= {str(code) for code in ErrorCode}
    for word in CODES.split():
        assert ErrorCode(word) == word


def test_a_refusal_carries_its_code(memory_ledger: ClaimLedger) -> None:
    """A refusal's code is an ErrorCode, and its message begins with it and says what was meant."""
    granted(memory_ledger)
    with pytest.raises(ClaimError) as caught:
        memory_ledger.renew(task(), WORKER, request_id="r-1", epoch=2)
    assert caught.value.code is ErrorCode.STALE_CLAIM
    assert str(caught.value).startswith("stale_claim: expected ")
    assert ", but " in str(caught.value)
    assert not isinstance(caught.value, ValueError)


def test_a_store_error_is_no_refusal(path: Path, clock: Clock) -> None:
    """What is wrong with the file carries a code too, and no handler of refusals catches it."""
    ledger = opened(path, clock)
    ledger.close()
    with pytest.raises(StoreError) as caught:
        ledger.release(task(), WORKER, **GRANT)
    assert caught.value.code is ErrorCode.STORE_CLOSED
    assert not isinstance(caught.value, ClaimError)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: TaskClaimPolicy(max_attempts=33), ["max_attempts", "1", "32"]),
        (lambda: TaskClaimPolicy(hard_seconds=0), ["hard_seconds", "1", "604800"]),
        (lambda: TaskClaimPolicy(max_attempts=32, max_events=2_047), ["max_events", "2048"]),
        (lambda: TaskClaimPolicy(competition_reason="x" * 513), ["competition_reason", "512"]),
        (lambda: TenantScope("a/b", "c"), ["tenant_id", "128"]),
        (lambda: actor("a b"), ["principal_id", "256"]),
        (lambda: actor("a", "boss"), ["roles", "dispatcher"]),
    ],
    ids=lambda case: case[0] if isinstance(case, list) else "",
)
def test_an_input_error_names_the_field_and_the_limit(wrong: Any, words: list[str]) -> None:
    """Whoever reads the message knows which field to mend and what it may hold."""
    with pytest.raises(InvalidInput) as caught:
        wrong()
    for word in words:
        assert word in str(caught.value)


def test_no_message_holds_what_a_caller_sent(memory_ledger: ClaimLedger) -> None:
    """Request ids, evidence and names of people stay out of every message and its repr."""
    secret: dict[str, Any] = {"request_id": "s3cret", "epoch": 1}
    someone = actor("s3cret", "worker")
    memory_ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy(max_attempts=1))
    memory_ledger.claim(task(), someone, request_id="s3cret", binding=binding())
    evidence: dict[str, Any] = {"status": "running", "evidence_reference": "s3cret"}
    for call in (
        lambda: memory_ledger.claim(task(), someone, request_id="s3cret", binding=binding("b")),
        lambda: memory_ledger.claim(task(), someone, request_id="s3cret 2", binding=binding()),
        lambda: memory_ledger.renew(task(), someone, **secret),
        lambda: memory_ledger.release(task(), WORKER, **secret),
        lambda: memory_ledger.reconcile_execution(task(), DISPATCHER, **secret, **evidence),
        lambda: memory_ledger.configure_task(task(), someone, TaskClaimPolicy()),
        lambda: memory_ledger.peek(task("s3cret"), someone),
    ):
        with pytest.raises(ClaimError) as caught:
            call()
        assert "s3cret" not in str(caught.value) + repr(caught.value)


def test_refusals_cross_process_boundaries() -> None:
    """A pickled refusal comes back as what it was, its code and its message with it."""
    with pytest.raises(InvalidInput) as caught:
        TenantScope("", "x")
    for error in (
        caught.value,
        ClaimError(ErrorCode.STALE_CLAIM, "expected this, but that"),
        StoreError(ErrorCode.STORE_FULL, "expected room, but there is none"),
    ):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  (what this test pickled itself)
        assert (type(again), again.code, str(again)) == (type(error), error.code, str(error))
