"""The watermark: the latest time that the ledger has acted at, which is the last row's."""

from collections.abc import Callable
from typing import Final

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events.types import ClockObserved, ClockRepaired, Event


def evolve(watermark: int, event: Event | None, at: int) -> int:
    """Return the watermark behind one more row.

    Args:
        watermark: Epoch seconds before; 0 before the first row.
        event: What the row holds, or None where it does not read.
        at: The row's time, in epoch seconds.

    Raises:
        StoreError: Time ran backwards along the log, or a repair does not set back what it
            says (``store_corrupt``).
    """
    if isinstance(event, ClockRepaired):
        if event.old_watermark != watermark or at >= watermark:
            message = "expected a repair to set back the watermark that it names, but it does not"
            raise StoreError(ErrorCode.STORE_CORRUPT, message)
        return at
    if at < watermark:
        message = "expected time not to run backwards along the log, but it does"
        raise StoreError(ErrorCode.STORE_CORRUPT, message)
    return at


APPLIERS: Final[dict[type[Event], Callable[..., int]]] = {
    ClockObserved: evolve,
    ClockRepaired: evolve,
}
