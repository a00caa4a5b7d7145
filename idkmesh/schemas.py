"""The published JSON Schemas: of the records, of an observation, and of every event.

They are made out of the annotated types that the codec itself decodes with, so what a
schema says and what the ledger takes cannot drift apart. ``tools/schemas.py`` writes them
to files; nothing that runs imports this module.
"""

import re
from typing import Any, Final

import msgspec

from idkmesh.events.types import PrerequisiteObserved
from idkmesh.identity import TASK, TenantScope
from idkmesh.policy import ClaimBinding
from idkmesh.prerequisites import (
    EVIDENCE_FIELDS,
    INTEGRATED,
    PrerequisiteObservation,
    WorkUnitSourceBinding,
)
from idkmesh.records import ADMISSION_KIND, CLAIM_KIND, SCHEMA_VERSION, OwnerIdentity, Phase
from idkmesh.scalars import (
    ClaimState,
    DeadlineSeconds,
    Digest,
    Epoch,
    FreeText,
    Occupancy,
    ScopeId,
    Seconds,
    Slot,
)

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_SOURCE: Final = re.compile(r" \((?:claims|admission) contract[^)]*\)")


def event_schema(event: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one event's body.

    Args:
        event: The event's class, of today or of an earlier version.
    """
    tag = str(event.__struct_config__.tag)
    own, shapes = _shapes(event)
    own["title"] = tag
    own["properties"]["type"] = {"const": tag}
    if event is PrerequisiteObserved:
        own |= _evidence_rule()
    schema = {"$schema": DIALECT, "$id": f"urn:idkmesh:schema:event:{tag}", **own}
    if shapes:
        schema["$defs"] = shapes
    return schema


def task_claim_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``TaskClaim.to_dict()``."""
    return _record(
        f"task-claim-v{SCHEMA_VERSION}",
        CLAIM_KIND,
        "One admitted attempt at a task. Times are epoch seconds. A record is never a capability.",
        _claim(),
    )


def executor_admission_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``AdmissionRecord.to_dict()``."""
    shape = _object(
        kind={"const": ADMISSION_KIND},
        schema_version={"const": SCHEMA_VERSION},
        phase=_type(Phase),
        scope=_struct(TenantScope),
        graph_digest=_type(Digest),
        observation_digest=_type(Digest),
        work_unit_id=_type(FreeText),
        binding=_struct(WorkUnitSourceBinding),
        inputs_digest=_type(Digest),
        created=_type(bool),
        claim=_claim(),
        authority=_object(
            dispatch={"const": False},
            executes_worker={"const": False},
            accepts_candidate={"const": False},
            merge={"const": False},
        ),
    )
    return _record(
        f"executor-admission-v{SCHEMA_VERSION}",
        ADMISSION_KIND,
        "What one phase of the gate did, bound to the inputs that it saw. "
        "A record is never a capability.",
        shape,
    )


def prerequisite_observation_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``PrerequisiteObservation.to_dict()``."""
    shape, parts = _shapes(PrerequisiteObservation)
    shape["required"] = list(shape["properties"])  # absent evidence is null, never left out
    return _record(
        f"prerequisite-observation-v{SCHEMA_VERSION}",
        shape.pop("title"),
        shape.pop("description"),
        {**shape, **_evidence_rule(), "$defs": parts},
    )


def _record(name: str, title: str, description: str, shape: dict[str, Any]) -> dict[str, Any]:
    """Put what a published record's schema begins with in front of its shape."""
    return {
        "$schema": DIALECT,
        "$id": f"urn:idkmesh:schema:{name}",
        "title": title,
        "description": description,
        **shape,
    }


def _claim() -> dict[str, Any]:
    """Describe a claim record, alone or within another."""
    return _object(
        kind={"const": CLAIM_KIND},
        schema_version={"const": SCHEMA_VERSION},
        task=_object(
            kind={"const": "idkmesh-enterprise-resource-ref"},
            schema_version={"const": "0.1"},
            tenant_id=_type(ScopeId),
            project_id=_type(ScopeId),
            resource_type={"const": TASK},
            resource_id=_type(ScopeId),
        ),
        request_id=_type(FreeText),
        request_digest=_type(Digest),
        slot=_type(Slot),
        epoch=_type(Epoch),
        owner=_struct(OwnerIdentity),
        binding=_struct(ClaimBinding),
        state=_type(ClaimState),
        created_at=_type(Seconds),
        acknowledged_at=_type(Seconds | None),
        ack_by=_type(DeadlineSeconds),
        lease_until=_type(DeadlineSeconds),
        progress_by=_type(DeadlineSeconds),
        hard_until=_type(DeadlineSeconds),
        occupancy=_type(Occupancy),
        operation_id=_type(Digest | None),
        execution_reference=_type(FreeText | None),
        submission_digest=_type(Digest | None),
        authority=_object(
            executes_worker={"const": False},
            accepts_candidate={"const": False},
            merge={"const": False},
        ),
    )


def _evidence_rule() -> dict[str, Any]:
    """Demand of an integrated observation what shows that it is (admission contract)."""
    return {
        "if": {"properties": {"state": {"const": INTEGRATED}}},
        "then": {"properties": {field: {"not": {"type": "null"}} for field in EVIDENCE_FIELDS}},
    }


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    """Describe an object that has exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _type(kind: object) -> dict[str, Any]:
    return msgspec.json.schema(kind)


def _struct(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return _shapes(kind)[0]


def _shapes(kind: type[msgspec.Struct]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the shape of a class, and by name those of the classes that it is made of."""
    _, parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    shapes = {name: _plain(parts[name]) for name in sorted(parts)}
    return shapes.pop(kind.__name__), shapes


def _plain(shape: dict[str, Any]) -> dict[str, Any]:
    """Tidy the schema of a class, so that it is the same under every version of msgspec.

    Of the docstring its first line is kept, without where the rule is from.
    """
    summary = _SOURCE.sub("", shape["description"].splitlines()[0]).replace("``", "`")
    properties = {name: _tidy(kind) for name, kind in shape["properties"].items()}
    return {**shape, "description": summary, "properties": properties}


def _tidy(kind: dict[str, Any]) -> dict[str, Any]:
    """Put null last, and leave out what the constructor does without a value."""
    kind = {key: value for key, value in kind.items() if key != "default"}
    if "anyOf" in kind:
        kind["anyOf"] = sorted(kind["anyOf"], key=lambda each: each == {"type": "null"})
    return kind
