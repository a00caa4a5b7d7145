"""The WorkUnit, version 0.2: the shape that a unit's file has, as types and as JSON Schema.

The types are the one statement of the shape: files are decoded through them, and
``work_unit_schema`` writes the published schema out of them. What a ``description`` says
here is what the schema and a refused file's error say.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from idkmesh.scalars import (
    END,
    MAX_INT,
    ActorType,
    Attempts,
    DataClass,
    Digest,
    FreeText,
    PrincipalId,
    Risk,
)

SCHEMA_VERSION: Final = "0.2"
SCHEMA_ID: Final = "urn:idkmesh:schema:work-unit-v0.2"

UnitId = Annotated[
    str,
    Meta(
        pattern=rf"^[a-z0-9][a-z0-9._/-]{{2,127}}{END}",
        description="3-128 lowercase letters, digits, '.', '_', '/' or '-', "
        "the first a letter or digit",
    ),
]
Label = Annotated[
    str,
    Meta(
        pattern=rf"^[a-z0-9][a-z0-9._-]{{0,63}}{END}",
        description="1-64 lowercase letters, digits, '.', '_' or '-', the first a letter or digit",
    ),
]
Line = Annotated[
    FreeText,
    Meta(description="non-blank text of at most 512 characters without control characters"),
]
Prose = Annotated[
    str,
    Meta(
        pattern=r"^(?=[\s\S]*\S)[^\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]{1,4096}" + END,
        min_length=1,
        max_length=4096,
        description="non-blank text of at most 4096 characters, of whose control characters "
        "only tabs and newlines are allowed",
    ),
]
PathPattern = Annotated[
    str,
    Meta(
        pattern=r"^(?!/)(?!(?:[\s\S]*/)?\.\.(?:/|(?![\s\S])))"
        r"[^\x00-\x1f\x7f-\x9f\\\ud800-\udfff]{1,512}" + END,
        min_length=1,
        max_length=512,
        description="a path or glob below the source tree's root: 1-512 characters, '/' between "
        "the parts, no leading '/', no '..' part, no backslash, no control character",
    ),
]
StatedRevision = Annotated[
    str,
    Meta(
        pattern=rf"^(?:[0-9a-fA-F]{{40}}|[0-9a-fA-F]{{64}}){END}",
        description="40 or 64 hex digits; where given it must equal the trusted revision",
    ),
]
Positive = Annotated[int, Meta(ge=1, le=MAX_INT)]
Amount = Annotated[int, Meta(ge=0, le=MAX_INT)]

Kind = Literal[
    "coding",
    "testing",
    "review",
    "benchmarking",
    "documentation",
    "research",
    "integration",
    "governance",
    "other",
]
Relationship = Literal["requires", "blocks", "informs", "validates", "derived_from"]
Level = Literal["low", "medium", "high"]
WorkerTrust = Literal["untrusted", "registered", "trusted"]
Strategy = Literal["none", "automated", "review", "automated_and_review", "replication"]
Method = Literal["command", "schema", "metric", "inspection"]
FailureAction = Literal["stop", "retry", "escalate"]


class _Part(Struct, kw_only=True, forbid_unknown_fields=True):
    """What every part of a WorkUnit has in common: nothing but its shape's strictness."""


class Input(_Part):
    """Something that the work starts from."""

    name: Label
    description: Prose
    from_work_unit: Annotated[UnitId, Meta(description="the unit that makes it")] | UnsetType = (
        UNSET
    )
    digest: (
        Annotated[Digest, Meta(description="'sha256:' and 64 lowercase hex digits")] | UnsetType
    ) = UNSET


class Output(_Part):
    """Something that the work must leave behind."""

    name: Label
    description: Prose
    path: PathPattern | UnsetType = UNSET


class Dependency(_Part):
    """An edge to another unit; only requires gates readiness, and never under a condition."""

    work_unit_id: UnitId
    relationship: Relationship
    condition: Line | UnsetType | None = UNSET


class Resource(_Part):
    """An amount that a worker must have."""

    name: Label
    amount: Amount
    unit: Label


class Requirements(_Part):
    """What a worker must be able to do and must have."""

    capabilities: tuple[Label, ...]
    resources: tuple[Resource, ...]


class Constraints(_Part):
    """Where the work may reach and where not; a forbidden path wins over an allowed one."""

    allowed_paths: tuple[PathPattern, ...]
    forbidden_paths: tuple[PathPattern, ...]
    policies: tuple[Label, ...]


class Uncertainty(_Part):
    """How much is not known yet, and what."""

    level: Level
    open_questions: tuple[Prose, ...]


class Security(_Part):
    """What is at stake, and how far a worker must be trusted."""

    risk_class: Risk
    data_classification: DataClass
    minimum_worker_trust: WorkerTrust
    sandbox_required: bool


class Permissions(_Part):
    """What the work needs from its sandbox; where it may write, the constraints say."""

    network: bool
    filesystem_write: bool
    secrets: bool
    process_execution: bool


class VerificationPolicy(_Part):
    """How a result is checked, and by how many who did not make it."""

    strategy: Strategy
    independent_from_worker: bool
    minimum_independent_verifiers: Annotated[int, Meta(ge=0, le=32)]


class Validator(_Part):
    """One check of a result."""

    name: Label
    method: Method
    expectation: Prose


class EvidenceRequirement(_Part):
    """Something that must be handed in with a result."""

    name: Label
    description: Prose
    required: bool


class Budget(_Part):
    """The most that one attempt may use."""

    wall_seconds: Positive
    model_tokens: Amount
    cost_usd_cents: Amount


class Provenance(_Part):
    """Who wrote the unit, out of what, and against which state of the source."""

    created_by: Annotated[
        PrincipalId, Meta(description="1-256 letters, digits, '.', '_', ':', '/', '@' or '-'")
    ]
    creator_type: ActorType
    source: Line
    source_revision: StatedRevision | UnsetType = UNSET


class FailureSemantics(_Part):
    """What a failed attempt means."""

    retryable: bool
    max_attempts: Attempts
    on_failure: FailureAction


class WorkUnit(_Part):
    """One piece of work that can be claimed, done by a worker, and checked."""

    schema_version: Literal["0.2"]
    id: UnitId
    version: Positive
    kind: Kind
    objective: Prose
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    dependencies: tuple[Dependency, ...]
    requirements: Requirements
    constraints: Constraints
    uncertainty: Uncertainty
    security: Security
    permissions: Permissions
    verification_policy: VerificationPolicy
    validators: tuple[Validator, ...]
    evidence_requirements: tuple[EvidenceRequirement, ...]
    budget: Budget
    provenance: Provenance
    failure_semantics: FailureSemantics
    extensions: (
        Annotated[
            dict[str, Any],
            Meta(description="anything else; nothing here is read by the ledger"),
        ]
        | UnsetType
    ) = UNSET


def work_unit_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a WorkUnit, version 0.2.

    Only ``extensions`` may hold members that the schema does not name.
    """
    _, parts = msgspec.json.schema_components((WorkUnit,), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **parts.pop(WorkUnit.__name__),
        "$defs": {name: parts[name] for name in sorted(parts)},
    }
