"""The SQLite store: one file, one writer at a time, any number of readers.

A connection belongs to one thread. All that one process has open is entered in a registry
by (device, inode), because SQLite's locks, the turnstile and the dangers of a fork belong
to the file and the process, not to one ledger object.
"""

import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

import apsw

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import chain, codec, engine, files
from idkmesh.events.catalog import tag_of
from idkmesh.events.port import Head, ReadSession, Row, Store, WriteSession
from idkmesh.events.sql import statements
from idkmesh.events.turnstile import Turnstile
from idkmesh.events.types import Event

_SQL: Final = statements(__file__, "log.sql")
_HEAD: Final = _SQL["head"]
_SCOPE_HEAD: Final = _SQL["scope_head"]
_STREAM_VERSION: Final = _SQL["stream_version"]
_APPEND: Final = _SQL["append"]


class _Shared:
    """What every store on one file shares in this process: the turnstile, while it is open."""

    def __init__(self, turnstile: Turnstile) -> None:
        self.turnstile = turnstile
        self.users = 0


_open_files: Final[dict[files.Inode, _Shared]] = {}
_inherited_files: Final[set[files.Inode]] = set()
_inherited: Final[list[object]] = []
_stores: Final[weakref.WeakSet["SqliteStore"]] = weakref.WeakSet()


class _Handle:
    """One thread's connection, and the lock that closing waits for."""

    __slots__ = ("__weakref__", "connection", "lock")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.lock = threading.RLock()


class SqliteStore(Store):
    """One ledger file. Made by ``SqliteStore.open``; the constructor is its own affair."""

    def __init__(
        self,
        path: str,
        inode: files.Inode | None,
        *,
        read_only: bool,
        timeout: float,
        vfs: str | None,
    ) -> None:
        self._path = path
        self._inode = inode
        self._read_only = read_only
        self._timeout = timeout
        self._vfs = vfs
        self._pid = os.getpid()
        self._closed = False
        self._turnstile = Turnstile(None, 0)
        self._local = threading.local()
        self._handles: weakref.WeakSet[_Handle] = weakref.WeakSet()
        self._only: _Handle | None = None
        _stores.add(self)

    @classmethod
    def open(
        cls,
        target: str | os.PathLike[str],
        *,
        busy_timeout_seconds: float = 30,
        read_only: bool = False,
        allow_network: bool = False,
        file_mode: int = 0o600,
        vfs: str | None = None,
    ) -> Self:
        """Open a ledger file, made if absent, its folders too.

        Args:
            target: The file's path, or ``:memory:`` for a test's own ledger.
            busy_timeout_seconds: How long a writer waits in all, in seconds.
            read_only: Open for reading alone; nothing is made or changed.
            allow_network: Open on a network file system all the same.
            file_mode: The mode of new files.
            vfs: The name of a registered SQLite VFS; for tests that pull the plug.

        Raises:
            InvalidInput: The path is empty or holds NUL (``invalid_input``).
            StoreError: ``store_unsafe``, ``store_foreign``, ``store_newer``,
                ``store_readonly``, ``store_locked``, ``store_full``, ``store_corrupt``.
            TypeError: ``target`` is no path.
        """
        engine.require_engine(apsw.sqlite_lib_version())
        path = files.resolve(target)
        if path == files.MEMORY:
            store = cls(path, None, read_only=False, timeout=busy_timeout_seconds, vfs=vfs)
            store._only = store._connected()
            return store
        with files.looking:
            files.prepare(
                path, file_mode=file_mode, read_only=read_only, allow_network=allow_network
            )
            inode = files.look(path, frozenset(_open_files))
            if inode in _inherited_files:
                message = "expected a file that no parent process had open at the fork, but one had"
                raise StoreError(ErrorCode.STORE_UNSAFE, message)
            store = cls(path, inode, read_only=read_only, timeout=busy_timeout_seconds, vfs=vfs)
            shared = _open_files.get(inode)
            if shared is None:
                turnstile = Turnstile(None if read_only else path, file_mode)
                shared = _open_files[inode] = _Shared(turnstile)
            shared.users += 1
            store._turnstile = shared.turnstile
        try:
            store._first_connection()
        except BaseException:
            store.close()
            raise
        return store

    def read(self) -> AbstractContextManager[ReadSession]:
        """Open a reading session on one consistent point; no lock is taken.

        Raises:
            StoreError: The store is closed or the engine refuses.
        """
        return _Read(self)

    def write(self) -> AbstractContextManager[WriteSession]:
        """Open the writing session, in turn with every other writer.

        Raises:
            StoreError: ``store_closed``, ``store_readonly``, ``store_locked`` after the busy
                timeout, or what the engine refuses.
        """
        return _Write(self)

    def close(self) -> None:
        """Wait for sessions under way, then close; later calls answer ``store_closed``."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        for handle in list(self._handles):
            with handle.lock:
                engine.discard(handle.connection)
        if self._inode is None:
            return
        with files.looking:
            shared = _open_files[self._inode]
            shared.users -= 1
            if shared.users == 0:
                del _open_files[self._inode]
                shared.turnstile.close()

    def _first_connection(self) -> None:
        """Make the file a ledger where it is empty, and judge its schema where it is not."""
        deadline = monotonic() + self._timeout
        if not self._read_only:
            self._turnstile.acquire(deadline)
        try:
            handle = self._connected()
        finally:
            if not self._read_only:
                self._turnstile.release()
        self._local.handle = handle

    def _connected(self) -> _Handle:
        """Open, configure and judge one more connection."""
        connection = engine.connect(
            self._path,
            read_only=self._read_only,
            timeout_ms=round(self._timeout * 1000),
            vfs=self._vfs,
        )
        try:
            if not self._read_only and engine.is_empty(connection):
                engine.create(connection)
            engine.require_schema(connection)
            engine.use_wal(connection, in_memory=self._inode is None)
            if self._inode is not None and files.identity(self._path) != self._inode:
                message = "expected the file that was looked at, but another took its place"
                raise StoreError(ErrorCode.STORE_UNSAFE, message)
            if not self._read_only and connection.readonly("main"):
                message = "expected a ledger that can be written, but it is read-only"
                raise StoreError(ErrorCode.STORE_READONLY, message)
        except BaseException:
            engine.discard(connection)
            raise
        handle = _Handle(connection)
        self._handles.add(handle)
        return handle

    def _handle(self) -> _Handle:
        """Return this thread's connection."""
        if self._closed or self._pid != os.getpid():
            raise _closed()
        if self._only is not None:
            return self._only
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is None:
            handle = self._local.handle = self._connected()
        return handle

    def _drop(self, handle: _Handle) -> None:
        """Give up a connection whose state is unknown; the next call opens another."""
        engine.discard(handle.connection)
        self._handles.discard(handle)
        if self._only is None:
            self._local.handle = None

    def _still_there(self) -> None:
        """Refuse to write into a file that lost its name."""
        if self._inode is None:
            return
        try:
            status = os.lstat(self._path)
        except OSError as error:
            raise files.refused(error) from error
        if (status.st_dev, status.st_ino) != self._inode:
            message = "expected the file that was opened, but another took its place"
            raise StoreError(ErrorCode.STORE_UNSAFE, message)


class _Session:
    """What reading and writing have in common."""

    __slots__ = ("_connection", "_handle", "_store")

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._handle: _Handle
        self._connection: apsw.Connection

    def _take_handle(self) -> None:
        handle = self._store._handle()  # noqa: SLF001  (a session is a part of its store)
        handle.lock.acquire()
        if self._store._closed:  # noqa: SLF001
            handle.lock.release()
            raise _closed()
        self._handle = handle
        self._connection = handle.connection

    def _end(self) -> None:
        """Undo whatever was not committed."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:
            # Nothing was committed, which is all that an end must see to.
            self._store._drop(self._handle)  # noqa: SLF001
        finally:
            self._handle.lock.release()

    def rows(self, sql: str, bindings: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise engine.translated(error) from error
        except UnicodeDecodeError as error:
            message = "expected text in UTF-8, but the file holds other bytes"
            raise StoreError(ErrorCode.STORE_CORRUPT, message) from error

    def head(self) -> Head:
        found = self.rows(_HEAD)
        return Head(*found[0]) if found else Head(0, 0)

    def stream_version(self, stream: str) -> int:
        return self.rows(_STREAM_VERSION, (stream,))[0][0] or 0

    def log(self, after: int = 0) -> Iterator[Row]:
        return self._stored(_SQL["log"], (after,))

    def stream(self, stream: str) -> Iterator[Row]:
        return self._stored(_SQL["stream"], (stream,))

    def streams(self) -> list[str]:
        return [name for (name,) in self.rows(_SQL["streams"])]

    def _stored(self, sql: str, bindings: tuple[object, ...]) -> Iterator[Row]:
        try:
            for found in self._connection.execute(sql, bindings):
                yield Row(*found)
        except apsw.Error as error:
            raise engine.translated(error) from error
        except UnicodeDecodeError as error:
            message = "expected text in UTF-8, but the file holds other bytes"
            raise StoreError(ErrorCode.STORE_CORRUPT, message) from error


class _Read(_Session):
    """A reading session."""

    __slots__ = ()

    def __enter__(self) -> Self:
        self._take_handle()
        try:
            self._connection.execute("BEGIN")
        except apsw.Error as error:
            self._end()
            raise engine.translated(error) from error
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()


class _Write(_Session):
    """The writing session."""

    __slots__ = ("_scope_heads", "_sequence")

    def __enter__(self) -> Self:
        store = self._store
        if store._read_only:  # noqa: SLF001
            store._handle()  # noqa: SLF001  (closed comes before read-only)
            message = "expected a ledger opened for writing, but it was opened read-only"
            raise StoreError(ErrorCode.STORE_READONLY, message)
        if store._closed or store._pid != os.getpid():  # noqa: SLF001
            raise _closed()
        deadline = monotonic() + store._timeout  # noqa: SLF001
        store._turnstile.acquire(deadline)  # noqa: SLF001
        try:
            self._take_handle()
            try:
                store._still_there()  # noqa: SLF001
                left = max(0.0, deadline - monotonic())
                self._connection.set_busy_timeout(round(left * 1000))
                self._connection.execute("BEGIN IMMEDIATE")
            except apsw.Error as error:
                self._end()
                raise engine.translated(error) from error
            except BaseException:
                self._end()
                raise
        except BaseException:
            store._turnstile.release()  # noqa: SLF001
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
            self._store._turnstile.release()  # noqa: SLF001

    def head(self) -> Head:
        head = super().head()
        self._sequence = head.sequence
        return head

    def append(self, scope: str, stream: str, version: int, at: int, event: Event) -> None:
        if self._sequence < 0:
            self.head()
        known = self._scope_heads.get(scope)
        if known is None:
            found = self.rows(_SCOPE_HEAD, (scope,))
            known = (found[0][0], found[0][1]) if found else (0, chain.START)
        sequence = self._sequence + 1
        number = known[0] + 1
        kind = tag_of(event)
        body = codec.encode(event)
        link = chain.link(
            known[1],
            sequence=sequence,
            scope=scope,
            number=number,
            stream=stream,
            version=version,
            at=at,
            kind=kind,
            body=body,
        )
        self.rows(_APPEND, (sequence, scope, number, stream, version, at, kind, body, link))
        self._sequence = sequence
        self._scope_heads[scope] = (number, link)

    def commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except (apsw.FullError, apsw.BusyError) as error:
            # The commit frame is the last that is written, so without room nothing happened.
            raise engine.translated(error) from error
        except apsw.Error as error:
            self._store._drop(self._handle)  # noqa: SLF001
            message = "expected the commit to be answered, but the file system failed in it"
            raise StoreError(ErrorCode.OUTCOME_UNKNOWN, message) from error

    def reset_tables(self) -> None:
        try:
            engine.reset_tables(self._connection)
        except apsw.Error as error:
            raise engine.translated(error) from error


def _closed() -> StoreError:
    message = "expected an open ledger, but it was closed or carried across a fork"
    return StoreError(ErrorCode.STORE_CLOSED, message)


def _after_fork_in_child() -> None:
    """Keep what was inherited referenced and unused, and let the parent's turns alone.

    SQLite's own account of its locks was inherited too, and is wrong here; so the files
    that were open are not to be opened again in this process.
    """
    for store in list(_stores):
        _inherited.extend((store, list(store._handles), store._only))  # noqa: SLF001
    for inode, shared in _open_files.items():
        _inherited_files.add(inode)
        shared.turnstile.abandon()
    _open_files.clear()
    files.looking = threading.RLock()  # type: ignore[misc]


os.register_at_fork(after_in_child=_after_fork_in_child)
