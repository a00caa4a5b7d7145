"""The two budgets of a task: attempts, and events with the last ones kept for endings."""

from typing import Any

import pytest
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    READER,
    RIVAL,
    START,
    WORKER,
    Clock,
    adds,
    binding,
    digest,
    granted,
    refused,
    task,
)

from idkmesh import ClaimLedger, TaskClaimPolicy

WEEK = 604_800
LONG = {"ack_seconds": WEEK, "lease_seconds": WEEK, "progress_seconds": WEEK, "hard_seconds": WEEK}
SECOND: dict[str, Any] = {"request_id": "r-2", "binding": binding("b")}
SECOND_GRANT: dict[str, Any] = {"request_id": "r-2", "epoch": 1}
SHORT = 1_000


@pytest.fixture
def ledger(memory_ledger: ClaimLedger) -> ClaimLedger:
    """Give a ledger without a file: a budget takes many events to spend."""
    return memory_ledger


def events(ledger: ClaimLedger) -> int:
    """Count the task's events in the log."""
    with ledger._store.read() as session:
        return session.stream_version("acme/apollo/task/T-1")


def spend(ledger: ClaimLedger, clock: Clock, until: int) -> None:
    """Let r-1's owner report progress each second until the task has so many events.

    Its hard deadline lies far ahead, so every report moves the window and is an event.
    """
    while events(ledger) < until:
        clock.now += 1
        ledger.progress(task(), WORKER, **GRANT)


def flap(ledger: ClaimLedger, request: dict[str, Any], times: int) -> None:
    """Report a running execution so many times, each time with other evidence."""
    for number in range(times):
        evidence: dict[str, Any] = {
            "status": "running",
            "evidence_reference": f"{events(ledger)}-{number}",
        }
        ledger.reconcile_execution(task(), DISPATCHER, **request, **evidence)


def short(**fields: Any) -> TaskClaimPolicy:
    """Make a policy of 256 events whose progress window can move for a thousand seconds."""
    settled = {**LONG, "progress_seconds": WEEK - SHORT, "max_events": 256}
    return TaskClaimPolicy(**{**settled, **fields})


# Attempts.


@pytest.mark.parametrize("attempts", [1, 2, 32])
def test_a_task_admits_max_attempts_claims_and_no_more(ledger: ClaimLedger, attempts: int) -> None:
    """Exactly max_attempts claims are ever granted; the next is refused, a replay is not."""
    policy = TaskClaimPolicy(max_attempts=attempts)
    ledger.configure_task(task(), DISPATCHER, policy)
    for number in range(attempts):
        ask: dict[str, Any] = {"request_id": f"r-{number}", "binding": binding()}
        got = ledger.claim(task(), WORKER, **ask).claim
        assert got.epoch == number + 1
        ledger.release(task(), WORKER, request_id=f"r-{number}", epoch=got.epoch)
    with adds(ledger), refused("attempt_budget_exhausted"):
        ledger.claim(task(), WORKER, request_id="r-x", binding=binding())
    assert ledger.claim(task(), WORKER, request_id="r-0", binding=binding()).created is False


def test_a_refused_claim_uses_up_no_attempt(ledger: ClaimLedger) -> None:
    """Claims refused for a conflict or for capacity leave the attempts as they were."""
    granted(ledger, policy=TaskClaimPolicy(max_attempts=2))
    for _ in range(5):
        with refused("task_capacity_reserved"):
            ledger.claim(task(), RIVAL, **SECOND)
        with refused("request_conflict"):
            ledger.claim(task(), RIVAL, request_id="r-1", binding=binding())
    ledger.release(task(), WORKER, **GRANT)
    assert ledger.claim(task(), RIVAL, **SECOND).created is True


# Events.


@pytest.mark.parametrize("operation", ["renew", "progress"])
@pytest.mark.parametrize(("attempts", "free"), [(1, 240), (2, 224), (4, 192)])
def test_an_extension_stops_where_the_endings_begin(
    ledger: ClaimLedger, clock: Clock, operation: str, attempts: int, free: int
) -> None:
    """Sixteen events an attempt are out of reach of renew and progress, to the event."""
    policy = short(max_attempts=attempts, lease_seconds=WEEK - SHORT)
    granted(ledger, policy=policy)
    spend(ledger, clock, free - 1)
    clock.now += 1
    ledger.update_owner(task(), WORKER, **GRANT, operation=operation)
    assert events(ledger) == free
    clock.now += 1
    with adds(ledger), refused("event_budget_exhausted"):
        ledger.update_owner(task(), WORKER, **GRANT, operation=operation)


def two_slots(**fields: Any) -> TaskClaimPolicy:
    """Make the short policy with two slots and two attempts: 224 events are anybody's."""
    pair = {"concurrent_slots": 2, "competition_reason": "x", "max_attempts": 2}
    return short(**{**pair, **fields})


def test_a_claim_stops_where_the_endings_begin(ledger: ClaimLedger, clock: Clock) -> None:
    """A claim may be the last event that is anybody's, and none after it."""
    granted(ledger, policy=two_slots())
    spend(ledger, clock, 223)
    assert ledger.claim(task(), RIVAL, **SECOND).created is True
    assert events(ledger) == 224


def test_a_claim_asks_for_attempts_then_events_then_capacity(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """Attempts used up answer before the event budget, and that before the capacity."""
    granted(ledger, policy=short(max_attempts=2))
    spend(ledger, clock, 224)
    with adds(ledger), refused("event_budget_exhausted"):
        ledger.claim(task(), RIVAL, **SECOND)
    with adds(ledger), refused("request_conflict"):
        ledger.claim(task(), RIVAL, request_id="r-1", binding=binding())


def test_attempts_used_up_answer_before_the_event_budget(ledger: ClaimLedger, clock: Clock) -> None:
    """Where both budgets are spent, the attempts answer."""
    granted(ledger, policy=short(max_attempts=1))
    spend(ledger, clock, 240)
    with adds(ledger), refused("attempt_budget_exhausted"):
        ledger.claim(task(), RIVAL, **SECOND)


def test_due_expiries_count_before_the_budget_is_asked(ledger: ClaimLedger, clock: Clock) -> None:
    """An expiry that takes the last free event leaves none for the claim that recorded it."""
    granted(ledger, policy=short(max_attempts=2))
    spend(ledger, clock, 223)
    clock.now = START + WEEK
    with adds(ledger, "claim.expired.v1"), refused("event_budget_exhausted"):
        ledger.claim(task(), RIVAL, **SECOND)


def test_endings_work_when_only_their_events_are_left(ledger: ClaimLedger, clock: Clock) -> None:
    """Acknowledge, reserve, reconcile, submit, release and expiry go on after the budget."""
    granted(ledger, policy=two_slots())
    spend(ledger, clock, 223)
    ledger.claim(task(), RIVAL, **SECOND)
    with adds(ledger), refused("acknowledgement_required"):  # the budget is asked last
        ledger.progress(task(), RIVAL, **SECOND_GRANT)
    with adds(
        ledger,
        "claim.acknowledged.v1",
        "execution.reserved.v1",
        "execution.reconciled.v1",
        "submission.recorded.v1",
        "claim.released.v1",
        "claim.expired.v1",
    ):
        ledger.acknowledge(task(), RIVAL, **SECOND_GRANT)
        ledger.reserve_dispatch(task(), DISPATCHER, RIVAL, **SECOND_GRANT)
        ledger.reconcile_execution(task(), DISPATCHER, **{**ENDED, "request_id": "r-2"})
        ledger.record_submission(task(), RIVAL, **SECOND_GRANT, artifact_digest=digest("c"))
        ledger.release(task(), RIVAL, **SECOND_GRANT)
        clock.now = START + WEEK
        ledger.snapshot(task(), READER)


def test_what_writes_nothing_needs_no_budget(ledger: ClaimLedger, clock: Clock) -> None:
    """Replays and calls that change nothing are answered however little is left."""
    policy = short(max_attempts=1)
    granted(ledger, policy=policy)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    ledger.record_submission(task(), WORKER, **GRANT, artifact_digest=digest("c"))
    spend(ledger, clock, 240)
    with adds(ledger):
        assert ledger.configure_task(task(), DISPATCHER, policy) is False
        replay = ledger.claim(task(), WORKER, request_id="r-1", binding=binding())
        assert replay.created is False
        ledger.acknowledge(task(), WORKER, **GRANT)
        ledger.progress(task(), WORKER, **GRANT)  # this second's window stands already
        ledger.renew(task(), WORKER, **GRANT)  # the lease is at the hard deadline
        assert ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT).created is False
        ledger.record_submission(task(), WORKER, **GRANT, artifact_digest=digest("c"))
        ledger.snapshot(task(), READER)


def test_observed_times_count_against_no_task(ledger: ClaimLedger, clock: Clock) -> None:
    """A question that leaves the time it saw spends none of the task's events."""
    granted(ledger, policy=short(max_attempts=1))
    for _ in range(300):
        clock.now += 1
        ledger.snapshot(task(), READER)
    assert events(ledger) == 3
    clock.now += 1
    ledger.progress(task(), WORKER, **GRANT)


# Reconciliations out of the reserve.


def test_eight_changed_reconciliations_a_claim_come_from_the_reserve(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """Those before the reserve are free, eight of it are a claim's own, the next is refused."""
    granted(ledger, policy=two_slots())
    ledger.claim(task(), RIVAL, **SECOND)
    ledger.acknowledge(task(), RIVAL, **SECOND_GRANT)
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    ledger.reserve_dispatch(task(), DISPATCHER, RIVAL, **SECOND_GRANT)
    flap(ledger, GRANT, 20)
    spend(ledger, clock, 224)
    for request in (GRANT, SECOND_GRANT):
        flap(ledger, request, 8)
        with adds(ledger), refused("event_budget_exhausted"):
            flap(ledger, request, 1)
    assert events(ledger) == 240


def test_the_last_reconciliation_before_the_reserve_is_not_counted(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """A change that takes the last free event leaves all eight of the reserve."""
    granted(ledger, policy=short(max_attempts=1))
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    spend(ledger, clock, 239)
    flap(ledger, GRANT, 9)
    with adds(ledger), refused("event_budget_exhausted"):
        flap(ledger, GRANT, 1)


def test_a_flapping_adapter_cannot_keep_an_execution_from_ending(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """With the eight spent, unchanged evidence writes nothing and the end gets through."""
    granted(ledger, policy=short(max_attempts=1))
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    spend(ledger, clock, 240)
    last: dict[str, Any] = {"status": "running", "evidence_reference": "the last"}
    flap(ledger, GRANT, 7)
    ledger.reconcile_execution(task(), DISPATCHER, **GRANT, **last)
    with adds(ledger):
        ledger.reconcile_execution(task(), DISPATCHER, **GRANT, **last)
    with refused("event_budget_exhausted"):
        flap(ledger, GRANT, 1)
    with adds(ledger, "execution.reconciled.v1"):
        ended = ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    assert ended.occupancy == "terminal"
    with adds(ledger):
        assert ledger.reconcile_execution(task(), DISPATCHER, **ENDED) == ended
    with adds(ledger), refused("terminal_execution_conflict"):
        flap(ledger, GRANT, 1)


def test_a_stream_never_exceeds_its_events(ledger: ClaimLedger, clock: Clock) -> None:
    """The most that two claims can write after the budget is spent stays below max_events."""
    policy = two_slots(max_attempts=2)
    granted(ledger, policy=policy, acknowledged=False)
    ledger.acknowledge(task(), WORKER, **GRANT)
    spend(ledger, clock, 223)
    ledger.claim(task(), RIVAL, **SECOND)
    ledger.acknowledge(task(), RIVAL, **SECOND_GRANT)
    for who, request in ((WORKER, GRANT), (RIVAL, SECOND_GRANT)):
        ledger.reserve_dispatch(task(), DISPATCHER, who, **request)
        ledger.record_submission(task(), who, **request, artifact_digest=digest("c"))
        flap(ledger, request, 8)
        ledger.reconcile_execution(task(), DISPATCHER, **{**ENDED, **request})
        ledger.release(task(), who, **request)
    # 224, then an acknowledgement, and for each claim 1 + 1 + 8 + 1 + 1.
    assert events(ledger) == 249
