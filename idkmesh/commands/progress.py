"""Reporting progress: the owner gets on, so the progress window runs on."""

from typing import ClassVar

from idkmesh.commands.rules import OwnerRequest, acknowledged, active, owned, require_room
from idkmesh.events.types import Authority, ClaimProgressed
from idkmesh.projections.deadlines import window_end
from idkmesh.projections.task import TaskState
from idkmesh.scalars import Action


class Progress(OwnerRequest, frozen=True):
    """Extend the progress window (claims contract, Time)."""

    needs: ClassVar[tuple[Action, ...]] = ("claim",)

    def decide(
        self, by: tuple[Authority, ...], now: int, state: TaskState
    ) -> ClaimProgressed | None:
        """A report that moves nothing adds nothing.

        Raises:
            ClaimError: ``claim_not_found``, ``stale_claim``, ``claim_owner_denied``,
                ``acknowledgement_required``, ``event_budget_exhausted``.
        """
        claim = acknowledged(active(state, owned(state, self)))
        progress_by = window_end(claim.hard_until, now, state.terms.progress_seconds)
        if progress_by == claim.progress_by:
            return None
        require_room(state)
        return ClaimProgressed(
            by=by[0], slot=claim.slot, epoch=claim.epoch, progress_by=progress_by
        )
