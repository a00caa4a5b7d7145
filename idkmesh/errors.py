"""Every error code, in order of precedence, and the exceptions that carry them.

A code is a promise to callers: it is never renamed and never reused. Where two
codes could answer one command, the one that stands first here is raised first,
except inside a command's own rules, whose order each command's docstring gives.
"""

from enum import StrEnum
from typing import Self


class ErrorCode(StrEnum):
    """What went wrong, as a stable word; ``meaning`` says it in a sentence."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> Self:
        """Keep the sentence beside the code."""
        code = str.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    # Arguments: looked at before anything else, without a lock.
    INVALID_INPUT = "invalid_input", "an argument's type or value is outside what it may hold"
    UNSUPPORTED_WORK_UNIT = "unsupported_work_unit", "the WorkUnit is not of version 0.2"
    DUPLICATE_WORK_UNIT = "duplicate_work_unit", "two WorkUnits of one graph share an id"
    SOURCE_BINDING_INVALID = (
        "source_binding_invalid",
        "the unit's source revision is missing, malformed or contradicts its provenance",
    )
    INVALID_WORK_UNIT_SECURITY = (
        "invalid_work_unit_security",
        "the unit's security part is missing or names no known risk class",
    )
    INVALID_DEPENDENCY = "invalid_dependency", "a dependency has unknown fields or relationship"
    UNSUPPORTED_CONDITION = "unsupported_condition", "a requires dependency carries a condition"
    DUPLICATE_DEPENDENCY = "duplicate_dependency", "a unit names the same dependency twice"
    MISSING_PREREQUISITE = "missing_prerequisite", "a required unit is not in the graph"
    DEPENDENCY_CYCLE = "dependency_cycle", "the units require each other in a circle"
    INTEGRATION_EVIDENCE_REQUIRED = (
        "integration_evidence_required",
        "an integrated observation lacks a revision, artifacts, verification or integration",
    )
    UNKNOWN_WORK_UNIT = "unknown_work_unit", "the unit is not in this graph"
    SCOPE_MISMATCH = "scope_mismatch", "the resource belongs to another tenant or project"

    # The file: whether it may be opened, locked, read and written.
    STORE_CLOSED = "store_closed", "the ledger was closed, or carried across a fork"
    STORE_UNSAFE = (
        "store_unsafe",
        "the engine, the file's type or its file system cannot keep the promises",
    )
    STORE_FOREIGN = "store_foreign", "the file is not an idkmesh ledger"
    STORE_NEWER = "store_newer", "the file was written by a later version of idkmesh"
    STORE_READONLY = "store_readonly", "the ledger cannot be written here"
    STORE_LOCKED = "store_locked", "another writer held the ledger past the busy timeout"
    STORE_FULL = "store_full", "the disk is full; nothing of the command was written"
    STORE_CORRUPT = "store_corrupt", "the file or its log breaks the ledger's own rules"
    OUTCOME_UNKNOWN = (
        "outcome_unknown",
        "the commit may or may not have happened; repeat the same request",
    )

    # The clock.
    INVALID_CLOCK = "invalid_clock", "the clock gave no whole second in [0, 2**62)"
    CLOCK_ROLLBACK = "clock_rollback", "the clock reads less than it has read before"

    # The actor's identity, then the task, then the rest of authorization.
    ACTOR_SCOPE_DENIED = "actor_scope_denied", "the actor is not bound to this scope"
    ACTOR_UNAUTHENTICATED = "actor_unauthenticated", "the actor is not authenticated"
    ACTOR_REVOKED = "actor_revoked", "the actor's identity is revoked"
    ACTOR_EXPIRED = "actor_expired", "the actor's identity has expired"
    TASK_NOT_CONFIGURED = "task_not_configured", "the task has no claim policy"
    NO_POLICY_RULE = "no_policy_rule", "the authorization policy has no rule for the action"
    ACTOR_TYPE_DENIED = "actor_type_denied", "the rule does not allow this type of actor"
    ROLE_DENIED = "role_denied", "the actor has none of the rule's roles"
    DATA_CLEARANCE_DENIED = (
        "data_clearance_denied",
        "the task's data class is above the actor's clearance",
    )
    RULE_DATA_LIMIT_DENIED = (
        "rule_data_limit_denied",
        "the task's data class is above the rule's limit",
    )
    DISTINCT_APPROVAL_REQUIRED = (
        "distinct_approval_required",
        "at this risk the action needs an approver",
    )
    SELF_APPROVAL_FORBIDDEN = (
        "self_approval_forbidden",
        "the approver is one of the parties that act",
    )
    APPROVER_SCOPE_DENIED = "approver_scope_denied", "the approver is not bound to this scope"
    APPROVER_UNAUTHENTICATED = "approver_unauthenticated", "the approver is not authenticated"
    APPROVER_REVOKED = "approver_revoked", "the approver's identity is revoked"
    APPROVER_EXPIRED = "approver_expired", "the approver's identity has expired"
    APPROVER_TYPE_DENIED = "approver_type_denied", "this type of actor may not approve"
    APPROVER_ROLE_DENIED = "approver_role_denied", "the approver has none of the approval roles"
    APPROVER_CLEARANCE_DENIED = (
        "approver_clearance_denied",
        "the task's data class is above the approver's clearance",
    )

    # Observations and the gate.
    EVENT_CONFLICT = "event_conflict", "the event id was observed with other content"
    SEQUENCE_CONFLICT = "sequence_conflict", "another event holds this sequence for the unit"
    TASK_ALREADY_INTEGRATED = "task_already_integrated", "the unit is integrated already"
    TASK_NOT_READY = "task_not_ready", "a prerequisite blocks the unit"
    BINDING_MISMATCH = "binding_mismatch", "the claim was made for another unit or revision"
    INPUTS_CHANGED = "inputs_changed", "the inputs moved since the claim was admitted"

    # The commands' own rules.
    TASK_POLICY_CONFLICT = "task_policy_conflict", "the task is frozen under another policy"
    REQUEST_CONFLICT = "request_conflict", "the request id was used with other content"
    ATTEMPT_BUDGET_EXHAUSTED = "attempt_budget_exhausted", "every admitted attempt is used up"
    CLAIM_NOT_FOUND = "claim_not_found", "the task has no claim with this request id"
    STALE_CLAIM = "stale_claim", "the claim is over, or its epoch is not the slot's"
    CLAIM_OWNER_DENIED = "claim_owner_denied", "the claim belongs to another owner"
    ACKNOWLEDGEMENT_REQUIRED = "acknowledgement_required", "the owner has not acknowledged yet"
    DISPATCH_INTENT_REQUIRED = "dispatch_intent_required", "no execution was ever reserved"
    TERMINAL_EXECUTION_CONFLICT = (
        "terminal_execution_conflict",
        "the execution has ended, with other evidence",
    )
    SUBMISSION_CONFLICT = "submission_conflict", "another digest was submitted for this claim"
    EVENT_BUDGET_EXHAUSTED = (
        "event_budget_exhausted",
        "the event budget has no room for anything but endings",
    )
    TASK_CAPACITY_RESERVED = "task_capacity_reserved", "every slot is owned or may be running"


class ClaimError(Exception):
    """A command was refused; ``code`` says by which rule.

    The message names the field and the limit and never the value, which could be a secret.

    Attributes:
        code: The rule that refused, an ``ErrorCode``.
        blockers: For ``task_not_ready``, the ``code:unit_id`` of each blocker; else empty.
    """

    def __init__(self, code: ErrorCode, message: str, blockers: tuple[str, ...] = ()) -> None:
        super().__init__(code, message, blockers)
        self.code = code
        self.message = message
        self.blockers = blockers

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class InvalidInput(ClaimError, ValueError):  # noqa: N818  (the contract names it so)
    """An argument's type or value is outside what it may hold (``invalid_input``)."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_INPUT, message)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.message,)


class StoreError(Exception):
    """The file behind the ledger cannot be used; ``code`` says why, ``__cause__`` the detail.

    Attributes:
        code: What is wrong with the file, an ``ErrorCode``.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
