"""The authorization kernel: one pure function that says who may do what, and why not.

The order of its checks is the contract's (claims contract, Authorization kernel); the
first that fails decides. Nothing here reads a clock, a file or a default.
"""

from typing import Final, Literal, NoReturn, Self, TypedDict, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from idkmesh import scalars
from idkmesh.errors import ClaimError, ErrorCode, InvalidInput
from idkmesh.identity import ScopedResourceRef, TenantScope
from idkmesh.policy import DATA_CLASSES, RISKS
from idkmesh.scalars import MAX_INT, Action, ActorType, DataClass, Risk, Role

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
ACTOR_TYPES: Final[tuple[ActorType, ...]] = get_args(ActorType)
ROLES: Final[tuple[Role, ...]] = get_args(Role)

AUTHORIZED: Final = "authorized"
AUTHORIZED_WITH_APPROVAL: Final = "authorized_with_distinct_approval"
DecisionCode = Literal["authorized", "authorized_with_distinct_approval"]
Effect = Literal["allow", "deny", "requires_approval"]

_RISK_RANK: Final[dict[str, int]] = {risk: rank for rank, risk in enumerate(RISKS)}
_DATA_RANK: Final[dict[str, int]] = {name: rank for rank, name in enumerate(DATA_CLASSES)}


class ActorContext(Struct, frozen=True):
    """An identity that a trusted coordinator has established.

    Args:
        principal_id: Who acts: 1-256 letters, digits and ``._:/@-``.
        actor_type: human, github_app, github_actions, service, provider or node.
        issuer: Who vouches for the identity; as ``principal_id``.
        roles: Any of owner, admin, integrator, worker, reviewer, dispatcher,
            node_operator, auditor.
        scopes: The ``TenantScope`` values that the identity is bound to.
        data_clearance: public, internal, confidential or restricted.
        identity_revision: Which state of the identity this is: 1-128 letters, digits
            and ``._:/-``.
        authenticated: Whether the identity was proven.
        revoked: Whether it has been withdrawn.
        expires_at_epoch: Epoch seconds at which it ends, or None.

    Raises:
        InvalidInput: A field is outside what it may hold (``invalid_input``).
        TypeError: A member of ``scopes`` is no ``TenantScope``.
    """

    principal_id: str
    actor_type: ActorType
    issuer: str
    roles: frozenset[str]
    scopes: frozenset[TenantScope]
    data_clearance: DataClass
    identity_revision: str
    authenticated: bool = True
    revoked: bool = False
    expires_at_epoch: int | None = None

    def __post_init__(self) -> None:
        principal = scalars.principal_id(self.principal_id, "principal_id")
        force_setattr(self, "principal_id", principal)
        kind = scalars.choice(self.actor_type, "actor_type", ACTOR_TYPES)
        force_setattr(self, "actor_type", kind)
        force_setattr(self, "issuer", scalars.principal_id(self.issuer, "issuer"))
        force_setattr(self, "roles", scalars.choices(self.roles, "roles", ROLES))
        scopes = frozenset(
            scalars.instance(each, TenantScope, "scopes")
            for each in scalars.members(self.scopes, "scopes")
        )
        force_setattr(self, "scopes", scopes)
        clearance = scalars.choice(self.data_clearance, "data_clearance", DATA_CLASSES)
        force_setattr(self, "data_clearance", clearance)
        revision = scalars.revision_id(self.identity_revision, "identity_revision")
        force_setattr(self, "identity_revision", revision)
        scalars.flag(self.authenticated, "authenticated")
        scalars.flag(self.revoked, "revoked")
        if self.expires_at_epoch is not None:
            scalars.whole(self.expires_at_epoch, "expires_at_epoch", 0, MAX_INT)


class PolicyRule(Struct, frozen=True):
    """Who may take one action (claims contract, Authorization kernel).

    Args:
        action: read, claim, release, dispatch, execute, verify, integrate, manage_policy
            or audit_export.
        allowed_roles: Roles of which the actor needs one.
        allowed_actor_types: Types of which the actor must be one.
        max_data_classification: The highest data class that the rule reaches.
        risk_floor: The least risk that the action counts as.
        distinct_approval_at_risk: The risk from which a distinct approver is needed, or None.
        approval_roles: Roles of which the approver needs one.
        approval_actor_types: Types of which the approver must be one.

    Raises:
        InvalidInput: A field is outside what it may hold (``invalid_input``).
    """

    action: Action
    allowed_roles: frozenset[str]
    allowed_actor_types: frozenset[str]
    max_data_classification: DataClass = "restricted"
    risk_floor: Risk = "low"
    distinct_approval_at_risk: Risk | None = None
    approval_roles: frozenset[str] = frozenset()
    approval_actor_types: frozenset[str] = frozenset({"human"})

    def __post_init__(self) -> None:
        force_setattr(self, "action", scalars.choice(self.action, "action", ACTIONS))
        for field in ("allowed_roles", "approval_roles"):
            force_setattr(self, field, scalars.choices(getattr(self, field), field, ROLES))
        for field in ("allowed_actor_types", "approval_actor_types"):
            force_setattr(self, field, scalars.choices(getattr(self, field), field, ACTOR_TYPES))
        limit = scalars.choice(
            self.max_data_classification, "max_data_classification", DATA_CLASSES
        )
        force_setattr(self, "max_data_classification", limit)
        force_setattr(self, "risk_floor", scalars.choice(self.risk_floor, "risk_floor", RISKS))
        if self.distinct_approval_at_risk is not None:
            threshold = scalars.choice(
                self.distinct_approval_at_risk, "distinct_approval_at_risk", RISKS
            )
            force_setattr(self, "distinct_approval_at_risk", threshold)


class _Approved(TypedDict):
    distinct_approval_at_risk: Risk
    approval_roles: frozenset[str]


class AuthorizationPolicy(Struct, frozen=True):
    """A revision of the rules: one for each action that is allowed at all.

    Args:
        policy_id: 1-128 letters, digits and ``._:/-``.
        revision: The same.
        rules: ``PolicyRule`` values, at most one an action.

    Raises:
        InvalidInput: An id breaks its pattern or two rules share an action
            (``invalid_input``).
        TypeError: A member of ``rules`` is no ``PolicyRule``.
    """

    policy_id: str
    revision: str
    rules: tuple[PolicyRule, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "policy_id", scalars.revision_id(self.policy_id, "policy_id"))
        force_setattr(self, "revision", scalars.revision_id(self.revision, "revision"))
        rules = tuple(
            scalars.instance(each, PolicyRule, "rules")
            for each in scalars.members(self.rules, "rules")
        )
        if len({rule.action for rule in rules}) != len(rules):
            message = "expected rules to hold one rule an action, but two share one"
            raise InvalidInput(message)
        force_setattr(self, "rules", rules)

    def rule(self, action: Action) -> PolicyRule | None:
        """Return the rule for ``action``, or None."""
        for rule in self.rules:
            if rule.action == action:
                return rule
        return None

    @classmethod
    def enterprise_baseline(cls) -> Self:
        """Return the baseline policy, revision 0.1 (claims contract, the baseline table)."""
        everyone = frozenset(ACTOR_TYPES)
        staffed = frozenset({"human", "github_app", "github_actions", "service"})
        human = frozenset({"human"})
        executors = frozenset({"worker", "node_operator"})
        workers = executors | {"dispatcher"}
        managers = frozenset({"admin", "owner"})
        integrators = managers | {"integrator"}
        dispatchers = managers | {"dispatcher"}
        auditors = managers | {"auditor"}

        def at_high(roles: frozenset[str]) -> _Approved:
            return {"distinct_approval_at_risk": "high", "approval_roles": roles}

        return cls(
            policy_id="enterprise-baseline",
            revision="0.1",
            rules=(
                PolicyRule("read", frozenset(ROLES), everyone),
                PolicyRule("claim", workers, everyone),
                PolicyRule("release", workers, everyone),
                PolicyRule("dispatch", dispatchers, staffed, **at_high(dispatchers | integrators)),
                PolicyRule("execute", executors, everyone, **at_high(dispatchers)),
                PolicyRule("verify", frozenset({"reviewer", "auditor"}), staffed),
                PolicyRule("integrate", integrators, human, **at_high(integrators)),
                PolicyRule(
                    "manage_policy", managers, human, risk_floor="high", **at_high(managers)
                ),
                PolicyRule(
                    "audit_export",
                    auditors,
                    frozenset({"human", "github_app", "service"}),
                    risk_floor="medium",
                    distinct_approval_at_risk="critical",
                    approval_roles=auditors,
                ),
            ),
        )


class AuthorizationRequest(Struct, frozen=True, kw_only=True):
    """One question to the kernel: may ``actor`` take ``action`` on ``resource``, now?

    Args:
        scope: The scope that the request is made in.
        resource: The resource that it is about.
        action: One of the actions of ``PolicyRule``.
        actor: Who asks.
        risk: The resource's risk.
        data_classification: The resource's data class.
        now: Epoch seconds.
        approver: Who approves, or None.
        other_parties: Principals beside the actor that the approver must differ from.

    Raises:
        InvalidInput: ``action``, ``risk``, ``data_classification`` or ``now`` is outside what
            it may hold (``invalid_input``).
    """

    scope: TenantScope
    resource: ScopedResourceRef
    action: Action
    actor: ActorContext
    risk: Risk
    data_classification: DataClass
    now: int
    approver: ActorContext | None = None
    other_parties: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        scalars.choice(self.action, "action", ACTIONS)
        scalars.choice(self.risk, "risk", RISKS)
        scalars.choice(self.data_classification, "data_classification", DATA_CLASSES)
        scalars.whole(self.now, "now", 0, MAX_INT)


class AuthorizationDecision(Struct, frozen=True):
    """The kernel's answer: its effect, and the code of the check that decided."""

    effect: Effect
    code: str

    @property
    def allowed(self) -> bool:
        """Whether the action may go ahead."""
        return self.effect == "allow"


_ALLOW: Final = AuthorizationDecision("allow", AUTHORIZED)
_ALLOW_APPROVED: Final = AuthorizationDecision("allow", AUTHORIZED_WITH_APPROVAL)


def identify(actor: ActorContext, scope: TenantScope, now: int) -> ErrorCode | None:
    """Return the first failing check of an actor's identity, or None.

    Args:
        actor: Whose identity.
        scope: The scope that it must be bound to.
        now: Epoch seconds.
    """
    if scope not in actor.scopes:
        return ErrorCode.ACTOR_SCOPE_DENIED
    if not actor.authenticated:
        return ErrorCode.ACTOR_UNAUTHENTICATED
    if actor.revoked:
        return ErrorCode.ACTOR_REVOKED
    if actor.expires_at_epoch is not None and now >= actor.expires_at_epoch:
        return ErrorCode.ACTOR_EXPIRED
    return None


def authorize(  # noqa: PLR0911  (one return a check, in the order of the contract)
    request: AuthorizationRequest, policy: AuthorizationPolicy
) -> AuthorizationDecision:
    """Decide one request under one policy; the first failing check is the answer.

    Args:
        request: Who wants to do what to which resource, and when (epoch seconds).
        policy: The rules in force.

    Returns:
        The decision: ``allow`` with ``authorized`` or ``authorized_with_distinct_approval``,
        ``requires_approval`` with ``distinct_approval_required``, or ``deny`` with the code
        of the check that failed (claims contract, Authorization kernel).
    """
    actor = request.actor
    if request.resource.scope != request.scope:
        return _deny(ErrorCode.SCOPE_MISMATCH)
    failed = identify(actor, request.scope, request.now)
    if failed is not None:
        return _deny(failed)
    rule = policy.rule(request.action)
    if rule is None:
        return _deny(ErrorCode.NO_POLICY_RULE)
    if actor.actor_type not in rule.allowed_actor_types:
        return _deny(ErrorCode.ACTOR_TYPE_DENIED)
    if actor.roles.isdisjoint(rule.allowed_roles):
        return _deny(ErrorCode.ROLE_DENIED)
    data_rank = _DATA_RANK[request.data_classification]
    if data_rank > _DATA_RANK[actor.data_clearance]:
        return _deny(ErrorCode.DATA_CLEARANCE_DENIED)
    if data_rank > _DATA_RANK[rule.max_data_classification]:
        return _deny(ErrorCode.RULE_DATA_LIMIT_DENIED)
    if not _needs_approval(rule, request.risk):
        return _ALLOW
    if request.approver is None:
        code = ErrorCode.DISTINCT_APPROVAL_REQUIRED
        return AuthorizationDecision("requires_approval", code)
    failed = _approval(request, request.approver, rule, data_rank)
    return _ALLOW_APPROVED if failed is None else _deny(failed)


def require(request: AuthorizationRequest, policy: AuthorizationPolicy) -> AuthorizationDecision:
    """Return the decision where it allows the request.

    Raises:
        ClaimError: It does not; the code is the decision's.
    """
    decision = authorize(request, policy)
    if not decision.allowed:
        refuse(ErrorCode(decision.code), request.action)
    return decision


def require_identity(actor: ActorContext, scope: TenantScope, now: int, action: str) -> None:
    """Do nothing where the actor's identity holds.

    Raises:
        ClaimError: It does not; the code is the failing check's.
    """
    failed = identify(actor, scope, now)
    if failed is not None:
        refuse(failed, action)


def refuse(code: ErrorCode, action: str) -> NoReturn:
    """Raise the refusal of an action, in one form for every check."""
    raise ClaimError(code, f"expected authority to {action}, but {code.meaning}")


def _needs_approval(rule: PolicyRule, risk: Risk) -> bool:
    threshold = rule.distinct_approval_at_risk
    if threshold is None:
        return False
    effective = max(_RISK_RANK[risk], _RISK_RANK[rule.risk_floor])
    return effective >= _RISK_RANK[threshold]


def _approval(
    request: AuthorizationRequest, approver: ActorContext, rule: PolicyRule, data_rank: int
) -> ErrorCode | None:
    """Return the first failing check of the approver, or None."""
    parties = (request.actor.principal_id, *request.other_parties)
    if approver.principal_id in parties:
        return ErrorCode.SELF_APPROVAL_FORBIDDEN
    failed = identify(approver, request.scope, request.now)
    if failed is not None:
        return _AS_APPROVER[failed]
    if approver.actor_type not in rule.approval_actor_types:
        return ErrorCode.APPROVER_TYPE_DENIED
    if approver.roles.isdisjoint(rule.approval_roles):
        return ErrorCode.APPROVER_ROLE_DENIED
    if data_rank > _DATA_RANK[approver.data_clearance]:
        return ErrorCode.APPROVER_CLEARANCE_DENIED
    return None


_AS_APPROVER: Final = {
    ErrorCode.ACTOR_SCOPE_DENIED: ErrorCode.APPROVER_SCOPE_DENIED,
    ErrorCode.ACTOR_UNAUTHENTICATED: ErrorCode.APPROVER_UNAUTHENTICATED,
    ErrorCode.ACTOR_REVOKED: ErrorCode.APPROVER_REVOKED,
    ErrorCode.ACTOR_EXPIRED: ErrorCode.APPROVER_EXPIRED,
}


def _deny(code: ErrorCode) -> AuthorizationDecision:
    return AuthorizationDecision("deny", code)
