"""What a command leaves in the file: its own events, what was due, or the time it saw."""

from collections.abc import Callable
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
    START,
    WORKER,
    Clock,
    adds,
    binding,
    digest,
    granted,
    log,
    opened,
    refused,
    task,
)
from msgspec import json
from msgspec.structs import replace

from idkmesh import AuthorizationPolicy, ClaimLedger, TaskClaimPolicy

TWO = TaskClaimPolicy(
    concurrent_slots=2, competition_reason="two designs", max_attempts=4, max_events=256
)
SECOND: dict[str, Any] = {"request_id": "r-2", "binding": binding()}

# Commands that change nothing on a task whose r-1 is acknowledged, reserved and submitted.
UNCHANGED: dict[str, Callable[[ClaimLedger], Any]] = {
    "configure": lambda ledger: ledger.configure_task(task(), DISPATCHER, TWO),
    "claim": lambda ledger: ledger.claim(task(), WORKER, request_id="r-1", binding=binding()),
    "acknowledge": lambda ledger: ledger.acknowledge(task(), WORKER, **GRANT),
    "reserve": lambda ledger: ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT),
    "reconcile": lambda ledger: ledger.reconcile_execution(task(), DISPATCHER, **RUNNING),
    "submit": lambda ledger: ledger.record_submission(
        task(), WORKER, **GRANT, artifact_digest=digest("c")
    ),
    "snapshot": lambda ledger: ledger.snapshot(task(), READER),
}
QUESTIONS: dict[str, Callable[[ClaimLedger], Any]] = {
    "peek": lambda ledger: ledger.peek(task(), READER),
    "policy": lambda ledger: ledger.policy(task(), READER),
    "lookup": lambda ledger: ledger.lookup(task(), READER, request_id="r-1"),
    "survey": lambda ledger: list(ledger.survey(SCOPE, READER)),
}


@pytest.fixture
def ledger(memory_ledger: ClaimLedger) -> ClaimLedger:
    """Give a ledger without a file."""
    return memory_ledger


@pytest.fixture
def busy(ledger: ClaimLedger) -> ClaimLedger:
    """Give a ledger whose T-1 has one claim that has been through everything but its end."""
    granted(ledger, policy=TWO)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    ledger.reconcile_execution(task(), DISPATCHER, **RUNNING)
    ledger.record_submission(task(), WORKER, **GRANT, artifact_digest=digest("c"))
    return ledger


# The time that was seen.


@pytest.mark.parametrize("command", UNCHANGED)
def test_a_success_without_events_leaves_the_time_it_saw(
    busy: ClaimLedger, clock: Clock, command: str
) -> None:
    """What changes nothing records the time once it has moved, and nothing in the same second."""
    with adds(busy):
        UNCHANGED[command](busy)
    clock.now += 1
    with adds(busy, "clock.observed.v1") as added:
        UNCHANGED[command](busy)
        UNCHANGED[command](busy)
    assert (added[0].at, added[0].scope) == (1_700_000_001, "acme/apollo")
    assert added[0].stream == "acme/apollo/clock"
    assert json.decode(added[0].body) == {"type": "clock.observed.v1"}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_leaves_nothing(busy: ClaimLedger, clock: Clock, question: str) -> None:
    """Readers write neither the time they saw nor an expiry that they show."""
    for seconds in (0, 1, 299, 100_000):
        clock.now = START + seconds
        with adds(busy):
            QUESTIONS[question](busy)


def test_a_command_with_events_leaves_no_time_beside_them(busy: ClaimLedger, clock: Clock) -> None:
    """The row of an event carries its time, so nothing else records it."""
    clock.now += 1
    with adds(busy, "claim.renewed.v1") as added:
        busy.renew(task(), WORKER, **GRANT)
    assert added[0].at == 1_700_000_001
    with adds(busy):
        busy.snapshot(task(), READER)


def test_a_refusal_leaves_no_time(busy: ClaimLedger, clock: Clock) -> None:
    """A command refused by its own rules with nothing due does not record the time it saw."""
    clock.now += 1
    with adds(busy), refused("claim_owner_denied"):
        busy.renew(task(), RIVAL, **GRANT)
    clock.now -= 1
    busy.snapshot(task(), READER)


def test_time_is_the_files_and_not_the_tasks(ledger: ClaimLedger, clock: Clock) -> None:
    """A time recorded for one task is seen for all, so the next answer needs no row."""
    granted(ledger)
    granted(ledger, name="T-2")
    clock.now += 1
    with adds(ledger, "clock.observed.v1"):
        ledger.snapshot(task("T-1"), READER)
        ledger.snapshot(task("T-2"), READER)


def test_the_resolution_says_how_far_time_must_move(path: Path, clock: Clock) -> None:
    """With a resolution of ten seconds the time is recorded from ten seconds on."""
    with opened(path, clock, clock_resolution_seconds=10) as ledger:
        granted(ledger)
        clock.now += 9
        with adds(ledger):
            ledger.snapshot(task(), READER)
        clock.now += 1
        with adds(ledger, "clock.observed.v1"):
            ledger.snapshot(task(), READER)


# What is due.


def spoilt_calls() -> dict[str, tuple[Callable[[ClaimLedger], Any], str]]:
    """Name the commands that the task's own rules refuse, one of each."""
    return {
        "configure": (
            lambda ledger: ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy()),
            "task_policy_conflict",
        ),
        "claim": (
            lambda ledger: ledger.claim(task(), RIVAL, request_id="r-1", binding=binding()),
            "request_conflict",
        ),
        "renew": (lambda ledger: ledger.renew(task(), WORKER, **GRANT), "stale_claim"),
        "release": (
            lambda ledger: ledger.release(task(), RIVAL, **GRANT),
            "claim_owner_denied",
        ),
        "reserve": (
            lambda ledger: ledger.reserve_dispatch(
                task(), DISPATCHER, WORKER, request_id="r-9", epoch=1
            ),
            "claim_not_found",
        ),
        "reconcile": (
            lambda ledger: ledger.reconcile_execution(task(), DISPATCHER, **{**ENDED, "epoch": 2}),
            "stale_claim",
        ),
        "submit": (
            lambda ledger: ledger.record_submission(
                task(), WORKER, **GRANT, artifact_digest=digest("d")
            ),
            "stale_claim",
        ),
    }


@pytest.mark.parametrize("command", spoilt_calls())
def test_a_refusal_leaves_just_what_is_due(busy: ClaimLedger, clock: Clock, command: str) -> None:
    """Before a command's own rules answer, the due expiry is committed, once and for good."""
    call, code = spoilt_calls()[command]
    clock.now = START + 300
    with adds(busy, "claim.expired.v1"), refused(code):
        call(busy)
    with adds(busy), refused(code):
        call(busy)
    clock.now = START + 299
    with adds(busy), refused("clock_rollback"):
        call(busy)
    assert busy.peek(task(), READER)[0].state == "expired"


def test_a_success_records_what_is_due_before_its_own(ledger: ClaimLedger, clock: Clock) -> None:
    """The expiries of both slots come first, in order of admission, then the new grant."""
    granted(ledger, policy=TWO)
    ledger.claim(task(), RIVAL, **SECOND)
    ledger.release(task(), WORKER, **GRANT)
    clock.now = START + 10
    ledger.claim(task(), WORKER, request_id="r-3", binding=binding())
    clock.now = START + 400
    with adds(ledger, "claim.expired.v1", "claim.expired.v1", "claim.granted.v1") as added:
        got = ledger.claim(task(), RIVAL, request_id="r-4", binding=binding()).claim
    assert (got.slot, got.epoch) == (0, 3)
    places = [(body["slot"], body["epoch"]) for body in map(json.decode, (r.body for r in added))]
    assert places == [(1, 1), (0, 2), (0, 3)]
    assert [row.at for row in added] == [1_700_000_400] * 3


def test_only_the_tasks_own_claims_are_recorded(ledger: ClaimLedger, clock: Clock) -> None:
    """A command on one task leaves the overdue claims of another to whoever asks there."""
    granted(ledger)
    granted(ledger, name="T-2")
    clock.now = START + 300
    with adds(ledger, "claim.expired.v1") as added:
        ledger.snapshot(task("T-2"), READER)
    assert added[0].stream == "acme/apollo/task/T-2"
    assert [claim.task for claim in ledger.survey(SCOPE, READER, overdue=True)] == [task("T-1")]


@pytest.mark.parametrize(
    ("person", "code"),
    [
        (replace(READER, scopes=frozenset({OTHER_SCOPE})), "actor_scope_denied"),
        (replace(READER, revoked=True), "actor_revoked"),
        (replace(READER, roles=frozenset()), "role_denied"),
    ],
)
def test_who_may_not_act_records_nothing(
    busy: ClaimLedger, clock: Clock, person: Any, code: str
) -> None:
    """A refusal before the task's own rules leaves even an overdue claim unrecorded."""
    clock.now = START + 300
    with adds(busy), refused(code):
        busy.snapshot(task(), person)
    with adds(busy), refused("task_not_configured"):
        busy.snapshot(task("T-9"), READER)


# The log as a whole.


def test_every_row_is_numbered_and_time_never_falls(ledger: ClaimLedger, clock: Clock) -> None:
    """Sequence, scope number and stream version have no gap, and time runs forward."""
    both = frozenset({SCOPE, OTHER_SCOPE})
    for name, scope in (("T-1", SCOPE), ("T-1", OTHER_SCOPE), ("T-2", SCOPE)):
        ledger.configure_task(task(name, scope), replace(DISPATCHER, scopes=both), TWO)
        ledger.claim(task(name, scope), replace(WORKER, scopes=both), **SECOND)
        clock.now += 200
        ledger.snapshot(task("T-1"), READER)
    rows = log(ledger)
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    for column, place in (("scope", "number"), ("stream", "version")):
        for name in {getattr(row, column) for row in rows}:
            found = [getattr(row, place) for row in rows if getattr(row, column) == name]
            assert found == list(range(1, len(found) + 1))


def test_an_interrupted_command_leaves_nothing(ledger: ClaimLedger, clock: Clock) -> None:
    """Where the clock itself fails inside a command, all of it is undone and the next works."""
    granted(ledger)
    clock.now = START + 300

    def failing() -> int:
        raise KeyboardInterrupt

    rules = AuthorizationPolicy.enterprise_baseline()
    broken = ClaimLedger(ledger._store, rules, clock=failing)
    with adds(ledger), pytest.raises(KeyboardInterrupt):
        broken.snapshot(task(), READER)
    with adds(ledger, "claim.expired.v1"):
        ledger.snapshot(task(), READER)
