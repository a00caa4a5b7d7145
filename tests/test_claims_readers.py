"""The questions: snapshot, peek, policy, lookup and survey, and who may ask them what."""

import re
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
    SCOPE,
    START,
    WORKER,
    Clock,
    actor,
    adds,
    binding,
    granted,
    opened,
    refused,
    task,
)
from msgspec.structs import replace

from idkmesh import ClaimLedger, StoreError, TaskClaimPolicy, TenantScope

BOTH = frozenset({SCOPE, OTHER_SCOPE})


@pytest.fixture
def ledger(memory_ledger: ClaimLedger) -> ClaimLedger:
    """Give a ledger without a file."""
    return memory_ledger


@pytest.fixture
def town(ledger: ClaimLedger, clock: Clock) -> ClaimLedger:
    """Give a ledger with a claim in each condition that a coordinator asks about.

    active: T-1 is good, T-2 overdue; T-3 released while its execution is unknown; T-4
    expired and ended; T-5 is confidential; T-1 of the other project is not ours.
    """
    long = TaskClaimPolicy(lease_seconds=5_000, progress_seconds=5_000)
    granted(ledger, name="T-4")
    ledger.reserve_dispatch(task("T-4"), DISPATCHER, WORKER, **GRANT)
    ledger.reconcile_execution(task("T-4"), DISPATCHER, **ENDED)
    clock.now += 300
    ledger.snapshot(task("T-4"), READER)
    granted(ledger, name="T-1", policy=long)
    ledger.configure_task(task("T-2"), DISPATCHER, TaskClaimPolicy())
    ledger.claim(task("T-2"), RIVAL, request_id="r-1", binding=binding())
    granted(ledger, name="T-3")
    ledger.reserve_dispatch(task("T-3"), DISPATCHER, WORKER, **GRANT)
    ledger.release(task("T-3"), WORKER, **GRANT)
    granted(ledger, name="T-5", policy=replace(long, data_classification="confidential"))
    there = task("T-1", OTHER_SCOPE)
    ledger.configure_task(there, replace(DISPATCHER, scopes=BOTH), long)
    ledger.claim(there, replace(WORKER, scopes=BOTH), request_id="r-1", binding=binding())
    clock.now += 300
    return ledger


def names(claims: Any) -> list[str]:
    """Name the tasks of claims, sorted."""
    return sorted(claim.task.resource_id for claim in claims)


# What is asked for, and the tasks whose claims are found.
SURVEYS = """
    everything                            T-1 T-2 T-3 T-4 T-5
    state=active                          T-1 T-5
    state=expired                         T-2 T-4
    state=released                        T-3
    occupancy=none                        T-1 T-2 T-5
    occupancy=unknown                     T-3
    occupancy=running                     nothing
    occupancy=terminal                    T-4
    overdue=True                          T-2
    overdue=False                         T-1 T-3 T-4 T-5
    owner=worker-2                        T-2
    owner=worker-1                        T-1 T-3 T-4 T-5
    owner=worker                          nothing
    owner=worker-1 occupancy=none         T-1 T-5
    state=expired overdue=True            T-2
    state=active overdue=True             nothing
    state=released occupancy=unknown      T-3
    state=expired owner=worker-1          T-4
"""


def surveys() -> list[object]:
    """Read the table of surveys."""
    cases: list[object] = []
    for line in SURVEYS.strip().splitlines():
        asked, found = re.split(r"\s{2,}", line.strip())
        filters: dict[str, Any] = dict(pair.split("=") for pair in asked.split() if "=" in pair)
        if "overdue" in filters:
            filters["overdue"] = filters["overdue"] == "True"
        expected = [] if found == "nothing" else found.split()
        cases.append(pytest.param(filters, expected, id=asked))
    return cases


@pytest.mark.parametrize(("filters", "expected"), surveys())
def test_a_survey_finds_what_was_asked_for(
    town: ClaimLedger, filters: dict[str, Any], expected: list[str]
) -> None:
    """Each filter narrows the scope's claims down, and several are met together."""
    with adds(town):
        assert names(town.survey(SCOPE, READER, **filters)) == expected


def test_a_survey_shows_what_peek_shows(town: ClaimLedger) -> None:
    """The claims of a survey are the records that the tasks' own questions give."""
    for claim in town.survey(SCOPE, READER):
        assert town.peek(claim.task, READER) == (claim,)
        assert town.lookup(claim.task, READER, request_id="r-1") == claim


@pytest.mark.parametrize(
    ("clearance", "expected"),
    [
        ("public", ["T-1", "T-2", "T-3", "T-4"]),
        ("internal", ["T-1", "T-2", "T-3", "T-4"]),
        ("confidential", ["T-1", "T-2", "T-3", "T-4", "T-5"]),
    ],
)
def test_a_survey_leaves_out_what_is_above_the_clearance(
    town: ClaimLedger, clearance: str, expected: list[str]
) -> None:
    """Tasks of a higher data class are not shown, and asking for them is no error."""
    reader = replace(READER, data_clearance=clearance)
    assert names(town.survey(SCOPE, reader)) == expected


def test_a_survey_is_of_one_scope(town: ClaimLedger) -> None:
    """Another project's claims are never found, and its scope is asked for by name."""
    both = replace(READER, scopes=BOTH)
    (found,) = town.survey(OTHER_SCOPE, both)
    assert found.task == task("T-1", OTHER_SCOPE)
    for scope in (OTHER_SCOPE, TenantScope("acme", "apollo-2"), TenantScope("acm", "apollo")):
        with adds(town), refused("actor_scope_denied"):
            town.survey(scope, READER)
    empty = TenantScope("acme", "apoll")
    assert list(town.survey(empty, actor("a", "auditor", scopes=frozenset({empty})))) == []


def test_a_survey_is_complete_however_long(ledger: ClaimLedger) -> None:
    """Hundreds of claims come once each, whether all or only the live ones are asked for."""
    for number in range(300):
        granted(ledger, name=f"T-{number}", acknowledged=False)
    expected = sorted(f"T-{number}" for number in range(300))
    assert names(ledger.survey(SCOPE, READER)) == expected
    assert names(ledger.survey(SCOPE, READER, state="active")) == expected


def test_claims_come_by_time_then_slot_then_epoch(ledger: ClaimLedger, clock: Clock) -> None:
    """The order is that of creation, and within a second that of the slots and their epochs."""
    policy = TaskClaimPolicy(concurrent_slots=2, competition_reason="x", max_attempts=6)
    ledger.configure_task(task(), DISPATCHER, policy)

    def claim(request_id: str) -> None:
        ledger.claim(task(), WORKER, request_id=request_id, binding=binding())

    def release(request_id: str, epoch: int) -> None:
        ledger.release(task(), WORKER, request_id=request_id, epoch=epoch)

    claim("z")
    claim("y")
    release("y", 1)
    claim("x")
    release("z", 1)
    claim("w")
    clock.now += 1
    release("x", 2)
    claim("a")
    order = [(each.request_id, each.slot, each.epoch) for each in ledger.snapshot(task(), READER)]
    assert order == [("z", 0, 1), ("w", 0, 2), ("y", 1, 1), ("x", 1, 2), ("a", 1, 3)]
    assert ledger.peek(task(), READER) == ledger.snapshot(task(), READER)


def test_a_task_without_claims_has_none(ledger: ClaimLedger) -> None:
    """A configured task that nobody claimed is empty, one never configured is refused."""
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    assert ledger.snapshot(task(), READER) == ledger.peek(task(), READER) == ()
    with refused("claim_not_found"):
        ledger.lookup(task(), READER, request_id="r-1")
    with refused("task_not_configured"):
        ledger.lookup(task("T-2"), READER, request_id="r-1")


def test_questions_need_no_lock(path: Path, clock: Clock) -> None:
    """While a writer holds the file, questions are answered and a snapshot must wait."""
    with opened(path, clock) as writer, opened(path, clock, busy_timeout_seconds=0) as ledger:
        granted(writer)
        shown = writer.peek(task(), READER)
        with writer._store.write():
            assert ledger.peek(task(), READER) == shown
            assert ledger.lookup(task(), READER, request_id="r-1") == shown[0]
            assert ledger.policy(task(), READER) == TaskClaimPolicy()
            assert tuple(ledger.survey(SCOPE, READER)) == shown
            with pytest.raises(StoreError) as caught:
                ledger.snapshot(task(), READER)
        assert caught.value.code == "store_locked"


def test_an_answer_is_of_one_moment(ledger: ClaimLedger, clock: Clock) -> None:
    """Records that were given do not follow the ledger; a new question shows the change."""
    granted(ledger)
    before = ledger.peek(task(), READER)
    clock.now = START + 10
    ledger.renew(task(), WORKER, **GRANT)
    assert before[0].lease_until == START + 300
    assert ledger.peek(task(), READER)[0].lease_until == START + 310
