"""Executions: reserved once, known only by evidence, holding their slot until they end."""

from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    READER,
    RIVAL,
    RUNNING,
    WORKER,
    Clock,
    actor,
    adds,
    binding,
    digest,
    granted,
    opened,
    refused,
    task,
)
from msgspec.structs import replace

from idkmesh import ClaimLedger, TaskClaimPolicy

SECOND: dict[str, Any] = {"request_id": "r-2", "binding": binding()}
TWO_SLOTS = TaskClaimPolicy(concurrent_slots=2, competition_reason="two designs")


@pytest.mark.parametrize("ending", ["release", "expiry", "end of the execution"])
def test_a_retained_intent_outlives_its_claim(
    ledger: ClaimLedger, clock: Clock, ending: str
) -> None:
    """The recorded owner and epoch get their intent back even when the claim is over."""
    granted(ledger)
    intent = ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT).claim
    if ending == "release":
        ledger.release(task(), WORKER, **GRANT)
    elif ending == "expiry":
        clock.now = intent.lease_until
    else:
        ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    answer = ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    assert (answer.created, answer.claim.operation_id) == (False, intent.operation_id)
    with refused("claim_owner_denied"):
        ledger.reserve_dispatch(task(), DISPATCHER, RIVAL, **GRANT)
    with refused("stale_claim"):
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, request_id="r-1", epoch=2)


def test_the_end_of_an_execution_is_not_the_end_of_ownership(ledger: ClaimLedger) -> None:
    """After a terminal execution the owner still holds the slot, and may renew and submit."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    ended = ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    assert (ended.state, ended.occupancy) == ("active", "terminal")
    with refused("task_capacity_reserved"):
        ledger.claim(task(), RIVAL, **SECOND)
    assert ledger.record_submission(
        task(), WORKER, **GRANT, artifact_digest=digest("c")
    ).submission_digest == digest("c")


def test_the_last_evidence_is_the_reference(ledger: ClaimLedger) -> None:
    """Evidence of a running execution may be replaced; the same again changes nothing."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    with adds(ledger, "execution.reconciled.v1", "execution.reconciled.v1"):
        for evidence in ("run-1", "run-1", "run-2"):
            asked = {**RUNNING, "evidence_reference": evidence}
            got = ledger.reconcile_execution(task(), DISPATCHER, **asked)
            assert (got.occupancy, got.execution_reference) == ("running", evidence)


def test_an_old_execution_is_reconciled_without_giving_ownership_back(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """Evidence about a past claim changes that claim's occupancy and nobody's ownership."""
    granted(ledger, policy=TWO_SLOTS)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    clock.now += 300
    other = ledger.claim(task(), RIVAL, **SECOND).claim
    ended = ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    assert (ended.state, ended.occupancy) == ("expired", "terminal")
    with refused("stale_claim"):
        ledger.record_submission(task(), WORKER, **GRANT, artifact_digest=digest("c"))
    assert ledger.lookup(task(), READER, request_id="r-2") == other


@pytest.mark.parametrize("status", ["running", "terminal"])
def test_evidence_needs_an_intent(ledger: ClaimLedger, status: str) -> None:
    """Without a reservation there is nothing to reconcile, whatever the evidence says."""
    granted(ledger)
    with adds(ledger), refused("dispatch_intent_required"):
        ledger.reconcile_execution(task(), DISPATCHER, **{**ENDED, "status": status})


@pytest.mark.parametrize("status", ["unknown", "none", "stopped", "", "Running", None, 1])
def test_evidence_says_running_or_terminal(ledger: ClaimLedger, status: Any) -> None:
    """No other word, and nothing that is no word, is a status."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    with adds(ledger), refused("invalid_input"):
        ledger.reconcile_execution(task(), DISPATCHER, **{**ENDED, "status": status})


def test_an_execution_may_end_without_having_been_seen(ledger: ClaimLedger) -> None:
    """Unknown may become terminal at once: conclusively not created counts as ended."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    assert ledger.reconcile_execution(task(), DISPATCHER, **ENDED).occupancy == "terminal"


def test_any_dispatcher_reconciles(ledger: ClaimLedger) -> None:
    """Evidence needs authority to dispatch and no ownership: a worker has the wrong one."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    with adds(ledger), refused("role_denied"):
        ledger.reconcile_execution(task(), WORKER, **RUNNING)
    other = actor("owner-9", "owner")
    assert ledger.reconcile_execution(task(), other, **RUNNING).occupancy == "running"


def test_each_slot_waits_for_its_own_execution(ledger: ClaimLedger) -> None:
    """An execution that may run blocks its own slot and leaves the other one free."""
    granted(ledger, policy=TWO_SLOTS)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    ledger.release(task(), WORKER, **GRANT)
    got = ledger.claim(task(), RIVAL, **SECOND).claim
    assert (got.slot, got.epoch) == (1, 1)
    third: dict[str, Any] = {"request_id": "r-3", "binding": binding()}
    with refused("task_capacity_reserved"):
        ledger.claim(task(), RIVAL, **third)
    ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    got = ledger.claim(task(), RIVAL, **third).claim
    assert (got.slot, got.epoch) == (0, 2)


def test_a_new_claim_inherits_nothing(ledger: ClaimLedger, clock: Clock) -> None:
    """The next claim of a slot starts without its predecessor's evidence, consent or deadlines."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    ledger.record_submission(task(), WORKER, **GRANT, artifact_digest=digest("c"))
    ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    clock.now += 250
    ledger.release(task(), WORKER, **GRANT)
    fresh = ledger.claim(task(), WORKER, **SECOND).claim
    assert (fresh.acknowledged_at, fresh.occupancy, fresh.operation_id) == (None, "none", None)
    assert (fresh.execution_reference, fresh.submission_digest) == (None, None)
    assert (fresh.created_at, fresh.lease_until) == (1_700_000_250, 1_700_000_550)
    (old, _) = ledger.snapshot(task(), READER)
    assert (old.occupancy, old.submission_digest) == ("terminal", digest("c"))


def test_an_unknown_execution_survives_a_restart(path: Path, clock: Clock) -> None:
    """A coordinator that starts anew finds the intent, cannot make a second, and waits for it."""
    with opened(path, clock) as ledger:
        granted(ledger)
        intent = ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT).claim
    clock.now += 300
    with opened(path, clock) as ledger:
        (found,) = ledger.snapshot(task(), READER)
        assert found == replace(intent, state="expired")
        assert ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT) == (found, False)
        with adds(ledger), refused("task_capacity_reserved"):
            ledger.claim(task(), RIVAL, **SECOND)
    with opened(path, clock) as ledger:
        ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
        assert ledger.claim(task(), RIVAL, **SECOND).claim.epoch == 2
