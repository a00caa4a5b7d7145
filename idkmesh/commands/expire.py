"""Expiring: whoever comes first records that a deadline has passed; no sweeper is needed."""

from idkmesh.events.types import ClaimExpired
from idkmesh.projections.task import TaskState


def due_expiries(now: int, state: TaskState) -> list[ClaimExpired]:
    """Return an event for each claim of the task that is past a deadline.

    Args:
        now: Epoch seconds.
        state: The task; not changed here.
    """
    return [
        ClaimExpired(slot=claim.slot, epoch=claim.epoch, deadline=due.deadline, due_at=due.due_at)
        for claim, due in state.due(now)
    ]
