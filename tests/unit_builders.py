"""Builders of WorkUnits, bindings and observations, and of the errors they are refused with."""

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from idkmesh.errors import ClaimError, InvalidInput
from idkmesh.graph import DependencyGraph
from idkmesh.identity import TenantScope
from idkmesh.prerequisites import PrerequisiteObservation, WorkUnitSourceBinding
from idkmesh.workunit_files import load_work_units

SCOPE = TenantScope("acme", "bikes")
REVISION = "5e0c" * 10
OTHER_REVISION = "77ab" * 16
DIGEST = "sha256:" + "0f" * 32
OTHER_DIGEST = "sha256:" + "e1" * 32


class _Absent:
    """Stands for a part that is not there."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()

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


# Whole units, as files hold them.

WHOLE: Unit = {
    "schema_version": "0.2",
    "id": "trips/parse",
    "version": 1,
    "kind": "coding",
    "objective": "Parse.\n\tBoth feeds.",
    "inputs": [
        {
            "name": "notes",
            "description": "What was found.",
            "from_work_unit": "trips/read",
            "digest": "sha256:" + "0f" * 32,
        }
    ],
    "outputs": [{"name": "patch", "description": "The change.", "path": "src/a.py"}],
    "dependencies": [
        {"work_unit_id": "trips/read", "relationship": "requires", "condition": None},
        {"work_unit_id": "trips/plan", "relationship": "informs", "condition": "on main"},
    ],
    "requirements": {
        "capabilities": ["python"],
        "resources": [{"name": "memory", "amount": 2, "unit": "gib"}],
    },
    "constraints": {
        "allowed_paths": ["src/**"],
        "forbidden_paths": ["src/keys/**"],
        "policies": ["no-new-dependencies"],
    },
    "uncertainty": {"level": "low", "open_questions": ["Which feed first?"]},
    "security": {
        "risk_class": "low",
        "data_classification": "internal",
        "minimum_worker_trust": "registered",
        "sandbox_required": True,
    },
    "permissions": {
        "network": False,
        "filesystem_write": True,
        "secrets": False,
        "process_execution": True,
    },
    "verification_policy": {
        "strategy": "automated",
        "independent_from_worker": True,
        "minimum_independent_verifiers": 1,
    },
    "validators": [{"name": "tests", "method": "command", "expectation": "pytest exits 0."}],
    "evidence_requirements": [{"name": "log", "description": "The output.", "required": True}],
    "budget": {"wall_seconds": 60, "model_tokens": 0, "cost_usd_cents": 0},
    "provenance": {
        "created_by": "planner",
        "creator_type": "service",
        "source": "backlog",
        "source_revision": "AB" * 20,
    },
    "failure_semantics": {"retryable": True, "max_attempts": 3, "on_failure": "retry"},
    "extensions": {"free": [1, {"of": None}]},
}


def part_of(whole: Any, pointer: str) -> Any:
    """Return the part of a unit that a JSON pointer names."""
    part = whole
    for step in pointer.split("/")[1:]:
        part = part[int(step)] if isinstance(part, list) else part[step]
    return part


def changed(pointer: str, value: object) -> Unit:
    """Return the whole unit with one part put in or replaced."""
    whole = copy.deepcopy(WHOLE)
    holder, _, name = pointer.rpartition("/")
    owner = part_of(whole, holder)
    owner[int(name) if isinstance(owner, list) else name] = value
    return whole


def loaded(folder: Path, content: object) -> Unit:
    """Return what loading ``unit.json`` gives, where it holds a unit, or bytes."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    file = folder / "unit.json"
    file.write_bytes(data)
    (found,) = load_work_units(file)
    return found


def complaint(folder: Path, content: object) -> str:
    """Return what is said against a file, which is always invalid input."""
    error = refusal(lambda: loaded(folder, content))
    assert isinstance(error, InvalidInput)
    return error.message
