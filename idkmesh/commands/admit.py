"""Admitting: a claim on exactly the inputs that made its unit ready."""

from typing import ClassVar, Final

from msgspec import Struct

from idkmesh.commands.claim import ClaimTask
from idkmesh.commands.rules import refuse
from idkmesh.errors import ClaimError, ErrorCode
from idkmesh.events.types import Authority, ClaimGranted
from idkmesh.identity import ScopedResourceRef
from idkmesh.naming import shown
from idkmesh.policy import ClaimBinding
from idkmesh.projections.readiness import Inputs
from idkmesh.projections.task import TaskState
from idkmesh.records import OwnerIdentity
from idkmesh.scalars import Action

_NAMED: Final = 8  # in the message; the error carries all


class Admit(Struct, frozen=True):
    """Claim a unit's task where the unit is ready (admission contract, The three phases)."""

    needs: ClassVar[tuple[Action, ...]] = ClaimTask.needs

    task: ScopedResourceRef
    request_id: str
    owner: OwnerIdentity
    inputs: Inputs

    def decide(self, by: tuple[Authority, ...], now: int, state: TaskState) -> ClaimGranted | None:
        """Readiness decides first, then everything of a claim.

        Raises:
            ClaimError: ``task_already_integrated``, ``task_not_ready`` (with its blockers),
                then as ``ClaimTask``.
        """
        binding, readiness, _ = self.inputs
        if readiness.satisfied:
            refuse(ErrorCode.TASK_ALREADY_INTEGRATED, "a unit that is yet to be integrated")
        if readiness.inputs_digest is None:
            named = [_shown(each) for each in readiness.blockers[:_NAMED]]
            more = len(readiness.blockers) - len(named)
            blockers = ", ".join([*named, f"{more} more"] if more else named)
            message = f"expected a ready unit, but it is blocked by {blockers}"
            raise ClaimError(ErrorCode.TASK_NOT_READY, message, readiness.blockers)
        claimed = ClaimBinding(
            binding.work_unit_digest, binding.source_revision, readiness.inputs_digest
        )
        return ClaimTask(self.task, self.request_id, self.owner, claimed).decide(by, now, state)


def _shown(blocker: str) -> str:
    """Return a blocker as a message may show it."""
    reason, _, unit = blocker.partition(":")
    return f"{reason}:{shown(unit)}"
