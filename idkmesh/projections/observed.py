"""The table of observations: loading what one decision needs, saving, refolding."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import codec
from idkmesh.events.catalog import observations_stream, observed_scope
from idkmesh.events.port import ReadSession, Row, WriteSession
from idkmesh.events.sql import statements
from idkmesh.events.types import PrerequisiteObserved
from idkmesh.identity import TenantScope
from idkmesh.prerequisites import PrerequisiteObservation
from idkmesh.projections.observations import Observations, Observed, evolve

_SQL: Final = statements(__file__, "observed.sql")
_LATEST: Final = _SQL["latest"]

Kind = TypeVar("Kind", bound=msgspec.Struct)


def of_row(kind: type[Kind], columns: tuple[Any, ...]) -> Kind:
    """Return what a row of a table holds, each column of its type.

    Args:
        kind: A struct whose fields are the columns in order.
        columns: The row.

    Raises:
        StoreError: A column holds what the fold never writes (``store_corrupt``).
    """
    try:
        return msgspec.convert(columns, kind)
    except msgspec.ValidationError as error:
        message = "expected a row of the tables as the log folds to it, but it does not read"
        raise StoreError(ErrorCode.STORE_CORRUPT, message) from error


def load(session: ReadSession, observation: PrerequisiteObservation) -> Observations:
    """Return what decides about one observation: its namesakes and its unit's latest."""
    scope = observation.scope.key
    unit = observation.binding.work_unit_id
    stream = observations_stream(scope)
    known = Observations(stream, session.stream_version(stream))
    for name, key in (
        ("by_event", (observation.event_id,)),
        ("by_place", (unit, observation.sequence)),
        ("latest", (unit,)),
    ):
        for found in session.rows(_SQL[name], (scope, *key)):
            known.know(of_row(Observed, found))
    return known


def save(session: WriteSession, state: Observations) -> None:
    """Write the rows that were added."""
    for each in state.added:
        session.rows(_SQL["put"], row(state, each))
    state.added.clear()


def row(state: Observations, observed: Observed) -> tuple[object, ...]:
    """Return the row of table ``observations`` that an observation materialises into."""
    return (observed_scope(state.stream), *msgspec.structs.astuple(observed))


def fold(stream: str, rows: Iterable[Row]) -> Observations:
    """Return a scope's observations from its events alone.

    Args:
        stream: The scope's stream of observations.
        rows: The stream's rows, in order.

    Raises:
        StoreError: An event does not read or could not have happened (``store_corrupt``),
            or a later version wrote it (``store_newer``); the message names its sequence.
    """
    state = Observations(stream)
    for stored in rows:
        try:
            event = codec.decode(stored.body)
            if not isinstance(event, PrerequisiteObserved):
                message = "expected an observation in a stream of observations, but it is none"
                raise StoreError(ErrorCode.STORE_CORRUPT, message)
            evolve(state, event)
        except StoreError as error:
            message = f"event {stored.sequence} does not fold: {error.message}"
            raise StoreError(error.code, message) from error
    return state


def latest(session: ReadSession, scope: TenantScope, units: Iterable[str]) -> dict[str, Observed]:
    """Return the latest observation of each unit that has one; one row read a unit."""
    found = {}
    for unit in units:
        for columns in session.rows(_LATEST, (scope.key, unit)):
            found[unit] = of_row(Observed, columns)
    return found


def all_latest(session: ReadSession, scope: TenantScope) -> dict[str, Observed]:
    """Return the latest observation of every unit of the scope that has one."""
    rows = session.rows(_SQL["all_latest"], (scope.key,))
    return {columns[0]: of_row(Observed, columns) for columns in rows}


def of_unit(
    session: ReadSession, scope: TenantScope, unit: str
) -> tuple[PrerequisiteObservation, ...]:
    """Return every retained observation of a unit, oldest first."""
    rows = session.rows(_SQL["of_unit"], (scope.key, unit))
    return tuple(of_row(Observed, columns).observation(scope) for columns in rows)
