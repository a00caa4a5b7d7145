"""Submitting: the owner's candidate is bound to the claim, behind the fence."""

from typing import ClassVar

from idkmesh.commands.rules import OwnerRequest, acknowledged, active, owned, refuse
from idkmesh.errors import ErrorCode
from idkmesh.events.types import Authority, SubmissionRecorded
from idkmesh.projections.task import TaskState
from idkmesh.scalars import Action


class Submit(OwnerRequest, frozen=True):
    """Record a candidate's digest (claims contract, Order of checks)."""

    needs: ClassVar[tuple[Action, ...]] = ("execute",)

    artifact_digest: str

    def decide(
        self, by: tuple[Authority, ...], now: int, state: TaskState
    ) -> SubmissionRecorded | None:
        """The same digest again changes nothing; another one is refused.

        Raises:
            ClaimError: ``claim_not_found``, ``stale_claim``, ``claim_owner_denied``,
                ``acknowledgement_required``, ``submission_conflict``.
        """
        del now
        claim = acknowledged(active(state, owned(state, self)))
        if claim.submission_digest is None:
            return SubmissionRecorded(
                by=by[0],
                slot=claim.slot,
                epoch=claim.epoch,
                artifact_digest=self.artifact_digest,
            )
        if claim.submission_digest != self.artifact_digest:
            refuse(ErrorCode.SUBMISSION_CONFLICT, "the digest that was submitted")
        return None
