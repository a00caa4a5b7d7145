"""The published JSON Schemas: of the claim record, and of every event.

They are made out of the annotated types that the codec itself decodes with, so what a
schema says and what the ledger takes cannot drift apart. ``tools/schemas.py`` writes them
to files; nothing that runs imports this module.
"""

import re
from typing import Any, Final

import msgspec

from idkmesh.events.types import Event
from idkmesh.identity import TASK
from idkmesh.policy import ClaimBinding
from idkmesh.records import CLAIM_KIND, SCHEMA_VERSION, OwnerIdentity
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

_SOURCE: Final = re.compile(r" \(claims contract[^)]*\)")


def event_schema(event: type[Event]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one event's body.

    Args:
        event: The event's class.
    """
    tag = str(event.__struct_config__.tag)
    _, parts = msgspec.json.schema_components((event,), ref_template="#/$defs/{name}")
    shapes = {name: _plain(shape) for name, shape in parts.items()}
    own = shapes.pop(event.__name__)
    own["title"] = tag
    own["properties"]["type"] = {"const": tag}
    schema = {"$schema": DIALECT, "$id": f"urn:idkmesh:schema:event:{tag}", **own}
    if shapes:
        schema["$defs"] = {name: shapes[name] for name in sorted(shapes)}
    return schema


def task_claim_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``TaskClaim.to_dict()``."""
    shape = _object(
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
    return {
        "$schema": DIALECT,
        "$id": f"urn:idkmesh:schema:task-claim-v{SCHEMA_VERSION}",
        "title": CLAIM_KIND,
        "description": "One admitted attempt at a task. Times are epoch seconds. "
        "A record is never a capability.",
        **shape,
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
    _, parts = msgspec.json.schema_components((kind,))
    return _plain(parts[kind.__name__])


def _plain(shape: dict[str, Any]) -> dict[str, Any]:
    """Tidy the schema of a class, so that it is the same under every version of msgspec.

    Of the docstring its first line is kept, without where the rule is from.
    """
    summary = _SOURCE.sub("", shape["description"].splitlines()[0]).replace("``", "`")
    properties = {name: _null_last(kind) for name, kind in shape["properties"].items()}
    return {**shape, "description": summary, "properties": properties}


def _null_last(kind: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" not in kind:
        return kind
    return {**kind, "anyOf": sorted(kind["anyOf"], key=lambda each: each == {"type": "null"})}
