"""What a verification knows beyond the fold: who could have emitted an event, and what must hold.

The fold refuses what it cannot apply. Here stands what a command's decision guarantees on
top of that, and the invariants that must hold behind every event.
"""

from typing import Final

from idkmesh.commands.claim import request_digest
from idkmesh.commands.reserve import operation_id
from idkmesh.events import types as facts
from idkmesh.events.types import Event, TaskEvent
from idkmesh.identity import task_from_key
from idkmesh.projections.task import Claim, TaskState

_ACTIONS: Final[dict[type[Event], str]] = {
    facts.TaskConfigured: "dispatch",
    facts.ClaimGranted: "claim",
    facts.ClaimAcknowledged: "claim",
    facts.ClaimRenewed: "claim",
    facts.ClaimProgressed: "claim",
    facts.ClaimReleased: "release",
    facts.ExecutionReserved: "dispatch",
    facts.ExecutionReconciled: "dispatch",
    facts.SubmissionRecorded: "execute",
}


def impossible(  # noqa: PLR0911  (one return a reason)
    state: TaskState, event: TaskEvent, at: int
) -> str | None:
    """Return why no command could have emitted an event beyond what the fold refuses.

    Args:
        state: The task before the event.
        event: The event.
        at: The row's time, in epoch seconds.
    """
    if isinstance(event, facts.ClaimExpired):
        return None
    if event.by.action != _ACTIONS[type(event)]:
        return "the decision that allowed it was about another action"
    for claim in state.claims.values():
        if claim.due(at) is not None:
            return "a claim of the task was past a deadline, and that was not recorded first"
    if isinstance(event, facts.ClaimGranted):
        task = task_from_key(state.stream)
        made = request_digest(task, event.by.actor, event.binding, state.terms)
        if made != event.request_digest:
            return "request_digest is not the digest of the request"
    elif isinstance(event, facts.ExecutionReserved):
        if event.owner_by.action != "execute":
            return "the decision that allowed it was about another action"
        if operation_id(state.stream, state.at(event.slot, event.epoch)) != event.operation_id:
            return "operation_id is not the identity of the execution"
    return None


def broken_invariant(  # noqa: PLR0911  (one return an invariant)
    state: TaskState, claim: Claim
) -> str | None:
    """Return the invariant that a claim breaks in its task, or None.

    Args:
        state: The task behind an event.
        claim: A claim that the event changed.
    """
    terms = state.terms
    end = claim.hard_until
    if claim.lease_until > end or claim.progress_by > end or claim.ack_by > end:
        return "a deadline lies beyond hard_until"
    if end != claim.created_at + terms.hard_seconds:
        return "hard_until has moved"
    if state.version > terms.max_events:
        return "the stream holds more than max_events"
    if len(state.claims) > terms.max_attempts:
        return "more claims were admitted than max_attempts"
    epochs = 0
    holders = 0
    for each in state.claims.values():
        if each.slot == claim.slot:
            epochs += 1
            holders += each.holds_slot()
            if each.epoch != epochs:
                return "the slot's epochs are not 1, 2, 3 and so on"
    if epochs != state.epochs[claim.slot]:
        return "the slot's epochs are not 1, 2, 3 and so on"
    if holders > 1:
        return "more than one claim holds the slot"
    return None
