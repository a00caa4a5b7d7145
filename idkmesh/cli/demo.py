"""The demo: real worker processes race for WorkUnits on a real ledger file, and are watched."""

import os
from pathlib import Path

from idkmesh import AuthorizationPolicy, ClaimError, ClaimLedger
from idkmesh.cli.director import Audience, Director, StoppedShort
from idkmesh.cli.plans import SCOPE, WORKERS, Plan, dispatcher
from idkmesh.cli.promises import check
from idkmesh.cli.stage import Stage
from idkmesh.cli.story import Member, Rebuilt, Story
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.projections import tables


def play(target: Path, plans: tuple[Plan, ...], audience: Audience, *, kept: bool) -> Story:
    """Play the story on a new ledger file and check what it promised.

    Args:
        target: The file, which must not exist yet.
        plans: The WorkUnits and their acts, prerequisites first.
        audience: Who follows it.
        kept: Whether the file outlives the story.

    Raises:
        StoreError: The file cannot be made or used; the code is the store's.
    """
    store = SqliteStore.open(target)
    with ClaimLedger(store, AuthorizationPolicy.enterprise_baseline()) as ledger:
        story = Story(
            plans=plans, ledger=str(target) if kept else None, coordinator_pid=os.getpid()
        )
        audience.begins(story)
        with Stage(str(target), WORKERS, plans) as stage:
            try:
                Director(story, ledger, stage, audience).direct()
            except (StoppedShort, ClaimError) as reason:
                story.broken = str(reason)
        story.crew = tuple(
            Member(name=name, pid=pid, exit_code=stage.exit_codes[name])
            for name, pid in stage.pids.items()
        )
        story.claims = tuple(ledger.survey(SCOPE, dispatcher()))
        story.rebuilt = _rebuild(store, ledger)
    story.promises = check(story)
    audience.ends(story)
    return story


def _rebuild(store: SqliteStore, ledger: ClaimLedger) -> Rebuilt:
    """Drop the tables, fold the log anew, and compare every row with what stood there."""
    live = _rows(store)
    ledger.rebuild()
    refolded = _rows(store)
    with store.read() as session:
        events = session.last_sequence()
    return Rebuilt(
        events=events,
        tasks=len(refolded["tasks"]),
        claims=len(refolded["claims"]),
        observations=len(refolded["observations"]),
        equal=live == refolded,
    )


def _rows(store: SqliteStore) -> dict[str, list[tuple[object, ...]]]:
    with store.read() as session:
        return {table: list(tables.stored(session, table)) for table in tables.TABLES}
