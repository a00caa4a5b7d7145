"""Observing: what an adapter saw is retained once, whatever order it arrives in."""

from msgspec import Struct

from idkmesh.commands.rules import refuse
from idkmesh.errors import ErrorCode
from idkmesh.events.types import PrerequisiteObserved
from idkmesh.prerequisites import PrerequisiteObservation
from idkmesh.projections.observations import Observations


class Observe(Struct, frozen=True):
    """Retain an observation (admission contract, Observations)."""

    observation: PrerequisiteObservation

    def decide(self, max_observations: int, state: Observations) -> PrerequisiteObserved | None:
        """An exact redelivery changes nothing.

        Args:
            max_observations: How many observations the scope may hold.
            state: What is known of the observation's namesakes and its unit.

        Raises:
            ClaimError: ``event_conflict``, ``sequence_conflict``, ``event_budget_exhausted``.
        """
        new = self.observation
        known = state.by_event.get(new.event_id)
        if known is not None:
            if known.observation(new.scope) != new:
                refuse(ErrorCode.EVENT_CONFLICT, "the content that event_id was observed with")
            return None
        if (new.binding.work_unit_id, new.sequence) in state.by_place:
            refuse(ErrorCode.SEQUENCE_CONFLICT, "a sequence that is the unit's own")
        if state.version >= max_observations:
            refuse(
                ErrorCode.EVENT_BUDGET_EXHAUSTED,
                "room in the scope's observation budget (max_observations)",
            )
        return PrerequisiteObserved(
            event_id=new.event_id,
            sequence=new.sequence,
            binding=new.binding,
            state=new.state,
            inputs_digest=new.inputs_digest,
            integrated_revision=new.integrated_revision,
            artifacts_digest=new.artifacts_digest,
            verification_reference=new.verification_reference,
            integration_reference=new.integration_reference,
        )
