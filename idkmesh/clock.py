"""The one place where time comes in: whole epoch seconds that never run backwards."""

import threading
import time
from collections.abc import Callable
from typing import Final

from idkmesh.errors import ClaimError, ErrorCode
from idkmesh.scalars import MAX_INT

_NANOSECONDS: Final = 1_000_000_000


class SystemClock:
    """The coordinator's clock: the wall clock with a monotonic floor.

    A wall clock that reads less than this object has seen answers ``clock_rollback`` until
    it catches up. Otherwise the answer is the later of the wall clock and the time at
    construction plus the monotonic time elapsed, so that a running deadline is not held
    up by a wall clock that stands still (claims contract, Time).

    Args:
        wall: Epoch nanoseconds; for tests.
        monotonic: Nanoseconds since any fixed moment; for tests.
    """

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._opened_wall = wall()
        self._opened_monotonic = monotonic()
        self._highest = self._opened_wall // _NANOSECONDS

    def __call__(self) -> int:
        """Return the time in epoch seconds.

        Raises:
            ClaimError: The wall clock reads less than it did (``clock_rollback``).
        """
        with self._lock:
            seconds = self._wall() // _NANOSECONDS
            if seconds < self._highest:
                raise _rollback()
            self._highest = seconds
            elapsed = self._monotonic() - self._opened_monotonic
            return max(seconds, (self._opened_wall + elapsed) // _NANOSECONDS)


def require_callable(clock: object) -> None:
    """Refuse what is given for a clock and is none.

    Raises:
        TypeError: It is neither None nor callable.
    """
    if clock is not None and not callable(clock):
        message = f"expected clock to be callable, but it is a {type(clock).__name__}"
        raise TypeError(message)


def now(clock: Callable[[], int], watermark: int) -> int:
    """Return the time at which a command acts.

    Args:
        clock: Epoch seconds on call.
        watermark: The latest time that the ledger has acted at, in epoch seconds.

    Raises:
        ClaimError: The clock gave no whole second in range (``invalid_clock``) or less than
            the watermark (``clock_rollback``).
    """
    seconds = _whole_seconds(clock())
    if seconds < watermark:
        raise _rollback()
    return seconds


def at_least(clock: Callable[[], int], watermark: int) -> int:
    """Return the time at which a reader judges: the watermark while the clock is below it.

    Args:
        clock: Epoch seconds on call.
        watermark: The latest time that the ledger has acted at, in epoch seconds.

    Raises:
        ClaimError: The clock gave no whole second in range (``invalid_clock``).
    """
    try:
        seconds = _whole_seconds(clock())
    except ClaimError as error:
        if error.code is not ErrorCode.CLOCK_ROLLBACK:
            raise
        return watermark
    return max(seconds, watermark)


def _whole_seconds(value: object) -> int:
    if type(value) is int and 0 <= value <= MAX_INT:
        return value
    message = "expected the clock to give an int from 0 to 2**62 - 1, but it did not"
    raise ClaimError(ErrorCode.INVALID_CLOCK, message)


def _rollback() -> ClaimError:
    message = "expected the clock to read no less than before, but it does"
    return ClaimError(ErrorCode.CLOCK_ROLLBACK, message)
