"""The log replayed: state as of a point, a task's history, new events as they come, new tables.

Every function here opens the file for itself. All but ``rebuild`` only read: they take no
write lock, see one consistent point each, and change nothing.
"""

import threading
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any, Final

import msgspec
from msgspec import Struct

from idkmesh import scalars
from idkmesh.errors import ErrorCode, InvalidInput, StoreError
from idkmesh.events import codec
from idkmesh.events.catalog import is_task_stream, tag_of, task_of
from idkmesh.events.files import Target
from idkmesh.events.port import Progress, ReadSession, Row, typed
from idkmesh.events.sqlite_store import SqliteStore, reading, writing
from idkmesh.events.types import Event
from idkmesh.identity import ScopedResourceRef, TenantScope, task_ref
from idkmesh.policy import TaskClaimPolicy
from idkmesh.projections import tables
from idkmesh.projections.task import TaskState
from idkmesh.questions import records
from idkmesh.records import TaskClaim
from idkmesh.seal import Seal
from idkmesh.verification import Problem, Verification, verify

__all__ = [
    "Change",
    "Logged",
    "Problem",
    "TaskAsOf",
    "Verification",
    "follow",
    "follow_rows",
    "history",
    "rebuild",
    "seal",
    "state_at",
    "verify",
]

_PAGE: Final = 512


class Logged(Struct, frozen=True):
    """One event of the log with its envelope.

    Attributes:
        sequence: Its place in the file, from 1.
        scope: The scope's storage key.
        number: Its place in the scope, from 1.
        stream: The stream that it stands in.
        version: Its place in the stream, from 1.
        at: When the command acted, in epoch seconds.
        event: The event, in today's shape.
        chain: The chain value, in hex.
    """

    sequence: int
    scope: str
    number: int
    stream: str
    version: int
    at: int
    event: Event
    chain: str

    @property
    def type(self) -> str:
        """The event's tag."""
        return tag_of(self.event)

    def to_dict(self) -> dict[str, Any]:
        """Return the event and its envelope as JSON content."""
        body = msgspec.to_builtins(self.event)
        return {
            "sequence": self.sequence,
            "scope": self.scope,
            "number": self.number,
            "stream": self.stream,
            "version": self.version,
            "at": self.at,
            "type": self.type,
            "body": body,
            "chain": self.chain,
        }


class Change(Struct, frozen=True):
    """One event of a task and what it changed.

    Attributes:
        logged: The event.
        changes: Every field that it changed, with its value before and after.
    """

    logged: Logged
    changes: dict[str, tuple[Any, Any]]


class TaskAsOf(Struct, frozen=True):
    """One task as it stood at a point of the log.

    Attributes:
        task: The task.
        policy: The policy that it is frozen under.
        claims: Its claims, ordered by (created_at, slot, epoch).
    """

    task: ScopedResourceRef
    policy: TaskClaimPolicy
    claims: tuple[TaskClaim, ...]


def state_at(
    target: Target,
    *,
    sequence: int | None = None,
    time: int | None = None,
    task: ScopedResourceRef | None = None,
    scope: TenantScope | None = None,
    progress: Progress | None = None,
) -> tuple[TaskAsOf, ...]:
    """Return tasks as they stood at a point of the log, sorted by their storage key.

    Args:
        target: The ledger's file.
        sequence: After this event; 0 is before the first.
        time: After the last event of this time (epoch seconds) or before it. Claims past a
            deadline at that time are shown as expired, as ``peek`` would have shown them.
            Without a sequence and a time, the point is the end of the log.
        task: Only this task; without it, every task of every scope.
        scope: Only this scope's tasks.
        progress: Called with the streams folded and the streams there are.

    Raises:
        InvalidInput: Both points are given, one is out of range, the log ends before
            ``sequence``, ``task`` refers to another type of resource, or ``target`` is no path
            (``invalid_input``).
        StoreError: The file cannot be read, with the codes of ``verify``; or a task's log does
            not fold (``store_corrupt``, ``store_newer``).
        TypeError: ``task`` is no ``ScopedResourceRef``, ``scope`` no ``TenantScope``, or
            ``target`` neither ``str`` nor a path object.
    """
    if sequence is not None and time is not None:
        message = "expected sequence or time, but both are given"
        raise InvalidInput(message)
    for point, field in ((sequence, "sequence"), (time, "time")):
        if point is not None:
            scalars.whole(point, field, 0, scalars.MAX_INT)
    only = None if task is None else task_ref(task).key
    under = "" if scope is None else f"{scalars.instance(scope, TenantScope, 'scope').key}/"
    with reading(target) as session:
        if sequence is not None and sequence > session.last_sequence():
            message = "expected sequence to be an event of the log, but the log ends before it"
            raise InvalidInput(message)
        until = session.last_until(time) if time is not None else sequence
        streams = session.streams() if only is None else [only]
        found = []
        for done, stream in enumerate(streams):
            if progress is not None:
                progress(done, len(streams))
            if is_task_stream(stream) and stream.startswith(under):
                rows = session.stream(stream)
                if until is not None:
                    rows = takewhile(lambda row: row.sequence <= until, rows)
                state = tables.fold(stream, rows)
                if state.policy is not None:
                    reference = task_of(stream)
                    claims = records(reference, state, time)
                    found.append(TaskAsOf(reference, state.policy, claims))
        return tuple(found)


def history(target: Target, task: ScopedResourceRef) -> Iterator[Change]:
    """Yield the events of a task in order, each with what it changed.

    Args:
        target: The ledger's file.
        task: The task.

    Raises:
        InvalidInput: ``task`` refers to another type of resource, or ``target`` is no path
            (``invalid_input``).
        StoreError: The file cannot be read, with the codes of ``verify``; or the task's log
            does not fold (``store_corrupt``, ``store_newer``).
        TypeError: ``task`` is no ``ScopedResourceRef``, or ``target`` neither ``str`` nor a
            path object.
    """
    stream = task_ref(task).key
    with reading(target) as session:
        state = TaskState(stream)
        before: dict[str, Any] = {}
        for row in session.stream(stream):
            tables.apply(state, row)
            behind = _fields(state)
            changed = {
                name: (before.get(name), value)
                for name, value in behind.items()
                if before.get(name) != value
            }
            yield Change(logged(row), changed)
            before = behind


def follow(
    target: Target,
    *,
    after: int = 0,
    wait: Callable[[], bool] | None = None,
) -> Iterator[Logged]:
    """Yield every event after a position, then new ones as they are committed, for ever.

    Each event comes exactly once and in order, whichever process commits it. The position
    to resume from is the ``sequence`` of the last event that was taken.

    Args:
        target: The ledger's file.
        after: The sequence after which to begin; 0 for the whole log.
        wait: Called where nothing is new; it returns False to end the iteration. By default
            it waits for a fifth of a second.

    Raises:
        InvalidInput: ``after`` is out of range, or ``target`` is no path (``invalid_input``).
        StoreError: The file cannot be read, with the codes of ``verify``, or is another by now
            (``store_unsafe``); an event does not read (``store_corrupt``, ``store_newer``) or is
            missing (``store_corrupt``); or the log ends before ``after`` (``store_corrupt``: it
            is not the log that the position is from).
        TypeError: ``target`` is neither ``str`` nor a path object.
    """
    position = scalars.whole(after, "after", 0, scalars.MAX_INT)
    for row in follow_rows(target, after=position, wait=wait):
        if row.sequence != position + 1:
            message = "expected the log's next event, but it is missing"
            raise StoreError(ErrorCode.STORE_CORRUPT, message)
        position = row.sequence
        yield logged(row)


def follow_rows(
    target: Target,
    *,
    after: int = 0,
    wait: Callable[[], bool] | None = None,
) -> Iterator[Row]:
    """Yield what ``follow`` does as it is stored, an event that does not read among it.

    Args:
        target: As for ``follow``.
        after: As for ``follow``.
        wait: As for ``follow``.

    Raises:
        InvalidInput: ``after`` is out of range, or ``target`` is no path (``invalid_input``).
        StoreError: As for ``follow``, but not of an event that does not read or is missing.
        TypeError: As for ``follow``.
    """
    position = scalars.whole(after, "after", 0, scalars.MAX_INT)
    pause = wait or _fifth_of_a_second
    store = SqliteStore.open(target, read_only=True, log_only=True)
    try:
        while True:
            store.require_same_file()
            with store.read() as session:
                if session.last_sequence() < position:
                    message = "expected the log to reach the position, but it ends before it"
                    raise StoreError(ErrorCode.STORE_CORRUPT, message)
                page = _page(session, position)
            for row in page:
                if type(row.sequence) is not int or row.sequence <= position:
                    message = "expected events one behind the other, but a page is damaged"
                    raise StoreError(ErrorCode.STORE_CORRUPT, message)
                position = row.sequence
                yield row
            if not page and not pause():
                return
    finally:
        store.close()


def seal(target: Target) -> str:
    """Return the seal of a log as it stands: keep it where the ledger is not.

    The seal says what the log claims; verify it before you trust it.

    Args:
        target: The ledger's file.

    Raises:
        InvalidInput: ``target`` is no path (``invalid_input``).
        StoreError: The file cannot be read, with the codes of ``verify``.
        TypeError: ``target`` is neither ``str`` nor a path object.
    """
    with reading(target) as session:
        return str(Seal.of(session.last_sequence(), session.scope_heads()))


def rebuild(
    target: Target,
    *,
    busy_timeout_seconds: float = 30,
    progress: Progress | None = None,
) -> None:
    """Refold a ledger's tables from its log into the same file, in one transaction.

    The tables may be damaged or gone. A file of an earlier version is upgraded with it.

    Args:
        target: The ledger's file.
        busy_timeout_seconds: How long to wait for the turn to write, in seconds.
        progress: Called now and then with the events folded and the events there are.

    Raises:
        InvalidInput: ``busy_timeout_seconds`` is out of range, or ``target`` is no path
            (``invalid_input``).
        StoreError: The log does not fold (``store_corrupt``, ``store_newer``), the schema is
            damaged beyond the tables (``store_corrupt``), or the file cannot be written
            (``store_readonly``, ``store_locked``, ``store_full``, ``store_unsafe``,
            ``store_foreign``): everything is then as it was. With ``outcome_unknown`` it may
            have been done; doing it again is safe.
        TypeError: ``target`` is neither ``str`` nor a path object.
    """
    with writing(target, busy_timeout_seconds=busy_timeout_seconds, log_only=True) as session:
        session.remake(lambda session: tables.rebuild(session, progress))


def logged(row: Row) -> Logged:
    """Return a row of the log with its event decoded.

    Raises:
        StoreError: The event does not read (``store_corrupt``, ``store_newer``).
    """
    event = codec.decode(typed(row).body)
    return Logged(
        row.sequence,
        row.scope,
        row.number,
        row.stream,
        row.version,
        row.at,
        event,
        row.chain.hex(),
    )


def _page(session: ReadSession, after: int) -> list[Row]:
    """Return the next rows; in front of one that cannot be read, those before it one by one."""
    try:
        return session.page(after, _PAGE)
    except StoreError:
        return session.page(after, 1)


def _fields(state: TaskState) -> dict[str, Any]:
    """Return every field of a task and its claims under one flat name each."""
    found: dict[str, Any] = {f"epoch[{slot}]": epoch for slot, epoch in enumerate(state.epochs)}
    if state.policy is not None:
        policy = msgspec.structs.asdict(state.policy)
        found.update({f"policy.{name}": value for name, value in policy.items()})
    for claim in state.claims.values():
        place = f"claim[{claim.slot}/{claim.epoch}]"
        fields = msgspec.structs.asdict(claim)
        found.update({f"{place}.{name}": value for name, value in fields.items()})
    return found


def _fifth_of_a_second() -> bool:
    threading.Event().wait(0.2)
    return True
