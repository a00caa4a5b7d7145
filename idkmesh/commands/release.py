"""Releasing: the owner withdraws; an execution keeps the slot until it is reconciled."""

from typing import ClassVar

from idkmesh.commands.rules import OwnerRequest, active, owned
from idkmesh.events.types import Authority, ClaimReleased
from idkmesh.projections.task import TaskState
from idkmesh.scalars import Action


class Release(OwnerRequest, frozen=True):
    """Withdraw from a claim (claims contract, Order of checks)."""

    needs: ClassVar[tuple[Action, ...]] = ("release",)

    def decide(self, by: tuple[Authority, ...], now: int, state: TaskState) -> ClaimReleased:
        """End ownership; a second release is stale.

        Raises:
            ClaimError: ``claim_not_found``, ``stale_claim``, ``claim_owner_denied``.
        """
        del now
        claim = active(state, owned(state, self))
        return ClaimReleased(by=by[0], slot=claim.slot, epoch=claim.epoch)
