"""The catalog: which class reads which tag, and which stream each kind of event belongs to."""

from typing import Final, get_args

from idkmesh.events.types import Event, TaskEvent

EVENTS: Final[tuple[type[Event], ...]] = get_args(Event)
TASK_EVENTS: Final[tuple[type[TaskEvent], ...]] = get_args(TaskEvent)
TAGS: Final[dict[str, type[Event]]] = {str(event.__struct_config__.tag): event for event in EVENTS}


def tag_of(event: Event) -> str:
    """Return the tag that an event is stored under."""
    return str(event.__struct_config__.tag)


def observations_stream(scope: str) -> str:
    """Return the name of the scope's stream of prerequisite observations."""
    return f"{scope}/observations"


def clock_stream(scope: str) -> str:
    """Return the name of the scope's stream of clock observations."""
    return f"{scope}/clock"
