"""What must hold of every ledger at every moment, told from its rows alone.

Each function takes the log (and the tables, where it is about them) and raises ``Broken``
with a sentence where its rule does not hold. Nothing here folds with the library's code:
the bodies are read as plain JSON, so that a rule broken in a decision and in the fold alike
still shows. Kinds of events that a rule does not speak of are passed over.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from machine_image import CLAIM_COLUMNS, Fact, Image, content_of, facts, kind_of

from idkmesh.events.port import Row

DEADLINES = ("ack_by", "lease_until", "progress_by", "hard_until")
OCCUPYING = ("unknown", "running")
OWNERS_ACTS = (
    "claim.acknowledged",
    "claim.renewed",
    "claim.progressed",
    "claim.released",
    "execution.reserved",
    "submission.recorded",
)
NOT_FROM_THE_RESERVE = ("claim.granted", "claim.renewed", "claim.progressed")
RESERVE_PER_ATTEMPT = 16
RECONCILIATIONS_FROM_THE_RESERVE = 8


class Broken(AssertionError):  # noqa: N818 - it states a fact, as the rules do
    """An invariant does not hold."""


def policies(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """Return every task's policy by its stream."""
    found = {}
    for row in rows:
        if kind_of(row) == "task.configured":
            _require(row.stream not in found, f"{row.stream} was configured twice")
            _require(row.version == 1, f"{row.stream} was configured late")
            found[row.stream] = content_of(row.body)["policy"]
    return found


# The log by itself.


def numbers_have_no_gap(rows: Iterable[Row]) -> None:
    """Sequences of the file, numbers of a scope and versions of a stream count up from 1 by 1."""
    numbers: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    for place, row in enumerate(rows, start=1):
        numbers[row.scope] += 1
        versions[row.stream] += 1
        _require(row.sequence == place, f"sequence {row.sequence} stands at place {place}")
        _require(row.number == numbers[row.scope], f"{row.scope} has a gap at {row.number}")
        _require(row.version == versions[row.stream], f"{row.stream} has a gap at {row.version}")


def streams_stay_in_their_scope(rows: Iterable[Row]) -> None:
    """A stream is named after the scope that its rows are numbered in, and bodies name a type."""
    for row in rows:
        _require(row.stream.startswith(f"{row.scope}/"), f"{row.stream} is not in {row.scope}")
        _require(content_of(row.body)["type"] == row.type, f"row {row.sequence} has two types")


def time_never_falls(rows: Iterable[Row]) -> None:
    """Along the log ``at`` falls nowhere but at a repair of the clock."""
    last = 0
    for row in rows:
        falls = row.at < last and kind_of(row) != "clock.repaired"
        _require(not falls, f"time falls at row {row.sequence}: {row.at} after {last}")
        last = row.at


def chain_holds(rows: Iterable[Row]) -> None:
    """Each row's chain value is the hash over its scope's last one and its own columns."""
    links: dict[str, bytes] = defaultdict(lambda: bytes(32))
    for row in rows:
        columns = [str(column).encode() for column in row[:8]]
        sealed = b"".join(len(column).to_bytes(8) + column for column in columns)
        links[row.scope] = hashlib.sha256(links[row.scope] + sealed).digest()
        _require(row.chain == links[row.scope], f"the chain breaks at row {row.sequence}")


# Claims along the log.


def epochs_count_up(rows: Iterable[Row]) -> None:
    """A slot's epochs are 1, 2, 3… in order of admission; every event names one admitted."""
    epochs: Counter[tuple[str, int]] = Counter()
    for fact in facts(rows):
        stream, slot, epoch = fact.claim
        if fact.kind == "claim.granted":
            epochs[stream, slot] += 1
            _require(epoch == epochs[stream, slot], f"{fact.claim} is not its slot's next")
        _require(1 <= epoch <= epochs[stream, slot], f"{fact.claim} was never admitted")


def policy_limits_hold(rows: tuple[Row, ...]) -> None:
    """A task never admits more than its attempts, nor into a slot that it does not have."""
    terms = policies(rows)
    admitted: Counter[str] = Counter()
    for fact in facts(rows):
        stream, slot, _ = fact.claim
        _require(stream in terms, f"{stream} has claims and no policy")
        if fact.kind == "claim.granted":
            admitted[stream] += 1
            _require(slot < terms[stream]["concurrent_slots"], f"{fact.claim} has no such slot")
            _require(admitted[stream] <= terms[stream]["max_attempts"], f"{stream} admits too many")


def one_claim_holds_a_slot(rows: Iterable[Row]) -> None:
    """When a claim is admitted, none before it in that slot is active or may be running."""
    active: set[tuple[str, int, int]] = set()
    occupying: set[tuple[str, int, int]] = set()
    for fact in facts(rows):
        if fact.kind == "claim.granted":
            holders = [claim for claim in active | occupying if claim[:2] == fact.claim[:2]]
            _require(not holders, f"{fact.claim} was admitted beside {holders}")
            active.add(fact.claim)
        elif fact.kind in ("claim.released", "claim.expired"):
            active.discard(fact.claim)
        elif fact.kind == "execution.reserved":
            occupying.add(fact.claim)
        elif fact.kind == "execution.reconciled" and fact.body["status"] == "terminal":
            occupying.discard(fact.claim)


def deadlines_are_kept(rows: Iterable[Row]) -> None:
    """No deadline lies beyond ``hard_until``, none moves back, and nobody acts at one or later."""
    standing: dict[tuple[str, int, int], dict[str, int]] = {}
    for fact in facts(rows):
        if fact.kind == "claim.granted":
            standing[fact.claim] = {name: fact.body[name] for name in DEADLINES}
        deadlines = standing[fact.claim]
        first = min(deadlines.values())
        if fact.kind in OWNERS_ACTS:
            _require(fact.at < first, f"{fact.claim}: {fact.kind} at {fact.at}, due at {first}")
        if fact.kind == "claim.expired" and fact.body["deadline"] in DEADLINES:
            due_at = deadlines.get(fact.body["deadline"])
            _require(fact.body["due_at"] == due_at == first, f"{fact.claim} expired for nothing")
            _require(fact.at >= first, f"{fact.claim} expired early")
        if fact.kind == "claim.acknowledged":
            deadlines.pop("ack_by", None)
        for name in ("lease_until", "progress_by"):
            moved = fact.body.get(name, deadlines[name])
            _require(moved >= deadlines[name], f"{fact.claim}: {name} moves back")
            deadlines[name] = moved
        latest = max(deadlines.values())
        _require(latest <= deadlines["hard_until"], f"{fact.claim} outlives its hard deadline")


def ended_stays_ended(rows: Iterable[Row]) -> None:
    """After release or expiry no act of the owner follows, nor another end."""
    ended: set[tuple[str, int, int]] = set()
    for fact in facts(rows):
        ends = fact.kind in ("claim.released", "claim.expired")
        if ends or fact.kind in OWNERS_ACTS:
            _require(fact.claim not in ended, f"{fact.claim}: {fact.kind} after its end")
        if ends:
            ended.add(fact.claim)


def consent_comes_first(rows: Iterable[Row]) -> None:
    """One acknowledgement, before any renewal, progress, reservation or submission."""
    consented: set[tuple[str, int, int]] = set()
    for fact in facts(rows):
        if fact.kind == "claim.acknowledged":
            _require(fact.claim not in consented, f"{fact.claim} was acknowledged twice")
            consented.add(fact.claim)
        elif fact.kind in OWNERS_ACTS and fact.kind != "claim.released":
            _require(fact.claim in consented, f"{fact.claim}: {fact.kind} without consent")


def owners_act_for_themselves(rows: Iterable[Row]) -> None:
    """Whoever was granted a claim, all three parts of them, does every owner's act on it."""
    owners: dict[tuple[str, int, int], Any] = {}
    for fact in facts(rows):
        if fact.kind == "claim.granted":
            owners[fact.claim] = fact.body["by"]["actor"]
        elif fact.kind in OWNERS_ACTS:
            by = fact.body["owner_by" if fact.kind == "execution.reserved" else "by"]
            _require(by["actor"] == owners[fact.claim], f"{fact.claim}: {fact.kind} by another")


def executions_end_once(rows: Iterable[Row]) -> None:
    """One reservation, evidence only after it, and none that changes a recorded end."""
    running: dict[tuple[str, int, int], str] = {}
    for fact in facts(rows):
        known = running.get(fact.claim)
        if fact.kind == "execution.reserved":
            _require(known is None, f"{fact.claim} was reserved twice")
            running[fact.claim] = "unknown"
        elif fact.kind == "execution.reconciled":
            _require(known is not None, f"{fact.claim} has evidence and no reservation")
            _require(known != "terminal", f"{fact.claim} goes on after its end")
            running[fact.claim] = fact.body["status"]


def submissions_stand(rows: Iterable[Row]) -> None:
    """A claim is given one submission, once."""
    given = Counter(fact.claim for fact in facts(rows) if fact.kind == "submission.recorded")
    _require(max(given.values(), default=0) <= 1, f"submitted twice: {given}")


def budget_is_kept(rows: tuple[Row, ...]) -> None:
    """A stream keeps within ``max_events``, and its reserve serves endings alone."""
    terms = policies(rows)
    counted: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        if row.stream in terms:
            _require(row.version <= terms[row.stream]["max_events"], f"{row.stream} is too long")
    for fact in facts(rows):
        policy = terms[fact.claim[0]]
        reserve = RESERVE_PER_ATTEMPT * policy["max_attempts"]
        if fact.version <= policy["max_events"] - reserve:
            continue
        _require(fact.kind not in NOT_FROM_THE_RESERVE, f"{fact.claim}: {fact.kind} in the reserve")
        if fact.kind == "execution.reconciled" and fact.body["status"] != "terminal":
            counted[fact.claim] += 1
    most = max(counted.values(), default=0)
    _require(most <= RECONCILIATIONS_FROM_THE_RESERVE, f"reconciled {most} times in the reserve")


# The tables beside the log.


def tables_tell_the_log(image: Image) -> None:
    """The tables hold what the log's events say, and no other row."""
    told: dict[tuple[str, int, int], dict[str, Any]] = {}
    for fact in facts(image.rows):
        _tell(told.setdefault(fact.claim, {}), fact)
    found = {(row["stream"], row["slot"], row["epoch"]): row for row in image.claims}
    _require(found.keys() == told.keys(), "the claims are not those that were admitted")
    for claim, expected in told.items():
        shown = {name: found[claim][name] for name in expected}
        _require(shown == expected, f"{claim}: the table says {shown}, the log {expected}")
    terms = policies(image.rows)
    _require({row["stream"] for row in image.tasks} == terms.keys(), "the tasks are others")
    for row in image.tasks:
        stream = row["stream"]
        grants = [claim for claim in told if claim[0] == stream]
        epochs = [sum(claim[1] == slot for claim in grants) for slot in range(3)]
        _require(json.loads(row["policy"]) == terms[stream], f"{stream} has another policy")
        _require(row["attempts"] == len(grants), f"{stream} counts other attempts")
        _require([row["epoch_0"], row["epoch_1"], row["epoch_2"]] == epochs, f"{stream}: epochs")
        _require(f"{row['scope']}/task/{row['task_id']}" == stream, f"{stream} is named otherwise")


def one_row_holds_a_slot(image: Image) -> None:
    """At most one claim of a slot is active or may be running."""
    held = Counter(
        (row["stream"], row["slot"])
        for row in image.claims
        if row["state"] == "active" or row["occupancy"] in OCCUPYING
    )
    _require(max(held.values(), default=0) <= 1, f"a slot is held twice: {held}")


OF_THE_LOG = (
    numbers_have_no_gap,
    streams_stay_in_their_scope,
    time_never_falls,
    chain_holds,
    epochs_count_up,
    policy_limits_hold,
    one_claim_holds_a_slot,
    deadlines_are_kept,
    ended_stays_ended,
    consent_comes_first,
    owners_act_for_themselves,
    executions_end_once,
    submissions_stand,
    budget_is_kept,
)


def check(image: Image) -> None:
    """Hold one moment against every rule."""
    for rule in OF_THE_LOG:
        rule(image.rows)
    tables_tell_the_log(image)
    one_row_holds_a_slot(image)


# From one moment to the next.


def check_step(before: Image, after: Image) -> None:
    """The log only grows, and no claim's row takes back what it said."""
    _require(after.rows[: len(before.rows)] == before.rows, "the log's past has changed")
    now = {(row["stream"], row["slot"], row["epoch"]): row for row in after.claims}
    for was in before.claims:
        claim = (was["stream"], was["slot"], was["epoch"])
        _require(claim in now, f"{claim} is gone")
        fixed = [*CLAIM_COLUMNS[:11], "created_at", "ack_by", "hard_until"]
        fixed += [
            name
            for name in ("acknowledged_at", "operation_id", "submission_digest")
            if was[name] is not None
        ]
        if was["state"] != "active":
            fixed += ["state", "lease_until", "progress_by", "submission_digest"]
        if was["occupancy"] == "terminal":
            fixed += ["occupancy", "execution_reference"]
        changed = [name for name in fixed if was[name] != now[claim][name]]
        _require(not changed, f"{claim}: {changed} may not change any more")


def check_refusal(before: Image, after: Image, stream: str) -> None:
    """A refused command leaves nothing but the due expiries of its own task."""
    left = [(row.stream, kind_of(row)) for row in after.rows[len(before.rows) :]]
    others = [each for each in left if each != (stream, "claim.expired")]
    _require(not others, f"a refused command left {others[:5]}")
    if not left:
        _require(after == before, "a refused command changed the tables")


def check_nothing_written(before: Image, after: Image) -> None:
    """A reader leaves the file as it was."""
    _require(after == before, "a reader wrote")


def _tell(claim: dict[str, Any], fact: Fact) -> None:
    """Note what one event says about a claim's row."""
    body = fact.body
    match fact.kind:
        case "claim.granted":
            actor, work = body["by"]["actor"], body["binding"]
            names = ("slot", "epoch", "request_id", "request_digest", "ack_by", "lease_until")
            claim.update({name: body[name] for name in (*names, "progress_by", "hard_until")})
            claim.update(actor, **work, state="active", created_at=fact.at, occupancy="none")
            unset = ("acknowledged_at", "operation_id", "execution_reference", "submission_digest")
            claim.update(dict.fromkeys(unset))
        case "claim.acknowledged":
            claim["acknowledged_at"] = fact.at
        case "claim.renewed":
            claim["lease_until"] = body["lease_until"]
        case "claim.progressed":
            claim["progress_by"] = body["progress_by"]
        case "claim.released" | "claim.expired":
            claim["state"] = fact.kind.removeprefix("claim.")
        case "execution.reserved":
            claim.update(occupancy="unknown", operation_id=body["operation_id"])
        case "execution.reconciled":
            evidence = body["evidence_reference"]
            claim.update(occupancy=body["status"], execution_reference=evidence)
        case "submission.recorded":
            claim["submission_digest"] = body["artifact_digest"]


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - an assertion's condition
    if not holds:
        raise Broken(otherwise)
