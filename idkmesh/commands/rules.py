"""The rules that several commands share, each in one place.

A decision is a command's method ``decide(by, now, state)``: it returns the one event that
the command adds, or None where nothing changes, or it raises the refusal. It reads no
clock and writes nothing.
"""

from typing import NoReturn, Protocol

from msgspec import Struct

from idkmesh.errors import ClaimError, ErrorCode
from idkmesh.events.types import Authority, TaskEvent
from idkmesh.projections.task import Claim, TaskState
from idkmesh.records import OwnerIdentity


class Command(Protocol):
    """What the transaction loop asks of every command."""

    def decide(self, by: tuple[Authority, ...], now: int, state: TaskState) -> TaskEvent | None:
        """Return the event to add, or None where nothing changes.

        Args:
            by: The decisions that allow the command, in the order they were asked for.
            now: Epoch seconds.
            state: The task, its due expiries applied; not changed here.

        Raises:
            ClaimError: The command's own rules refuse it.
        """


class OwnerRequest(Struct, frozen=True):
    """What every command on a claim names: the request, the fencing epoch, the owner."""

    request_id: str
    epoch: object
    owner: OwnerIdentity


def named(state: TaskState, request_id: str, epoch: object) -> Claim:
    """Return the claim of a request, where the epoch is the claim's.

    Raises:
        ClaimError: ``claim_not_found``, ``stale_claim``.
    """
    claim = state.claims.get(request_id)
    if claim is None:
        refuse(ErrorCode.CLAIM_NOT_FOUND, "a request_id that was granted")
    if type(epoch) is not int or epoch != claim.epoch:
        refuse(ErrorCode.STALE_CLAIM, "the epoch that was granted")
    return claim


def owned(state: TaskState, request: OwnerRequest) -> Claim:
    """Return the named claim, where the owner is the claim's.

    Raises:
        ClaimError: As ``named``, then ``claim_owner_denied``.
    """
    claim = named(state, request.request_id, request.epoch)
    if not claim.owned_by(request.owner):
        refuse(ErrorCode.CLAIM_OWNER_DENIED, "the claim's owner")
    return claim


def active(state: TaskState, claim: Claim) -> Claim:
    """Return the claim, where it is active and its slot has not moved on.

    Raises:
        ClaimError: ``stale_claim``.
    """
    if claim.state != "active" or claim.epoch != state.epochs[claim.slot]:
        refuse(ErrorCode.STALE_CLAIM, "an active claim")
    return claim


def acknowledged(claim: Claim) -> Claim:
    """Return the claim, where its owner has consented.

    Raises:
        ClaimError: ``acknowledgement_required``.
    """
    if claim.acknowledged_at is None:
        refuse(ErrorCode.ACKNOWLEDGEMENT_REQUIRED, "an acknowledged claim")
    return claim


def require_room(state: TaskState) -> None:
    """Do nothing while the stream has more left than the events kept for endings.

    Raises:
        ClaimError: ``event_budget_exhausted``.
    """
    if state.only_endings_left:
        refuse(ErrorCode.EVENT_BUDGET_EXHAUSTED, "room in the event budget (max_events)")


def refuse(code: ErrorCode, expected: str) -> NoReturn:
    """Raise a refusal in the form that all share."""
    raise ClaimError(code, f"expected {expected}, but {code.meaning}")
