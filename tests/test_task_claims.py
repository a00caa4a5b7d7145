"""What a coordinator may rely on: the claim ledger's contract, a test a rule.

This file is the heart of it and stands alone. Its companions ``test_claims_*.py`` hold the
tables and the generated cases: the order of checks, deadlines, budgets, authority, inputs,
records, readers, the clock, and what is written.
"""

import inspect
import threading
from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    OTHER_SCOPE,
    READER,
    RIVAL,
    SCOPE,
    START,
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

from idkmesh import ClaimLedger, StoreError, TaskClaim, TaskClaimPolicy, TenantScope

GRANT: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
ENDED: dict[str, Any] = {**GRANT, "status": "terminal", "evidence_reference": "run-1:exit-0"}
RUNNING: dict[str, Any] = {**GRANT, "status": "running", "evidence_reference": "run-1"}
RACE = TaskClaimPolicy(concurrent_slots=2, competition_reason="two designs", max_attempts=4)


def claim(ledger: ClaimLedger, request_id: str, who: Any = WORKER, letter: str = "a") -> TaskClaim:
    """Ask for a fresh claim of T-1."""
    answer = ledger.claim(task(), who, request_id=request_id, binding=binding(letter))
    assert answer.created
    return answer.claim


# Opening.


def test_opening_makes_the_file_and_its_folders(tmp_path: Path) -> None:
    """A ledger is made where there is none, folders included, and found there again."""
    path = tmp_path / "new" / "folders" / "claims.sqlite3"
    with ClaimLedger.open(path) as ledger:
        assert ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy()) is True
    with ClaimLedger.open(path) as ledger:
        assert ledger.policy(task(), READER) == TaskClaimPolicy()


def test_closing_twice_is_closing(ledger: ClaimLedger) -> None:
    """A second close does nothing, and every later call is answered store_closed."""
    ledger.close()
    ledger.close()
    for call in (ledger.snapshot, ledger.peek, ledger.policy):
        with pytest.raises(StoreError) as caught:
            call(task(), READER)
        assert caught.value.code == "store_closed"


def test_no_method_takes_a_time() -> None:
    """Time comes from the ledger's clock alone: no command or question has an argument for it."""
    names = {
        name
        for method in vars(ClaimLedger).values()
        if inspect.isfunction(method) and not method.__name__.startswith("_")
        for name in inspect.signature(method).parameters
    }
    assert names == {
        *("self", "task", "actor", "policy", "approver", "approval_reference", "request_id"),
        *("binding", "epoch", "operation", "dispatcher", "owner", "status"),
        *("evidence_reference", "artifact_digest"),
    }


def test_a_record_is_no_capability(ledger: ClaimLedger) -> None:
    """A claim's record is accepted nowhere in place of a task, an identity or a binding."""
    granted(ledger)
    record: Any = ledger.lookup(task(), READER, request_id="r-1")
    with pytest.raises(TypeError):
        ledger.release(record, WORKER, **GRANT)
    with pytest.raises(TypeError):
        ledger.release(task(), record, **GRANT)
    with pytest.raises(TypeError):
        ledger.claim(task(), WORKER, request_id="r-2", binding=record)


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


def test_another_tenant_sees_and_changes_nothing(ledger: ClaimLedger) -> None:
    """An outsider gets the same answer for a task that exists and for one that does not."""
    granted(ledger)
    outsider = actor("o-1", "worker", "dispatcher", "auditor", scopes=frozenset({OTHER_SCOPE}))
    answers = set()
    for name in ("T-1", "T-404"):
        calls = (
            lambda name=name: ledger.peek(task(name), outsider),
            lambda name=name: ledger.snapshot(task(name), outsider),
            lambda name=name: ledger.policy(task(name), outsider),
            lambda name=name: ledger.lookup(task(name), outsider, request_id="r-1"),
            lambda name=name: ledger.renew(task(name), outsider, **GRANT),
            lambda name=name: ledger.reserve_dispatch(task(name), outsider, WORKER, **GRANT),
            lambda name=name: ledger.reconcile_execution(task(name), outsider, **ENDED),
        )
        for number, call in enumerate(calls):
            with adds(ledger), pytest.raises(Exception, match="actor_scope_denied") as caught:
                call()
            answers.add((number, str(caught.value).replace(name, "")))
    assert len(answers) == 7
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


def test_an_exact_replay_of_a_configuration_is_harmless(ledger: ClaimLedger) -> None:
    """The first configuration freezes the policy; the same again answers False."""
    with adds(ledger, "task.configured.v1"):
        assert ledger.configure_task(task(), DISPATCHER, RACE) is True
        assert ledger.configure_task(task(), replace(DISPATCHER, principal_id="d-2"), RACE) is False
    assert ledger.policy(task(), READER) == RACE


@pytest.mark.parametrize(
    "change",
    [
        {"concurrent_slots": 3},
        {"max_attempts": 5},
        {"ack_seconds": 301},
        {"lease_seconds": 299},
        {"progress_seconds": 1_801},
        {"hard_seconds": 86_399},
        {"competition_reason": "two Designs"},
        {"risk": "medium"},
        {"data_classification": "internal"},
        {"max_events": 10_001},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_frozen_policy_does_not_change(ledger: ClaimLedger, change: dict[str, Any]) -> None:
    """A configuration that differs in any one field is refused and leaves nothing."""
    ledger.configure_task(task(), DISPATCHER, RACE)
    with adds(ledger), refused("task_policy_conflict"):
        ledger.configure_task(task(), DISPATCHER, replace(RACE, **change))
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


def test_an_owner_is_three_fields_and_no_more(ledger: ClaimLedger, clock: Clock) -> None:
    """Another revision, role, clearance or expiry of the same identity is still the owner."""
    granted(ledger)
    changed = {"identity_revision": "rev-2", "data_clearance": "public"}
    same = actor("worker-1", "node_operator", expires_at_epoch=clock.now + 1, **changed)
    assert ledger.claim(task(), same, request_id="r-1", binding=binding()).created is False
    assert ledger.release(task(), same, **GRANT).state == "released"


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


@pytest.mark.parametrize("operation", ["acknowledge", "renew", "progress", "release"])
def test_update_owner_is_the_method_it_names(tmp_path: Path, operation: str) -> None:
    """The named operation and the method of that name give the same record and events."""
    results = []
    for name in ("method", "named"):
        clock = Clock()
        with opened(tmp_path / name, clock) as ledger:
            granted(ledger, acknowledged=operation != "acknowledge")
            clock.now += 7
            kind = {"acknowledge": "acknowledged", "progress": "progressed"}
            written = f"claim.{kind.get(operation, operation + 'd')}.v1".replace("renewd", "renewed")
            with adds(ledger, written):
                if name == "method":
                    results.append(getattr(ledger, operation)(task(), WORKER, **GRANT))
                else:
                    answer = ledger.update_owner(task(), WORKER, **GRANT, operation=operation)
                    results.append(answer)
    assert results[0] == results[1]
