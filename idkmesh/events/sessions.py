"""Sessions on the SQLite store: one consistent point for a reader, one turn for a writer."""

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import apsw

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import chain, codec, engine, files
from idkmesh.events.catalog import tag_of
from idkmesh.events.port import NOTHING, Head, Row, mistyped, typed
from idkmesh.events.sql import statements
from idkmesh.events.types import Event
from idkmesh.scalars import MAX_INT

if TYPE_CHECKING:
    from idkmesh.events.sqlite_store import Handle, SqliteStore

_SQL: Final = statements(__file__, "log.sql")
_HEAD: Final = _SQL["head"]
_SCOPE_HEAD: Final = _SQL["scope_head"]
_STREAM_VERSION: Final = _SQL["stream_version"]
_APPEND: Final = _SQL["append"]
_HEAD_TYPES: Final = (int, int, str, int, bytes)


class Session:
    """What reading and writing have in common: a connection that is this thread's.

    An interrupt (Ctrl-C) may come between any two steps, before the first of ``__exit__``
    too. Therefore ending is safe to repeat, and a session that is dropped without it ends.
    One that has ended becomes a plain ``Session``, which has no ``__del__``: an interrupt in
    there would be lost.
    """

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store
        self._handle: Handle | None = None
        self._connection: apsw.Connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _begin(self, statement: str, deadline: float) -> None:
        """Take the thread's connection and begin; whoever calls ends it, whatever happens."""
        handle = self._store.handle()
        if not handle.lock.acquire(deadline):
            message = "expected the connection to be free, but a call of this thread is using it"
            raise StoreError(ErrorCode.STORE_LOCKED, message)
        self._handle = handle
        self._connection = handle.connection
        self._store.require_open()  # it may have been closed while this thread waited
        try:
            self._connection.set_busy_timeout(round(max(0.0, deadline - monotonic()) * 1000))
            self._connection.execute(statement)
        except apsw.Error as error:
            raise engine.translated(error) from error

    def _end(self) -> None:
        """Undo whatever was not committed, let everything go, and be over."""
        self._undo()
        self.__class__ = Session  # all of them have one layout

    def _undo(self) -> None:
        handle: Handle | None = getattr(self, "_handle", None)  # interrupted in the making
        if handle is None:
            return
        if self._store.is_at_home():  # in a forked child all of this is the parent's
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            except apsw.Error:
                # Nothing was committed, which is all that an end must see to.
                self._store.drop(handle)
            self._store.let_go(handle)
        self._handle = None

    def rows(self, sql: str, bindings: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self._require_home()
        try:
            return self._connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise engine.translated(error) from error
        except UnicodeDecodeError as error:
            raise _not_text() from error

    def head(self) -> Head:
        found = self.rows(_HEAD)
        return _end(found[0]) if found else NOTHING

    def last_sequence(self) -> int:
        found = self.rows(_SQL["last_sequence"])
        if not found:
            return 0
        if type(found[0][0]) is not int:
            raise mistyped()
        return int(found[0][0])

    def stream_version(self, stream: str) -> int:
        found = self.rows(_STREAM_VERSION, (stream,))[0][0]
        if found is not None and type(found) is not int:
            raise mistyped()
        return found or 0

    def problems(self) -> list[str]:
        return engine.problems(self._connection)

    def copy_into(self, path: str) -> None:
        engine.backup(self._connection, path)

    def scope_heads(self) -> list[tuple[str, int, bytes]]:
        found = self.rows(_SQL["scope_heads"])
        if any(tuple(map(type, each)) != (str, int, bytes) for each in found):
            raise mistyped()
        return [(scope, number, link) for scope, number, link in found]

    def log(self, after: int = 0) -> Iterator[Row]:
        return map(typed, map(Row._make, self.each(_SQL["log"], (after,))))

    def page(self, after: int, most: int) -> list[Row]:
        return [Row._make(found) for found in self.rows(_SQL["page"], (after, most))]

    def stream(self, stream: str) -> Iterator[Row]:
        return map(typed, map(Row._make, self.each(_SQL["stream"], (stream,))))

    def before_the_first(self) -> int:
        found: int = self.rows(_SQL["before_the_first"])[0][0]
        return found

    def next_sequence(self, after: int) -> int | None:
        found: int | None = self.rows(_SQL["next_sequence"], (after,))[0][0]
        return found

    def last_until(self, at: int) -> int:
        found: int = self.rows(_SQL["last_until"], (at,))[0][0]
        return found

    def streams(self) -> list[str]:
        names = [name for (name,) in self.rows(_SQL["streams"])]
        if not all(type(name) is str for name in names):
            raise mistyped()
        return names

    def each(self, sql: str, bindings: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        self._require_home()
        try:
            yield from self._connection.execute(sql, bindings)
        except apsw.Error as error:
            raise engine.translated(error) from error
        except UnicodeDecodeError as error:
            raise _not_text() from error

    def _require_home(self) -> None:
        """Refuse to go on in a child that was forked inside this session."""
        if not self._store.is_at_home():
            self._store.require_open()


class ReadSession(Session):
    """A reader's session: its first look fixes the point, and no lock is taken."""

    def __enter__(self) -> Self:
        try:
            self._begin("BEGIN", monotonic() + self._store.busy_timeout_seconds)
        except BaseException:
            self._end()
            raise
        return self

    def __del__(self) -> None:
        self._end()


class WriteSession(Session):
    """The writer's session: BEGIN IMMEDIATE, in turn, within the one busy timeout."""

    def __init__(self, store: "SqliteStore") -> None:
        super().__init__(store)
        self._has_turn = False
        self._sequence = -1
        self._scope_heads: dict[str, tuple[int, bytes]] = {}

    def __enter__(self) -> Self:
        store = self._store
        store.require_writable()
        deadline = monotonic() + store.busy_timeout_seconds
        try:
            if store.turnstile.is_held_here():
                message = "expected a turn to write, but a call of this thread has it"
                raise StoreError(ErrorCode.STORE_LOCKED, message)
            self._has_turn = True  # before it is so, since releasing too much is harmless
            store.turnstile.acquire(deadline)
            store.require_same_file()
            self._begin("BEGIN IMMEDIATE", deadline)
        except BaseException:
            self._end()
            raise
        return self

    def __del__(self) -> None:
        self._end()

    def _undo(self) -> None:
        super()._undo()
        if getattr(self, "_has_turn", False):
            self._store.turnstile.release()
            self._has_turn = False

    def head(self) -> Head:
        found = self.rows(_HEAD)
        if not found:
            self._sequence = 0
            return NOTHING
        head = _end(found[0])
        _, _, scope, number, link = found[0]
        self._sequence = head.sequence
        self._scope_heads[scope] = (number, link)  # in a file of one scope, no other look-up
        return head

    def append(self, scope: str, stream: str, version: int, at: int, event: Event) -> None:
        if self._sequence < 0:
            self.head()
        number, previous = self._scope_heads.get(scope) or self._scope_head(scope)
        number += 1
        sequence = self._sequence + 1
        kind = tag_of(event)
        body = codec.encode(event)
        columns = (sequence, scope, number, stream, version, at, kind, body)
        link = chain.link(previous, *columns)
        self.rows(_APPEND, (*columns, link))
        self._sequence = sequence
        self._scope_heads[scope] = (number, link)

    def adopt(self, row: Row) -> None:
        self.rows(_APPEND, row)

    def commit(self) -> None:
        self._require_home()
        try:
            self._connection.execute("COMMIT")
        except (apsw.FullError, apsw.BusyError) as error:
            # The commit frame is the last that is written, so without room nothing happened.
            raise engine.translated(error) from error
        except apsw.Error as error:
            if self._handle is not None:
                self._store.drop(self._handle)
            message = "expected the commit to be answered, but the file system failed in it"
            raise StoreError(ErrorCode.OUTCOME_UNKNOWN, message) from error
        self._sequence = -1
        self._scope_heads.clear()

    def is_older(self) -> bool:
        """Say whether the file is of an earlier version."""
        return engine.file_version(self._connection) < files.USER_VERSION

    def remake(self, refold: Callable[[Self], None]) -> None:
        refold(self)
        engine.mark_version(self._connection)
        engine.require_schema(self._connection, log_only=False)
        self.commit()

    def reset_tables(self) -> None:
        try:
            engine.reset_tables(self._connection)
        except apsw.Error as error:
            raise engine.translated(error) from error

    def _scope_head(self, scope: str) -> tuple[int, bytes]:
        found = self.rows(_SCOPE_HEAD, (scope,))
        if not found:
            return 0, chain.START
        number, link = found[0]
        if type(number) is not int or type(link) is not bytes:
            raise mistyped()
        return number, link


def _end(found: tuple[Any, ...]) -> Head:
    """Return the end of the log out of its last row, each value being what it must."""
    sequence, at, scope = found[:3]
    if tuple(map(type, found)) != _HEAD_TYPES or not 0 <= at <= MAX_INT:
        raise mistyped()
    return Head(sequence, at, scope)


def _not_text() -> StoreError:
    message = "expected text in UTF-8, but the file holds other bytes"
    return StoreError(ErrorCode.STORE_CORRUPT, message)
