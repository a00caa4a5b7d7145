"""The verbs that look: what happened, who holds what, and how it stood at an earlier point."""

import os
import select
import stat
import sys
from contextlib import suppress
from typing import Final

import click

from idkmesh.cli import lines, outcome, reports
from idkmesh.cli.asking import (
    Point,
    point_or_now,
    read_ledger,
    read_point,
    read_scope,
    read_time,
    require_scope,
    task_at,
    task_named,
)
from idkmesh.cli.outcome import told
from idkmesh.cli.program import PROBLEMS
from idkmesh.cli.screen import Screen
from idkmesh.cli.steps import Steps
from idkmesh.errors import StoreError
from idkmesh.events.port import Row
from idkmesh.identity import TenantScope
from idkmesh.replay import follow_rows, history, logged, state_at
from idkmesh.scalars import MAX_INT

_PAUSE_MILLISECONDS: Final = 200

ledger_argument = click.argument("ledger", callback=read_ledger)
task_argument = click.argument("task")
scope_option = click.option(
    "--scope", callback=read_scope, metavar="TENANT/PROJECT", help="Of this scope only."
)
at_option = click.option(
    "--at",
    callback=read_point,
    metavar="POINT",
    help="As it stood after this event (its number), or at this time.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead, one object a line."
)


@click.command(epilog=outcome.CODES)
@ledger_argument
@click.option("--follow", is_flag=True, help="Go on with new events as they come, until Ctrl-C.")
@click.option("--after", type=click.IntRange(0, MAX_INT), default=0, help="Begin after this event.")
@click.option("--since", callback=read_time, metavar="TIME", help="Leave out what is older.")
@scope_option
@click.option("--task", metavar="TASK", help="Of this task only.")
@json_option
def log(
    ledger: str,
    *,
    follow: bool,
    after: int,
    since: int | None,
    scope: TenantScope | None,
    task: str | None,
    as_json: bool,
) -> None:
    """Print the log, an event a line.

    A row that does not read is printed as it is, and the exit code is 1 then. TIME is ISO 8601,
    of UTC unless it says otherwise, or @ and epoch seconds. TASK is tenant/project/task/id; the
    id alone will do with --scope, or where only one scope has such a task.
    """
    with told("log"):
        stream = None if task is None else task_named(ledger, task, scope, to_come=follow).key
        if not follow:
            require_scope(ledger, scope)
        screen = Screen(sys.stdout)
        sound = True

        def wanted(row: Row) -> bool:
            return (
                (since is None or type(row.at) is not int or row.at >= since)
                and (scope is None or row.scope == scope.key)
                and (stream is None or row.stream == stream)
            )

        def nothing_new() -> bool:
            screen.flush()
            return follow and _pause()

        for row in filter(wanted, follow_rows(ledger, after=after, wait=nothing_new)):
            try:
                event = logged(row)
            except StoreError as error:
                sound = False
                if as_json:
                    screen.json(lines.unreadable_object(row, error))
                else:
                    screen.line(*lines.unreadable(row, error))
            else:
                if as_json:
                    screen.json(event.to_dict())
                else:
                    screen.line(*lines.line(event))
        if not sound:
            outcome.fail("log", "events do not read; idkmesh verify says more", PROBLEMS)


@click.command(epilog=outcome.CODES)
@ledger_argument
@task_argument
@at_option
@scope_option
@json_option
def show(
    ledger: str, task: str, *, at: Point | None, scope: TenantScope | None, as_json: bool
) -> None:
    """Show one task: its policy and its claims.

    TASK is tenant/project/task/id; the id alone will do with --scope, or where only one scope has
    such a task. Claims past a deadline show as expired, but not as they stood after an event.
    """
    with told("show"):
        reference = task_named(ledger, task, scope)
        point = point_or_now(ledger, at)
        found = task_at(ledger, reference, point)
        screen = Screen(sys.stdout)
        if as_json:
            screen.json(reports.task_object(found, point))
        else:
            reports.task(screen, found, point)


@click.command(epilog=outcome.CODES)
@ledger_argument
@scope_option
@at_option
@json_option
def tasks(ledger: str, *, scope: TenantScope | None, at: Point | None, as_json: bool) -> None:
    """Show every task in a table."""
    with told("tasks"):
        require_scope(ledger, scope)
        point = point_or_now(ledger, at)
        with Steps("folding the log", unit="tasks") as steps:
            found = state_at(
                ledger, sequence=point.sequence, time=point.time, scope=scope, progress=steps
            )
        screen = Screen(sys.stdout)
        if as_json:
            for each in found:
                screen.json(reports.task_object(each, point))
        else:
            reports.tasks(screen, found, point)


@click.command("history", epilog=outcome.CODES)
@ledger_argument
@task_argument
@scope_option
@json_option
def history_(ledger: str, task: str, *, scope: TenantScope | None, as_json: bool) -> None:
    """Print a task's events and what each changed.

    TASK is tenant/project/task/id; the id alone will do with --scope, or where only one scope has
    such a task.
    """
    with told("history"):
        reference = task_named(ledger, task, scope)
        screen = Screen(sys.stdout)
        for change in history(ledger, reference):
            if as_json:
                screen.json(lines.change_object(change))
            else:
                screen.line(*lines.line(change.logged))
                for parts in lines.changes(change):
                    screen.line(*parts)


def _pause() -> bool:
    """Wait a moment for news; notice at once when whoever reads the output has gone."""
    watched = select.poll()
    with suppress(OSError):  # an output without a descriptor is nobody's to leave
        descriptor = sys.stdout.fileno()
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            watched.register(descriptor, 0)
    for _, event in watched.poll(_PAUSE_MILLISECONDS):
        if event & (select.POLLERR | select.POLLHUP):
            raise BrokenPipeError
    return True
