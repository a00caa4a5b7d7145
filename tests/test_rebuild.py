"""Tables made anew out of the log, in the same file and in one transaction."""

import threading
from pathlib import Path
from typing import Any

import pytest
from builders import START, Clock, binding, opened, task
from replay_builders import (
    ADA,
    SEEN,
    T1,
    Change,
    contents,
    edited,
    forge,
    life,
    problems,
    told,
    unguarded,
    world,
)
from store_checks import foreign, store_refused

from idkmesh import StoreError
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.replay import rebuild, verify

DAMAGES: dict[str, tuple[str, ...]] = {
    "rows changed": ("UPDATE claims SET state = 'active'", "UPDATE tasks SET attempts = 9"),
    "rows gone": ("DELETE FROM claims", "DELETE FROM tasks", "DELETE FROM observations"),
    "tables gone": ("DROP TABLE claims", "DROP TABLE tasks", "DROP TABLE observations"),
    "an index gone": ("DROP INDEX claims_live",),
    "a table altered": ("ALTER TABLE claims RENAME COLUMN state TO mood",),
    "a table of other columns": ("DROP TABLE tasks", "CREATE TABLE tasks (note)"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_tables_are_made_anew(path: Path, clock: Clock, name: str) -> None:
    """Whatever happened to the tables, they are as before, and the ledger works on."""
    sound = contents(world(path))
    connection = foreign(path)
    for statement in DAMAGES[name]:
        connection.execute(statement)
    connection.close()
    assert problems(path) != []
    rebuild(path)
    assert problems(path) == []
    assert contents(path) == sound
    clock.now = START + 200
    with opened(path, clock) as ledger:
        assert ledger.claim(task(), ADA, request_id="r-3", binding=binding()).created


def test_a_sound_ledger_is_made_anew_the_same(path: Path) -> None:
    """Where nothing was wrong, the tables hold the same rows afterwards, and so does the log."""
    sound = contents(world(path))
    steps: list[tuple[int, int]] = []
    rebuild(path, progress=lambda done, total: steps.append((done, total)))
    assert contents(path) == sound
    assert steps[0] == (0, 49)


UNFOLDABLE: dict[str, tuple[Change, str]] = {
    "illegal": (edited(4, lease_until=START + 23), "store_corrupt"),
    "newer": (edited(4, type="claim.renewed.v2"), "store_newer"),
    "no policy": (edited(1, policy__concurrent_slots=2), "store_corrupt"),
    "no task": (lambda rows: told(1, stream="acme/apollo/task/T 9")(rows[:1]), "store_corrupt"),
    "elsewhere": (told(9, stream=T1), "store_corrupt"),
    "unseen": (told(9, stream=SEEN), "store_corrupt"),
}


@pytest.mark.parametrize("name", UNFOLDABLE)
def test_a_log_that_does_not_fold_changes_nothing(path: Path, name: str) -> None:
    """Tables that a wrong log would make stay as they were, damage and all."""
    change, code = UNFOLDABLE[name]
    forge(life(path), change)
    with unguarded(path) as connection:
        connection.execute("UPDATE claims SET state = 'active'")
    before = contents(path)
    with store_refused(code):
        rebuild(path)
    assert contents(path) == before


@pytest.mark.parametrize("name", UNFOLDABLE)
def test_a_coordinator_is_told_of_it_alike(path: Path, clock: Clock, name: str) -> None:
    """A ledger that is asked to rebuild over a wrong log says so with the same code."""
    change, code = UNFOLDABLE[name]
    forge(life(path), change)
    with opened(path, clock) as ledger, store_refused(code):
        ledger.rebuild()


def test_an_interrupted_rebuild_changes_nothing(path: Path) -> None:
    """Tables are dropped and filled in one transaction, which an interrupt undoes."""
    with unguarded(life(path)) as connection:
        connection.execute("DELETE FROM claims")
    before = contents(path)

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(path, progress=interrupt)
    assert contents(path) == before


def test_a_rebuild_waits_its_turn(path: Path, clock: Clock) -> None:
    """While a writer is at work, a rebuild waits no longer than it was told to."""
    with opened(life(path), clock) as ledger, ledger.transactor.store.write():
        done: list[BaseException] = []

        def attempt() -> None:
            try:
                rebuild(path, busy_timeout_seconds=0)
            except StoreError as error:
                done.append(error)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert [getattr(each, "code", None) for each in done] == ["store_locked"]


BEYOND: dict[str, tuple[str, ...]] = {
    "a trigger of the log gone": ("DROP TRIGGER events_are_kept",),
    "a view in a table's place": (
        "DROP TABLE claims",
        "CREATE VIEW claims AS WITH n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n",
    ),
    "a table named like a trigger": ("CREATE TABLE events_are_kept (x)",),
    "an index named like a trigger": ("CREATE INDEX events_are_kept ON events (at)",),
    "an index of ours on another table": (
        "DROP INDEX claims_live",
        "CREATE INDEX claims_live ON tasks (stream)",
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_a_schema_that_is_damaged_beyond_the_tables_is_left_alone(path: Path, name: str) -> None:
    """What a rebuild does not make anew makes it refuse, and then no table has changed."""
    connection = foreign(life(path))
    for statement in ("DELETE FROM observations", *BEYOND[name]):
        connection.execute(statement)
    connection.close()
    before = said(path)
    with store_refused("store_corrupt"):
        rebuild(path)
    assert said(path) == before
    if name.endswith("gone"):
        assert problems(path) != []
    else:
        with store_refused("store_corrupt"):
            verify(path)


def said(path: Path) -> list[tuple[object, ...]]:
    """Return the schema and what the table of observations holds, which every case empties."""
    connection = foreign(path)
    try:
        schema = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2")
        return [*schema, *connection.execute("SELECT count(*) FROM observations")]
    finally:
        connection.close()


def test_a_rebuild_makes_no_ledger(path: Path) -> None:
    """Where there is no ledger, there is nothing to rebuild, and nothing is made."""
    with store_refused("store_readonly"):
        rebuild(path)
    assert list(path.parent.iterdir()) == []


def test_a_rebuild_hands_its_patience_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The busy timeout that was asked for is the writer's, and half a minute by default."""
    patience: list[float] = []
    write = SqliteStore.write

    def spying(store: SqliteStore) -> Any:
        patience.append(store.busy_timeout_seconds)
        return write(store)

    monkeypatch.setattr(SqliteStore, "write", spying)
    rebuild(life(path), busy_timeout_seconds=7)
    rebuild(path)
    assert patience == [7, 30]
