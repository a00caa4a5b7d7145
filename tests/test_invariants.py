"""Each invariant sees the history that breaks it, and none objects to a history in order."""

import hashlib
import json
import struct
from collections.abc import Callable, Iterable
from typing import Any

import invariants
import pytest
from builders import digest
from invariants import Broken
from machine_image import Image

from idkmesh.events.port import Row

SCOPE = "acme/apollo"
STREAM = "acme/apollo/task/T-1"
OWNER = {"principal_id": "worker-1", "issuer": "https:idp", "actor_type": "human"}
NAMESAKE = {**OWNER, "issuer": "https:other"}
WORK = {"work_unit_digest": digest("a"), "source_revision": "a" * 40, "inputs_digest": digest("b")}
POLICY = {"concurrent_slots": 1, "max_attempts": 2, "max_events": 256}

Event = tuple[int, dict[str, Any]]
Check = Callable[[tuple[Row, ...]], None]


def event(at: int, kind: str, slot: int = 0, epoch: int = 1, **fields: Any) -> Event:
    """Make an event of a claim, by its owner."""
    body = {"type": f"{kind}.v1", "by": {"actor": OWNER}, "slot": slot, "epoch": epoch}
    return at, {**body, **fields}


def configured(at: int = 100, **terms: int) -> Event:
    """Make the event that freezes a policy."""
    return at, {"type": "task.configured.v1", "policy": {**POLICY, **terms}}


def granted(at: int, slot: int = 0, epoch: int = 1, **fields: Any) -> Event:
    """Make a grant whose deadlines are 10, 20, 30 and 60 seconds off."""
    deadlines = {"ack_by": at + 10, "lease_until": at + 20, "progress_by": at + 30}
    request: dict[str, Any] = {
        "request_id": f"r-{slot}-{epoch}",
        "request_digest": digest("c"),
        "binding": WORK,
    }
    known: dict[str, Any] = {**deadlines, "hard_until": at + 60, **request, **fields}
    return event(at, "claim.granted", slot, epoch, **known)


def reserved(at: int, **fields: Any) -> Event:
    """Make a reservation for the owner."""
    known: dict[str, Any] = {"owner_by": {"actor": OWNER}, "operation_id": digest("d"), **fields}
    return event(at, "execution.reserved", **known)


def evidence(at: int, status: str, reference: str = "run/1") -> Event:
    """Make a reconciliation."""
    return event(at, "execution.reconciled", status=status, evidence_reference=reference)


def expired(at: int, deadline: str, due_at: int) -> Event:
    """Make an expiry."""
    return event(at, "claim.expired", deadline=deadline, due_at=due_at)


ACK = event(101, "claim.acknowledged")
SUBMIT = event(106, "submission.recorded", artifact_digest=digest("e"))
RENEW = event(105, "claim.renewed", lease_until=125)
RELEASE = event(109, "claim.released")
TAKEN = (configured(), granted(100), ACK)
STORY = (
    *TAKEN,
    RENEW,
    event(105, "claim.progressed", progress_by=135),
    reserved(105),
    SUBMIT,
    evidence(107, "running"),
    RELEASE,
    evidence(110, "running", "run/2"),
    evidence(111, "terminal"),
    granted(112, epoch=2),
)


def rows(events: Iterable[Event]) -> tuple[Row, ...]:
    """Write events down as a log of one stream, in order and sealed."""
    log: list[Row] = []
    for number, (at, body) in enumerate(events, start=1):
        known = Row(
            sequence=number,
            scope=SCOPE,
            number=number,
            stream=STREAM,
            version=number,
            at=at,
            type=body["type"],
            body=json.dumps(body),
            chain=b"",
        )
        log.append(sealed(known, log[-1].chain if log else bytes(32)))
    return tuple(log)


def sealed(row: Row, previous: bytes) -> Row:
    """Return the row with its chain value: columns behind their lengths, the last value first."""
    seal = hashlib.sha256(previous)
    for column in row[:-1]:
        seal.update(struct.pack(">Q", len(str(column))) + str(column).encode("ascii"))
    return row._replace(chain=seal.digest())


def image(events: Iterable[Event] = STORY, **changes: Any) -> Image:
    """Return the story's image, its first claim's row changed as given."""
    terms = {"policy": json.dumps(POLICY), "attempts": 2, "epoch_0": 2, "epoch_1": 0, "epoch_2": 0}
    task = {"stream": STREAM, "scope": SCOPE, "task_id": "T-1", **terms}
    fresh = {
        **OWNER,
        **WORK,
        "stream": STREAM,
        "slot": 0,
        "request_digest": digest("c"),
        "acknowledged_at": None,
        "operation_id": None,
        "execution_reference": None,
        "submission_digest": None,
        "reconciled_from_reserve": 0,
    }
    first = {
        **fresh,
        "epoch": 1,
        "request_id": "r-0-1",
        "state": "released",
        "created_at": 100,
        "acknowledged_at": 101,
        "ack_by": 110,
        "lease_until": 125,
        "progress_by": 135,
        "hard_until": 160,
        "occupancy": "terminal",
        "operation_id": digest("d"),
        "execution_reference": "run/1",
        "submission_digest": digest("e"),
    }
    second = {
        **fresh,
        "epoch": 2,
        "request_id": "r-0-2",
        "state": "active",
        "created_at": 112,
        "ack_by": 122,
        "lease_until": 132,
        "progress_by": 142,
        "hard_until": 172,
        "occupancy": "none",
    }
    return Image(rows(events), (task,), ({**first, **changes}, second))


def test_a_history_in_order_breaks_nothing() -> None:
    """Every kind of event, in an order that commands could have left, passes every rule."""
    invariants.check(image())
    invariants.check_step(image(), image())
    late = rows((*TAKEN, expired(120, "lease_until", 120), granted(120, epoch=2)))
    for rule in invariants.OF_THE_LOG:
        rule(late)


BEATS = tuple(event(105, "claim.renewed", lease_until=125) for _ in range(230))
LOGS: tuple[tuple[Check, str, tuple[Event, ...]], ...] = (
    (invariants.time_never_falls, "a second back", (*TAKEN, event(99, "claim.released"))),
    (invariants.epochs_count_up, "starts at 2", (configured(), granted(100, epoch=2))),
    (invariants.epochs_count_up, "skips one", (*TAKEN, RELEASE, granted(110, epoch=3))),
    (invariants.epochs_count_up, "no such claim", (*TAKEN, event(105, "claim.released", epoch=2))),
    (invariants.policy_limits_hold, "attempts", (configured(max_attempts=0), granted(100))),
    (invariants.policy_limits_hold, "slots", (configured(), granted(100, slot=1))),
    (invariants.policy_limits_hold, "no policy", (granted(100),)),
    (invariants.policy_limits_hold, "two policies", (configured(), configured())),
    (invariants.one_claim_holds_a_slot, "owned", (*TAKEN, granted(105, epoch=2))),
    (
        invariants.one_claim_holds_a_slot,
        "unknown",
        (*TAKEN, reserved(105), RELEASE, granted(110, epoch=2)),
    ),
    (
        invariants.one_claim_holds_a_slot,
        "running",
        (*TAKEN, reserved(105), RELEASE, evidence(110, "running"), granted(110, epoch=2)),
    ),
    (
        invariants.deadlines_are_kept,
        "acts at ack_by",
        (*TAKEN[:2], event(110, ACK[1]["type"][:-3])),
    ),
    (invariants.deadlines_are_kept, "acts at lease_until", (*TAKEN, reserved(120))),
    (invariants.deadlines_are_kept, "beyond hard", (configured(), granted(100, lease_until=161))),
    (
        invariants.deadlines_are_kept,
        "renewed beyond hard",
        (*TAKEN, event(105, "claim.renewed", lease_until=161)),
    ),
    (
        invariants.deadlines_are_kept,
        "moves back",
        (*TAKEN, event(105, "claim.progressed", progress_by=129)),
    ),
    (invariants.deadlines_are_kept, "expires early", (*TAKEN, expired(119, "lease_until", 120))),
    (invariants.deadlines_are_kept, "not the first", (*TAKEN, expired(130, "progress_by", 130))),
    (invariants.deadlines_are_kept, "acknowledged", (*TAKEN, expired(120, "ack_by", 110))),
    (invariants.ended_stays_ended, "submits", (*TAKEN, RELEASE, event(109, "submission.recorded"))),
    (invariants.ended_stays_ended, "ends twice", (*TAKEN, RELEASE, RELEASE)),
    (invariants.consent_comes_first, "renews", (*TAKEN[:2], RENEW)),
    (invariants.consent_comes_first, "twice", (*TAKEN, ACK)),
    (
        invariants.owners_act_for_themselves,
        "a namesake renews",
        (*TAKEN, event(105, "claim.renewed", by={"actor": NAMESAKE}, lease_until=125)),
    ),
    (
        invariants.owners_act_for_themselves,
        "reserved for a namesake",
        (*TAKEN, reserved(105, owner_by={"actor": NAMESAKE})),
    ),
    (invariants.executions_end_once, "twice", (*TAKEN, reserved(105), reserved(105))),
    (invariants.executions_end_once, "unreserved", (*TAKEN, evidence(105, "running"))),
    (
        invariants.executions_end_once,
        "after the end",
        (*TAKEN, reserved(105), evidence(106, "terminal"), evidence(107, "running")),
    ),
    (invariants.submissions_stand, "twice", (*TAKEN, SUBMIT, SUBMIT)),
    (invariants.budget_is_kept, "renewed at 225", (*TAKEN, *BEATS[:222])),
    (invariants.budget_is_kept, "too long", (*TAKEN, *(ACK for _ in range(254)))),
    (
        invariants.budget_is_kept,
        "nine from the reserve",
        (*TAKEN, *BEATS[:221], *(evidence(105, "running") for _ in range(9))),
    ),
)


@pytest.mark.parametrize(
    ("rule", "events"),
    [pytest.param(rule, events, id=f"{rule.__name__}: {name}") for rule, name, events in LOGS],
)
def test_a_history_out_of_order_is_seen(rule: Check, events: tuple[Event, ...]) -> None:
    """A log with one impossible event breaks the rule about it."""
    with pytest.raises(Broken):
        rule(rows(events))


def test_the_reserve_begins_where_it_should() -> None:
    """The last event before the reserve may be a renewal, and eight reconciliations may use it."""
    invariants.budget_is_kept(rows((*TAKEN, *BEATS[:221])))
    flaps = [evidence(105, "running") for _ in range(8)]
    invariants.budget_is_kept(rows((*TAKEN, *BEATS[:221], *flaps, evidence(105, "terminal"))))


def test_a_repaired_clock_may_fall() -> None:
    """Time may go back at a ``ClockRepaired``, and goes on from there."""
    invariants.time_never_falls(rows((*TAKEN, (50, {"type": "clock.repaired.v1"}), granted(51))))


@pytest.mark.parametrize("column", ["sequence", "number", "version"])
def test_a_gap_is_seen(column: str) -> None:
    """A log that skips a sequence, a number or a version is broken."""
    *log, last = rows(STORY)
    skipped = last._replace(**{column: getattr(last, column) + 1})
    invariants.numbers_have_no_gap([*log, last])
    with pytest.raises(Broken):
        invariants.numbers_have_no_gap([*log, skipped])


@pytest.mark.parametrize(
    "change",
    [{"scope": "acme/gemini"}, {"stream": "acme/apollo-2/task/T-1"}, {"type": "claim.expired.v1"}],
    ids=lambda change: next(iter(change)),
)
def test_a_row_in_the_wrong_place_is_seen(change: dict[str, Any]) -> None:
    """A stream of another scope, and a type that is not the body's, are broken."""
    first, *log = rows(STORY)
    with pytest.raises(Broken):
        invariants.streams_stay_in_their_scope([first._replace(**change), *log])


@pytest.mark.parametrize(
    "change",
    [{"at": 101}, {"version": 2}, {"body": "{}"}, {"type": "x"}, {"chain": bytes(32)}],
    ids=lambda change: next(iter(change)),
)
def test_an_edited_row_breaks_the_chain(change: dict[str, Any]) -> None:
    """A change to any column of a row shows in the chain."""
    first, *log = rows(STORY)
    with pytest.raises(Broken):
        invariants.chain_holds([first._replace(**change), *log])


@pytest.mark.parametrize(
    "change",
    [
        {"state": "expired"},
        {"lease_until": 120},
        {"occupancy": "running"},
        {"execution_reference": "run/2"},
        {"submission_digest": None},
        {"issuer": "https:other"},
        {"epoch": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_table_that_tells_another_story_is_seen(change: dict[str, Any]) -> None:
    """A claim's row that differs from the log's events is broken."""
    with pytest.raises(Broken):
        invariants.tables_tell_the_log(image(**change))


@pytest.mark.parametrize("column", ["policy", "attempts", "epoch_0", "task_id"])
def test_a_task_that_counts_wrong_is_seen(column: str) -> None:
    """A task's row that differs from the log's events is broken."""
    right = image()
    (task,) = right.tasks
    wrong = "{}" if column == "policy" else "T-2" if column == "task_id" else 1
    with pytest.raises(Broken):
        invariants.tables_tell_the_log(right._replace(tasks=({**task, column: wrong},)))


def test_a_row_that_nothing_admitted_is_seen() -> None:
    """A claim's row without a grant is broken, and so is a grant without a row."""
    right = image()
    with pytest.raises(Broken):
        invariants.tables_tell_the_log(right._replace(claims=right.claims[:1]))
    with pytest.raises(Broken):
        invariants.tables_tell_the_log(right._replace(rows=right.rows[:-1]))


@pytest.mark.parametrize("change", [{"state": "active"}, {"occupancy": "unknown"}])
def test_two_rows_in_a_slot_are_seen(change: dict[str, Any]) -> None:
    """A second claim that is active or may be running in a slot is broken."""
    with pytest.raises(Broken):
        invariants.one_row_holds_a_slot(image(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"state": "active"},
        {"hard_until": 161},
        {"lease_until": 126},
        {"acknowledged_at": 102},
        {"occupancy": "running"},
        {"execution_reference": "run/2"},
        {"submission_digest": digest("f")},
        {"operation_id": None},
        {"principal_id": "worker-2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_row_that_takes_back_what_it_said_is_seen(change: dict[str, Any]) -> None:
    """From one moment to the next, what is over or settled stays as it was."""
    with pytest.raises(Broken):
        invariants.check_step(image(), image(**change))


def test_a_past_that_changes_is_seen() -> None:
    """From one moment to the next the log only grows, and no claim vanishes."""
    before = image()
    with pytest.raises(Broken):
        invariants.check_step(before, before._replace(rows=before.rows[:-1]))
    with pytest.raises(Broken):
        invariants.check_step(before, before._replace(claims=before.claims[1:]))


def test_what_a_refusal_may_leave() -> None:
    """A refused command leaves expiries of its own task, or nothing at all, tables included."""
    before = image(TAKEN)
    after = image((*TAKEN, expired(120, "lease_until", 120)))
    invariants.check_refusal(before, before, STREAM)
    invariants.check_refusal(before, after, STREAM)
    with pytest.raises(Broken):
        invariants.check_refusal(before, after, "acme/apollo/task/T-2")
    with pytest.raises(Broken):
        invariants.check_refusal(before, image((*TAKEN, RELEASE)), STREAM)
    with pytest.raises(Broken):
        invariants.check_refusal(before, image(TAKEN, state="active"), STREAM)


def test_a_reader_leaves_nothing() -> None:
    """A reader after which the file is another is broken."""
    invariants.check_nothing_written(image(), image())
    with pytest.raises(Broken):
        invariants.check_nothing_written(image(), image(state="active"))
