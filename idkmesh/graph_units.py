"""One WorkUnit as the graph reads it: detached from the caller, then checked rule by rule."""

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple, get_args

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from idkmesh import scalars
from idkmesh.digests import canonical_json
from idkmesh.errors import ClaimError, ErrorCode, InvalidInput
from idkmesh.naming import shown
from idkmesh.policy import RISKS
from idkmesh.prerequisites import WorkUnitSourceBinding, revision
from idkmesh.scalars import MAX_INT, Risk
from idkmesh.workunits import SCHEMA_VERSION, Relationship

MAX_UNITS: Final = 1_000_000
MAX_UNIT_SIZE: Final = 1_048_576

RELATIONSHIPS: Final[tuple[Relationship, ...]] = get_args(Relationship)

_EDGE_NEEDS: Final = frozenset({"work_unit_id", "relationship"})
_EDGE_FIELDS: Final = _EDGE_NEEDS | {"condition"}


class Edge(NamedTuple):
    """A dependency: the unit it names, how, and whether under a condition."""

    target: str
    relationship: str
    conditional: bool


class _Parts(Struct):
    """The parts of a WorkUnit that a graph looks at, of any type; what is absent is None."""

    schema_version: Any = None
    id: Any = None
    version: Any = None
    security: Any = None
    dependencies: Any = None
    provenance: Any = None


_parts: Final = Decoder(_Parts)


class GraphUnit(NamedTuple):
    """A WorkUnit that is JSON and has an id and a version; its parts are yet to be checked."""

    id: str
    version: int
    digest: str
    parts: _Parts


def read_units(work_units: Iterable[object]) -> list[GraphUnit]:
    """Return detached copies of the parts of the units, in the order given.

    Raises:
        InvalidInput: There is no unit or too many, or one is unfit (``invalid_input``).
    """
    if not isinstance(work_units, Iterable):
        message = f"expected work_units to be a list, but it is a {type(work_units).__name__}"
        raise InvalidInput(message)
    units = [
        _read(unit, f"work_units[{index}]")
        for index, unit in enumerate(islice(work_units, MAX_UNITS + 1))
    ]
    if not 1 <= len(units) <= MAX_UNITS:
        message = f"expected 1 to {MAX_UNITS} work_units, but there are not"
        raise InvalidInput(message)
    return units


def bind(unit: GraphUnit, source_revisions: Mapping[str, str]) -> WorkUnitSourceBinding:
    """Return the unit's binding to its trusted revision.

    Raises:
        ClaimError: The revision is missing, malformed, or not the one that the provenance
            states (``source_binding_invalid``).
    """
    provenance = unit.parts.provenance
    if not isinstance(provenance, dict):
        message = "expected provenance to be an object, but it is not"
        raise _refusal(ErrorCode.SOURCE_BINDING_INVALID, unit, message)
    try:
        trusted = revision(source_revisions.get(unit.id), "its source revision")
        stated = revision(provenance.get("source_revision", trusted), "provenance.source_revision")
    except InvalidInput as error:
        raise _refusal(ErrorCode.SOURCE_BINDING_INVALID, unit, error.message) from None
    if stated != trusted:
        message = "expected provenance.source_revision to be the trusted one, but it is not"
        raise _refusal(ErrorCode.SOURCE_BINDING_INVALID, unit, message)
    return WorkUnitSourceBinding(unit.id, unit.version, unit.digest, trusted)


def risk(unit: GraphUnit) -> Risk:
    """Return the unit's risk class.

    Raises:
        ClaimError: There is none that is known (``invalid_work_unit_security``).
    """
    security = unit.parts.security
    risk_class = security.get("risk_class") if isinstance(security, dict) else None
    for each in RISKS:
        if risk_class == each:
            return each
    message = f"expected security.risk_class to be one of {', '.join(RISKS)}, but it is not"
    raise _refusal(ErrorCode.INVALID_WORK_UNIT_SECURITY, unit, message)


def edges(unit: GraphUnit) -> list[Edge]:
    """Return the unit's dependencies in the order given.

    Raises:
        ClaimError: They are no list, or one of them has another shape than a dependency's
            (``invalid_dependency``).
    """
    if not isinstance(unit.parts.dependencies, list):
        message = "expected dependencies to be an array, but it is not"
        raise _refusal(ErrorCode.INVALID_DEPENDENCY, unit, message)
    try:
        return [
            _edge(each, f"dependencies[{index}]")
            for index, each in enumerate(unit.parts.dependencies)
        ]
    except InvalidInput as error:
        raise _refusal(ErrorCode.INVALID_DEPENDENCY, unit, error.message) from None


def check_version(unit: GraphUnit) -> None:
    """Refuse a WorkUnit of another version than 0.2 (``unsupported_work_unit``)."""
    if unit.parts.schema_version != SCHEMA_VERSION:
        message = f"expected schema_version to be {SCHEMA_VERSION!r}, but it is not"
        raise _refusal(ErrorCode.UNSUPPORTED_WORK_UNIT, unit, message)


def _edge(value: object, place: str) -> Edge:
    if not (isinstance(value, dict) and _EDGE_NEEDS <= value.keys() <= _EDGE_FIELDS):
        message = (
            f"expected {place} to have work_unit_id, relationship and perhaps a condition "
            "and nothing else, but it has not"
        )
        raise InvalidInput(message)
    return Edge(
        scalars.free_text(value["work_unit_id"], f"{place}.work_unit_id"),
        scalars.choice(value["relationship"], f"{place}.relationship", RELATIONSHIPS),
        value.get("condition") is not None,
    )


def _refusal(code: ErrorCode, unit: GraphUnit, message: str) -> ClaimError:
    return ClaimError(code, f"{message} (unit {shown(unit.id)})")


def _read(unit: object, place: str) -> GraphUnit:
    if type(unit) is not dict:
        message = f"expected {place} to be a dict, but it is a {type(unit).__name__}"
        raise InvalidInput(message)
    _refuse_bulk(unit, place)
    try:
        # The parts come out of the very text that the digest is over, so the two agree even
        # where another thread changes the caller's object, and nothing of that object is kept.
        text = canonical_json(unit)
        parts = _parts.decode(text)
    except (InvalidInput, DecodeError) as error:
        detail = error.message if isinstance(error, InvalidInput) else "a number is too long"
        message = f"expected {place} to be JSON content, but it is not: {detail}"
        raise InvalidInput(message) from None
    return GraphUnit(
        scalars.free_text(parts.id, f"{place}.id"),
        scalars.whole(parts.version, f"{place}.version", 1, MAX_INT),
        f"sha256:{sha256(text).hexdigest()}",
        parts,
    )


def _refuse_bulk(unit: dict[object, object], place: str) -> None:
    """Refuse what is too large once written out, before anything walks through all of it.

    A list that holds one list many times over, which holds one list many times over, is
    small in memory and without end on paper; one that holds itself never ends.
    """
    room = MAX_UNIT_SIZE
    pending: list[object] = [unit]
    for container in pending:  # grows while it is walked, by no more than the room
        size, members = _members(container, place)
        room -= size
        if room >= 0:
            for value in members:
                if type(value) is str:
                    room -= len(value)
                elif type(value) is int:
                    room -= value.bit_length() // 3  # about its digits
                elif isinstance(value, (dict, list, tuple)):
                    pending.append(value)
        if room < 0:
            message = (
                f"expected {place} to hold at most {MAX_UNIT_SIZE} characters and members, "
                "but it holds more"
            )
            raise InvalidInput(message)


def _members(container: object, place: str) -> tuple[int, Collection[object]]:
    """Return how much a container adds in members and keys, and the members."""
    if type(container) is dict:
        try:
            return len(container) + len("".join(container)), container.values()
        except TypeError:
            message = f"expected {place} to have str keys only, but it has another"
            raise InvalidInput(message) from None
    if type(container) is list or type(container) is tuple:
        return len(container), container
    # A class of the caller's own could tell each reader something else.
    kind = type(container).__name__
    message = f"expected {place} to hold plain dicts and lists, but it holds a {kind}"
    raise InvalidInput(message)
