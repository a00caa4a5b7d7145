"""Sessions on the SQLite store: one consistent point for a reader, one turn for a writer."""

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import apsw

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import chain, codec, engine, files
from idkmesh.events.catalog import tag_of
from idkmesh.events.port import Head, Row
from idkmesh.events.sql import statements
from idkmesh.events.types import Event

if TYPE_CHECKING:
    from idkmesh.events.sqlite_store import Handle, SqliteStore

_SQL: Final = statements(__file__, "log.sql")
_HEAD: Final = _SQL["head"]
_SCOPE_HEAD: Final = _SQL["scope_head"]
_STREAM_VERSION: Final = _SQL["stream_version"]
_APPEND: Final = _SQL["append"]


class Session:
    """What reading and writing have in common: a connection that is this thread's."""

    __slots__ = ("_connection", "_handle", "_store")

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store
        self._handle: Handle
        self._connection: apsw.Connection

    def _begin(self, statement: str, deadline: float | None = None) -> None:
        """Take the thread's connection and begin; on failure, leave nothing taken."""
        handle = self._handle = self._store.handle()
        handle.lock.acquire()
        self._connection = handle.connection
        try:
            self._store.require_open()  # it may have been closed while this thread waited
            if deadline is not None:
                left = max(0.0, deadline - monotonic())
                self._connection.set_busy_timeout(round(left * 1000))
            self._connection.execute(statement)
        except BaseException as error:
            self._end()
            if isinstance(error, apsw.Error):
                raise engine.translated(error) from error
            raise

    def _end(self) -> None:
        """Undo whatever was not committed, and let the connection go."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:
            # Nothing was committed, which is all that an end must see to.
            self._store.drop(self._handle)
        finally:
            self._handle.lock.release()

    def rows(self, sql: str, bindings: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise engine.translated(error) from error
        except UnicodeDecodeError as error:
            raise _not_text() from error

    def head(self) -> Head:
        found = self.rows(_HEAD)
        return Head(*found[0][:2]) if found else Head(0, 0)

    def stream_version(self, stream: str) -> int:
        return self.rows(_STREAM_VERSION, (stream,))[0][0] or 0

    def problems(self) -> list[str]:
        return engine.problems(self._connection)

    def last_scope(self) -> str:
        found = self.rows(_HEAD)
        return found[0][2] if found else ""

    def copy_into(self, path: str) -> None:
        engine.backup(self._connection, path)

    def scope_heads(self) -> list[tuple[str, int, bytes]]:
        return [(scope, number, link) for scope, number, link in self.rows(_SQL["scope_heads"])]

    def log(self, after: int = 0) -> Iterator[Row]:
        return map(Row._make, self.each(_SQL["log"], (after,)))

    def page(self, after: int, most: int) -> list[Row]:
        return [Row._make(found) for found in self.rows(_SQL["page"], (after, most))]

    def stream(self, stream: str) -> Iterator[Row]:
        return map(Row._make, self.each(_SQL["stream"], (stream,)))

    def next_sequence(self, after: int) -> int | None:
        found: int | None = self.rows(_SQL["next_sequence"], (after,))[0][0]
        return found

    def last_until(self, at: int) -> int:
        found: int = self.rows(_SQL["last_until"], (at,))[0][0]
        return found

    def streams(self) -> list[str]:
        return [name for (name,) in self.rows(_SQL["streams"])]

    def each(self, sql: str, bindings: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(sql, bindings)
        except apsw.Error as error:
            raise engine.translated(error) from error
        except UnicodeDecodeError as error:
            raise _not_text() from error


class ReadSession(Session):
    """A reader's session: its first look fixes the point, and no lock is taken."""

    __slots__ = ()

    def __enter__(self) -> Self:
        self._begin("BEGIN")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()


class WriteSession(Session):
    """The writer's session: BEGIN IMMEDIATE, in turn, within the one busy timeout."""

    __slots__ = ("_scope_heads", "_sequence")

    def __enter__(self) -> Self:
        store = self._store
        store.require_writable()
        deadline = monotonic() + store.busy_timeout_seconds
        store.turnstile.acquire(deadline)
        try:
            store.require_same_file()
            self._begin("BEGIN IMMEDIATE", deadline)
        except BaseException:
            store.turnstile.release()
            raise
        self._sequence = -1
        self._scope_heads: dict[str, tuple[int, bytes]] = {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._end()
        finally:
            self._store.turnstile.release()

    def head(self) -> Head:
        found = self.rows(_HEAD)
        if not found:
            self._sequence = 0
            return Head(0, 0)
        sequence, at, scope, number, link = found[0]
        self._sequence = sequence
        self._scope_heads[scope] = (number, link)  # in a file of one scope, no other look-up
        return Head(sequence, at)

    def append(self, scope: str, stream: str, version: int, at: int, event: Event) -> None:
        if self._sequence < 0:
            self.head()
        number, previous = self._scope_heads.get(scope) or self._scope_head(scope)
        number += 1
        sequence = self._sequence + 1
        kind = tag_of(event)
        body = codec.encode(event)
        columns = (sequence, scope, number, stream, version, at, kind, body)
        link = chain.link(previous, columns)
        self.rows(_APPEND, (*columns, link))
        self._sequence = sequence
        self._scope_heads[scope] = (number, link)

    def adopt(self, row: Row) -> None:
        self.rows(_APPEND, row)

    def commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except (apsw.FullError, apsw.BusyError) as error:
            # The commit frame is the last that is written, so without room nothing happened.
            raise engine.translated(error) from error
        except apsw.Error as error:
            self._store.drop(self._handle)
            message = "expected the commit to be answered, but the file system failed in it"
            raise StoreError(ErrorCode.OUTCOME_UNKNOWN, message) from error
        self._sequence = -1
        self._scope_heads.clear()

    def upgrade(self, refold: Callable[[Self], None]) -> None:
        """Bring a file of an earlier version up to today's; wholly, or not at all."""
        if engine.file_version(self._connection) < files.USER_VERSION:
            refold(self)
            engine.mark_version(self._connection)
            self.commit()

    def reset_tables(self) -> None:
        try:
            engine.reset_tables(self._connection)
        except apsw.Error as error:
            raise engine.translated(error) from error

    def _scope_head(self, scope: str) -> tuple[int, bytes]:
        found = self.rows(_SCOPE_HEAD, (scope,))
        return (found[0][0], found[0][1]) if found else (0, chain.START)


def _not_text() -> StoreError:
    message = "expected text in UTF-8, but the file holds other bytes"
    return StoreError(ErrorCode.STORE_CORRUPT, message)
