"""The gate's fence: a claim's execution and candidate count only on the inputs it was made for."""

from msgspec import Struct

from idkmesh.commands.reserve import Reserve
from idkmesh.commands.rules import refuse
from idkmesh.commands.submit import Submit
from idkmesh.errors import ErrorCode
from idkmesh.events.types import Authority, TaskEvent
from idkmesh.projections.readiness import Inputs
from idkmesh.projections.task import TaskState


class OnSameInputs(Struct, frozen=True):
    """Reserve or submit while the inputs stand (admission contract, The three phases)."""

    inputs: Inputs
    command: Reserve | Submit

    def decide(self, by: tuple[Authority, ...], now: int, state: TaskState) -> TaskEvent | None:
        """The claim must be the unit's and its inputs today's; then the command decides.

        Raises:
            ClaimError: ``claim_not_found``, ``binding_mismatch``, ``inputs_changed``, then as
                the command.
        """
        binding, readiness, _ = self.inputs
        claim = state.claims.get(self.command.request_id)
        if claim is None:
            refuse(ErrorCode.CLAIM_NOT_FOUND, "a request_id that was granted")
        if (claim.work_unit_digest, claim.source_revision) != (
            binding.work_unit_digest,
            binding.source_revision,
        ):
            refuse(ErrorCode.BINDING_MISMATCH, "a claim on this unit and revision")
        if claim.inputs_digest != readiness.inputs_digest:
            refuse(ErrorCode.INPUTS_CHANGED, "the inputs that the claim was admitted on")
        return self.command.decide(by, now, state)
