"""The files that travel: never over another's, whole or not at all, and safely from a live one."""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from builders import Clock, opened, task
from replay_builders import (
    DESK,
    SHORT,
    T1,
    contents,
    edited,
    forge,
    found,
    life,
    problems,
    unguarded,
    world,
    writers,
)
from store_checks import foreign, store_refused
from unit_builders import refusal

from idkmesh.replay import Verification, seal, verify
from idkmesh.transfer import backup, export_lines, import_lines, rebuild_into

Journey = Callable[[Path, Path], Verification]


def imported(source: Path, target: Path) -> Verification:
    """Export a ledger and import it elsewhere."""
    return import_lines(export_lines(source), target)


JOURNEYS: dict[str, Journey] = {
    "import": imported,
    "rebuild": rebuild_into,
    "backup": backup,
}


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Give the path of a ledger that is to be made, in a folder of its own."""
    folder = tmp_path / "new"
    folder.mkdir()
    return folder / "claims.sqlite3"


@pytest.fixture(params=JOURNEYS)
def journey(request: pytest.FixtureRequest) -> Journey:
    """Give one way after the other to make a ledger out of another."""
    return JOURNEYS[request.param]


# What all three have in common.


def test_each_gives_the_same_ledger(path: Path, new: Path, journey: Journey) -> None:
    """The new file has the log, the tables and the seal of the old one, which stays as it was."""
    before = world(path).read_bytes()
    made = journey(path, new)
    assert found(made) == []
    assert made.seal == seal(path) == seal(new)
    assert contents(new) == contents(path)
    assert path.read_bytes() == before


def test_none_writes_over_a_file(path: Path, new: Path, journey: Journey) -> None:
    """A file, a link, a dangling link or a folder of that name is refused and stays as it is."""
    life(path)
    new.write_bytes(b"precious")
    links = [new.with_name("link"), new.with_name("dangling")]
    links[0].symlink_to(new)
    links[1].symlink_to(new.with_name("nowhere"))
    for target in (new, *links, new.parent, path):
        error = refusal(partial(journey, path, target))
        message = "expected target to be a file that does not exist yet, but it does"
        assert (error.code, error.message) == ("invalid_input", message)
    assert new.read_bytes() == b"precious"
    assert {each.name for each in new.parent.iterdir()} == {"claims.sqlite3", "link", "dangling"}
    assert problems(path) == []


def test_memory_is_no_target(path: Path, journey: Journey) -> None:
    """A ledger that nobody could open again is not made."""
    error = refusal(lambda: journey(life(path), Path(":memory:")))
    assert error.code == "invalid_input"


def test_targets_may_lie_behind_a_linked_folder(
    path: Path, new: Path, journey: Journey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path through a link to a folder, or relative to the current one, is as good as any."""
    life(path)
    linked = new.parent.with_name("linked")
    linked.symlink_to(new.parent)
    assert journey(path, linked / "one.sqlite3").ok
    monkeypatch.chdir(new.parent)
    assert journey(path, Path("two.sqlite3")).ok
    assert new.with_name("one.sqlite3").is_file()
    assert new.with_name("two.sqlite3").is_file()


def test_a_missing_source_leaves_no_target(path: Path, new: Path, journey: Journey) -> None:
    """Where there is no ledger to read, none is made, neither here nor there."""
    with store_refused("store_readonly"):
        journey(path, new)
    assert list(new.parent.iterdir()) == []
    assert not path.exists()


def test_an_interrupt_leaves_no_target(path: Path, new: Path) -> None:
    """Interrupted at any step of any pass, what was begun is removed with all beside it."""
    lines = list(export_lines(life(path)))
    ways: list[Callable[[Callable[[int, int], None]], object]] = [
        lambda progress: import_lines(lines, new, progress=progress),
        lambda progress: rebuild_into(path, new, progress=progress),
        lambda progress: backup(path, new, progress=progress),
    ]
    for way in ways:
        steps = _steps_of(way, new)
        assert steps > 2
        for last in range(1, steps + 1):
            with pytest.raises(KeyboardInterrupt):
                way(_interrupting(last))
            assert list(new.parent.iterdir()) == []


def _steps_of(way: Callable[[Callable[[int, int], None]], object], new: Path) -> int:
    steps: list[tuple[int, int]] = []
    way(lambda *step: steps.append(step))
    for each in new.parent.iterdir():
        each.unlink()
    return len(steps)


def _interrupting(last: int) -> Callable[[int, int], None]:
    count = iter(range(1, last + 1))

    def progress(_done: int, _total: int) -> None:
        if next(count) == last:
            raise KeyboardInterrupt

    return progress


# Into a new file.


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE claims SET state = 'active'",
        "DELETE FROM tasks",
        "DROP TABLE claims",
        "DROP INDEX claims_live",
        "DROP TRIGGER events_are_kept",
    ],
)
def test_tables_are_rebuilt_into_a_new_file(path: Path, new: Path, statement: str) -> None:
    """Whatever became of the tables and triggers, a new ledger is made of the log."""
    sound = contents(world(path))
    connection = foreign(path)
    connection.execute(statement)
    connection.close()
    before = path.read_bytes()
    assert rebuild_into(path, new).ok
    assert contents(new) == sound
    assert path.read_bytes() == before


def test_an_empty_ledger_is_rebuilt(path: Path, new: Path, clock: Clock) -> None:
    """A log without events makes a ledger without tasks."""
    opened(path, clock).close()
    assert rebuild_into(path, new).events == 0


def test_an_event_that_breaks_the_rules_is_named(path: Path, new: Path) -> None:
    """A log that does not verify makes no ledger; the event is named by its sequence."""
    forge(life(path), edited(4, lease_until=0))
    error = refusal(lambda: rebuild_into(path, new))
    assert error.message.startswith("expected a log that verifies, but event 4 does not: ")
    with unguarded(life(path)) as connection:
        connection.execute("DELETE FROM events WHERE sequence = 9")
    error = refusal(lambda: rebuild_into(path, new))
    assert error.message == "expected event 9 to be the log's next, but it is not"
    assert list(new.parent.iterdir()) == []


# Backups.


def test_a_live_ledger_is_backed_up(path: Path, new: Path, clock: Clock) -> None:
    """Copied while two processes write, each copy is a sound ledger of one point."""
    opened(path, clock).close()
    counts = []
    with writers(path, "a", "b", tasks=30):
        for number in range(3):
            made = backup(path, new.with_name(f"{number}.sqlite3"))
            assert found(made) == []
            counts.append(made.events)
    assert counts == sorted(counts)
    assert counts[0] > 0
    for number, events in enumerate(counts):
        assert verify(new.with_name(f"{number}.sqlite3")).events == events


def test_a_backup_goes_on_while_a_writer_holds_the_lock(
    path: Path, new: Path, clock: Clock
) -> None:
    """A backup needs no turn: what is not committed is not in it."""
    with opened(life(path), clock) as ledger, ledger.transactor.store.write() as session:
        session.reset_tables()
        made = backup(path, new)
    assert (made.ok, made.events, made.claims) == (True, 14, 2)


def test_a_backup_holds_what_only_the_wal_holds(path: Path, new: Path, clock: Clock) -> None:
    """What a plain copy of the file would miss is in the backup."""
    clock.now += 30
    with opened(life(path), clock) as ledger:
        ledger.configure_task(task("T-2"), DESK, SHORT)
        plain = new.with_name("plain.sqlite3")
        shutil.copyfile(path, plain)
        assert backup(path, new).events == 15
    assert verify(plain).events == 14


def test_a_backup_is_private_and_complete_by_itself(path: Path, new: Path) -> None:
    """The copy needs no file beside it, and is its owner's alone."""
    before = os.umask(0)
    try:
        assert backup(world(path), new).ok
    finally:
        os.umask(before)
    assert new.stat().st_mode & 0o777 == 0o600
    alone = new.with_name("alone.sqlite3")
    shutil.copyfile(new, alone)
    assert problems(alone, seal(path)) == []


def test_a_copy_with_its_sources_problems_is_kept(path: Path, new: Path) -> None:
    """A damaged ledger's backup says what is wrong with it, and stays for the rescue."""
    with unguarded(life(path)) as connection:
        connection.execute("DELETE FROM tasks")
    assert found(backup(path, new)) == [("tasks", None, T1, "the row is missing")]
    assert contents(new) == contents(path)


def test_a_backup_may_lie_on_a_network(
    path: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that nobody works on may lie where a ledger may not, and is verified there."""
    table = f"36 35 0:42 / {new.parent.resolve()} rw - nfs4 server:/backups rw\n"
    monkeypatch.setattr("idkmesh.events.files.mount_table", lambda: table)
    assert backup(life(path), new).ok
    with store_refused("store_unsafe"):
        rebuild_into(path, new.with_name("ledger.sqlite3"))
    assert not new.with_name("ledger.sqlite3").exists()
