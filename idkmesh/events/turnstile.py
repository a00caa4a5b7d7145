"""The turnstile: writers of one file take turns, threads and processes alike.

SQLite's own busy handler lets processes starve each other. Here a writer first queues
behind the other threads of its process, then takes an outer and an inner advisory lock
beside the database and frees the outer one. Whoever holds the outer lock is next, so a
writer that has just finished cannot overtake everybody who waits. The kernel frees the
locks of a process that dies. SQLite's lock remains the one that makes writing correct.
"""

import os
import threading
from collections import deque
from time import monotonic
from typing import Final

from idkmesh.errors import ErrorCode, StoreError

try:
    import fcntl
except ImportError:  # no flock on this system: the busy timeout alone serves
    fcntl = None  # type: ignore[assignment]

SUFFIXES: Final = ("-queue", "-lock")


class FairLock:
    """A lock that serves threads in the order of their coming, with a timeout."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, deadline: float) -> bool:
        """Take the lock, or give up at ``deadline`` (``time.monotonic`` seconds)."""
        with self._mutex:
            if not self._held:
                self._held = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            if turn.acquire(timeout=max(0.0, deadline - monotonic())):
                return True
        except BaseException:
            if not self._leave(turn):
                self.release()
            raise
        return not self._leave(turn)

    def release(self) -> None:
        """Hand the lock to whoever waits longest."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False

    def _leave(self, turn: threading.Lock) -> bool:
        """Leave the queue; False where the lock was handed over in the same moment."""
        with self._mutex:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return True
            return False


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
        self._asked = threading.Semaphore(0)
        self._granted = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._pending = False
        self._wanted = False
        self._held = False
        self._closed = False

    def acquire(self, deadline: float) -> bool:
        """Take both turns, or give up at ``deadline`` (``time.monotonic`` seconds)."""
        with self._mutex:
            if not self._pending:
                if self._take_at_once():
                    self._held = True
                    return True
                self._ask()
            self._wanted = True
        try:
            self._granted.acquire(timeout=max(0.0, deadline - monotonic()))
        except BaseException:
            if self._settle():
                self.release()
            raise
        return self._settle()

    def release(self) -> None:
        """Let the next process in."""
        self._held = False
        fcntl.flock(self._inner, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock files, now or when the waiting thread comes back."""
        with self._mutex:
            self._closed = True
            if self._thread is None:
                self.abandon()
            else:
                self._asked.release()

    def abandon(self) -> None:
        """Close the lock files; all that a forked child may do."""
        os.close(self._outer)
        os.close(self._inner)

    def _take_at_once(self) -> bool:
        if not _try_lock(self._outer):
            return False
        try:
            return _try_lock(self._inner)
        finally:
            fcntl.flock(self._outer, fcntl.LOCK_UN)

    def _ask(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._block, name="idkmesh-turnstile", daemon=True
            )
            self._thread.start()
        self._pending = True
        self._asked.release()

    def _settle(self) -> bool:
        """End the waiting; say whether the turn was had."""
        with self._mutex:
            self._wanted = False
            # A grant in the moment of giving up leaves its signal behind.
            while self._granted.acquire(blocking=False):
                pass
            return self._held

    def _block(self) -> None:
        while True:
            self._asked.acquire()
            if self._closed:
                self.abandon()
                return
            fcntl.flock(self._outer, fcntl.LOCK_EX)
            fcntl.flock(self._inner, fcntl.LOCK_EX)
            fcntl.flock(self._outer, fcntl.LOCK_UN)
            with self._mutex:
                self._pending = False
                if self._wanted:
                    self._held = True
                    self._granted.release()
                else:
                    fcntl.flock(self._inner, fcntl.LOCK_UN)


class Turnstile:
    """One file's queue of writers: this process's threads first, then the processes.

    Args:
        path: The database file, or None where no other process can come.
        file_mode: The mode of new lock files.
    """

    def __init__(self, path: str | None, file_mode: int) -> None:
        self._threads = FairLock()
        self._processes = FileTurn(path, file_mode) if path and fcntl else None

    def acquire(self, deadline: float) -> None:
        """Wait for this writer's turn until ``deadline`` (``time.monotonic`` seconds).

        Raises:
            StoreError: The turn did not come in time (``store_locked``).
        """
        if not self._threads.acquire(deadline):
            raise _locked()
        if self._processes is None:
            return
        try:
            had = self._processes.acquire(deadline)
        except BaseException:
            self._threads.release()
            raise
        if not had:
            self._threads.release()
            raise _locked()

    def release(self) -> None:
        """Let the next writer in."""
        try:
            if self._processes is not None:
                self._processes.release()
        finally:
            self._threads.release()

    def close(self) -> None:
        """Close the lock files."""
        if self._processes is not None:
            self._processes.close()

    def abandon(self) -> None:
        """In a forked child: close what was inherited, touch nothing else."""
        if self._processes is not None:
            self._processes.abandon()


def _locked() -> StoreError:
    message = "expected a turn to write within the busy timeout, but other writers held the file"
    return StoreError(ErrorCode.STORE_LOCKED, message)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_files(path: str, file_mode: int) -> tuple[int, int]:
    """Open or make the two lock files, owned and closed to others like the database."""
    opened: list[int] = []
    try:
        for suffix in SUFFIXES:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            opened.append(os.open(path + suffix, flags, file_mode))
            os.fchmod(opened[-1], file_mode)
    except OSError as error:
        for descriptor in opened:
            os.close(descriptor)
        message = "expected to make the lock files beside the ledger, but the system refused"
        raise StoreError(ErrorCode.STORE_READONLY, message) from error
    return opened[0], opened[1]
