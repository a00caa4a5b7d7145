"""The turnstile: writers come in one at a time, in order, and nobody is waited for for ever."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from interrupts import interrupted
from store_checks import store_refused
from waiting import LONG, PAST, Asking, Meanwhile, is_locked, soon, until

from idkmesh.events import turnstile
from idkmesh.events.turnstile import FairLock, FileTurn, Turnstile


def test_threads_are_served_in_the_order_of_their_coming() -> None:
    """Whoever waits longest is next, and a new-comer never overtakes."""
    lock = FairLock()
    assert lock.acquire(PAST) is True
    served: list[int] = []

    def serve(place: int) -> None:
        assert lock.acquire(soon())
        served.append(place)
        lock.release()

    threads = []
    for place in range(8):
        threads.append(threading.Thread(target=serve, args=(place,)))
        threads[-1].start()
        until(lambda: len(lock._queue) == len(threads))
    lock.release()
    for thread in threads:
        thread.join()
    assert served == [0, 1, 2, 3, 4, 5, 6, 7]
    assert lock.acquire(PAST) is True


def test_whoever_gives_up_leaves_the_others_in_their_order() -> None:
    """A wait that ends at its deadline takes nobody else's place."""
    lock = FairLock()
    assert lock.acquire(PAST) is True
    served: list[str] = []

    def serve(name: str, deadline: float) -> None:
        if lock.acquire(deadline):
            served.append(name)
            lock.release()

    first = threading.Thread(target=serve, args=("first", soon()))
    first.start()
    until(lambda: len(lock._queue) == 1)
    hasty = threading.Thread(target=serve, args=("hasty", PAST))
    hasty.start()
    hasty.join()
    last = threading.Thread(target=serve, args=("last", soon()))
    last.start()
    until(lambda: len(lock._queue) == 2)
    lock.release()
    first.join()
    last.join()
    assert served == ["first", "last"]


def test_a_turn_that_comes_in_the_moment_of_giving_up_is_taken() -> None:
    """A lock handed over just when the deadline passes is had, not lost."""
    lock = FairLock()
    assert lock.acquire(PAST) is True
    given_up, handed_over = threading.Event(), threading.Event()

    def meanwhile() -> None:
        given_up.set()
        assert handed_over.wait(LONG)

    lock._mutex = Meanwhile(meanwhile)  # type: ignore[assignment]  # stands in for a Lock
    late = Asking(lock.acquire, PAST)
    assert given_up.wait(LONG)
    lock.release()
    handed_over.set()
    assert late.wait() is True
    assert lock.acquire(PAST) is False


def test_a_thread_does_not_wait_for_itself() -> None:
    """A thread that has the lock is refused at once, and keeps it."""
    lock = FairLock()
    assert lock.acquire(PAST) is True
    assert lock.acquire(soon()) is False
    assert lock.held_here() is True
    assert Asking(lock.acquire, PAST).wait() is False
    lock.release()
    assert lock.held_here() is False


def test_nobody_can_release_what_another_thread_has() -> None:
    """A release by a thread that has no lock does nothing."""
    lock = FairLock()
    assert Asking(lock.acquire, PAST).wait() is True
    lock.release()
    lock.release()
    assert lock.acquire(PAST) is False


def test_many_threads_exclude_each_other() -> None:
    """Under contention, with some waits given up, never are two threads inside."""
    lock = FairLock()
    inside, seen, given_up = [0], [0], [0]

    def work(deadline: Callable[[], float]) -> None:
        for _ in range(200):
            if not lock.acquire(deadline()):
                given_up[0] += 1
                continue
            inside[0] += 1
            assert inside[0] == 1
            seen[0] += 1
            inside[0] -= 1
            lock.release()

    threads = [
        threading.Thread(target=work, args=(soon if place % 2 else lambda: PAST,))
        for place in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen[0] >= 800
    assert lock.acquire(PAST) is True


def test_a_turn_that_does_not_come_is_store_locked(path: Path) -> None:
    """Past the deadline the answer is store_locked, whether a thread or a process was ahead."""
    path.touch()
    here, there = Turnstile(str(path), 0o600), Turnstile(str(path), 0o600)
    here.acquire(soon())
    assert Asking(here.acquire, PAST).wait() == "store_locked"
    with store_refused("store_locked"):
        there.acquire(PAST)
    here.release()
    there.acquire(soon())
    there.release()
    here.close()
    there.close()


def test_a_closed_turnstile_is_store_closed(path: Path) -> None:
    """Whoever waits while the turnstile closes, in either queue, is told so, and so are others."""
    path.touch()
    here, there = Turnstile(str(path), 0o600), Turnstile(str(path), 0o600)
    there.acquire(soon())
    first = Asking(here.acquire, soon())
    until(lambda: is_locked(path, "-queue"))
    second = Asking(here.acquire, soon())
    until(lambda: len(here._threads._queue) == 1)
    here.close()
    assert first.wait() == "store_closed"
    assert second.wait() == "store_closed"
    with store_refused("store_closed"):
        here.acquire(soon())
    there.release()
    there.close()


def test_closing_in_the_middle_of_the_own_turn_ends_it(path: Path) -> None:
    """A thread that closes the turnstile it stands in leaves the way free."""
    path.touch()
    here = Turnstile(str(path), 0o600)
    here.acquire(soon())
    here.close()
    assert not is_locked(path, "-lock")
    here.release()


def test_without_a_file_or_the_kernels_locks_threads_still_take_turns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turnstile that no process can come to makes no file and serves the threads."""
    alone = Turnstile(None, 0o600)
    monkeypatch.setattr(turnstile, "HAS_FLOCK", False)
    without = Turnstile(str(path), 0o600)
    for each in (alone, without):
        each.acquire(PAST)
        assert Asking(each.acquire, PAST).wait() == "store_locked"
        each.release()
        each.acquire(PAST)
        each.release()
        each.close()
    assert list(path.parent.iterdir()) == []


class Forbidden:
    """A mutex that a thread of the parent's had at the fork: nobody will ever free it."""

    def __enter__(self) -> None:
        pytest.fail("this would wait for ever")

    def __exit__(self, *_: object) -> None:
        """Never come to."""


def test_a_forked_childs_release_touches_nothing(path: Path) -> None:
    """In another process than its own a release neither waits for a mutex nor unlocks."""
    path.touch()
    here = Turnstile(str(path), 0o600)
    here.acquire(soon())
    mutex = here._threads._mutex
    here._threads._mutex = Forbidden()  # type: ignore[assignment]  # stands in for a Lock
    here._generation += 1
    here.release()
    here._generation -= 1
    here._threads._mutex = mutex
    assert is_locked(path, "-lock")
    here.release()
    here.close()


# Interrupts. An interrupted acquire leaves nothing; an interrupted release is called again.


def test_an_interrupt_in_the_queue_of_threads_loses_nobody() -> None:
    """Ctrl-C anywhere in waiting for another thread leaves the lock to the others."""
    lock = FairLock()
    threads: list[threading.Thread] = []

    def let_another_have_it() -> None:
        had, broken_off = threading.Event(), threading.Event()

        def have_it() -> None:
            assert lock.acquire(soon())
            had.set()
            until(lambda: bool(lock._queue) or broken_off.is_set())
            lock.release()

        threads.append(threading.Thread(target=have_it))
        threads[-1].start()
        assert had.wait(LONG)
        ends.append(broken_off)

    ends: list[threading.Event] = []
    points = 0
    for where in interrupted(lambda: lock.acquire(soon()), let_another_have_it):
        points += 1
        ends[-1].set()
        threads[-1].join()
        assert lock.acquire(PAST) is True, where
        lock.release()
        assert not lock._queue
    assert points > 5
    lock.release()


@pytest.mark.parametrize("contended", [False, True], ids=["free", "contended"])
def test_an_interrupt_of_an_acquire_leaves_the_turn_free(path: Path, *, contended: bool) -> None:
    """Ctrl-C anywhere in taking the turn leaves it to everybody else."""
    path.touch()
    here, there = Turnstile(str(path), 0o600), FileTurn(str(path), 0o600)
    threads: list[threading.Thread] = []

    def come_first() -> None:
        if contended:
            assert there.acquire(soon())
            threads.append(threading.Thread(target=there.release))
            threads[-1].start()

    points = 0
    for where in interrupted(lambda: here.acquire(soon()), come_first):
        points += 1
        for thread in threads:
            thread.join()
        assert there.acquire(soon()) is True, where
        there.release()
        here.acquire(soon())
        here.release()
    assert points > 5
    here.release()
    here.close()
    there.close()


def test_an_interrupted_release_is_completed(path: Path) -> None:
    """Ctrl-C in a release waits for its end; before its first step, another release serves."""
    path.touch()
    here, there = Turnstile(str(path), 0o600), FileTurn(str(path), 0o600)
    points = 0
    for where in interrupted(here.release, lambda: here.acquire(soon())):
        points += 1
        if points == 1:
            assert there.acquire(PAST) is False
            here.release()
            until(lambda: not there._pending)
        assert there.acquire(PAST) is True, where
        there.release()
        here.acquire(PAST)
        here.release()
    assert points > 5
    here.close()
    there.close()
