"""The SQLite store: one file, one writer at a time, any number of readers.

A connection belongs to one thread. All that one process has open is entered in a registry
by (device, inode), because SQLite's locks, the turnstile and the dangers of a fork belong
to the file and the process, not to one ledger object.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from time import monotonic
from typing import Final, Self

import apsw

from idkmesh import scalars
from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import engine, files, forks, port
from idkmesh.events.sessions import ReadSession, WriteSession
from idkmesh.events.turnstile import FairLock, Turnstile


class _Shared:
    """What every store on one file shares in this process, while any is open.

    Whoever only reads needs no turnstile, so it is made for the first that writes.
    """

    def __init__(self) -> None:
        self.turnstile: Turnstile | None = None
        self.users = 0


_AS_LONG_AS_IT_TAKES: Final = 86_400.0  # a session ends within its busy timeout

_open_files: Final[dict[files.Inode, _Shared]] = {}
_inherited_files: Final[set[files.Inode]] = set()
_inherited: Final[list[object]] = []
_stores: Final[weakref.WeakSet["SqliteStore"]] = weakref.WeakSet()


class Handle:
    """One thread's connection, and the lock that closing waits for."""

    __slots__ = ("connection", "lock")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.lock = FairLock()


class _Share:
    """A thread's part in a store; when the thread ends, its connection is closed."""

    __slots__ = ("handle", "pid", "store")

    def __init__(self, store: "SqliteStore", handle: Handle) -> None:
        self.pid = os.getpid()
        self.handle = handle
        self.store = weakref.ref(store)  # the last, since an interrupt may come between

    def __del__(self) -> None:
        # In a forked child this comes, for threads that are not there, before any hook of ours.
        store = self.store() if hasattr(self, "store") else None
        if store is not None and self.pid == os.getpid():
            store.drop(self.handle)


class SqliteStore(port.Store):
    """One ledger file, opened by ``SqliteStore.open``.

    Attributes:
        turnstile: Where the file's writers queue.
        busy_timeout_seconds: How long a writer waits in all, in seconds.
    """

    def __init__(
        self,
        path: str,
        inode: files.Inode | None,
        turnstile: Turnstile,
        *,
        read_only: bool,
        busy_timeout_seconds: float,
        vfs: str | None,
        log_only: bool,
    ) -> None:
        self.turnstile = turnstile
        self.busy_timeout_seconds = busy_timeout_seconds
        self._path = path
        self._inode = inode
        self._read_only = read_only
        self._vfs = vfs
        self._log_only = log_only
        self._generation = forks.generation()
        self._closed = False
        self._local = threading.local()
        self._handles: set[Handle] = set()
        self._only: Handle | None = None
        _stores.add(self)

    @classmethod
    def open(
        cls,
        target: files.Target,
        *,
        busy_timeout_seconds: float = 30,
        read_only: bool = False,
        allow_network: bool = False,
        file_mode: int = 0o600,
        vfs: str | None = None,
        log_only: bool = False,
        refold: Callable[[port.WriteSession], None] | None = None,
    ) -> Self:
        """Open a ledger file, made if absent, its folders too.

        Args:
            target: The file's path, or ``:memory:`` for a test's own ledger.
            busy_timeout_seconds: How long a writer waits in all, 0-86,400 seconds.
            read_only: Open for reading alone; nothing is made or changed.
            allow_network: Open on a network file system all the same.
            file_mode: The mode of new files.
            vfs: The name of a registered SQLite VFS; for tests that pull the plug.
            log_only: Open a file whose tables are damaged or gone, as long as it has its log.
            refold: Makes the tables anew out of the log; with it, a file of an earlier version
                is upgraded in one transaction.

        Raises:
            InvalidInput: The path is empty, holds NUL, is too long or not UTF-8, or the timeout
                is out of range (``invalid_input``).
            StoreError: ``store_unsafe``, ``store_foreign``, ``store_newer``,
                ``store_readonly``, ``store_locked``, ``store_full``, ``store_corrupt``.
            TypeError: ``target`` is neither ``str`` nor a path object.
        """
        engine.require_engine(apsw.sqlite_lib_version())
        busy_timeout_seconds = scalars.duration(
            busy_timeout_seconds, "busy_timeout_seconds", 0, 86_400
        )
        path = files.resolve(target)
        if path == files.MEMORY:
            store = cls(
                path,
                None,
                Turnstile(None, 0),
                read_only=False,
                busy_timeout_seconds=busy_timeout_seconds,
                vfs=vfs,
                log_only=log_only,
            )
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
            shared = _open_files.get(inode) or _Shared()
            if shared.turnstile is None and not read_only:
                shared.turnstile = Turnstile(path, file_mode)
            shared.users += 1
            _open_files[inode] = shared
        store = cls(
            path,
            inode,
            shared.turnstile or Turnstile(None, 0),
            read_only=read_only,
            busy_timeout_seconds=busy_timeout_seconds,
            vfs=vfs,
            log_only=log_only,
        )
        try:
            store._first_connection()
            store._bring_up(refold)
        except BaseException:
            store.close()
            raise
        return store

    def read(self) -> AbstractContextManager[port.ReadSession]:
        """Open a reading session on one consistent point; no lock is taken.

        Raises:
            StoreError: ``store_closed``, or what the engine refuses.
        """
        return ReadSession(self)

    def write(self) -> AbstractContextManager[port.WriteSession]:
        """Open the writing session, in turn with every other writer.

        Raises:
            StoreError: ``store_closed``, ``store_readonly``, ``store_unsafe`` (the file lost
                its name), ``store_locked`` after the busy timeout, or what the engine refuses.
        """
        return WriteSession(self)

    def close(self) -> None:
        """Wait for sessions under way, then close; later calls answer ``store_closed``."""
        with files.looking:
            if self._closed or not self.is_at_home():
                return
            self._closed = True
        for handle in list(self._handles):
            if handle.lock.acquire(monotonic() + _AS_LONG_AS_IT_TAKES):
                self.let_go(handle)
            else:  # a session of this very thread closes from within, which ends it
                self.drop(handle)
        if self._inode is None:
            return
        with files.looking:
            shared = _open_files[self._inode]
            shared.users -= 1
            if shared.users == 0:
                del _open_files[self._inode]
                if shared.turnstile is not None:
                    shared.turnstile.close()

    def __del__(self) -> None:
        if hasattr(self, "_handles"):  # it was made whole
            self.close()

    # What the sessions ask of their store.

    def is_at_home(self) -> bool:
        """Say whether this is the process that opened the store."""
        return self._generation == forks.generation()

    def handle(self) -> Handle:
        """Return this thread's connection, opened at its first use."""
        self.require_open()
        if self._only is not None:
            return self._only
        share: _Share | None = getattr(self._local, "share", None)
        if share is None or share.handle not in self._handles:
            share = self._local.share = _Share(self, self._connected())
        return share.handle

    def let_go(self, handle: Handle) -> None:
        """End a thread's use of its connection, which is closed with its store."""
        if self._closed:
            self.drop(handle)
        handle.lock.release()

    def drop(self, handle: Handle) -> None:
        """Give up a connection; its thread's next call opens another."""
        engine.discard(handle.connection)
        self._handles.discard(handle)

    def require_open(self) -> None:
        """Refuse to go on where the store was closed or carried across a fork."""
        if self._closed or not self.is_at_home():
            message = "expected an open ledger, but it was closed or carried across a fork"
            raise StoreError(ErrorCode.STORE_CLOSED, message)

    def require_writable(self) -> None:
        """Refuse to write through a store that was opened for reading."""
        self.require_open()
        if self._read_only:
            message = "expected a ledger opened for writing, but it was opened read-only"
            raise StoreError(ErrorCode.STORE_READONLY, message)

    def require_same_file(self) -> None:
        """Refuse to write into a file that lost its name to another."""
        if self._inode is None:
            return
        try:
            status = os.lstat(self._path)
        except OSError as error:
            raise files.refused(error) from error
        if (status.st_dev, status.st_ino) != self._inode:
            message = "expected the file that was opened, but another took its place"
            raise StoreError(ErrorCode.STORE_UNSAFE, message)

    def _first_connection(self) -> None:
        """Open the first connection in turn, so that one process alone makes a new ledger."""
        if self._read_only:
            self.handle()
            return
        try:
            self.turnstile.acquire(monotonic() + self.busy_timeout_seconds)
            self.handle()
        finally:
            self.turnstile.release()

    def _bring_up(self, refold: Callable[[port.WriteSession], None] | None) -> None:
        """Upgrade a file of an earlier version, or refuse it where that is not possible."""
        if self._log_only or engine.file_version(self.handle().connection) == files.USER_VERSION:
            return
        if refold is None or self._read_only:
            message = (
                f"expected a ledger of version {files.USER_VERSION}, but this one is older: it is "
                "upgraded when it is next opened for writing"
            )
            raise StoreError(ErrorCode.STORE_READONLY, message)
        with WriteSession(self) as session:
            if session.is_older():  # or another one has upgraded it meanwhile
                session.remake(refold)
        engine.use_wal(self.handle().connection, in_memory=self._inode is None)

    def _connected(self) -> Handle:
        """Open, configure and judge one more connection."""
        connection = engine.connect(
            self._path,
            read_only=self._read_only,
            timeout_ms=round(self.busy_timeout_seconds * 1000),
            vfs=self._vfs,
        )
        try:
            if not self._read_only and engine.is_empty(connection):
                engine.create(connection)
            older = engine.file_version(connection) < files.USER_VERSION
            engine.require_schema(connection, log_only=self._log_only or older)
            if not older:  # an older file is changed in nothing before it is upgraded
                engine.use_wal(connection, in_memory=self._inode is None)
            self.require_same_file()
            if not self._read_only and connection.readonly("main"):
                message = "expected a ledger that can be written, but it is read-only"
                raise StoreError(ErrorCode.STORE_READONLY, message)
        except BaseException:
            engine.discard(connection)
            raise
        handle = Handle(connection)
        self._handles.add(handle)
        return handle


@contextmanager
def reading(target: files.Target, *, allow_network: bool = False) -> Iterator[port.ReadSession]:
    """Open a file for reading by its log alone, and give one consistent point of it.

    Whatever state the tables are in, and whichever version the file is of, its log is read.

    Args:
        target: As for ``SqliteStore.open``.
        allow_network: As for ``SqliteStore.open``.

    Raises:
        InvalidInput: As for ``SqliteStore.open``.
        StoreError: As for ``SqliteStore.open``.
    """
    if os.fspath(target) == files.MEMORY:
        message = "expected a ledger to read, but there is no file"
        raise StoreError(ErrorCode.STORE_READONLY, message)
    store = SqliteStore.open(target, read_only=True, log_only=True, allow_network=allow_network)
    with closing(store), store.read() as session:
        yield session


@contextmanager
def writing(
    target: files.Target,
    *,
    busy_timeout_seconds: float,
    log_only: bool = False,
    refold: Callable[[port.WriteSession], None] | None = None,
) -> Iterator[port.WriteSession]:
    """Open a file that is a ledger already, and give the one writer's session on it.

    Args:
        target: As for ``SqliteStore.open``, but it must be there: nothing is made.
        busy_timeout_seconds: As for ``SqliteStore.open``.
        log_only: As for ``SqliteStore.open``.
        refold: As for ``SqliteStore.open``.

    Raises:
        InvalidInput: As for ``SqliteStore.open``.
        StoreError: As for ``SqliteStore.open``; ``store_readonly`` where there is no file.
        TypeError: As for ``SqliteStore.open``.
    """
    with reading(target):
        pass  # there is a log in it
    store = SqliteStore.open(
        target, busy_timeout_seconds=busy_timeout_seconds, log_only=log_only, refold=refold
    )
    with closing(store), store.write() as session:
        yield session


def _after_fork_in_child() -> None:
    """Keep what was inherited referenced and unused, and let the parent's turns alone.

    SQLite's own account of its locks was inherited too, and is wrong here; so the files
    that were open are not to be opened again in this process.
    """
    for store in list(_stores):
        _inherited.extend((store, *store._handles, store._only))  # noqa: SLF001  (its own module)
    for inode, shared in _open_files.items():
        _inherited_files.add(inode)
        if shared.turnstile is not None:
            shared.turnstile.abandon()
    _open_files.clear()
    files.forget_lookers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
