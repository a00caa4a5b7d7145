"""Waiting for what other threads do, without sleeping and without waiting for ever."""

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from idkmesh import StoreError

PAST = 0.0
LONG = 60.0
PATIENCE = 30.0


def soon() -> float:
    """Return a deadline that a sound turnstile never reaches."""
    return monotonic() + LONG


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do."""
    limit = soon()
    while not condition():
        assert monotonic() < limit
        os.sched_yield()


class Asking:
    """A thread that asks for a lock, and keeps it."""

    def __init__(self, acquire: Callable[[float], object], deadline: float) -> None:
        self._acquire, self._deadline = acquire, deadline
        self._answer: object = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._acquire(self._deadline)
        except StoreError as error:
            self._answer = error.code

    def wait(self) -> object:
        """Return what came of it."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self._answer


class Meanwhile:
    """A mutex before whose second taking, by whoever takes it first, something else happens."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._mutex = threading.Lock()
        self._work = work
        self._taken: list[int] = []

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._taken == [me]:
            self._taken.append(me)
            self._work()
        self._taken = self._taken or [me]
        self._mutex.acquire()

    def __exit__(self, *_: object) -> None:
        self._mutex.release()


def turnstile_threads() -> list[threading.Thread]:
    """Return the threads that wait in the kernel's queue, or could."""
    return [each for each in threading.enumerate() if each.name == "idkmesh-turnstile"]


def is_locked(path: Path, suffix: str) -> bool:
    """Ask the kernel, by a new descriptor, whether anybody has a lock file."""
    with path.with_name(path.name + suffix).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
