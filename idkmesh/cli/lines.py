"""The log's events in words: one line each, the same in ``log`` and in ``history``."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from idkmesh.cli.screen import SHOWN, Parts, count, moment, safe
from idkmesh.cli.words import OVER, PLAIN, REFUSED, UNSURE, WON
from idkmesh.errors import StoreError
from idkmesh.events import types as facts
from idkmesh.events.port import Row
from idkmesh.events.types import Event
from idkmesh.replay import Change, Logged

_BODY_SHOWN: Final = 200
_DIGEST_SHOWN: Final = 22
_TYPE_WIDTH: Final = 26
_TIMES: Final = frozenset(
    ["ack_by", "lease_until", "progress_by", "hard_until", "created_at", "acknowledged_at"]
)


def line(logged: Logged) -> Parts:
    """Return an event's line: its sequence, time, type and stream, and what it says."""
    style, tell = _TOLD[type(logged.event)]
    told = tell(logged.event)
    return [
        *_place(logged.sequence, logged.at),
        (f"{logged.type:{_TYPE_WIDTH}}", style),
        (safe(logged.stream), "bold"),
        (f"  {told}" if told else "", PLAIN),
    ]


def unreadable(row: Row, error: StoreError) -> Parts:
    """Return the line of a row whose event does not read."""
    return [
        *_place(row.sequence, row.at),
        (f"{safe(row.type, SHOWN):{_TYPE_WIDTH}}", REFUSED),
        (safe(row.stream, SHOWN), "bold"),
        (f"  {safe(error)}: ", REFUSED),
        (safe(row.body, _BODY_SHOWN), PLAIN),
    ]


def unreadable_object(row: Row, error: StoreError) -> dict[str, Any]:
    """Return the JSON object of a row whose event does not read, its body as text."""
    chain = row.chain.hex() if isinstance(row.chain, bytes) else row.chain
    fault = {"code": error.code, "message": error.message}
    return {**row._asdict(), "chain": chain, "error": fault}


def changes(change: Change) -> Iterator[Parts]:
    """Yield a line for each field that an event changed: before, and behind it."""
    for name, (before, behind) in change.changes.items():
        field = name.rpartition(".")[2]
        was = "" if before is None else f"{_value(field, before)} -> "
        yield [(f"{'':8}{safe(name)}: ", OVER), (f"{was}{_value(field, behind)}", PLAIN)]


def change_object(change: Change) -> dict[str, Any]:
    """Return the JSON object of an event with what it changed."""
    changed = {name: list(msgspec.to_builtins(pair)) for name, pair in change.changes.items()}
    return {**change.logged.to_dict(), "changes": changed}


def _place(sequence: object, at: object) -> Parts:
    return [(f"{safe(sequence):>8}  ", OVER), (f"{moment(at)}  ", OVER)]


def _value(field: str, value: object) -> str:
    if value is None:
        return "none"
    return moment(value) if field in _TIMES else safe(value)


def _who(by: facts.Authority) -> str:
    return f"by {safe(by.actor.principal_id, SHOWN)}"


def _claim(event: Any) -> str:  # noqa: ANN401  (every event of a claim has both)
    return f"slot {event.slot} epoch {event.epoch}"


def _configured(event: facts.TaskConfigured) -> str:
    policy = event.policy
    slots = count(policy.concurrent_slots, "slot")
    return f"{slots}, {count(policy.max_attempts, 'attempt')} {_who(event.by)}"


def _granted(event: facts.ClaimGranted) -> str:
    owner = safe(event.by.actor.principal_id, SHOWN)
    return f"{_claim(event)} to {owner}, request {safe(event.request_id, SHOWN)}"


def _by_somebody(event: facts.ClaimAcknowledged | facts.ClaimReleased) -> str:
    return f"{_claim(event)} {_who(event.by)}"


def _renewed(event: facts.ClaimRenewed) -> str:
    return f"{_claim(event)} until {moment(event.lease_until)} {_who(event.by)}"


def _progressed(event: facts.ClaimProgressed) -> str:
    return f"{_claim(event)} next by {moment(event.progress_by)} {_who(event.by)}"


def _expired(event: facts.ClaimExpired) -> str:
    return f"{_claim(event)} at {event.deadline} {moment(event.due_at)}"


def _reserved(event: facts.ExecutionReserved) -> str:
    owner = safe(event.owner_by.actor.principal_id, SHOWN)
    return f"{_claim(event)} for {owner} {_who(event.by)}"


def _reconciled(event: facts.ExecutionReconciled) -> str:
    evidence = safe(event.evidence_reference, SHOWN)
    return f"{_claim(event)} is {event.status}, evidence {evidence} {_who(event.by)}"


def _submitted(event: facts.SubmissionRecorded) -> str:
    return f"{_claim(event)} {event.artifact_digest[:_DIGEST_SHOWN]}... {_who(event.by)}"


def _repaired(event: facts.ClockRepaired) -> str:
    return f"back from {moment(event.old_watermark)}, evidence {safe(event.evidence, SHOWN)}"


def _observed(event: facts.PrerequisiteObserved) -> str:
    unit = safe(event.binding.work_unit_id, SHOWN)
    seen = safe(event.event_id, SHOWN)
    return f"{unit} is {event.state}, sequence {event.sequence}, event {seen}"


_TOLD: Final[dict[type[Event], tuple[str, Callable[[Any], str]]]] = {
    facts.TaskConfigured: (PLAIN, _configured),
    facts.ClaimGranted: (WON, _granted),
    facts.ClaimAcknowledged: (WON, _by_somebody),
    facts.ClaimRenewed: (PLAIN, _renewed),
    facts.ClaimProgressed: (PLAIN, _progressed),
    facts.ClaimReleased: (OVER, _by_somebody),
    facts.ClaimExpired: (REFUSED, _expired),
    facts.ExecutionReserved: (UNSURE, _reserved),
    facts.ExecutionReconciled: (UNSURE, _reconciled),
    facts.SubmissionRecorded: (WON, _submitted),
    facts.PrerequisiteObserved: (PLAIN, _observed),
    facts.ClockObserved: (OVER, lambda _: ""),
    facts.ClockRepaired: (UNSURE, _repaired),
}
