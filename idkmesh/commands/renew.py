"""Renewing: the owner is alive, so the lease runs on."""

from typing import ClassVar

from idkmesh.commands.rules import OwnerRequest, acknowledged, active, owned, require_room
from idkmesh.events.types import Authority, ClaimRenewed
from idkmesh.projections.deadlines import window_end
from idkmesh.projections.task import TaskState
from idkmesh.scalars import Action


class Renew(OwnerRequest, frozen=True):
    """Extend the lease (claims contract, Time)."""

    needs: ClassVar[tuple[Action, ...]] = ("claim",)

    def decide(self, by: tuple[Authority, ...], now: int, state: TaskState) -> ClaimRenewed | None:
        """A renewal that moves nothing adds nothing.

        Raises:
            ClaimError: ``claim_not_found``, ``stale_claim``, ``claim_owner_denied``,
                ``acknowledgement_required``, ``event_budget_exhausted``.
        """
        claim = acknowledged(active(state, owned(state, self)))
        lease_until = window_end(claim.hard_until, now, state.terms.lease_seconds)
        if lease_until == claim.lease_until:
            return None
        require_room(state)
        return ClaimRenewed(by=by[0], slot=claim.slot, epoch=claim.epoch, lease_until=lease_until)
