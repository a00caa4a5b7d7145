"""A task's policy: what each limit may be, what it is by default, and that it is frozen."""

from typing import Any

import pytest
from builders import DISPATCHER, READER, adds, refused, task
from msgspec.structs import asdict, replace

from idkmesh import ClaimLedger, InvalidInput, TaskClaimPolicy

RACE = TaskClaimPolicy(concurrent_slots=2, competition_reason="two designs", max_attempts=4)

# The field, its least and greatest value, and what else must hold at those.
BOUNDS = """
    concurrent_slots     1        3    max_attempts=3 competition_reason=x
    max_attempts         1       32    max_events=2048
    ack_seconds          1   604800
    lease_seconds        1   604800
    progress_seconds     1   604800
    hard_seconds         1   604800
    max_events         256  1000000
"""


def bounds() -> list[tuple[str, int, int, dict[str, Any]]]:
    """Read the table of bounds."""
    rows = []
    for line in BOUNDS.strip().splitlines():
        field, low, high, *beside = line.split()
        extra = dict(pair.split("=") for pair in beside)
        fields = {name: int(text) if text.isdigit() else text for name, text in extra.items()}
        rows.append((field, int(low), int(high), fields))
    return rows


@pytest.mark.parametrize(("field", "low", "high", "beside"), bounds())
def test_a_limit_reaches_from_its_least_to_its_greatest(
    field: str, low: int, high: int, beside: dict[str, Any]
) -> None:
    """The bounds themselves are allowed, one beyond is invalid_input and names the field."""
    for value in (low, high):
        assert getattr(TaskClaimPolicy(**{**beside, field: value}), field) == value
    for value in (low - 1, high + 1):
        with pytest.raises(InvalidInput, match=field):
            TaskClaimPolicy(**{**beside, field: value})


@pytest.mark.parametrize(("field", "low", "high", "beside"), bounds())
@pytest.mark.parametrize("kind", [bool, float, str])
def test_a_limit_is_exactly_an_int(
    field: str, low: int, high: int, beside: dict[str, Any], kind: type
) -> None:
    """True, a float and text are no integers, even where they look like an allowed one."""
    value = kind(low) if kind is bool else kind(high)
    with pytest.raises(InvalidInput, match=field):
        TaskClaimPolicy(**{**beside, field: value})


def test_the_defaults_are_the_pilots() -> None:
    """A policy that says nothing has one slot, three attempts and the pilot's windows."""
    assert asdict(TaskClaimPolicy()) == {
        "concurrent_slots": 1,
        "max_attempts": 3,
        "ack_seconds": 300,
        "lease_seconds": 300,
        "progress_seconds": 1_800,
        "hard_seconds": 86_400,
        "competition_reason": None,
        "risk": "low",
        "data_classification": "public",
        "max_events": 10_000,
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"concurrent_slots": 2, "max_attempts": 1, "competition_reason": "x"},
        {"concurrent_slots": 3, "max_attempts": 2, "competition_reason": "x"},
        {"concurrent_slots": 2},
        {"max_attempts": 5, "max_events": 319},
        {"max_attempts": 32, "max_events": 2_047},
        {"risk": "none"},
        {"risk": "LOW"},
        {"risk": 1},
        {"data_classification": "secret"},
        {"data_classification": None},
        {"competition_reason": " "},
        {"competition_reason": 3},
    ],
    ids=str,
)
def test_fields_must_fit_each_other(fields: dict[str, Any]) -> None:
    """Too few attempts or events, competition without a reason, an unknown word: all refused."""
    with pytest.raises(InvalidInput):
        TaskClaimPolicy(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"concurrent_slots": 2, "max_attempts": 2, "competition_reason": "x"},
        {"competition_reason": "no need for one"},
        {"max_attempts": 5, "max_events": 320},
        {"max_attempts": 4, "max_events": 256},
        *({"risk": risk} for risk in ("low", "medium", "high", "critical")),
        *(
            {"data_classification": name}
            for name in ("public", "internal", "confidential", "restricted")
        ),
    ],
    ids=str,
)
def test_fields_that_just_fit_are_taken(fields: dict[str, Any]) -> None:
    """As many attempts as slots, 64 events an attempt, and every known word are allowed."""
    assert fields.items() <= asdict(TaskClaimPolicy(**fields)).items()


@pytest.mark.parametrize(
    "change",
    [
        {"concurrent_slots": 3},
        {"max_attempts": 5},
        {"ack_seconds": 301},
        {"lease_seconds": 299},
        {"progress_seconds": 1_801},
        {"hard_seconds": 86_399},
        {"competition_reason": "two Designs"},
        {"risk": "medium"},
        {"data_classification": "internal"},
        {"max_events": 10_001},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_frozen_policy_does_not_change(ledger: ClaimLedger, change: dict[str, Any]) -> None:
    """A configuration that differs in any one field is refused and leaves nothing."""
    ledger.configure_task(task(), DISPATCHER, RACE)
    with adds(ledger), refused("task_policy_conflict"):
        ledger.configure_task(task(), DISPATCHER, replace(RACE, **change))
    assert ledger.policy(task(), READER) == RACE


def test_a_workers_role_configures_nothing(ledger: ClaimLedger) -> None:
    """Freezing a policy takes the authority to dispatch, which a worker has not."""
    worker = replace(DISPATCHER, roles=frozenset({"worker"}))
    with adds(ledger), refused("role_denied"):
        ledger.configure_task(task(), worker, TaskClaimPolicy())
    with refused("task_not_configured"):
        ledger.policy(task(), READER)
