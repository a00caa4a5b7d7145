"""The catalog: which class reads which tag, and which stream each kind of event belongs to."""

from typing import Final, get_args

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events.types import Event, TaskEvent
from idkmesh.identity import TASK, ScopedResourceRef, task_from_key

OBSERVATIONS: Final = "observations"
CLOCK: Final = "clock"
_TASK_PARTS: Final = 4

EVENTS: Final[tuple[type[Event], ...]] = get_args(Event)
TASK_EVENTS: Final[tuple[type[TaskEvent], ...]] = get_args(TaskEvent)
TAGS: Final[dict[str, type[Event]]] = {str(event.__struct_config__.tag): event for event in EVENTS}


def tag_of(event: Event) -> str:
    """Return the tag that an event is stored under."""
    return str(event.__struct_config__.tag)


def observations_stream(scope: str) -> str:
    """Return the name of the scope's stream of prerequisite observations."""
    return f"{scope}/{OBSERVATIONS}"


def clock_stream(scope: str) -> str:
    """Return the name of the scope's stream of clock observations."""
    return f"{scope}/{CLOCK}"


def is_task_stream(stream: str) -> bool:
    """Say whether a stream is a task's: tenant, project, the word task, and its id."""
    parts = stream.split("/")
    return len(parts) == _TASK_PARTS and parts[2] == TASK


def task_of(stream: str) -> ScopedResourceRef:
    """Return the task whose events a stream holds.

    Raises:
        StoreError: The stream is not named as a task's would be (``store_corrupt``).
    """
    try:
        task = task_from_key(stream)
    except ValueError as error:  # not of four parts, or a part that no task's name has
        raise _no_task() from error
    if task.resource_type != TASK:
        raise _no_task()
    return task


def _no_task() -> StoreError:
    message = "expected a stream to be named like a task, but it is not"
    return StoreError(ErrorCode.STORE_CORRUPT, message)


def observed_scope(stream: str) -> str | None:
    """Return the scope whose observations a stream holds, or None for another stream."""
    scope, _, last = stream.rpartition("/")
    return scope if last == OBSERVATIONS and scope.count("/") == 1 else None
