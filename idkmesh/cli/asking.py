"""What an operator asks about: which task, which scope, and which point of the log."""

import re
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import click

from idkmesh.cli.screen import safe
from idkmesh.errors import InvalidInput, StoreError
from idkmesh.events import files
from idkmesh.events.catalog import is_task_stream
from idkmesh.events.sqlite_store import reading
from idkmesh.identity import TASK, ScopedResourceRef, TenantScope, task_from_key
from idkmesh.replay import TaskAsOf, state_at
from idkmesh.scalars import MAX_INT

PIPE: Final = "-"

_SEQUENCE: Final = re.compile(r"[0-9]{1,19}\Z")
_EPOCH: Final = re.compile(r"@[0-9]{1,19}\Z")
_SCOPES_NAMED: Final = 8
_TASK_FORM: Final = "expected TASK to be tenant/project/task/id or an id, but it is neither"


class Point(NamedTuple):
    """A point of the log: behind an event, or at a time in epoch seconds."""

    sequence: int | None
    time: int | None

    def to_dict(self) -> dict[str, int]:
        """Return the point as JSON content."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def read_time(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Read an option that is a time: ISO 8601, of UTC unless it says otherwise, or ``@`` epoch."""
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds is None:
        raise click.BadParameter("expected an ISO time or @ and epoch seconds")
    return seconds


def read_point(_: click.Context, __: click.Parameter, value: str | None) -> Point | None:
    """Read an option that is a point: an event's number, or a time."""
    if value is None:
        return None
    if _SEQUENCE.match(value) and int(value) <= MAX_INT:
        return Point(int(value), None)
    seconds = _seconds(value)
    if seconds is None:
        message = "expected an event's number, an ISO time, or @ and epoch seconds"
        raise click.BadParameter(message)
    return Point(None, seconds)


def read_scope(_: click.Context, __: click.Parameter, value: str | None) -> TenantScope | None:
    """Read an option that is a scope."""
    if value is None:
        return None
    tenant, _slash, project = value.partition("/")
    try:
        return TenantScope(tenant, project)
    except InvalidInput as error:
        raise click.BadParameter("expected tenant/project") from error


def read_file(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Read an argument that is a file: any name means a file, and ``-`` is left as it is."""
    return value if value in {None, PIPE} else str(Path(str(value)).absolute())


def read_ledger(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Read an argument that is a ledger: a file, of a name that the store takes."""
    file = read_file(context, parameter, value)
    try:
        with suppress(StoreError):  # the verb itself refuses a folder
            files.resolve(file or PIPE)
    except InvalidInput as error:
        raise click.BadParameter(error.message) from error
    return file


def point_or_now(ledger: str, at: Point | None) -> Point:
    """Return the point that is asked for; by default now, and never before the last event.

    Raises:
        StoreError: The file cannot be read.
    """
    if at is not None:
        return at
    with reading(ledger) as session:
        return Point(None, max(int(time.time()), session.head().at))


def task_named(
    ledger: str, name: str, scope: TenantScope | None, *, to_come: bool = False
) -> ScopedResourceRef:
    """Return the task that a name means.

    Args:
        ledger: The file.
        name: The task's storage key; or its id, where there is a scope or only one such task.
        scope: The task's scope, or None.
        to_come: Whether a whole name may be that of a task of which there is no event yet.

    Raises:
        InvalidInput: The name means no task or several (``invalid_input``).
        StoreError: The file cannot be read.
    """
    if "/" in name:
        parts = name.split("/")
        if len(parts) != len(("tenant", "project", TASK, "id")) or parts[2] != TASK:
            raise InvalidInput(_TASK_FORM)
        task = task_from_key(name)
        if scope not in {None, task.scope}:
            raise InvalidInput("expected TASK to be of --scope, but it is of another")
    elif scope is not None:
        task = ScopedResourceRef(scope, TASK, name)
    else:
        return _only_task(ledger, name)
    return task if to_come else _require_task(ledger, task)


def _only_task(ledger: str, name: str) -> ScopedResourceRef:
    """Return the one task of an id, in whichever scope."""
    with reading(ledger) as session:
        streams = session.streams()
    found = [each for each in streams if is_task_stream(each) and each.split("/")[3] == name]
    if not found:
        message = f"expected TASK to be in the log, but {safe(name)} is not"
        raise InvalidInput(message)
    if len(found) > 1:
        named = ", ".join(safe(each.rpartition(f"/{TASK}/")[0]) for each in found[:_SCOPES_NAMED])
        message = f"expected --scope to say which, but {len(found)} have it: {named}"
        raise InvalidInput(message)
    return task_from_key(found[0])


def require_scope(ledger: str, scope: TenantScope | None) -> None:
    """Refuse a scope, if there is one, that no event of the log is of.

    Raises:
        InvalidInput: The log has no such event (``invalid_input``).
        StoreError: The file cannot be read.
    """
    if scope is not None:
        with reading(ledger) as session:
            if scope.key not in {name for name, _, _ in session.scope_heads()}:
                message = f"expected --scope to be in the log, but {scope.key} is not"
                raise InvalidInput(message)


def task_at(ledger: str, task: ScopedResourceRef, point: Point) -> TaskAsOf:
    """Return a task as it stood at a point.

    Raises:
        InvalidInput: There was no such task, or the log ends before the point's event
            (``invalid_input``).
        StoreError: The file cannot be read, or the task's events do not fold.
    """
    found = state_at(ledger, sequence=point.sequence, time=point.time, task=task)
    if not found:
        message = f"expected TASK to be in the log at that point, but {task.key} is not"
        raise InvalidInput(message)
    return found[0]


def _require_task(ledger: str, task: ScopedResourceRef) -> ScopedResourceRef:
    with reading(ledger) as session:
        if not session.stream_version(task.key):
            message = f"expected TASK to be in the log, but {task.key} is not"
            raise InvalidInput(message)
    return task


def _seconds(text: str) -> int | None:
    """Read a time of whole seconds, or return None."""
    if _EPOCH.match(text):
        seconds = int(text[1:])
    else:
        try:
            read = datetime.fromisoformat(text)
        except ValueError:
            return None
        if read.microsecond:
            return None
        whole = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
        seconds = int(whole.timestamp())
    return seconds if 0 <= seconds <= MAX_INT else None
