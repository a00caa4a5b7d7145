"""The input types: what each field may hold, shown by what it must refuse and must keep."""

from enum import StrEnum
from typing import Any

import pytest
from bad_inputs import (
    ANY,
    DIGEST,
    MARK,
    PRINCIPAL,
    RESOURCE_TYPE,
    REVISION,
    SCOPE_ID,
    SOURCE,
    bad_text,
    breaks,
    not_a_bool,
    not_between,
    not_text,
    other_than,
)
from builders import SCOPE, digest
from hypothesis import given, settings
from hypothesis import strategies as st

from idkmesh import (
    ActorContext,
    AuthorizationPolicy,
    ClaimBinding,
    ClaimError,
    InvalidInput,
    PolicyRule,
    ScopedResourceRef,
    TaskClaimPolicy,
    TenantScope,
)

RISK = ("low", "medium", "high", "critical")
CLASS = ("public", "internal", "confidential", "restricted")
TYPE = ("human", "github_app", "github_actions", "service", "provider", "node")
ROLE = (
    *("owner", "admin", "integrator", "worker"),
    *("reviewer", "dispatcher", "node_operator", "auditor"),
)
ACTION = (
    *("read", "claim", "release", "dispatch", "execute"),
    *("verify", "integrate", "manage_policy", "audit_export"),
)
WEEK = 604_800
RULE = PolicyRule("read", frozenset({"worker"}), frozenset({"human"}))

# A good value for every field of every input type.
GOOD: dict[type, dict[str, Any]] = {
    TenantScope: {"tenant_id": "acme", "project_id": "apollo"},
    ScopedResourceRef: {"scope": SCOPE, "resource_type": "task", "resource_id": "T-1"},
    ClaimBinding: {
        "work_unit_digest": digest("a"),
        "source_revision": "b" * 40,
        "inputs_digest": digest("c"),
    },
    TaskClaimPolicy: {
        "concurrent_slots": 2,
        "max_attempts": 4,
        "ack_seconds": 1,
        "lease_seconds": 2,
        "progress_seconds": 3,
        "hard_seconds": 4,
        "competition_reason": "two designs",
        "risk": "high",
        "data_classification": "internal",
        "max_events": 300,
    },
    ActorContext: {
        "principal_id": "user:ada@example/1",
        "actor_type": "human",
        "issuer": "https://idp.example",
        "roles": frozenset({"worker"}),
        "scopes": frozenset({SCOPE}),
        "data_clearance": "restricted",
        "identity_revision": "rev:1/2",
        "authenticated": False,
        "revoked": True,
        "expires_at_epoch": 5,
    },
    PolicyRule: {
        "action": "dispatch",
        "allowed_roles": frozenset({"owner", "admin"}),
        "allowed_actor_types": frozenset({"human", "node"}),
        "max_data_classification": "internal",
        "risk_floor": "medium",
        "distinct_approval_at_risk": "critical",
        "approval_roles": frozenset({"owner"}),
        "approval_actor_types": frozenset({"service"}),
    },
    AuthorizationPolicy: {"policy_id": "house:rules", "revision": "2/1", "rules": (RULE,)},
}


def members_of(*words: str) -> st.SearchStrategy[Any]:
    """Make what is no set of these words: another kind of object, or one word that is wrong."""
    return st.one_of(
        st.one_of(st.none(), st.integers(), st.text(max_size=5), st.sampled_from(words)),
        other_than(*words).filter(lambda value: value.__hash__ is not None).map(lambda bad: {bad}),
        other_than(*words).map(lambda bad: [words[0], bad]),
    )


# What each scalar field must refuse.
BAD: dict[type, dict[str, st.SearchStrategy[Any]]] = {
    TenantScope: {"tenant_id": breaks(SCOPE_ID), "project_id": breaks(SCOPE_ID)},
    ScopedResourceRef: {"resource_type": breaks(RESOURCE_TYPE), "resource_id": breaks(SCOPE_ID)},
    ClaimBinding: {
        "work_unit_digest": breaks(DIGEST),
        "source_revision": breaks(SOURCE),
        "inputs_digest": breaks(DIGEST),
    },
    TaskClaimPolicy: {
        "concurrent_slots": not_between(1, 3),
        "max_attempts": not_between(1, 32),
        "ack_seconds": not_between(1, WEEK),
        "lease_seconds": not_between(1, WEEK),
        "progress_seconds": not_between(1, WEEK),
        "hard_seconds": not_between(1, WEEK),
        "competition_reason": bad_text,
        "risk": other_than(*RISK),
        "data_classification": other_than(*CLASS),
        "max_events": not_between(256, 1_000_000),
    },
    ActorContext: {
        "principal_id": breaks(PRINCIPAL),
        "actor_type": other_than(*TYPE),
        "issuer": breaks(PRINCIPAL),
        "roles": members_of(*ROLE),
        "scopes": st.one_of(st.none(), st.integers(), st.text(max_size=5)),
        "data_clearance": other_than(*CLASS),
        "identity_revision": breaks(REVISION),
        "authenticated": not_a_bool,
        "revoked": not_a_bool,
        "expires_at_epoch": not_between(0, 2**62 - 1).filter(lambda value: value is not None),
    },
    PolicyRule: {
        "action": other_than(*ACTION),
        "allowed_roles": members_of(*ROLE),
        "allowed_actor_types": members_of(*TYPE),
        "max_data_classification": other_than(*CLASS),
        "risk_floor": other_than(*RISK),
        "distinct_approval_at_risk": other_than(*RISK).filter(lambda value: value is not None),
        "approval_roles": members_of(*ROLE),
        "approval_actor_types": members_of(*TYPE),
    },
    AuthorizationPolicy: {
        "policy_id": breaks(REVISION),
        "revision": breaks(REVISION),
        "rules": st.one_of(st.none(), st.integers(), st.text(max_size=5), st.just([RULE, RULE])),
    },
}
FIELDS = [(kind, field) for kind, fields in BAD.items() for field in fields]


@pytest.mark.parametrize(
    ("kind", "field"), FIELDS, ids=[f"{kind.__name__}.{field}" for kind, field in FIELDS]
)
@settings(max_examples=15)
@given(data=st.data())
def test_a_wrong_scalar_is_invalid_input(data: st.DataObject, kind: type, field: str) -> None:
    """Whatever breaks a field's rule is invalid_input, a ValueError too, and names no value."""
    bad = data.draw(BAD[kind][field])
    with pytest.raises(InvalidInput) as caught:
        kind(**{**GOOD[kind], field: bad})
    error = caught.value
    assert isinstance(error, ClaimError)
    assert isinstance(error, ValueError)
    assert error.code == "invalid_input"
    assert field in str(error)
    assert MARK not in str(error) + repr(error)
    assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("kind", "field", "members"),
    [
        (ScopedResourceRef, "scope", False),
        (ActorContext, "scopes", True),
        (AuthorizationPolicy, "rules", True),
    ],
)
@settings(max_examples=15)
@given(bad=not_text | st.text(max_size=5) | st.just(("acme", "apollo")) | st.just(RULE.action))
def test_a_wrong_object_is_a_type_error(bad: Any, kind: type, field: str, *, members: bool) -> None:
    """Where an object of the ledger belongs, nothing else is taken for one."""
    with pytest.raises(TypeError):
        kind(**{**GOOD[kind], field: [bad] if members else bad})


@pytest.mark.parametrize("kind", list(GOOD), ids=lambda kind: kind.__name__)
def test_inputs_are_values(kind: type) -> None:
    """An input is frozen and hashable, equal to one of the same content in any keyword order."""
    fields = GOOD[kind]
    one, two = kind(**fields), kind(**dict(reversed(fields.items())))
    assert one == two
    assert hash(one) == hash(two)
    assert len({one, two}) == 1
    for field, value in fields.items():
        assert getattr(one, field) == value
        with pytest.raises(AttributeError):
            setattr(one, field, value)


@pytest.mark.parametrize("kind", list(GOOD), ids=lambda kind: kind.__name__)
def test_docstrings_say_what_each_field_holds(kind: type) -> None:
    """Each field of an input type has its line in the type's docstring."""
    documented = {line.strip().split(":")[0] for line in (kind.__doc__ or "").splitlines()}
    assert set(GOOD[kind]) <= documented


def test_a_field_that_does_not_exist_is_a_type_error() -> None:
    """A limit that is not known is refused instead of being accepted and ignored."""
    unknown: dict[str, Any] = {"lease_minutes": 5}
    with pytest.raises(TypeError):
        TaskClaimPolicy(**unknown)


def test_a_callers_set_is_detached() -> None:
    """Changing the set that an identity was made from does not change the identity."""
    roles: Any = {"worker"}
    who = ActorContext(**{**GOOD[ActorContext], "roles": roles})
    roles.add("owner")
    assert who.roles == frozenset({"worker"})


@pytest.mark.parametrize(
    ("kind", "field", "pattern"),
    [
        (TenantScope, "tenant_id", SCOPE_ID),
        (TenantScope, "project_id", SCOPE_ID),
        (ScopedResourceRef, "resource_type", RESOURCE_TYPE),
        (ScopedResourceRef, "resource_id", SCOPE_ID),
        (ClaimBinding, "source_revision", SOURCE),
        (ActorContext, "principal_id", PRINCIPAL),
        (ActorContext, "issuer", PRINCIPAL),
        (ActorContext, "identity_revision", REVISION),
        (AuthorizationPolicy, "policy_id", REVISION),
        (AuthorizationPolicy, "revision", REVISION),
    ],
)
@settings(max_examples=15)
@given(data=st.data())
def test_what_fits_is_kept_as_it_is(
    data: st.DataObject, kind: type, field: str, pattern: str
) -> None:
    """Every text of a field's pattern, up to its full length, is taken unchanged."""
    good = data.draw(st.from_regex(pattern, fullmatch=True))
    assert getattr(kind(**{**GOOD[kind], field: good}), field) == good


@pytest.mark.parametrize(
    ("kind", "field", "longest"),
    [
        (TenantScope, "tenant_id", 128),
        (TenantScope, "project_id", 128),
        (ScopedResourceRef, "resource_type", 64),
        (ScopedResourceRef, "resource_id", 128),
        (ActorContext, "principal_id", 256),
        (ActorContext, "issuer", 256),
        (ActorContext, "identity_revision", 128),
        (AuthorizationPolicy, "policy_id", 128),
        (TaskClaimPolicy, "competition_reason", 512),
    ],
)
def test_a_text_is_as_long_as_its_limit_and_no_longer(kind: type, field: str, longest: int) -> None:
    """The longest text is allowed, one character more is not."""
    fields = {**GOOD[kind], field: "a" * longest}
    assert getattr(kind(**fields), field) == "a" * longest
    with pytest.raises(InvalidInput, match=field):
        kind(**{**fields, field: "a" * (longest + 1)})


@pytest.mark.parametrize(
    ("kind", "field", "good", "bad"),
    [
        (ClaimBinding, "source_revision", (40, 64), (0, 39, 41, 50, 63, 65, 128)),
        (ClaimBinding, "work_unit_digest", (64,), (0, 40, 63, 65, 128)),
        (ClaimBinding, "inputs_digest", (64,), (0, 40, 63, 65, 128)),
    ],
)
def test_hex_has_its_lengths_and_no_other(
    kind: type, field: str, good: tuple[int, ...], bad: tuple[int, ...]
) -> None:
    """A revision has 40 or 64 lowercase hex digits, a digest 64 behind its name."""
    name = "" if field == "source_revision" else "sha256:"
    for length in good:
        text = name + "0f" * (length // 2)
        assert getattr(kind(**{**GOOD[kind], field: text}), field) == text
        for wrong in (text.upper(), text + "\n", text[:-1] + "g", text[len(name) :] + name):
            if wrong != text:
                with pytest.raises(InvalidInput, match=field):
                    kind(**{**GOOD[kind], field: wrong})
    for length in bad:
        with pytest.raises(InvalidInput, match=field):
            kind(**{**GOOD[kind], field: name + "a" * length})


def test_a_member_of_an_enum_is_its_word() -> None:
    """Who keeps words in a StrEnum may pass its members; the input holds the plain word."""
    word = StrEnum("word", {"HUMAN": "human", "WORKER": "worker", "HIGH": "high", "NAME": "ada"})
    fields = {
        "principal_id": word["NAME"],
        "actor_type": word["HUMAN"],
        "roles": {word["WORKER"]},
    }
    who = ActorContext(**{**GOOD[ActorContext], **fields})
    high: Any = word["HIGH"]
    kept = [who.principal_id, who.actor_type, *who.roles, TaskClaimPolicy(risk=high).risk]
    assert kept == ["ada", "human", "worker", "high"]
    assert {type(each) for each in kept} == {str}


@settings(max_examples=40)
@given(text=st.text(ANY, min_size=1, max_size=512).filter(str.strip))
def test_free_text_may_be_any_script(text: str) -> None:
    """Text without control characters is kept to the letter, bidi marks and emoji included."""
    assert TaskClaimPolicy(competition_reason=text).competition_reason == text


def test_a_reason_is_not_shown_by_its_policy() -> None:
    """Free text may hold what it should not, so no repr gives it away."""
    assert MARK not in repr(TaskClaimPolicy(competition_reason=f"because of {MARK}"))
