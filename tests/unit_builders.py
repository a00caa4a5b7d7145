"""Builders of WorkUnits, bindings and observations, and of the errors they are refused with."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from idkmesh.errors import ClaimError
from idkmesh.graph import DependencyGraph
from idkmesh.identity import TenantScope
from idkmesh.prerequisites import PrerequisiteObservation, WorkUnitSourceBinding

SCOPE = TenantScope("acme", "bikes")
REVISION = "5e0c" * 10
OTHER_REVISION = "77ab" * 16
DIGEST = "sha256:" + "0f" * 32
OTHER_DIGEST = "sha256:" + "e1" * 32
ABSENT = object()

Unit = dict[str, Any]


def unit(name: str, *requires: str, **parts: Any) -> Unit:
    """Return the least that a graph needs of a WorkUnit, with ``parts`` put in or taken out."""
    whole = {
        "schema_version": "0.2",
        "id": name,
        "version": 1,
        "security": {"risk_class": "low"},
        "dependencies": [edge(each) for each in requires],
        "provenance": {},
        **parts,
    }
    return {part: value for part, value in whole.items() if value is not ABSENT}


def edge(target: str, relationship: str = "requires", **more: object) -> Unit:
    """Return a dependency."""
    return {"work_unit_id": target, "relationship": relationship, **more}


def build(*units: Unit, **revisions: str) -> DependencyGraph:
    """Return the graph of the units, each at ``REVISION`` unless ``revisions`` says otherwise."""
    everywhere = {each["id"]: REVISION for each in units}
    return DependencyGraph(SCOPE, units, {**everywhere, **revisions})


def refusal(call: Callable[[], object]) -> ClaimError:
    """Return the error that the call is refused with."""
    with pytest.raises(ClaimError) as caught:
        call()
    return caught.value


def sha256(text: str) -> str:
    """Return the digest of a text that a test has written out."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def binding(**changes: object) -> WorkUnitSourceBinding:
    """Return a binding with some fields changed."""
    fields: Unit = {
        "work_unit_id": "import/parse",
        "work_unit_version": 3,
        "work_unit_digest": DIGEST,
        "source_revision": REVISION,
        **changes,
    }
    return WorkUnitSourceBinding(**fields)


def observation(**changes: object) -> PrerequisiteObservation:
    """Return an integrated observation with some fields changed."""
    fields: Unit = {
        "scope": SCOPE,
        "event_id": "delivery 81",
        "sequence": 7,
        "binding": binding(),
        "state": "integrated",
        "inputs_digest": DIGEST,
        "integrated_revision": OTHER_REVISION,
        "artifacts_digest": OTHER_DIGEST,
        "verification_reference": "check run 12",
        "integration_reference": "merge 4",
        **changes,
    }
    return PrerequisiteObservation(**fields)
