"""What each scalar of the contract may hold: one rule, for arguments, events and schemas.

An annotated type states the rule to msgspec, which checks it on decoding and writes it
into the JSON Schemas; the function of the same concept checks an argument. Patterns end
in a negative lookahead, since ``$`` would let a trailing newline pass.
"""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Final, Literal, TypeVar, get_args

from msgspec import Meta, Struct

from idkmesh.errors import InvalidInput

END: Final = r"(?![\s\S])"
MAX_INT: Final = 2**62 - 1
MAX_TEXT: Final = 512
MAX_WINDOW_SECONDS: Final = 604_800
LAST_DEADLINE: Final = MAX_INT + MAX_WINDOW_SECONDS
MAX_SLOTS: Final = 3
MAX_ATTEMPTS: Final = 32

ScopeId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}{END}")]
ResourceType = Annotated[str, Meta(pattern=rf"^[a-z][a-z0-9._-]{{0,63}}{END}")]
PrincipalId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._:/@-]{{0,255}}{END}")]
RevisionId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._:/-]{{0,127}}{END}")]
Digest = Annotated[str, Meta(pattern=rf"^sha256:[0-9a-f]{{64}}{END}")]
SourceRevision = Annotated[str, Meta(pattern=rf"^(?:[0-9a-f]{{40}}|[0-9a-f]{{64}}){END}")]
FreeText = Annotated[
    str,
    Meta(
        pattern=r"^(?=[\s\S]*\S)[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,512}" + END,
        min_length=1,
        max_length=MAX_TEXT,
    ),
]

Seconds = Annotated[int, Meta(ge=0, le=MAX_INT)]
DeadlineSeconds = Annotated[int, Meta(ge=0, le=LAST_DEADLINE)]
Window = Annotated[int, Meta(ge=1, le=MAX_WINDOW_SECONDS)]
Slots = Annotated[int, Meta(ge=1, le=MAX_SLOTS)]
Attempts = Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)]
Slot = Annotated[int, Meta(ge=0, lt=MAX_SLOTS)]
Epoch = Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)]
EventBudget = Annotated[int, Meta(ge=256, le=1_000_000)]

Risk = Literal["low", "medium", "high", "critical"]
DataClass = Literal["public", "internal", "confidential", "restricted"]
ActorType = Literal["human", "github_app", "github_actions", "service", "provider", "node"]
Role = Literal[
    "owner",
    "admin",
    "integrator",
    "worker",
    "reviewer",
    "dispatcher",
    "node_operator",
    "auditor",
]
Action = Literal[
    "read",
    "claim",
    "release",
    "dispatch",
    "execute",
    "verify",
    "integrate",
    "manage_policy",
    "audit_export",
]
ClaimState = Literal["active", "released", "expired"]
Occupancy = Literal["none", "unknown", "running", "terminal"]
ExecutionStatus = Literal["running", "terminal"]
Deadline = Literal["ack_by", "lease_until", "progress_by", "hard_until"]
EndedBy = Literal[Deadline, "clock_repair"]


T = TypeVar("T")
Word = TypeVar("Word", bound=str)


def _text_rule(kind: object, expected: str) -> Callable[[object, str], str]:
    """Make the check of an argument out of an annotated type's pattern."""
    meta: Meta = get_args(kind)[1]
    pattern = re.compile(str(meta.pattern))

    def check(value: object, field: str) -> str:
        text = plain(value, field)
        if pattern.match(text) is None:
            message = f"expected {field} to be {expected}, but it is not"
            raise InvalidInput(message)
        return text

    return check


def plain(value: object, field: str) -> str:
    """Return the plain ``str`` of ``value``, which may be a member of a ``StrEnum``.

    Raises:
        InvalidInput: ``value`` is no ``str``.
    """
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    message = f"expected {field} to be a str, but it is a {type(value).__name__}"
    raise InvalidInput(message)


scope_id = _text_rule(ScopeId, "1-128 letters, digits, '.', '_' or '-'")
resource_type = _text_rule(ResourceType, "1-64 lowercase letters, digits, '.', '_' or '-'")
principal_id = _text_rule(PrincipalId, "an identifier of 1-256 characters")
revision_id = _text_rule(RevisionId, "an identifier of 1-128 characters")
digest = _text_rule(Digest, "'sha256:' and 64 lowercase hex digits")
source_revision = _text_rule(SourceRevision, "40 or 64 lowercase hex digits")
free_text = _text_rule(
    FreeText, "non-blank text of at most 512 characters without control characters"
)


def whole(value: object, field: str, low: int, high: int) -> int:
    """Return ``value`` where it is exactly an ``int`` from ``low`` to ``high``.

    Raises:
        InvalidInput: It is of another type (``bool`` included) or outside the range.
    """
    if type(value) is int and low <= value <= high:
        return value
    message = f"expected {field} to be an int from {low} to {high}, but it is not"
    raise InvalidInput(message)


def duration(value: object, field: str, low: float, high: float) -> float:
    """Return ``value`` where it is a number of seconds from ``low`` to ``high``.

    Raises:
        InvalidInput: It is of another type (``bool`` included) or outside the range.
    """
    if isinstance(value, (int, float)) and type(value) is not bool and low <= value <= high:
        return float(value)
    message = f"expected {field} to be seconds from {low} to {high}, but it is not"
    raise InvalidInput(message)


def flag(value: object, field: str) -> bool:
    """Return ``value`` where it is exactly a ``bool``.

    Raises:
        InvalidInput: It is of another type.
    """
    if type(value) is bool:
        return value
    message = f"expected {field} to be a bool, but it is a {type(value).__name__}"
    raise InvalidInput(message)


def choice(value: object, field: str, allowed: Iterable[Word]) -> Word:
    """Return ``value`` where it is one of the ``allowed`` words.

    Raises:
        InvalidInput: It is no ``str`` or another word.
    """
    text = plain(value, field)
    for word in allowed:
        if word == text:
            return word
    message = f"expected {field} to be one of {', '.join(allowed)}, but it is not"
    raise InvalidInput(message)


def choices(values: object, field: str, allowed: Collection[Word]) -> frozenset[Word]:
    """Return a set, list or tuple of the ``allowed`` words as a ``frozenset``.

    Raises:
        InvalidInput: It is another kind of object or holds another word.
    """
    return frozenset(choice(each, field, allowed) for each in members(values, field))


def members(values: object, field: str) -> Iterable[object]:
    """Return ``values`` where it is a set, list or tuple.

    Raises:
        InvalidInput: It is another kind of object.
    """
    if isinstance(values, (frozenset, set, tuple, list)):
        return values
    message = f"expected {field} to be a set, but it is a {type(values).__name__}"
    raise InvalidInput(message)


def instance(value: object, kind: type[T], field: str) -> T:
    """Return ``value`` where it is a ``kind``; a value type's subclass is another type.

    Raises:
        TypeError: It is another kind of object.
    """
    if isinstance(value, kind) and (type(value) is kind or not isinstance(value, Struct)):
        return value
    message = f"expected {field} to be a {kind.__name__}, but it is a {type(value).__name__}"
    raise TypeError(message)
