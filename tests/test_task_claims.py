"""What a coordinator may rely on: the claim ledger's contract, a test a rule.

This file is the heart of it and stands alone. Its companions ``test_claims_*.py`` hold the
tables and the generated cases: the order of checks, deadlines, budgets, authority, inputs,
records, readers, the clock, and what is written.
"""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    OTHER_SCOPE,
    READER,
    RIVAL,
    RUNNING,
    SCOPE,
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

from idkmesh import ClaimError, ClaimLedger, TaskClaim, TaskClaimPolicy, TenantScope

RACE = TaskClaimPolicy(concurrent_slots=2, competition_reason="two designs", max_attempts=4)


def claim(ledger: ClaimLedger, request_id: str, who: Any = WORKER, letter: str = "a") -> TaskClaim:
    """Ask for a fresh claim of T-1."""
    answer = ledger.claim(task(), who, request_id=request_id, binding=binding(letter))
    assert answer.created
    return answer.claim


# Identity of a task.


def test_a_task_is_its_tenant_project_and_id(ledger: ClaimLedger) -> None:
    """One resource id in two tenants and two projects is three tasks, each with its own slot."""
    scopes = (SCOPE, OTHER_SCOPE, TenantScope("umbrella", "apollo"))
    everywhere = {"scopes": frozenset(scopes)}
    dispatcher, worker = replace(DISPATCHER, **everywhere), replace(WORKER, **everywhere)
    for scope in scopes:
        assert ledger.configure_task(task("T-1", scope), dispatcher, TaskClaimPolicy()) is True
    for scope in scopes:
        answer = ledger.claim(task("T-1", scope), worker, request_id="r-1", binding=binding())
        assert (answer.created, answer.claim.epoch, answer.claim.task.scope) == (True, 1, scope)


def test_an_outsider_cannot_tell_which_tasks_exist(ledger: ClaimLedger) -> None:
    """Another tenant's actor gets word for word one answer, whether the task exists or not."""
    granted(ledger)
    outsider = actor("o-1", "worker", "dispatcher", scopes=frozenset({OTHER_SCOPE}))
    asked: dict[str, dict[str, Any]] = {
        "configure_task": {"policy": TaskClaimPolicy()},
        "claim": {"request_id": "r-1", "binding": binding()},
        "renew": GRANT,
        "reserve_dispatch": {"owner": WORKER, **GRANT},
        "reconcile_execution": ENDED,
        "record_submission": {**GRANT, "artifact_digest": digest("c")},
        "snapshot": {},
        "peek": {},
        "policy": {},
        "lookup": {"request_id": "r-1"},
    }
    for method, arguments in asked.items():
        answers = set()
        for name in ("T-1", "T-404"):
            with adds(ledger), pytest.raises(ClaimError) as caught:
                getattr(ledger, method)(task(name), outsider, **arguments)
            answers.add((caught.value.code, str(caught.value)))
        ((code, _),) = answers
        assert code == "actor_scope_denied"
    assert list(ledger.survey(OTHER_SCOPE, outsider)) == []


@pytest.mark.parametrize(
    ("who", "letter"),
    [
        (RIVAL, "a"),
        (replace(WORKER, issuer="https:other"), "a"),
        (replace(WORKER, actor_type="provider"), "a"),
        (WORKER, "b"),
    ],
)
def test_nothing_else_is_part_of_a_task(ledger: ClaimLedger, who: Any, letter: str) -> None:
    """Another actor, issuer, provider, revision or unit digest meets the same one slot."""
    granted(ledger)
    with adds(ledger), refused("task_capacity_reserved"):
        ledger.claim(task(), who, request_id="r-2", binding=binding(letter))


# Configuring.


def test_a_policy_is_frozen_once(ledger: ClaimLedger) -> None:
    """The first configuration freezes the policy, the same again is False, another refused."""
    with adds(ledger, "task.configured.v1"):
        assert ledger.configure_task(task(), DISPATCHER, RACE) is True
        assert ledger.configure_task(task(), replace(DISPATCHER, principal_id="d-2"), RACE) is False
    with adds(ledger), refused("task_policy_conflict"):
        ledger.configure_task(task(), DISPATCHER, replace(RACE, lease_seconds=301))
    assert ledger.policy(task(), READER) == RACE


# Claiming: replay, slots, epochs, attempts.


def test_a_grant_starts_from_nothing_but_the_policy(ledger: ClaimLedger) -> None:
    """A claim's deadlines are counted from its grant, and nothing has happened to it yet."""
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy(ack_seconds=60))
    got = claim(ledger, "r-1")
    assert (got.slot, got.epoch, got.state, got.created_at) == (0, 1, "active", 1_700_000_000)
    assert (got.ack_by, got.lease_until) == (1_700_000_060, 1_700_000_300)
    assert (got.progress_by, got.hard_until) == (1_700_001_800, 1_700_086_400)
    assert (got.acknowledged_at, got.occupancy, got.operation_id) == (None, "none", None)
    assert (got.execution_reference, got.submission_digest) == (None, None)


def test_a_replay_returns_what_was_granted_and_renews_nothing(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """The same request is answered with its claim, active or over, and never granted again."""
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy(max_attempts=2))
    first = claim(ledger, "r-1")
    clock.now += 10
    ask: dict[str, Any] = {"request_id": "r-1", "binding": binding()}
    with adds(ledger, "clock.observed.v1"):
        assert ledger.claim(task(), WORKER, **ask) == (first, False)
    ledger.release(task(), WORKER, **GRANT)
    assert ledger.claim(task(), WORKER, **ask) == (replace(first, state="released"), False)
    second = claim(ledger, "r-2")
    clock.now = second.ack_by
    ask["request_id"] = "r-2"
    again = ledger.claim(task(), WORKER, **ask)
    assert again == (replace(second, state="expired"), False)
    assert [each.epoch for each in ledger.peek(task(), READER)] == [1, 2]


@pytest.mark.parametrize(
    ("who", "content"),
    [
        (WORKER, binding("b")),
        (WORKER, replace(binding(), work_unit_digest=digest("b"))),
        (WORKER, replace(binding(), source_revision="b" * 40)),
        (WORKER, replace(binding(), inputs_digest=digest("b"))),
        (RIVAL, binding()),
        (replace(WORKER, issuer="https:other"), binding()),
        (replace(WORKER, actor_type="node"), binding()),
    ],
)
def test_a_request_id_keeps_its_content(ledger: ClaimLedger, who: Any, content: Any) -> None:
    """A known request id with another owner or binding, in any one part, is a conflict."""
    granted(ledger)
    with adds(ledger), refused("request_conflict"):
        ledger.claim(task(), who, request_id="r-1", binding=content)


def test_the_lowest_free_slot_is_taken_and_only_its_epoch_grows(ledger: ClaimLedger) -> None:
    """Each slot counts its own epochs; a second slot leaves the first claim as it was."""
    three = replace(RACE, concurrent_slots=3, max_attempts=6)
    ledger.configure_task(task(), DISPATCHER, three)
    got = [claim(ledger, name) for name in ("r-1", "r-2", "r-3")]
    assert [(each.slot, each.epoch) for each in got] == [(0, 1), (1, 1), (2, 1)]
    ledger.release(task(), WORKER, request_id="r-2", epoch=1)
    assert [(each.slot, each.epoch) for each in (claim(ledger, "r-4"),)] == [(1, 2)]
    ledger.release(task(), WORKER, request_id="r-3", epoch=1)
    ledger.release(task(), WORKER, **GRANT)
    assert [(each.slot, each.epoch) for each in (claim(ledger, "r-5"),)] == [(0, 2)]
    assert [(each.slot, each.epoch) for each in (claim(ledger, "r-6"),)] == [(2, 2)]
    assert ledger.acknowledge(task(), WORKER, request_id="r-4", epoch=2).state == "active"


def test_every_admitted_attempt_counts_for_ever(ledger: ClaimLedger, clock: Clock) -> None:
    """Released and expired claims use up attempts like any other, and nothing gives one back."""
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy(max_attempts=2))
    claim(ledger, "r-1")
    ledger.release(task(), WORKER, **GRANT)
    clock.now = claim(ledger, "r-2").ack_by
    with adds(ledger, "claim.expired.v1"), refused("attempt_budget_exhausted"):
        claim(ledger, "r-3")
    with adds(ledger), refused("attempt_budget_exhausted"):
        claim(ledger, "r-3")


def test_of_a_hundred_claims_at_once_one_slot_takes_one(path: Path) -> None:
    """A hundred threads with a request each race for one slot: one is told that it won."""
    answers: list[tuple[str, object]] = []
    start = threading.Barrier(100)
    with opened(path, Clock()) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy(max_attempts=32))

        def race(number: int) -> None:
            who = actor(f"worker-{number}", "worker")
            start.wait()
            try:
                answer = ledger.claim(task(), who, request_id=f"r-{number}", binding=binding())
            except Exception as error:  # noqa: BLE001  (a thread's error is judged below)
                answers.append(("refused", getattr(error, "code", error)))
            else:
                answers.append(("created", answer.created))

        threads = [threading.Thread(target=race, args=(number,)) for number in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers.count(("created", True)) == 1
        assert answers.count(("refused", "task_capacity_reserved")) == 99
        (kept,) = ledger.snapshot(task(), READER)
        assert (kept.slot, kept.epoch, kept.state) == (0, 1, "active")


# What the owner does.


def test_an_acknowledgement_is_given_once_and_moves_no_deadline(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """The first acknowledgement's time stays, and every deadline stands where it stood."""
    granted(ledger, acknowledged=False)
    before = ledger.lookup(task(), READER, request_id="r-1")
    clock.now += 5
    first = ledger.acknowledge(task(), WORKER, **GRANT)
    assert first == replace(before, acknowledged_at=1_700_000_005)
    clock.now += 5
    assert ledger.acknowledge(task(), WORKER, **GRANT) == first


def test_a_renewal_moves_the_lease_alone(ledger: ClaimLedger, clock: Clock) -> None:
    """A heartbeat extends the lease from now and touches no other deadline."""
    granted(ledger)
    before = ledger.lookup(task(), READER, request_id="r-1")
    clock.now += 100
    assert ledger.renew(task(), WORKER, **GRANT) == replace(before, lease_until=1_700_000_400)


def test_progress_moves_its_window_alone(ledger: ClaimLedger, clock: Clock) -> None:
    """A progress report extends the progress window from now and touches no other deadline."""
    granted(ledger)
    before = ledger.lookup(task(), READER, request_id="r-1")
    clock.now += 100
    assert ledger.progress(task(), WORKER, **GRANT) == replace(before, progress_by=1_700_001_900)


def test_a_release_ends_ownership_once(ledger: ClaimLedger) -> None:
    """A released claim is over: it frees the slot, and releasing it again is stale."""
    granted(ledger)
    assert ledger.release(task(), WORKER, **GRANT).state == "released"
    with adds(ledger), refused("stale_claim"):
        ledger.release(task(), WORKER, **GRANT)
    assert claim(ledger, "r-2", RIVAL).epoch == 2


# What the dispatcher does: executions and occupancy.


def test_a_reservation_is_made_once(ledger: ClaimLedger) -> None:
    """The first reservation makes the execution unknown; the next returns the same intent."""
    granted(ledger)
    with adds(ledger, "execution.reserved.v1"):
        first = ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
        again = ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    assert (first.created, first.claim.occupancy, first.claim.state) == (True, "unknown", "active")
    assert again == (first.claim, False)


@pytest.mark.parametrize("ending", ["release", "expiry"])
def test_a_possible_execution_holds_the_slot(
    ledger: ClaimLedger, clock: Clock, ending: str
) -> None:
    """Neither release nor expiry frees a slot whose execution is unknown or running."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    if ending == "release":
        ledger.release(task(), WORKER, **GRANT)
    else:
        clock.now += 300
    (left,) = ledger.snapshot(task(), READER)
    assert (left.state, left.occupancy) == (f"{ending}d".replace("expiryd", "expired"), "unknown")
    with refused("task_capacity_reserved"):
        claim(ledger, "r-2", RIVAL)
    ledger.reconcile_execution(task(), DISPATCHER, **RUNNING)
    with refused("task_capacity_reserved"):
        claim(ledger, "r-2", RIVAL)
    ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    assert claim(ledger, "r-2", RIVAL).epoch == 2


def test_terminal_absorbs(ledger: ClaimLedger) -> None:
    """Nothing follows a terminal execution: its own evidence again changes nothing."""
    granted(ledger)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    ended = ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    assert (ended.occupancy, ended.execution_reference) == ("terminal", "run-1:exit-0")
    with adds(ledger):
        assert ledger.reconcile_execution(task(), DISPATCHER, **ENDED) == ended
    for late in (RUNNING, {**ENDED, "status": "running"}, {**ENDED, "evidence_reference": "x"}):
        with adds(ledger), refused("terminal_execution_conflict"):
            ledger.reconcile_execution(task(), DISPATCHER, **late)


# Submitting.


def test_a_submission_needs_no_reservation_and_is_bound_once(ledger: ClaimLedger) -> None:
    """An acknowledged owner binds one digest; the same again is harmless, another refused."""
    granted(ledger)
    send: dict[str, Any] = {**GRANT, "artifact_digest": digest("c")}
    with adds(ledger, "submission.recorded.v1"):
        first = ledger.record_submission(task(), WORKER, **send)
        assert ledger.record_submission(task(), WORKER, **send) == first
    assert (first.submission_digest, first.occupancy) == (digest("c"), "none")
    with adds(ledger), refused("submission_conflict"):
        ledger.record_submission(task(), WORKER, **GRANT, artifact_digest=digest("d"))


def test_a_late_worker_is_fenced_off(ledger: ClaimLedger, clock: Clock) -> None:
    """Once another claim has the slot, the old epoch renews, submits and releases nothing."""
    granted(ledger)
    clock.now += 300
    assert claim(ledger, "r-2", RIVAL).epoch == 2
    for epoch in (1, 2):
        late: dict[str, Any] = {"request_id": "r-1", "epoch": epoch}
        with adds(ledger), refused("stale_claim"):
            ledger.record_submission(task(), WORKER, **late, artifact_digest=digest("c"))
        for operation in ("acknowledge", "renew", "progress", "release"):
            with adds(ledger), refused("stale_claim"):
                ledger.update_owner(task(), WORKER, **late, operation=operation)


# Reading.


def test_readers_show_the_same_claims_in_their_order(ledger: ClaimLedger, clock: Clock) -> None:
    """Every question shows the claims by (created_at, slot, epoch), peek without a row."""
    ledger.configure_task(task(), DISPATCHER, RACE)
    first, second = claim(ledger, "r-2"), claim(ledger, "r-1", RIVAL)
    clock.now += 1
    ledger.release(task(), WORKER, request_id="r-2", epoch=1)
    third = claim(ledger, "r-0")
    shown = (replace(first, state="released"), second, third)
    with adds(ledger):
        assert ledger.snapshot(task(), READER) == shown
        assert ledger.peek(task(), READER) == shown
        assert ledger.lookup(task(), READER, request_id="r-1") == second
        assert ledger.policy(task(), READER) == RACE
        assert set(ledger.survey(SCOPE, READER)) == set(shown)
        assert list(ledger.survey(SCOPE, READER, owner="worker-2")) == [second]
        with refused("claim_not_found"):
            ledger.lookup(task(), READER, request_id="r-3")


def test_peek_shows_an_expiry_and_snapshot_records_it(ledger: ClaimLedger, clock: Clock) -> None:
    """A claim past its deadline is shown as expired by all, and written down by snapshot alone."""
    granted(ledger)
    clock.now += 300
    with adds(ledger):
        (peeked,) = ledger.peek(task(), READER)
        (overdue,) = ledger.survey(SCOPE, READER, overdue=True)
    assert peeked.state == overdue.state == "expired"
    with adds(ledger, "claim.expired.v1"):
        assert ledger.snapshot(task(), READER) == (peeked,)
    assert list(ledger.survey(SCOPE, READER, overdue=True)) == []


def test_a_record_has_exactly_the_contracts_keys(ledger: ClaimLedger) -> None:
    """A claim's JSON object has every key of the contract, no other, and no authority."""
    granted(ledger)
    record = ledger.lookup(task(), READER, request_id="r-1").to_dict()
    assert set(record) == {
        *("kind", "schema_version", "task", "request_id", "request_digest", "slot", "epoch"),
        *("owner", "binding", "state", "created_at", "acknowledged_at", "ack_by", "lease_until"),
        *("progress_by", "hard_until", "occupancy", "operation_id", "execution_reference"),
        *("submission_digest", "authority"),
    }
    schema = json.loads(Path("schemas/task-claim-v0.1.schema.json").read_text(encoding="utf-8"))
    assert set(schema["properties"]) == set(schema["required"]) == set(record)
    assert set(record["authority"].values()) == {False}
