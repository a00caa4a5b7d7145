"""Bindings and observations: what each field may hold, and what makes two of them the same."""

import pytest
from unit_builders import (
    DIGEST,
    OTHER_DIGEST,
    OTHER_REVISION,
    REVISION,
    binding,
    observation,
    refusal,
)

from idkmesh.errors import InvalidInput


def test_a_binding_names_its_unit_version_digest_and_revision() -> None:
    """A binding's record has exactly its four fields."""
    assert binding().to_dict() == {
        "work_unit_id": "import/parse",
        "work_unit_version": 3,
        "work_unit_digest": DIGEST,
        "source_revision": REVISION,
    }


def test_a_binding_keeps_its_revision_in_lower_case() -> None:
    """The case of a revision makes no other binding."""
    assert binding(source_revision=REVISION.upper()) == binding()
    assert len({binding(source_revision=REVISION.upper()), binding()}) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("work_unit_id", " "),
        ("work_unit_id", "x" * 513),
        ("work_unit_id", "a\n"),
        ("work_unit_id", None),
        ("work_unit_version", 0),
        ("work_unit_version", True),
        ("work_unit_version", 1.0),
        ("work_unit_version", 2**62),
        ("work_unit_digest", "sha256:" + "0F" * 32),
        ("work_unit_digest", DIGEST + "\n"),
        ("source_revision", "5e0c" * 11),
        ("source_revision", REVISION + "\n"),
        ("source_revision", 5),
    ],
)
def test_a_binding_refuses_a_malformed_part(field: str, value: object) -> None:
    """Each part of a binding is checked, and the message names it."""
    error = refusal(lambda: binding(**{field: value}))
    assert isinstance(error, InvalidInput)
    assert error.message.startswith(f"expected {field} to be ")


def test_an_observation_has_a_record_of_all_its_fields() -> None:
    """The record holds every field, and null for evidence that is not there."""
    record = observation(state="candidate", integration_reference=None).to_dict()
    assert record == {
        "scope": {"tenant_id": "acme", "project_id": "bikes"},
        "event_id": "delivery 81",
        "sequence": 7,
        "binding": binding().to_dict(),
        "state": "candidate",
        "inputs_digest": DIGEST,
        "integrated_revision": OTHER_REVISION,
        "artifacts_digest": OTHER_DIGEST,
        "verification_reference": "check run 12",
        "integration_reference": None,
    }


def test_equal_observations_are_one() -> None:
    """Observations compare and hash by content, the revisions in either case."""
    shouted = observation(integrated_revision=OTHER_REVISION.upper())
    assert {shouted, observation()} == {observation()}
    assert observation(sequence=8) != observation()


@pytest.mark.parametrize(
    "field",
    [
        "integrated_revision",
        "artifacts_digest",
        "verification_reference",
        "integration_reference",
    ],
)
def test_an_integrated_observation_needs_all_its_evidence(field: str) -> None:
    """Integrated without one of the four is refused; any other state may lack it."""
    error = refusal(lambda: observation(**{field: None}))
    assert error.code == "integration_evidence_required"
    assert field in error.message
    for state in ("pending", "candidate", "rejected"):
        assert getattr(observation(state=state, **{field: None}), field) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("event_id", ""),
        ("event_id", "\ud800"),
        ("sequence", 0),
        ("sequence", True),
        ("sequence", 2**62),
        ("sequence", "1"),
        ("state", "done"),
        ("state", ["integrated"]),
        ("inputs_digest", None),
        ("integrated_revision", "main"),
        ("artifacts_digest", "sha256:"),
        ("verification_reference", "\x9b31m"),
        ("integration_reference", "x" * 513),
    ],
)
def test_an_observation_refuses_a_malformed_field(field: str, value: object) -> None:
    """Each field is checked before the evidence is asked for."""
    changes = {"artifacts_digest": None, field: value}
    assert refusal(lambda: observation(**changes)).code == "invalid_input"


@pytest.mark.parametrize("field", ["scope", "binding"])
def test_an_observation_refuses_the_wrong_kind_of_object(field: str) -> None:
    """A dict where an object belongs is a TypeError."""
    with pytest.raises(TypeError, match=f"expected {field} to be a "):
        observation(**{field: {}})


def test_an_observation_shows_no_free_text() -> None:
    """What an adapter wrote never gets into a log by way of a repr."""
    shown = repr(observation(event_id="token hunter2"))
    assert shown == "PrerequisiteObservation(acme/bikes 'import/parse' sequence=7 integrated)"
