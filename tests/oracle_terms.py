"""What the models share: refusals, authority, well-formed scalars, and the JSON records.

The baseline of who may do what is written out by hand, and so is every record's
shape: nothing of the library runs in here.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from idkmesh import ActorContext, ClaimBinding, ScopedResourceRef, TaskClaimPolicy, TenantScope

Record = dict[str, Any]

LEVELS = ("low", "medium", "high", "critical")
DATA_CLASSES = ("public", "internal", "confidential", "restricted")
LONGEST_TEXT = 512
POLICY_FIELDS = (
    "concurrent_slots",
    "max_attempts",
    "ack_seconds",
    "lease_seconds",
    "progress_seconds",
    "hard_seconds",
    "competition_reason",
    "risk",
    "data_classification",
    "max_events",
)


class Refused(Exception):  # noqa: N818 - the outcome is a refusal, an error only for the caller
    """The model's refusal of a call, with the code that the ledger must raise."""

    def __init__(self, code: str, blockers: tuple[str, ...] = ()) -> None:
        """Keep the code and, for a task that is not ready, what blocks it."""
        super().__init__(code)
        self.code = code
        self.blockers = blockers


class Rule(NamedTuple):
    """One line of the baseline policy; only humans approve, all data classes are allowed."""

    roles: frozenset[str]
    actor_types: frozenset[str]
    approval_from: str | None = None
    approver_roles: frozenset[str] = frozenset()
    risk_floor: str = "low"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EVERY_TYPE = _words("human github_app github_actions service provider node")
_HS = _words("human github_app github_actions service")
_EVERY_ROLE = _words("owner admin integrator worker reviewer dispatcher node_operator auditor")
_CLAIMANTS = _words("worker dispatcher node_operator")
_INTEGRATORS = _words("integrator admin owner")
_AUDITORS = _words("auditor admin owner")

BASELINE = {
    "read": Rule(_EVERY_ROLE, _EVERY_TYPE),
    "claim": Rule(_CLAIMANTS, _EVERY_TYPE),
    "release": Rule(_CLAIMANTS, _EVERY_TYPE),
    "dispatch": Rule(
        _words("dispatcher admin owner"), _HS, "high", _words("owner admin dispatcher integrator")
    ),
    "execute": Rule(
        _words("worker node_operator"), _EVERY_TYPE, "high", _words("dispatcher admin owner")
    ),
    "verify": Rule(_words("reviewer auditor"), _HS),
    "integrate": Rule(_INTEGRATORS, _words("human"), "high", _INTEGRATORS),
    "manage_policy": Rule(
        _words("admin owner"), _words("human"), "high", _words("admin owner"), "high"
    ),
    "audit_export": Rule(
        _AUDITORS, _words("human github_app service"), "critical", _AUDITORS, "medium"
    ),
}


def identity_fault(actor: ActorContext, scope: TenantScope, now: int, who: str) -> str | None:
    """Return the code for an identity that does not hold in this scope now, or None."""
    if scope not in actor.scopes:
        return f"{who}_scope_denied"
    if not actor.authenticated:
        return f"{who}_unauthenticated"
    if actor.revoked:
        return f"{who}_revoked"
    if actor.expires_at_epoch is not None and now >= actor.expires_at_epoch:
        return f"{who}_expired"
    return None


def authorize(  # noqa: C901, PLR0911 - one return for each check, in their order
    action: str,
    scope: TenantScope,
    actor: ActorContext,
    *,
    risk: str,
    data_class: str,
    now: int,
    approver: ActorContext | None = None,
    others: tuple[ActorContext, ...] = (),
) -> str:
    """Return the decision's code; the approver differs from the actor and from ``others``."""
    fault = identity_fault(actor, scope, now, "actor")
    if fault is not None:
        return fault
    rule = BASELINE.get(action)
    if rule is None:
        return "no_policy_rule"
    if actor.actor_type not in rule.actor_types:
        return "actor_type_denied"
    if not set(actor.roles) & rule.roles:
        return "role_denied"
    needed = DATA_CLASSES.index(data_class)
    if needed > DATA_CLASSES.index(actor.data_clearance):
        return "data_clearance_denied"
    effective_risk = max(LEVELS.index(risk), LEVELS.index(rule.risk_floor))
    if rule.approval_from is None or effective_risk < LEVELS.index(rule.approval_from):
        return "authorized"
    if approver is None:
        return "distinct_approval_required"
    if approver.principal_id in [party.principal_id for party in (actor, *others)]:
        return "self_approval_forbidden"
    fault = identity_fault(approver, scope, now, "approver")
    if fault is not None:
        return fault
    if approver.actor_type != "human":
        return "approver_type_denied"
    if not set(approver.roles) & rule.approver_roles:
        return "approver_role_denied"
    if needed > DATA_CLASSES.index(approver.data_clearance):
        return "approver_clearance_denied"
    return "authorized_with_distinct_approval"


def refuse(code: str) -> NoReturn:
    """Refuse with the code."""
    raise Refused(code)


def demand(valid: bool, code: str = "invalid_input") -> None:  # noqa: FBT001 - reads as a sentence
    """Refuse with the code unless the condition holds."""
    if not valid:
        refuse(code)


def is_text(value: object) -> bool:
    """Tell whether the value is free text: not blank, no control, no surrogate, not too long."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT:
        return False
    return all(unicodedata.category(letter) not in ("Cc", "Cs") for letter in value)


def is_digest(value: object) -> bool:
    """Tell whether the value is a digest in its one written form."""
    return isinstance(value, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", value) is not None


def is_principal(value: object) -> bool:
    """Tell whether the value is an identifier such as a principal's."""
    pattern = r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,255}"
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def check_task(task: ScopedResourceRef) -> None:
    """Refuse a reference to anything but a task."""
    demand(task.resource_type == "task")


def check_approval(approver: ActorContext | None, reference: object) -> None:
    """Refuse an approver without a well-formed reference, and a reference without one."""
    if approver is None:
        demand(reference is None)
    else:
        demand(is_principal(reference))


def canonical_digest(value: object) -> str:
    """Return the SHA-256 over canonical JSON."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def storage_key(task: ScopedResourceRef) -> str:
    """Return the name of the task's stream."""
    return f"{task.scope.tenant_id}/{task.scope.project_id}/task/{task.resource_id}"


def task_record(task: ScopedResourceRef) -> Record:
    """Return the record of a task reference."""
    return {
        "kind": "idkmesh-enterprise-resource-ref",
        "schema_version": "0.1",
        "tenant_id": task.scope.tenant_id,
        "project_id": task.scope.project_id,
        "resource_type": "task",
        "resource_id": task.resource_id,
    }


def owner_record(actor: ActorContext) -> Record:
    """Return the three fields that make an owner."""
    return {
        "principal_id": actor.principal_id,
        "issuer": actor.issuer,
        "actor_type": str(actor.actor_type),
    }


def binding_record(binding: ClaimBinding) -> Record:
    """Return the record of what a claim works on."""
    return {
        "work_unit_digest": binding.work_unit_digest,
        "source_revision": binding.source_revision,
        "inputs_digest": binding.inputs_digest,
    }


def policy_record(policy: TaskClaimPolicy) -> Record:
    """Return every field of a task policy by name."""
    return {name: getattr(policy, name) for name in POLICY_FIELDS}
