"""Reserving a dispatch: an execution may now exist, so the slot is held until evidence ends it."""

from typing import ClassVar

from idkmesh.commands.rules import OwnerRequest, acknowledged, active, owned
from idkmesh.digests import canonical_digest
from idkmesh.events.types import Authority, ExecutionReserved
from idkmesh.projections.task import Claim, TaskState
from idkmesh.scalars import Action


class Reserve(OwnerRequest, frozen=True):
    """Retain the intent to start an execution (claims contract, Order of checks)."""

    needs: ClassVar[tuple[Action, ...]] = ("dispatch", "execute")

    def decide(
        self, by: tuple[Authority, ...], now: int, state: TaskState
    ) -> ExecutionReserved | None:
        """A retained intent is answered even after expiry, and never made twice.

        Raises:
            ClaimError: ``claim_not_found``, ``stale_claim``, ``claim_owner_denied``,
                ``acknowledgement_required``.
        """
        del now
        claim = owned(state, self)
        if claim.occupancy != "none":
            return None
        acknowledged(active(state, claim))
        return ExecutionReserved(
            by=by[0],
            owner_by=by[1],
            slot=claim.slot,
            epoch=claim.epoch,
            operation_id=operation_id(state.stream, claim),
        )


def operation_id(stream: str, claim: Claim) -> str:
    """Return the identity of a claim's one execution (claims contract, Order of checks)."""
    return canonical_digest(
        {
            "task": stream,
            "slot": claim.slot,
            "epoch": claim.epoch,
            "binding": claim.binding().to_dict(),
        }
    )
