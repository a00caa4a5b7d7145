"""The watermark: the latest time that the ledger has acted at, which is the last row's."""

from idkmesh.errors import ErrorCode, StoreError


def evolve(watermark: int, at: int) -> int:
    """Return the watermark behind one more row.

    Args:
        watermark: Epoch seconds before; 0 before the first row.
        at: The row's time, in epoch seconds.

    Raises:
        StoreError: Time ran backwards along the log (``store_corrupt``).
    """
    if at < watermark:
        message = "expected time not to run backwards along the log, but it does"
        raise StoreError(ErrorCode.STORE_CORRUPT, message)
    return at
