"""Older and newer files: a ledger of version 1, kept as it was written, and what becomes of it.

The fixture was written by the first version: it has no table of observations, and one of its
events is the earlier shape of a reconciliation.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import START, WORKER, Clock, opened, refused, task
from replay_builders import (
    DESK,
    EYE,
    Change,
    contents,
    edited,
    forge,
    found,
    problems,
    rows_of,
    told,
    writers,
)
from store_checks import foreign, store_refused

from idkmesh import ClaimLedger, StoreError
from idkmesh.events import codec, legacy
from idkmesh.events.catalog import TAGS
from idkmesh.events.port import WriteSession
from idkmesh.events.sessions import WriteSession as WriterOfFiles
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.events.types import ExecutionReconciled
from idkmesh.projections import tables
from idkmesh.repair import plan_repair, repair_clock
from idkmesh.replay import history, rebuild, seal, state_at, verify
from idkmesh.transfer import backup, export_lines, import_lines, rebuild_into

FIXTURE = Path(__file__).with_name("fixtures") / "ledger-v1.sqlite3"


@pytest.fixture
def old(path: Path) -> Path:
    """Give a copy of the older ledger."""
    shutil.copyfile(FIXTURE, path)
    return path


def version(path: Path) -> object:
    """Return the schema version that a file is marked with."""
    return contents(path)["version"]


# The older file.


def test_the_fixture_is_what_the_first_version_wrote(old: Path) -> None:
    """The file is marked 1, has no table of observations, and holds an event of version 0."""
    said = contents(old)
    assert said["version"] == 1
    assert said.keys() == {"version", "schema", "events", "tasks", "claims"}
    assert [row.type for row in rows_of(old)] == [
        "task.configured.v1",
        "claim.granted.v1",
        "claim.acknowledged.v1",
        "claim.renewed.v1",
        "execution.reserved.v1",
        "execution.reconciled.v1",
        "execution.reconciled.v0",
    ]
    assert "from_reserve" not in rows_of(old)[6].body


def test_an_older_ledger_is_upgraded_as_it_is_opened(old: Path) -> None:
    """Opening it for writing gives today's tables and mark, and the log stays to the byte."""
    rows, kept = rows_of(old), seal(old)
    claims = contents(old)["claims"]
    opened(old, Clock(START + 10)).close()
    said = contents(old)
    assert said["version"] == 2
    assert said["observations"] == []
    assert said["claims"] == claims
    assert rows_of(old) == rows
    assert problems(old, kept) == []


def test_an_upgraded_ledger_has_todays_schema(old: Path, tmp_path: Path) -> None:
    """Every object of an upgraded file is what a new one has."""
    opened(old, Clock(START + 10)).close()
    fresh = tmp_path / "fresh.sqlite3"
    opened(fresh, Clock()).close()
    assert contents(old)["schema"] == contents(fresh)["schema"]


def test_an_event_of_version_0_counts_as_todays(old: Path) -> None:
    """The earlier reconciliation ended the execution, so its repetition changes nothing."""
    with opened(old, Clock(START + 20)) as ledger:
        (claim,) = ledger.peek(task(), EYE)
        assert (claim.occupancy, claim.execution_reference) == ("terminal", "run-1-ended")
        held: dict[str, Any] = {"request_id": "r-1", "epoch": 1, "status": "terminal"}
        same = ledger.reconcile_execution(task(), DESK, **held, evidence_reference="run-1-ended")
        assert same == claim
        with refused("terminal_execution_conflict"):
            ledger.reconcile_execution(task(), DESK, **held, evidence_reference="run-1:exit-0")
        assert ledger.renew(task(), WORKER, request_id="r-1", epoch=1).lease_until == START + 320
    assert problems(old) == []


def test_an_event_of_version_0_folds_to_the_state_of_todays(old: Path, path: Path) -> None:
    """The same log with today's shape of that event folds to the same records."""
    before = state_at(old)
    today = edited(7, type="execution.reconciled.v1", from_reserve=False)
    forge(path, today)
    assert [row.type for row in rows_of(path)][6] == "execution.reconciled.v1"
    assert state_at(path) == before


def test_an_older_ledger_is_read_without_an_upgrade(old: Path, tmp_path: Path) -> None:
    """Whoever reads the log reads an older one as well, and leaves it as it is."""
    before = old.read_bytes()
    assert [each.claims[0].occupancy for each in state_at(old)] == ["terminal"]
    assert len(list(history(old, task()))) == 7
    assert len(list(export_lines(old))) == 7 + 1
    assert [each for each in found(verify(old)) if each[0] == "events"] == []
    assert len(plan_repair(old, clock=Clock(START)).expired) == 1
    assert backup(old, tmp_path / "copy.sqlite3").seal == seal(old)
    assert old.read_bytes() == before
    assert version(tmp_path / "copy.sqlite3") == 1


@pytest.mark.parametrize(
    "travel", [rebuild_into, lambda old, new: import_lines(export_lines(old), new)]
)
def test_an_older_log_makes_a_ledger_of_today(
    old: Path, tmp_path: Path, travel: Callable[[Path, Path], Any]
) -> None:
    """Imported or rebuilt into a new file, the old log has the same seal in a file of today."""
    new = tmp_path / "new.sqlite3"
    assert travel(old, new).seal == seal(old)
    assert version(new) == 2
    assert rows_of(new) == rows_of(old)
    assert problems(new) == []


@pytest.mark.parametrize(
    "write",
    [rebuild, lambda old: repair_clock(old, evidence="a wrong clock", clock=Clock(START))],
    ids=["rebuild", "repair"],
)
def test_whatever_else_writes_upgrades_too(old: Path, write: Callable[[Path], Any]) -> None:
    """A rebuild and a repair of the clock leave a file of today's version that verifies."""
    write(old)
    assert version(old) == 2
    assert problems(old) == []


# In one transaction.


def test_an_upgrade_that_fails_leaves_the_file_untouched(old: Path) -> None:
    """Whatever fails after the tables were dropped and filled, the older file is as it was."""
    before = contents(old)

    def failing(session: WriteSession) -> None:
        tables.rebuild(session)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SqliteStore.open(old, refold=failing)
    assert contents(old) == before
    opened(old, Clock(START + 10)).close()
    assert problems(old) == []


@pytest.mark.parametrize(
    "change",
    [
        edited(4, lease_until=START + 311),
        lambda rows: told(1, stream="acme/apollo/task/T 9")(rows[:1]),
    ],
    ids=["an illegal step", "a name that no task has"],
)
def test_a_log_that_does_not_fold_is_not_upgraded(old: Path, change: Change) -> None:
    """An older ledger with a wrong log is refused, and stays as it was."""
    forge(old, change)
    before = contents(old)
    with store_refused("store_corrupt"):
        opened(old, Clock(START + 10))
    assert contents(old) == before


def test_a_refused_upgrade_changes_no_byte(old: Path) -> None:
    """A file that another tool put into another journal mode stays in it where it is refused."""
    forge(old, edited(4, lease_until=START + 311))
    connection = foreign(old)
    assert connection.pragma("journal_mode", "DELETE") == "delete"
    connection.close()
    before = old.read_bytes()
    with store_refused("store_corrupt"):
        opened(old, Clock(START + 10))
    assert old.read_bytes() == before


def test_an_upgrade_leaves_a_ledger_in_wal(old: Path) -> None:
    """Whatever mode an older file was in, once it is upgraded it is written through a WAL."""
    connection = foreign(old)
    connection.pragma("journal_mode", "DELETE")
    connection.close()
    opened(old, Clock(START + 10)).close()
    connection = foreign(old)
    assert connection.pragma("journal_mode") == "wal"
    connection.close()
    assert problems(old) == []


def test_an_upgrade_happens_once(old: Path) -> None:
    """A file of today is not folded again when it is opened."""
    folded: list[int] = []

    def counting(session: WriteSession) -> None:
        folded.append(session.head().sequence)
        tables.rebuild(session)

    for _ in range(3):
        store = SqliteStore.open(old, refold=counting)
        with WriterOfFiles(store) as session:
            assert not session.is_older()  # as whoever waited while another one upgraded
        store.close()
    assert folded == [7]


def test_processes_that_upgrade_at_once_do_it_once(old: Path) -> None:
    """Two processes that open the older file together both get to work on it."""
    with writers(old, "a", "b", tasks=3):
        pass
    assert version(old) == 2
    assert len(rows_of(old)) == 7 + 2 * 3 * 3
    assert problems(old) == []


# Refusals.


def test_an_older_ledger_is_not_opened_for_reading(old: Path) -> None:
    """Who may only read is told what to do; the file stays as it was."""
    before = old.read_bytes()
    with pytest.raises(StoreError) as caught:
        ClaimLedger.open(old, read_only=True)
    assert caught.value.code == "store_readonly"
    assert caught.value.message == (
        "expected a ledger of version 2, but this one is older: it is upgraded when it is next "
        "opened for writing"
    )
    assert old.read_bytes() == before
    assert version(old) == 1


def test_a_store_without_a_fold_does_not_upgrade(old: Path) -> None:
    """A store that was given no way to make the tables leaves the older file alone."""
    with store_refused("store_readonly"):
        SqliteStore.open(old)
    assert version(old) == 1


@pytest.mark.parametrize(
    "use",
    [
        ClaimLedger.open,
        lambda path: ClaimLedger.open(path, read_only=True),
        verify,
        rebuild,
        seal,
        lambda path: list(export_lines(path)),
        plan_repair,
    ],
    ids=["open", "read", "verify", "rebuild", "seal", "export", "plan"],
)
def test_a_newer_ledger_is_refused_with_the_version_it_needs(
    old: Path, use: Callable[[Path], object]
) -> None:
    """A file of a later version is left alone, and the message says which version it needs."""
    connection = foreign(old)
    connection.pragma("user_version", 3)
    connection.close()
    before = old.read_bytes()
    with pytest.raises(StoreError) as caught:
        use(old)
    assert caught.value.code == "store_newer"
    assert caught.value.message == "expected a ledger of version 2, but this one needs 3"
    assert old.read_bytes() == before


# The way up.


def test_every_earlier_shape_has_a_way_up() -> None:
    """Each class of an earlier version reads under a tag of its own, and ends as one of today."""
    for kind in legacy.UPCASTS:
        tag = str(kind.__struct_config__.tag)
        assert tag not in TAGS
        assert kind.__struct_defaults__ == ()
        assert kind.__struct_config__.forbid_unknown_fields
    assert set(legacy.UPCASTS) == {legacy.ExecutionReconciledV0}


def test_the_way_up_keeps_everything(old: Path) -> None:
    """The upcast of the fixture's event has all of its members, and took nothing of the reserve."""
    row = rows_of(old)[6]
    tag, event = codec.read(row.body)
    assert tag == "execution.reconciled.v0"
    assert isinstance(event, ExecutionReconciled)
    content = msgspec.json.decode(row.body)
    assert msgspec.to_builtins(event) == {
        **content,
        "type": "execution.reconciled.v1",
        "from_reserve": False,
    }


def test_nothing_is_written_in_an_earlier_shape(old: Path) -> None:
    """What is written of an event of version 0 is today's shape of it."""
    _, event = codec.read(rows_of(old)[6].body)
    assert codec.encode(event).startswith('{"type":"execution.reconciled.v1",')


@pytest.mark.parametrize(
    ("old_part", "new_part", "code"),
    [
        ("}", ',"from_reserve":false}', "store_newer"),
        ('"status":"terminal"', '"status": "terminal"', "store_corrupt"),
        ('"status":"terminal",', "", "store_corrupt"),
    ],
)
def test_an_earlier_shape_is_read_as_strictly(
    old: Path, old_part: str, new_part: str, code: str
) -> None:
    """An unknown field, a blank or a missing member is refused in an old event, too."""
    head, _, tail = rows_of(old)[6].body.rpartition(old_part)
    with store_refused(code):
        codec.read(head + new_part + tail)
