"""The fold of a scope's observations: every one that was retained, and each unit's latest."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from idkmesh.errors import ClaimError, ErrorCode, StoreError
from idkmesh.events.types import PrerequisiteObserved
from idkmesh.identity import TenantScope
from idkmesh.prerequisites import (
    EVIDENCE_FIELDS,
    INTEGRATED,
    ObservationState,
    PrerequisiteObservation,
    WorkUnitSourceBinding,
)


class Observed(Struct, array_like=True):
    """One observation as the fold knows it; the fields are the table's columns in order."""

    work_unit_id: str
    sequence: int
    event_id: str
    work_unit_version: int
    work_unit_digest: str
    source_revision: str
    state: ObservationState
    inputs_digest: str
    integrated_revision: str | None
    artifacts_digest: str | None
    verification_reference: str | None
    integration_reference: str | None

    def is_of(self, binding: WorkUnitSourceBinding) -> bool:
        """Say whether the observation was made of exactly this binding."""
        return (
            self.work_unit_id == binding.work_unit_id
            and self.work_unit_version == binding.work_unit_version
            and self.work_unit_digest == binding.work_unit_digest
            and self.source_revision == binding.source_revision
        )

    def observation(self, scope: TenantScope) -> PrerequisiteObservation:
        """Return the observation as it was handed in.

        Raises:
            StoreError: The row holds what no observation may (``store_corrupt``).
        """
        try:
            return PrerequisiteObservation(
                scope=scope,
                event_id=self.event_id,
                sequence=self.sequence,
                binding=WorkUnitSourceBinding(
                    self.work_unit_id,
                    self.work_unit_version,
                    self.work_unit_digest,
                    self.source_revision,
                ),
                state=self.state,
                inputs_digest=self.inputs_digest,
                integrated_revision=self.integrated_revision,
                artifacts_digest=self.artifacts_digest,
                verification_reference=self.verification_reference,
                integration_reference=self.integration_reference,
            )
        except ClaimError as error:
            raise StoreError(ErrorCode.STORE_CORRUPT, error.message) from error


class Observations:
    """What is known of a scope's observations: all of them, or what one command looks at.

    Attributes:
        stream: The name of the scope's stream of observations.
        version: How many events the stream holds.
        by_event: Observations by their event id.
        by_place: Observations by their unit and sequence.
        latest: Each unit's observation of the highest sequence.
        added: Observations whose rows must be written.
    """

    __slots__ = ("added", "by_event", "by_place", "latest", "stream", "version")

    def __init__(self, stream: str, version: int = 0) -> None:
        self.stream = stream
        self.version = version
        self.by_event: dict[str, Observed] = {}
        self.by_place: dict[tuple[str, int], Observed] = {}
        self.latest: dict[str, Observed] = {}
        self.added: list[Observed] = []

    def know(self, observed: Observed) -> None:
        """Enter one observation under everything that it is looked up by."""
        self.by_event[observed.event_id] = observed
        self.by_place[observed.work_unit_id, observed.sequence] = observed
        latest = self.latest.get(observed.work_unit_id)
        if latest is None or latest.sequence < observed.sequence:
            self.latest[observed.work_unit_id] = observed


def evolve(state: Observations, event: PrerequisiteObserved) -> None:
    """Apply one observation.

    Args:
        state: The observations before; it is changed in place.
        event: The fact.

    Raises:
        StoreError: No command could have emitted the event in this state (``store_corrupt``).
    """
    for field in EVIDENCE_FIELDS:
        if event.state == INTEGRATED and getattr(event, field) is None:
            message = f"expected an integrated observation to have {field}, but it has none"
            raise StoreError(ErrorCode.STORE_CORRUPT, message)
    place = (event.binding.work_unit_id, event.sequence)
    if event.event_id in state.by_event or place in state.by_place:
        message = "expected an observation with an event id and place of its own, but one is taken"
        raise StoreError(ErrorCode.STORE_CORRUPT, message)
    observed = Observed(
        work_unit_id=event.binding.work_unit_id,
        sequence=event.sequence,
        event_id=event.event_id,
        work_unit_version=event.binding.work_unit_version,
        work_unit_digest=event.binding.work_unit_digest,
        source_revision=event.binding.source_revision,
        state=event.state,
        inputs_digest=event.inputs_digest,
        integrated_revision=event.integrated_revision,
        artifacts_digest=event.artifacts_digest,
        verification_reference=event.verification_reference,
        integration_reference=event.integration_reference,
    )
    state.know(observed)
    state.added.append(observed)
    state.version += 1


APPLIERS: Final[dict[type[PrerequisiteObserved], Callable[..., None]]] = {
    PrerequisiteObserved: evolve
}
