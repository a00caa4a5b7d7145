"""One WorkUnit as the graph reads it: detached from the caller, then checked rule by rule."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple, cast, get_args

from idkmesh import scalars
from idkmesh.digests import MAX_DEPTH, canonical_digest
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


class GraphUnit(NamedTuple):
    """The parts of a WorkUnit that a graph looks at, and the digest over all of it."""

    id: str
    version: int
    digest: str
    schema_version: object
    security: object
    dependencies: object
    provenance: object


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
    provenance = unit.provenance
    try:
        trusted = revision(source_revisions.get(unit.id), "its source revision")
        if not isinstance(provenance, dict):
            message = "expected provenance to be an object, but it is not"
            raise InvalidInput(message)
        stated = provenance.get("source_revision", trusted)
        if revision(stated, "provenance.source_revision") != trusted:
            message = "expected provenance.source_revision to be the trusted one, but it is not"
            raise InvalidInput(message)
    except InvalidInput as error:
        raise _refusal(ErrorCode.SOURCE_BINDING_INVALID, unit, error.message) from None
    return WorkUnitSourceBinding(unit.id, unit.version, unit.digest, trusted)


def risk(unit: GraphUnit) -> Risk:
    """Return the unit's risk class.

    Raises:
        ClaimError: There is none that is known (``invalid_work_unit_security``).
    """
    security = unit.security
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
    if not isinstance(unit.dependencies, list):
        message = "expected dependencies to be an array, but it is not"
        raise _refusal(ErrorCode.INVALID_DEPENDENCY, unit, message)
    try:
        return [
            _edge(each, f"dependencies[{index}]") for index, each in enumerate(unit.dependencies)
        ]
    except InvalidInput as error:
        raise _refusal(ErrorCode.INVALID_DEPENDENCY, unit, error.message) from None


def check_version(unit: GraphUnit) -> None:
    """Refuse a WorkUnit of another version than 0.2 (``unsupported_work_unit``)."""
    if unit.schema_version != SCHEMA_VERSION:
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
    if not isinstance(unit, dict):
        message = f"expected {place} to be a dict, but it is a {type(unit).__name__}"
        raise InvalidInput(message)
    # Everything after this line sees one copy, so that the digest and the parts cannot come
    # from different moments of an object that another thread changes.
    content = cast("dict[object, object]", _Copier(place).copy(unit, MAX_DEPTH))
    try:
        digest = canonical_digest(content)
    except InvalidInput as error:
        message = f"expected {place} to be JSON content, but it is not: {error.message}"
        raise InvalidInput(message) from None
    return GraphUnit(
        scalars.free_text(content.get("id"), f"{place}.id"),
        scalars.whole(content.get("version"), f"{place}.version", 1, MAX_INT),
        digest,
        content.get("schema_version"),
        content.get("security"),
        content.get("dependencies"),
        content.get("provenance"),
    )


class _Copier:
    """Copies JSON content of bounded size and depth into plain dicts and lists.

    The bound counts members and characters as they would be written out: a list that holds
    one list many times over is small in memory and without end on paper.
    """

    __slots__ = ("_place", "_room")

    def __init__(self, place: str) -> None:
        self._place = place
        self._room = MAX_UNIT_SIZE

    def copy(self, value: object, depth: int) -> object:
        """Return a copy of ``value``; what is no JSON content is left for the digest to refuse."""
        if type(value) is str:
            self._take(len(value))
        elif type(value) is int:
            self._take(value.bit_length() // 8)
        elif isinstance(value, dict):
            self._enter(dict.__len__(value), depth)
            return {self._key(key): self.copy(each, depth - 1) for key, each in dict.items(value)}
        elif isinstance(value, list):
            self._enter(list.__len__(value), depth)
            return [self.copy(each, depth - 1) for each in list.__iter__(value)]
        elif isinstance(value, tuple):
            self._enter(tuple.__len__(value), depth)
            return [self.copy(each, depth - 1) for each in tuple.__iter__(value)]
        return value

    def _key(self, key: object) -> str:
        if type(key) is not str:
            message = f"expected the keys in {self._place} to be str, but one is not"
            raise InvalidInput(message)
        self._take(len(key))
        return key

    def _enter(self, members: int, depth: int) -> None:
        if depth == 0:
            message = f"expected {self._place} to have at most {MAX_DEPTH} levels, but it has more"
            raise InvalidInput(message)
        self._take(members)

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            message = (
                f"expected {self._place} to hold at most {MAX_UNIT_SIZE} characters and members, "
                "but it holds more"
            )
            raise InvalidInput(message)
