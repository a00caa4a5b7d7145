"""The processes' half of the turnstile: two lock files, asked for with a deadline.

A lock of the kernel's belongs to an open file, so two turns in one process stand to each
other like two processes.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import PAST, Asking, Meanwhile, is_locked, soon, turnstile_threads, until

from idkmesh.events.turnstile import FileTurn


@pytest.fixture
def turns(path: Path) -> Iterator[Callable[[], FileTurn]]:
    """Give a maker of turns at one file, which are closed in the end."""
    path.touch()
    made: list[FileTurn] = []

    def make() -> FileTurn:
        made.append(FileTurn(str(path), 0o600))
        return made[-1]

    yield make
    for turn in made:
        turn.release()
        turn.close()
    until(lambda: not turnstile_threads())


def test_one_process_at_a_time_has_the_turn(turns: Callable[[], FileTurn]) -> None:
    """The turn goes to one, and to the other once it was released."""
    one, other = turns(), turns()
    assert one.acquire(PAST) is True
    assert other.acquire(PAST) is False
    one.release()
    assert other.acquire(soon()) is True
    assert one.acquire(PAST) is False


def test_whoever_has_finished_cannot_overtake_whoever_waits(
    path: Path, turns: Callable[[], FileTurn]
) -> None:
    """A process that asks again at once comes behind the one that has waited."""
    one, other = turns(), turns()
    for _ in range(50):
        assert one.acquire(soon()) is True
        waiting = Asking(other.acquire, soon())
        # Its first try takes the queue for a moment, too: it waits once its thread is asked.
        until(lambda: other._pending and is_locked(path, "-queue"))
        one.release()
        assert one.acquire(PAST) is False
        assert waiting.wait() is True
        other.release()


def test_a_wait_that_was_given_up_is_taken_over(path: Path, turns: Callable[[], FileTurn]) -> None:
    """Later callers go on in the place of the one that gave up, with no thread more."""
    one, other = turns(), turns()
    assert one.acquire(PAST) is True
    for _ in range(5):
        assert other.acquire(PAST) is False
    until(lambda: is_locked(path, "-queue"))
    assert len(turnstile_threads()) == 1
    waiting = Asking(other.acquire, soon())
    until(lambda: other._wanted)
    one.release()
    assert waiting.wait() is True
    assert len(turnstile_threads()) == 1
    assert one.acquire(PAST) is False


def test_a_wait_that_nobody_takes_over_frees_the_turn(
    path: Path, turns: Callable[[], FileTurn]
) -> None:
    """A turn that comes when nobody wants it any more goes straight to the next process."""
    one, other, third = turns(), turns(), turns()
    assert one.acquire(PAST) is True
    assert other.acquire(PAST) is False
    until(lambda: is_locked(path, "-queue"))
    one.release()
    assert third.acquire(soon()) is True
    third.release()
    assert other.acquire(soon()) is True


def test_a_grant_in_the_moment_of_giving_up_is_taken(
    path: Path, turns: Callable[[], FileTurn]
) -> None:
    """A turn that comes just when the deadline passes is had, and is released like any."""
    one, other = turns(), turns()
    assert one.acquire(PAST) is True

    def meanwhile() -> None:
        one.release()
        until(lambda: other._held)

    other._mutex = Meanwhile(meanwhile)  # type: ignore[assignment]  # stands in for a Lock
    assert other.acquire(PAST) is True
    assert one.acquire(PAST) is False
    other.release()
    # The grant was noticed without its signal, which must not end the next wait.
    assert one.acquire(soon()) is True
    waiting = Asking(other.acquire, soon())
    until(lambda: is_locked(path, "-queue"))
    one.release()
    assert waiting.wait() is True


def test_closing_sends_away_whoever_waits(path: Path, turns: Callable[[], FileTurn]) -> None:
    """A wait ends with the closing, and the lock files are closed once the kernel lets go."""
    one, other = turns(), turns()
    assert one.acquire(PAST) is True
    waiting = Asking(other.acquire, soon())
    until(lambda: is_locked(path, "-queue"))
    other.close()
    other.close()
    assert waiting.wait() is False
    assert other.acquire(soon()) is False
    one.release()
    until(lambda: other._shut)
    assert not is_locked(path, "-queue")
    assert not is_locked(path, "-lock")
    other.release()


def test_closing_while_the_turn_is_had_waits_for_its_end(
    path: Path, turns: Callable[[], FileTurn]
) -> None:
    """Lock files whose turn is in use are closed with its release, and not before."""
    one = turns()
    assert one.acquire(PAST) is True
    one.close()
    assert is_locked(path, "-lock")
    one.release()
    assert not is_locked(path, "-lock")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(one._inner)


def test_where_the_kernel_has_no_such_locks_everybody_is_let_in(
    turns: Callable[[], FileTurn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without flock the turn is no obstacle: SQLite's own lock decides."""

    def unsupported(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOTSUP, "no such locks here")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    one, other = turns(), turns()
    assert one.acquire(PAST) is True
    assert other.acquire(PAST) is True


def test_where_no_thread_can_be_had_nobody_is_kept_waiting(
    turns: Callable[[], FileTurn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a thread to wait in, the turn is passed over: SQLite's own lock decides."""

    def refuse(_thread: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    one, other = turns(), turns()
    assert one.acquire(PAST) is True
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert other.acquire(PAST) is True
    other.release()
    monkeypatch.undo()
    assert other.acquire(PAST) is False
