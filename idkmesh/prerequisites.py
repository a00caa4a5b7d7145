"""What is known about a prerequisite: the unit it is bound to, and an observation of it."""

from typing import Annotated, Final, Literal, get_args

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from idkmesh import scalars
from idkmesh.errors import ClaimError, ErrorCode
from idkmesh.identity import TenantScope
from idkmesh.scalars import MAX_INT, Digest, FreeText, SourceRevision

WorkUnitVersion = Annotated[int, Meta(ge=1, le=MAX_INT)]
ObservationSequence = Annotated[int, Meta(ge=1, le=MAX_INT)]
ObservationState = Literal["pending", "candidate", "integrated", "rejected"]

STATES: Final[tuple[ObservationState, ...]] = get_args(ObservationState)
INTEGRATED: Final = "integrated"
EVIDENCE_FIELDS: Final = (
    "integrated_revision",
    "artifacts_digest",
    "verification_reference",
    "integration_reference",
)


class WorkUnitSourceBinding(Struct, frozen=True, forbid_unknown_fields=True):
    """Which content of a WorkUnit is meant, at which state of the source.

    Source of the rule: admission contract, WorkUnits and the graph.

    Args:
        work_unit_id: The unit's id: non-blank text, at most 512 characters.
        work_unit_version: The unit's version, from 1.
        work_unit_digest: ``sha256:`` and 64 lowercase hex digits, over the unit's canonical
            JSON.
        source_revision: 40 or 64 hex digits; kept in lower case, so that case never moves a
            digest.

    Raises:
        InvalidInput: A part is outside what it may hold (``invalid_input``).
    """

    work_unit_id: FreeText
    work_unit_version: WorkUnitVersion
    work_unit_digest: Digest
    source_revision: SourceRevision

    def __post_init__(self) -> None:
        unit = scalars.free_text(self.work_unit_id, "work_unit_id")
        force_setattr(self, "work_unit_id", unit)
        scalars.whole(self.work_unit_version, "work_unit_version", 1, MAX_INT)
        digest = scalars.digest(self.work_unit_digest, "work_unit_digest")
        force_setattr(self, "work_unit_digest", digest)
        force_setattr(self, "source_revision", revision(self.source_revision, "source_revision"))

    def to_dict(self) -> dict[str, str | int]:
        """Return the binding's JSON record."""
        return {
            "work_unit_id": self.work_unit_id,
            "work_unit_version": self.work_unit_version,
            "work_unit_digest": self.work_unit_digest,
            "source_revision": self.source_revision,
        }


class PrerequisiteObservation(Struct, frozen=True, forbid_unknown_fields=True):
    """What a trusted adapter saw of one unit (admission contract, Observations).

    Args:
        scope: The tenant's project that the unit belongs to.
        event_id: The identity of the adapter's event: non-blank text, at most 512 characters.
        sequence: The event's place among the unit's events, 1 to 2**62 - 1; the highest is
            the latest. Like every count of the ledger it starts at 1.
        binding: The ``WorkUnitSourceBinding`` that the adapter looked at.
        state: pending, candidate, integrated or rejected.
        inputs_digest: The digest of the inputs that the work was done on.
        integrated_revision: The revision that holds the result, 40 or 64 hex digits, kept in
            lower case; or None.
        artifacts_digest: The digest of the result's artifacts, or None.
        verification_reference: Where the verification is written down: non-blank text, at
            most 512 characters; or None.
        integration_reference: The same for the integration.

    Raises:
        InvalidInput: A field is outside what it may hold (``invalid_input``).
        ClaimError: The state is integrated and one of the last four is None
            (``integration_evidence_required``); looked at after all of the fields.
        TypeError: ``scope`` is no ``TenantScope`` or ``binding`` no ``WorkUnitSourceBinding``.
    """

    scope: TenantScope
    event_id: FreeText
    sequence: ObservationSequence
    binding: WorkUnitSourceBinding
    state: ObservationState
    inputs_digest: Digest
    integrated_revision: SourceRevision | None = None
    artifacts_digest: Digest | None = None
    verification_reference: FreeText | None = None
    integration_reference: FreeText | None = None

    def __post_init__(self) -> None:
        scalars.instance(self.scope, TenantScope, "scope")
        scalars.instance(self.binding, WorkUnitSourceBinding, "binding")
        force_setattr(self, "event_id", scalars.free_text(self.event_id, "event_id"))
        scalars.whole(self.sequence, "sequence", 1, MAX_INT)
        force_setattr(self, "state", scalars.choice(self.state, "state", STATES))
        force_setattr(self, "inputs_digest", scalars.digest(self.inputs_digest, "inputs_digest"))
        rules = (revision, scalars.digest, scalars.free_text, scalars.free_text)
        for field, rule in zip(EVIDENCE_FIELDS, rules, strict=True):
            value = getattr(self, field)
            if value is not None:
                force_setattr(self, field, rule(value, field))
        if self.state == INTEGRATED:
            self._require_evidence()

    def _require_evidence(self) -> None:
        for field in EVIDENCE_FIELDS:
            if getattr(self, field) is None:
                message = f"expected an integrated observation to have {field}, but it has none"
                raise ClaimError(ErrorCode.INTEGRATION_EVIDENCE_REQUIRED, message)

    def to_dict(self) -> dict[str, object]:
        """Return the observation's JSON record; evidence that is not there is null."""
        return {
            "scope": self.scope.to_dict(),
            "event_id": self.event_id,
            "sequence": self.sequence,
            "binding": self.binding.to_dict(),
            "state": self.state,
            "inputs_digest": self.inputs_digest,
            "integrated_revision": self.integrated_revision,
            "artifacts_digest": self.artifacts_digest,
            "verification_reference": self.verification_reference,
            "integration_reference": self.integration_reference,
        }

    def __repr__(self) -> str:
        # Free text could hold what an adapter should not have put there, so none is shown.
        return (
            f"PrerequisiteObservation({self.scope.key} {self.binding.work_unit_id!r}"
            f" sequence={self.sequence} {self.state})"
        )


def revision(value: object, field: str) -> str:
    """Return ``value`` in lower case where it is a source revision in either case.

    Raises:
        InvalidInput: It is not 40 or 64 hex digits (``invalid_input``).
    """
    return scalars.source_revision(scalars.plain(value, field).lower(), field)
