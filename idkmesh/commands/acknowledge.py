"""Acknowledging: the owner consents, once."""

from typing import ClassVar

from idkmesh.commands.rules import OwnerRequest, active, owned
from idkmesh.events.types import Authority, ClaimAcknowledged
from idkmesh.projections.task import TaskState
from idkmesh.scalars import Action


class Acknowledge(OwnerRequest, frozen=True):
    """Consent to a grant (claims contract, Order of checks)."""

    needs: ClassVar[tuple[Action, ...]] = ("claim",)

    def decide(
        self, by: tuple[Authority, ...], now: int, state: TaskState
    ) -> ClaimAcknowledged | None:
        """A second acknowledgement keeps the first time.

        Raises:
            ClaimError: ``claim_not_found``, ``stale_claim``, ``claim_owner_denied``.
        """
        del now
        claim = active(state, owned(state, self))
        if claim.acknowledged_at is not None:
            return None
        return ClaimAcknowledged(by=by[0], slot=claim.slot, epoch=claim.epoch)
