"""The four deadlines: one second before, at, and after, for every command they matter to."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    READER,
    RIVAL,
    SCOPE,
    START,
    WORKER,
    Clock,
    adds,
    binding,
    digest,
    granted,
    log,
    refused,
    task,
)
from msgspec import json
from msgspec.structs import replace

from idkmesh import ClaimError, ClaimLedger, TaskClaim, TaskClaimPolicy

# How each deadline is made the first to come, 30 seconds behind the grant. The hard one caps
# the others, so it is alone in front only where it is the cap of all.
FIRST = {
    "ack_by": TaskClaimPolicy(ack_seconds=30),
    "lease_until": TaskClaimPolicy(lease_seconds=30),
    "progress_by": TaskClaimPolicy(progress_seconds=30),
    "hard_until": TaskClaimPolicy(hard_seconds=30),
}

# What each call is answered before the deadline, at it, and after it.
ANSWERS = """
    command     claim         one second before         at it                   one second after

    acknowledge granted       active                    stale_claim             stale_claim
    release     granted       released                  stale_claim             stale_claim
    renew       granted       acknowledgement_required  stale_claim             stale_claim
    progress    granted       acknowledgement_required  stale_claim             stale_claim
    reserve     granted       acknowledgement_required  stale_claim             stale_claim
    submit      granted       acknowledgement_required  stale_claim             stale_claim
    replay      granted       active                    expired                 expired
    rival       granted       task_capacity_reserved    active                  active
    snapshot    granted       active                    expired                 expired
    peek        granted       active                    expired                 expired
    lookup      granted       active                    expired                 expired
    survey      granted       active                    expired                 expired

    acknowledge acknowledged  active                    stale_claim             stale_claim
    release     acknowledged  released                  stale_claim             stale_claim
    renew       acknowledged  active                    stale_claim             stale_claim
    progress    acknowledged  active                    stale_claim             stale_claim
    reserve     acknowledged  active                    stale_claim             stale_claim
    submit      acknowledged  active                    stale_claim             stale_claim
    rival       acknowledged  task_capacity_reserved    active                  active
    snapshot    acknowledged  active                    expired                 expired
    peek        acknowledged  active                    expired                 expired

    reserve     reserved      active                    expired                 expired
    reconcile   reserved      active                    expired                 expired
    rival       reserved      task_capacity_reserved task_capacity_reserved task_capacity_reserved
    snapshot    reserved      active                    expired                 expired
"""

CALLS: dict[str, Callable[[ClaimLedger], TaskClaim]] = {
    "acknowledge": lambda ledger: ledger.acknowledge(task(), WORKER, **GRANT),
    "release": lambda ledger: ledger.release(task(), WORKER, **GRANT),
    "renew": lambda ledger: ledger.renew(task(), WORKER, **GRANT),
    "progress": lambda ledger: ledger.progress(task(), WORKER, **GRANT),
    "reserve": lambda ledger: ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT).claim,
    "reconcile": lambda ledger: ledger.reconcile_execution(task(), DISPATCHER, **ENDED),
    "submit": lambda ledger: ledger.record_submission(
        task(), WORKER, **GRANT, artifact_digest=digest("c")
    ),
    "replay": lambda ledger: (
        ledger.claim(task(), WORKER, request_id="r-1", binding=binding()).claim
    ),
    "rival": lambda ledger: ledger.claim(task(), RIVAL, request_id="r-2", binding=binding()).claim,
    "snapshot": lambda ledger: ledger.snapshot(task(), READER)[0],
    "peek": lambda ledger: ledger.peek(task(), READER)[0],
    "lookup": lambda ledger: ledger.lookup(task(), READER, request_id="r-1"),
    "survey": lambda ledger: next(iter(ledger.survey(SCOPE, READER))),
}
QUESTIONS = ("peek", "lookup", "survey")


@pytest.fixture
def ledger(memory_ledger: ClaimLedger) -> ClaimLedger:
    """Give a ledger without a file: the tables have many rows."""
    return memory_ledger


class Case(NamedTuple):
    """One cell of the table: a call so many seconds off a deadline, and its answer."""

    command: str
    claim: str
    deadline: str
    offset: int
    answer: str


def cases() -> list[object]:
    """Cross the rows with the deadlines that count in them."""
    found: list[object] = []
    for line in filter(str.strip, ANSWERS.splitlines()[2:]):
        command, claim, *answers = line.split()
        for deadline in FIRST:
            if deadline != "ack_by" or claim == "granted":
                for offset, answer in zip((-1, 0, 1), answers, strict=True):
                    case = Case(command, claim, deadline, offset, answer)
                    found.append(pytest.param(case, id=f"{command}-{claim}-{deadline}{offset:+}"))
    return found


@pytest.mark.parametrize("case", cases())
def test_at_a_deadline_ownership_is_over(ledger: ClaimLedger, clock: Clock, case: Case) -> None:
    """A second before a deadline the claim is good; at it and after it is recorded as over."""
    granted(ledger, acknowledged=case.claim != "granted", policy=FIRST[case.deadline])
    if case.claim == "reserved":
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    clock.now = START + 30 + case.offset
    before = len(log(ledger))
    try:
        answer = str(CALLS[case.command](ledger).state)
    except ClaimError as error:
        answer = str(error.code)
    assert answer == case.answer
    bodies = [json.decode(row.body) for row in log(ledger)[before:]]
    expiries = [body["due_at"] for body in bodies if body["type"] == "claim.expired.v1"]
    recorded = case.offset >= 0 and case.command not in QUESTIONS
    assert expiries == ([START + 30] if recorded else [])


@pytest.mark.parametrize("deadline", ["ack_by", "lease_until", "progress_by"])
def test_the_record_of_an_expiry_names_its_deadline(
    ledger: ClaimLedger, clock: Clock, deadline: str
) -> None:
    """An expiry says which deadline passed, where it stood, and of which slot and epoch."""
    granted(ledger, acknowledged=False, policy=FIRST[deadline])
    clock.now += 45
    with adds(ledger, "claim.expired.v1") as added:
        ledger.snapshot(task(), READER)
    assert json.decode(added[0].body) == {
        "type": "claim.expired.v1",
        "slot": 0,
        "epoch": 1,
        "deadline": deadline,
        "due_at": 1_700_000_030,
    }
    assert added[0].at == 1_700_000_045


def test_every_window_is_clamped_to_the_hard_deadline(ledger: ClaimLedger) -> None:
    """No window granted reaches beyond the hard deadline, even if it is a thousand times longer."""
    policy = TaskClaimPolicy(
        ack_seconds=60_000, lease_seconds=61, progress_seconds=59, hard_seconds=60
    )
    granted(ledger, acknowledged=False, policy=policy)
    got = ledger.lookup(task(), READER, request_id="r-1")
    assert (got.ack_by, got.lease_until) == (1_700_000_060, 1_700_000_060)
    assert (got.progress_by, got.hard_until) == (1_700_000_059, 1_700_000_060)


@pytest.mark.parametrize("operation", ["renew", "progress"])
def test_an_extension_is_clamped_and_then_writes_nothing(
    ledger: ClaimLedger, clock: Clock, operation: str
) -> None:
    """Extending ends at the hard deadline; once there, repeating it moves and writes nothing."""
    policy = TaskClaimPolicy(lease_seconds=40, progress_seconds=40, hard_seconds=60)
    field = {"renew": "lease_until", "progress": "progress_by"}[operation]
    granted(ledger, policy=policy)
    extend = getattr(ledger, operation)
    before = ledger.lookup(task(), READER, request_id="r-1")
    clock.now = START + 19
    assert extend(task(), WORKER, **GRANT) == replace(before, **{field: START + 59})
    clock.now = START + 21
    assert extend(task(), WORKER, **GRANT) == replace(before, **{field: START + 60})
    with adds(ledger):
        assert extend(task(), WORKER, **GRANT) == replace(before, **{field: START + 60})
    clock.now = START + 39
    with adds(ledger, "clock.observed.v1"):
        extend(task(), WORKER, **GRANT)


def test_nothing_moves_the_hard_deadline(ledger: ClaimLedger, clock: Clock) -> None:
    """However often the owner renews and reports, the claim ends at its hard deadline."""
    policy = TaskClaimPolicy(lease_seconds=20, progress_seconds=20, hard_seconds=60)
    granted(ledger, policy=policy)
    for second in range(10, 60, 7):
        clock.now = START + second
        ledger.renew(task(), WORKER, **GRANT)
        assert ledger.progress(task(), WORKER, **GRANT).hard_until == START + 60
    clock.now = START + 59
    assert ledger.renew(task(), WORKER, **GRANT).lease_until == START + 60
    clock.now = START + 60
    for operation in ("renew", "progress", "acknowledge", "release"):
        with refused("stale_claim"):
            ledger.update_owner(task(), WORKER, **GRANT, operation=operation)


def test_the_acknowledgement_window_counts_until_the_acknowledgement(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """Acknowledged in its last second, a claim lives on past ack_by, which stays as it was."""
    granted(ledger, acknowledged=False, policy=TaskClaimPolicy(ack_seconds=30))
    clock.now = START + 29
    assert ledger.acknowledge(task(), WORKER, **GRANT).ack_by == START + 30
    for second in (30, 31, 299):
        clock.now = START + second
        (peeked,) = ledger.peek(task(), READER)
        assert (peeked.state, peeked.ack_by) == ("active", START + 30)
        assert ledger.progress(task(), WORKER, **GRANT).state == "active"
    clock.now = START + 300
    (peeked,) = ledger.peek(task(), READER)
    assert peeked.state == "expired"


def test_a_heartbeat_is_no_progress_and_progress_no_heartbeat(
    ledger: ClaimLedger, clock: Clock
) -> None:
    """Renewing alone lets the progress window run out, reporting alone the lease."""
    policy = TaskClaimPolicy(lease_seconds=30, progress_seconds=30)
    for name, operation, spent in (
        ("T-1", "renew", "progress_by"),
        ("T-2", "progress", "lease_until"),
    ):
        granted(ledger, policy=policy, name=name)
        clock.now += 29
        ledger.update_owner(task(name), WORKER, **GRANT, operation=operation)
        clock.now += 1
        with adds(ledger, "claim.expired.v1") as added:
            ledger.snapshot(task(name), READER)
        assert json.decode(added[0].body)["deadline"] == spent
