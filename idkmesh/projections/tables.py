"""The tables that the folds materialise into: loading a task, saving it, refolding all."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import codec
from idkmesh.events.catalog import TASK_EVENTS, is_task_stream, observed_scope, task_of
from idkmesh.events.port import Progress, ReadSession, Row, WriteSession
from idkmesh.events.sql import statements
from idkmesh.events.types import PolicyRecord
from idkmesh.identity import TASK, TenantScope
from idkmesh.policy import TaskClaimPolicy
from idkmesh.projections import observed
from idkmesh.projections.task import Claim, TaskState, evolve
from idkmesh.scalars import DataClass, Risk

_SQL: Final = statements(__file__, "tables.sql")
_TASK: Final = _SQL["task"]
_CLAIMS: Final = _SQL["claims"]
_PUT_TASK: Final = _SQL["put_task"]
_PUT_CLAIM: Final = _SQL["put_claim"]
_EXTEND_CLAIM: Final = _SQL["extend_claim"]
_PAGE: Final = 256

Table = Literal["tasks", "claims", "observations"]
TABLES: Final[tuple[Table, ...]] = get_args(Table)

_policies: Final = msgspec.json.Decoder(PolicyRecord)
_records: Final = msgspec.json.Encoder()


class _TaskRow(msgspec.Struct, array_like=True):
    """What is read of a task's own row, and how many events its stream holds."""

    policy: str
    epoch_0: int
    epoch_1: int
    epoch_2: int
    version: int | None


class Surveyed(NamedTuple):
    """A claim found in a scope, with what decides whether a reader may see it."""

    stream: str
    claim: Claim
    risk: Risk
    data_classification: DataClass


def load(session: ReadSession, stream: str) -> TaskState:
    """Return a task's state from its rows; without a policy where it has none.

    Args:
        session: The point to read at.
        stream: The task's storage key.

    Raises:
        StoreError: A row does not hold what the fold writes (``store_corrupt``).
    """
    state = TaskState(stream)
    found = session.rows(_TASK, (stream,))
    if not found:
        return state
    row = observed.of_row(_TaskRow, found[0])
    state.policy = _policy(row.policy)
    state.epochs = [row.epoch_0, row.epoch_1, row.epoch_2]
    state.version = row.version or 0
    claims = [observed.of_row(Claim, row) for row in session.rows(_CLAIMS, (stream,))]
    state.claims = {claim.request_id: claim for claim in claims}
    return state


def save(session: WriteSession, state: TaskState) -> None:
    """Write the rows that have changed, and no other."""
    if state.task_changed:
        session.rows(_PUT_TASK, task_row(state))
    for place, claim in state.changed.items():
        if place in state.moved:
            session.rows(_PUT_CLAIM, claim_row(state, claim))
        else:
            session.rows(
                _EXTEND_CLAIM,
                (
                    claim.acknowledged_at,
                    claim.lease_until,
                    claim.progress_by,
                    claim.submission_digest,
                    state.stream,
                    *place,
                ),
            )
    state.settle()


def task_row(state: TaskState) -> tuple[object, ...]:
    """Return the row of table ``tasks`` that a state materialises into."""
    task = task_of(state.stream)
    policy = _records.encode(PolicyRecord.of(state.terms)).decode()
    data_class = state.terms.data_classification
    counts = (len(state.claims), *state.epochs)
    return (state.stream, task.scope.key, task.resource_id, data_class, policy, *counts)


def claim_row(state: TaskState, claim: Claim) -> tuple[object, ...]:
    """Return the row of table ``claims`` that a claim materialises into."""
    return (state.stream, *msgspec.structs.astuple(claim))


def rebuild(session: WriteSession, progress: Progress | None = None) -> None:
    """Drop the tables and fold the log into new ones.

    Args:
        session: The transaction to do it in.
        progress: Called now and then with the events folded and the events there are.

    Raises:
        StoreError: An event does not read or could not have happened (``store_corrupt``),
            or a later version wrote it (``store_newer``).
    """
    total = session.last_sequence()
    tell = progress or (lambda _done, _total: None)
    tell(0, total)
    done = 0

    def rows(stream: str) -> Iterator[Row]:
        nonlocal done
        for row in session.stream(stream):
            yield row
            done += 1
            if not done & 0x3FF:
                tell(done, total)

    session.reset_tables()
    for stream in session.streams():
        if is_task_stream(stream):
            save(session, fold(stream, rows(stream)))
        elif observed_scope(stream) is not None:
            observed.save(session, observed.fold(stream, rows(stream)))


def fold(stream: str, rows: Iterable[Row]) -> TaskState:
    """Return a task's state from its events alone.

    Args:
        stream: The task's storage key.
        rows: The stream's rows, in order.

    Raises:
        StoreError: As for ``rebuild``.
    """
    state = TaskState(stream)
    for row in rows:
        apply(state, row)
    return state


def apply(state: TaskState, row: Row) -> None:
    """Fold one row of a task's stream into its state.

    Args:
        state: The state before; it is changed in place.
        row: The stream's next row.

    Raises:
        StoreError: The event does not read, is of another kind of stream, or could not have
            happened (``store_corrupt``), or a later version wrote it (``store_newer``); the
            message names its sequence.
    """
    try:
        event = codec.decode(row.body)
        if not isinstance(event, TASK_EVENTS):
            message = "expected an event of a task in a task's stream, but it is of another kind"
            raise StoreError(ErrorCode.STORE_CORRUPT, message)
        evolve(state, event, row.at)
    except StoreError as error:
        message = f"event {row.sequence} does not fold: {error.message}"
        raise StoreError(error.code, message) from error


def page(
    session: ReadSession, scope: TenantScope, after: tuple[str, int, int], *, live: bool
) -> list[Surveyed]:
    """Return the scope's next claims behind a place, in the order of task, slot and epoch.

    Args:
        session: The point to read at.
        scope: Whose claims.
        after: The stream, slot and epoch of the last claim seen.
        live: Only claims that are active or may be running.
    """
    sql = _SQL["survey_live" if live else "survey"]
    end = f"{scope.key}/{TASK}0"  # the character behind "/"
    found = session.rows(sql, (*after, end, _PAGE))
    return [Surveyed(row[0], observed.of_row(Claim, row[1:-2]), row[-2], row[-1]) for row in found]


def first_place(scope: TenantScope) -> tuple[str, int, int]:
    """Return the place before the scope's first claim."""
    return f"{scope.key}/{TASK}/", 0, 0


def owned_streams(session: ReadSession) -> list[str]:
    """Return the storage key of every task with an active claim, in any scope."""
    return [stream for (stream,) in session.rows(_SQL["owned"])]


def stored(session: ReadSession, table: Table) -> Iterator[tuple[Any, ...]]:
    """Yield a table's rows in the order of its key; for comparing live with refolded."""
    return session.each(_SQL[f"stored_{table}"])


@lru_cache(maxsize=1024)
def _policy(record: str) -> TaskClaimPolicy:
    try:
        return _policies.decode(record).policy()
    except (msgspec.DecodeError, ValueError) as error:
        message = "expected a task's policy in its row, but it does not read"
        raise StoreError(ErrorCode.STORE_CORRUPT, message) from error
