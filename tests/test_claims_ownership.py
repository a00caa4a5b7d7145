"""Who owns a claim, and what the fence lets through: owners, epochs, the four operations."""

from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    READER,
    RIVAL,
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

from idkmesh import ActorContext, ClaimLedger, TaskClaimPolicy

OPERATIONS = ("acknowledge", "renew", "progress", "release")


def test_an_owner_is_three_fields_and_no_more(ledger: ClaimLedger, clock: Clock) -> None:
    """Another revision, role, clearance or expiry of the same identity is still the owner."""
    granted(ledger)
    changed = {"identity_revision": "rev-2", "data_clearance": "public"}
    same = actor("worker-1", "node_operator", expires_at_epoch=clock.now + 1, **changed)
    assert ledger.claim(task(), same, request_id="r-1", binding=binding()).created is False
    assert ledger.release(task(), same, **GRANT).state == "released"


@pytest.mark.parametrize(
    "other",
    [
        RIVAL,
        replace(WORKER, issuer="https:other"),
        replace(WORKER, actor_type="service"),
        replace(WORKER, principal_id="Worker-1"),
    ],
    ids=["rival", "issuer", "actor type", "case"],
)
def test_another_owner_is_denied_everywhere(ledger: ClaimLedger, other: ActorContext) -> None:
    """Who differs in any one of the three fields, by a letter's case even, does not own."""
    granted(ledger)
    for operation in OPERATIONS:
        with adds(ledger), refused("claim_owner_denied"):
            ledger.update_owner(task(), other, **GRANT, operation=operation)
    with adds(ledger), refused("claim_owner_denied"):
        ledger.record_submission(task(), other, **GRANT, artifact_digest=digest("c"))
    with adds(ledger), refused("claim_owner_denied"):
        ledger.reserve_dispatch(task(), DISPATCHER, other, **GRANT)


@pytest.mark.parametrize(
    "epoch", [0, 2, -1, True, 1.0, "1", None, 2**70, [1], b"1"], ids=lambda epoch: repr(epoch)[:12]
)
def test_an_epoch_that_is_not_exactly_the_claims_int_is_stale(
    ledger: ClaimLedger, epoch: Any
) -> None:
    """A wrong number and anything that is no int, though it equal the epoch, is stale_claim."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    wrong: dict[str, Any] = {"request_id": "r-1", "epoch": epoch}
    for operation in OPERATIONS:
        with adds(ledger), refused("stale_claim"):
            ledger.update_owner(task(), WORKER, **wrong, operation=operation)
    with adds(ledger), refused("stale_claim"):
        ledger.record_submission(task(), WORKER, **wrong, artifact_digest=digest("c"))
    with adds(ledger), refused("stale_claim"):
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **wrong)
    with adds(ledger), refused("stale_claim"):
        ledger.reconcile_execution(task(), DISPATCHER, **{**ENDED, "epoch": epoch})


@pytest.mark.parametrize(
    ("operation", "written"),
    [
        ("acknowledge", "claim.acknowledged.v1"),
        ("renew", "claim.renewed.v1"),
        ("progress", "claim.progressed.v1"),
        ("release", "claim.released.v1"),
    ],
)
def test_update_owner_is_the_method_it_names(tmp_path: Path, operation: str, written: str) -> None:
    """The operation by name and the method of that name give one record and one event."""
    records = []
    for way in ("method", "name"):
        clock = Clock()
        with opened(tmp_path / way, clock) as ledger:
            granted(ledger, acknowledged=operation != "acknowledge")
            clock.now += 7
            with adds(ledger, written):
                if way == "name":
                    record = ledger.update_owner(task(), WORKER, **GRANT, operation=operation)
                else:
                    record = getattr(ledger, operation)(task(), WORKER, **GRANT)
            records.append(record)
    assert records[0] == records[1]


def test_a_release_without_acknowledgement_is_a_release(ledger: ClaimLedger) -> None:
    """Who never consented may withdraw all the same."""
    granted(ledger, acknowledged=False)
    assert ledger.release(task(), WORKER, **GRANT).state == "released"


def test_a_release_leaves_an_execution_as_it_is(ledger: ClaimLedger) -> None:
    """Withdrawing keeps the reservation, its operation and its evidence."""
    granted(ledger)
    before = ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT).claim
    assert ledger.release(task(), WORKER, **GRANT) == replace(before, state="released")


def test_an_owners_request_is_known_by_task_too(ledger: ClaimLedger) -> None:
    """A request id is the task's own: on another task the same one names nothing."""
    granted(ledger)
    granted(ledger, name="T-2", request_id="r-2")
    with adds(ledger), refused("claim_not_found"):
        ledger.renew(task("T-2"), WORKER, **GRANT)


def test_competing_owners_do_not_touch_each_other(ledger: ClaimLedger, clock: Clock) -> None:
    """With two slots each owner acts on its own claim, at the same epoch of another slot."""
    two = TaskClaimPolicy(concurrent_slots=2, competition_reason="two designs")
    granted(ledger, policy=two)
    ledger.claim(task(), RIVAL, request_id="r-2", binding=binding())
    with adds(ledger), refused("claim_owner_denied"):
        ledger.release(task(), WORKER, request_id="r-2", epoch=1)
    clock.now += 1
    ledger.acknowledge(task(), RIVAL, request_id="r-2", epoch=1)
    ledger.release(task(), RIVAL, request_id="r-2", epoch=1)
    (mine, _) = ledger.snapshot(task(), READER)
    assert (mine.request_id, mine.state, mine.slot) == ("r-1", "active", 0)
