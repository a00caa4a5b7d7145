"""What a coordinator fixes about a task and its claims: the limits, and what is worked on."""

from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from idkmesh import scalars
from idkmesh.errors import InvalidInput
from idkmesh.scalars import (
    MAX_ATTEMPTS,
    MAX_SLOTS,
    MAX_WINDOW_SECONDS,
    Attempts,
    DataClass,
    Digest,
    EventBudget,
    FreeText,
    Risk,
    Slots,
    SourceRevision,
    Window,
)

RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high", "critical")
DATA_CLASSES: Final[tuple[DataClass, ...]] = (
    "public",
    "internal",
    "confidential",
    "restricted",
)

MIN_EVENTS: Final = 256
MAX_EVENTS: Final = 1_000_000
EVENTS_PER_ATTEMPT: Final = 64
ENDINGS_PER_ATTEMPT: Final = 16


class TaskClaimPolicy(Struct, frozen=True):
    """The limits of one task, frozen once (claims contract, Policy).

    Args:
        concurrent_slots: Claims that may be live at once, 1-3; above 1 needs a reason.
        max_attempts: Claims ever admitted, 1-32, at least ``concurrent_slots``.
        ack_seconds: Time to acknowledge a grant, 1-604,800 seconds.
        lease_seconds: Time between renewals, 1-604,800 seconds.
        progress_seconds: Time between progress reports, 1-604,800 seconds.
        hard_seconds: Time that a claim can last at all, 1-604,800 seconds.
        competition_reason: Why more than one slot: non-blank text, at most 512 characters.
        risk: low, medium, high or critical.
        data_classification: public, internal, confidential or restricted.
        max_events: Events that the task's stream may hold, 256-1,000,000 and at least
            64 for each attempt.

    Raises:
        InvalidInput: A field is outside its range (``invalid_input``).
    """

    concurrent_slots: Slots = 1
    max_attempts: Attempts = 3
    ack_seconds: Window = 300
    lease_seconds: Window = 300
    progress_seconds: Window = 1_800
    hard_seconds: Window = 86_400
    competition_reason: FreeText | None = None
    risk: Risk = "low"
    data_classification: DataClass = "public"
    max_events: EventBudget = 10_000

    def __post_init__(self) -> None:
        slots = scalars.whole(self.concurrent_slots, "concurrent_slots", 1, MAX_SLOTS)
        attempts = scalars.whole(self.max_attempts, "max_attempts", 1, MAX_ATTEMPTS)
        if attempts < slots:
            message = "expected max_attempts to be at least concurrent_slots, but it is less"
            raise InvalidInput(message)
        for field in ("ack_seconds", "lease_seconds", "progress_seconds", "hard_seconds"):
            scalars.whole(getattr(self, field), field, 1, MAX_WINDOW_SECONDS)
        if self.competition_reason is not None:
            reason = scalars.free_text(self.competition_reason, "competition_reason")
            force_setattr(self, "competition_reason", reason)
        elif slots > 1:
            message = "expected a competition_reason for more than one slot, but there is none"
            raise InvalidInput(message)
        force_setattr(self, "risk", scalars.choice(self.risk, "risk", RISKS))
        data_class = scalars.choice(self.data_classification, "data_classification", DATA_CLASSES)
        force_setattr(self, "data_classification", data_class)
        lowest = max(MIN_EVENTS, EVENTS_PER_ATTEMPT * attempts)
        scalars.whole(self.max_events, "max_events", lowest, MAX_EVENTS)

    def __repr__(self) -> str:
        # Free text could hold what it should not, so none is shown.
        fields = (each for each in self.__struct_fields__ if each != "competition_reason")
        return f"TaskClaimPolicy({', '.join(f'{each}={getattr(self, each)!r}' for each in fields)})"

    @property
    def kept_for_endings(self) -> int:
        """How many of the stream's last events only endings may use."""
        return ENDINGS_PER_ATTEMPT * self.max_attempts


class ClaimBinding(Struct, frozen=True, forbid_unknown_fields=True):
    """What exactly a claim works on (claims contract, Policy).

    Args:
        work_unit_digest: ``sha256:`` and 64 lowercase hex digits.
        source_revision: 40 or 64 lowercase hex digits.
        inputs_digest: ``sha256:`` and 64 lowercase hex digits.

    Raises:
        InvalidInput: A part breaks its pattern (``invalid_input``).
    """

    work_unit_digest: Digest
    source_revision: SourceRevision
    inputs_digest: Digest

    def __post_init__(self) -> None:
        unit = scalars.digest(self.work_unit_digest, "work_unit_digest")
        force_setattr(self, "work_unit_digest", unit)
        revision = scalars.source_revision(self.source_revision, "source_revision")
        force_setattr(self, "source_revision", revision)
        force_setattr(self, "inputs_digest", scalars.digest(self.inputs_digest, "inputs_digest"))

    def to_dict(self) -> dict[str, str]:
        """Return the binding's JSON record."""
        return {
            "work_unit_digest": self.work_unit_digest,
            "source_revision": self.source_revision,
            "inputs_digest": self.inputs_digest,
        }
