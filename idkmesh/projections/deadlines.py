"""The four deadlines of a claim: where they stand, and when they are over.

``now >= deadline`` is over; ``hard_until`` caps the other three; ``ack_by`` counts only
until the acknowledgement (claims contract, Time). All times are epoch seconds.
"""

from typing import NamedTuple

from idkmesh.policy import TaskClaimPolicy
from idkmesh.scalars import Deadline


class Due(NamedTuple):
    """A deadline that has passed, and where it stood."""

    deadline: Deadline
    due_at: int


class Granted(NamedTuple):
    """The deadlines of a new claim."""

    ack_by: int
    lease_until: int
    progress_by: int
    hard_until: int


def window_end(hard_until: int, at: int, window_seconds: int) -> int:
    """Return where a window that starts at ``at`` ends: never beyond ``hard_until``."""
    return min(hard_until, at + window_seconds)


def granted(policy: TaskClaimPolicy, at: int) -> Granted:
    """Return the deadlines of a claim granted at ``at``."""
    hard_until = at + policy.hard_seconds
    return Granted(
        window_end(hard_until, at, policy.ack_seconds),
        window_end(hard_until, at, policy.lease_seconds),
        window_end(hard_until, at, policy.progress_seconds),
        hard_until,
    )


def first_due(deadlines: Granted, *, acknowledged: bool) -> Due:
    """Return the earliest deadline that counts; of several at once, the first in order."""
    ack_by, lease_until, progress_by, hard_until = deadlines
    counting: list[tuple[int, Deadline]] = [
        (lease_until, "lease_until"),
        (progress_by, "progress_by"),
        (hard_until, "hard_until"),
    ]
    if not acknowledged:
        counting.insert(0, (ack_by, "ack_by"))
    due_at, deadline = min(counting, key=lambda each: each[0])
    return Due(deadline, due_at)
