"""The turnstile: writers of one file take turns, threads and processes alike.

SQLite's own busy handler lets processes starve each other. Here a writer first queues
behind the other threads of its process, then takes an outer and an inner advisory lock
beside the database and frees the outer one. Whoever holds the outer lock is next, so a
writer that has just finished cannot overtake everybody who waits. The kernel frees the
locks of a process that dies. SQLite's lock remains the one that makes writing correct.

An interrupt (Ctrl-C) may come between any two steps. Therefore a ``release`` does nothing
where there is nothing to release, and goes on where an interrupted one left off.
"""

import os
import stat
import threading
from collections import deque
from time import monotonic
from typing import Final, NamedTuple

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import files, forks

try:
    import fcntl
except ImportError:  # no flock on this system: the busy timeout alone serves
    fcntl = None  # type: ignore[assignment]  # a module or nothing

HAS_FLOCK: Final = fcntl is not None


class _Waiting(NamedTuple):
    """A thread in the queue, and the signal that the lock is now its own."""

    signal: threading.Lock
    thread: int


class FairLock:
    """A lock that serves threads in the order of their coming, with a timeout."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._holder = 0  # a thread's identity, which is never 0
        self._queue: deque[_Waiting] = deque()

    def acquire(self, deadline: float) -> bool:
        """Take the lock, or give up at ``deadline`` (``time.monotonic`` seconds).

        A thread that has the lock is refused at once: it would wait for itself.
        """
        me = threading.get_ident()
        if self._holder == me:
            return False
        try:
            with self._mutex:
                if not self._holder:
                    self._holder = me
                    return True
                waiting = _Waiting(threading.Lock(), me)
                waiting.signal.acquire()
                self._queue.append(waiting)
            waiting.signal.acquire(timeout=max(0.0, deadline - monotonic()))
            with self._mutex:
                self._queue.remove(waiting)
                return self._holder == me
        except BaseException:
            self._leave(me)
            raise

    def held_here(self) -> bool:
        """Say whether it is this thread that has the lock."""
        return self._holder == threading.get_ident()

    def release(self) -> None:
        """Hand this thread's lock to whoever waits longest."""
        with self._mutex:
            if self._holder == threading.get_ident():
                self._pass_on()

    def _leave(self, me: int) -> None:
        """Undo an interrupted ``acquire``, wherever it was broken off."""
        with self._mutex:
            for waiting in list(self._queue):
                if waiting.thread == me:
                    self._queue.remove(waiting)
            if self._holder == me:
                self._pass_on()

    def _pass_on(self) -> None:
        # Whoever is served leaves the queue himself, so an interrupt here loses nobody.
        if self._queue:
            self._holder = self._queue[0].thread
            self._queue[0].signal.release()
        else:
            self._holder = 0


class FileTurn:
    """The two advisory locks of one process; one thread at a time asks for them.

    A blocking ``flock`` has no timeout, so a thread of its own does the blocking where the
    locks are not free at once, and whoever asked waits for that thread with a timeout. An
    attempt that was given up stays in the kernel's queue; the next caller takes it over,
    and if nobody does, the locks are freed as soon as they are had.
    """

    def __init__(self, path: str, file_mode: int) -> None:
        self._outer, self._inner = _lock_files(path, file_mode)
        self._mutex = threading.Lock()
        self._asked = threading.Lock()  # freed to wake the waiting thread
        self._granted = threading.Lock()  # freed to wake the caller
        self._asked.acquire()
        self._granted.acquire()
        self._thread: threading.Thread | None = None
        self._pending = False  # the waiting thread stands in the kernel's queue
        self._wanted = False  # a caller waits for it
        self._held = False  # a caller has the turn
        self._closed = False
        self._shut = False  # the lock files are closed, too
        _open_turns.add(self)

    def acquire(self, deadline: float) -> bool:
        """Take both turns, or give up at ``deadline`` (``time.monotonic`` seconds).

        Whatever it raises, a ``release`` must follow.
        """
        with self._mutex:
            if self._closed:
                return False
            if not self._pending and (self._take_at_once() or not self._ask()):
                self._held = True
                return True
            # A grant in the moment of giving up left its signal behind.
            self._granted.acquire(blocking=False)
            self._wanted = True
        self._granted.acquire(timeout=max(0.0, deadline - monotonic()))
        with self._mutex:
            self._wanted = False
            return self._held

    def release(self) -> None:
        """Let the next process in."""
        with self._mutex:
            self._wanted = self._held = False
            if not self._pending and not self._shut:
                _flock(self._inner, fcntl.LOCK_UN)
            if self._closed:
                self._end()

    def close(self) -> None:
        """Send a caller that waits away; close the lock files once nobody uses them."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            if self._wanted:
                self._wanted = False
                self._granted.release()
            if self._thread is not None and not self._pending:
                self._asked.release()
            self._end()

    def abandon(self) -> None:
        """Close the lock files; all that a forked child may do."""
        if not self._shut:
            self._closed = self._shut = True
            os.close(self._outer)
            os.close(self._inner)

    def _take_at_once(self) -> bool:
        free = fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            had = _flock(self._outer, free) and _flock(self._inner, free)
            _flock(self._outer, fcntl.LOCK_UN)
        except BaseException:
            _flock(self._outer, fcntl.LOCK_UN)
            raise
        return had

    def _ask(self) -> bool:
        """Send the waiting thread into the kernel's queue; False where there can be none."""
        if self._thread is None:
            thread = threading.Thread(target=self._block, name="idkmesh-turnstile", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is on its way out
                return False
            self._thread = thread
        self._pending = True
        self._asked.release()
        return True

    def _end(self) -> None:
        """Close the lock files of a closed turn, once nobody uses them."""
        if not (self._held or self._pending):
            self.abandon()
            _open_turns.discard(self)

    def _block(self) -> None:
        while True:
            self._asked.acquire()
            if not self._pending:
                return  # woken by closing
            _flock(self._outer, fcntl.LOCK_EX)
            _flock(self._inner, fcntl.LOCK_EX)
            _flock(self._outer, fcntl.LOCK_UN)
            with self._mutex:
                self._pending = False
                if self._wanted:
                    self._wanted = False
                    self._held = True
                    self._granted.release()
                else:
                    _flock(self._inner, fcntl.LOCK_UN)
                if self._closed:
                    self._end()
                    return


class Turnstile:
    """One file's queue of writers: this process's threads first, then the processes.

    Args:
        path: The database file, or None where no other process can come.
        file_mode: The mode of new lock files, at the least; they are open to whoever may
            write the database.
    """

    def __init__(self, path: str | None, file_mode: int) -> None:
        self._generation = forks.generation()
        self._threads = FairLock()
        self._processes = FileTurn(path, file_mode) if path and HAS_FLOCK else None
        self._closed = False

    def acquire(self, deadline: float) -> None:
        """Wait for this writer's turn until ``deadline`` (``time.monotonic`` seconds).

        Raises:
            StoreError: The turn did not come in time (``store_locked``), or the turnstile
                was closed meanwhile (``store_closed``).
        """
        if not self._threads.acquire(deadline):
            raise self._missed()
        try:
            had = self._processes is None or self._processes.acquire(deadline)
        except BaseException:
            self.release()
            raise
        if not had:
            self.release()
            raise self._missed()

    def is_held_here(self) -> bool:
        """Say whether this thread has the turn already."""
        return self._threads.held_here()

    def release(self) -> None:
        """Let the next writer in, if the turn is this thread's."""
        try:
            self._release()
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """Close the lock files, and send away whoever waits."""
        self._closed = True
        self.release()  # this thread may be closing in the middle of its own turn
        if self._processes is not None:
            self._processes.close()

    def abandon(self) -> None:
        """In a forked child: close what was inherited, touch nothing else."""
        if self._processes is not None:
            self._processes.abandon()

    def _release(self) -> None:
        # In a forked child the locks may be in the hands of threads that are not there.
        if self._generation != forks.generation() or not self._threads.held_here():
            return
        if self._processes is not None:
            self._processes.release()
        self._threads.release()

    def _missed(self) -> StoreError:
        if self._closed:
            message = "expected an open ledger, but it was closed"
            return StoreError(ErrorCode.STORE_CLOSED, message)
        message = "expected a turn to write within the busy timeout, but others held the file"
        return StoreError(ErrorCode.STORE_LOCKED, message)


_open_turns: Final[set[FileTurn]] = set()


def _abandon_all() -> None:
    """Keep a forked child from holding its parent's place in any queue."""
    for turn in _open_turns:
        turn.abandon()
    _open_turns.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def _flock(descriptor: int, operation: int) -> bool:
    """Lock or unlock; False where another process has the lock."""
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        return False
    except OSError:  # this file system has no such locks: SQLite's own alone decides
        return True
    return True


def _lock_files(path: str, file_mode: int) -> tuple[int, int]:
    """Open or make the two lock files, owned and closed to others like the database."""
    opened: list[int] = []
    try:
        files.require_writable(path)
        like = os.lstat(path)
        opened.extend(_lock_file(path + suffix, file_mode, like) for suffix in files.LOCKS)
    except BaseException as error:
        for descriptor in opened:
            os.close(descriptor)
        if isinstance(error, OSError):
            raise files.refused(error) from error
        raise
    return opened[0], opened[1]


def _lock_file(path: str, file_mode: int, like: os.stat_result) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, file_mode)
    except FileExistsError:
        descriptor = os.open(path, flags)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            os.close(descriptor)
            message = "expected a regular file with one name as lock file, but it is another"
            raise StoreError(ErrorCode.STORE_UNSAFE, message) from None
        return descriptor
    os.fchmod(descriptor, file_mode | stat.S_IMODE(like.st_mode) & 0o666)
    if os.geteuid() == 0:
        os.fchown(descriptor, like.st_uid, like.st_gid)
    return descriptor
