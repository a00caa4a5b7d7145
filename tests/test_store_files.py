"""Wrong files: each is refused with its code, and stays as it was, byte for byte."""

from collections.abc import Callable
from pathlib import Path

import pytest
import wrong_files as wrong
from builders import READER, START, opened, task
from store_checks import LOCK_FILES, folder_state, foreign, store_refused, without_locks


@pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (wrong.text, "store_foreign"),
        (wrong.stub, "store_foreign"),
        (wrong.zeros, "store_foreign"),
        (wrong.bare, "store_foreign"),
        (wrong.others, "store_foreign"),
        (wrong.others_wal, "store_foreign"),
        (wrong.others_mark, "store_foreign"),
        (wrong.newer, "store_newer"),
        (wrong.folder, "store_unsafe"),
        (wrong.link, "store_unsafe"),
        (wrong.dangling, "store_unsafe"),
        (wrong.hard_link, "store_unsafe"),
        (wrong.pipe, "store_unsafe"),
        (wrong.plug, "store_unsafe"),
    ],
)
def test_a_file_that_is_no_ledger_is_refused_untouched(
    path: Path, make: Callable[[Path], None], code: str, *, read_only: bool
) -> None:
    """What is no regular file of this version and program is refused, and nothing is changed."""
    make(path)
    before = folder_state(path.parent)
    with store_refused(code):
        opened(path, lambda: START, read_only=read_only)
    assert folder_state(path.parent) == before


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TRIGGER spy AFTER INSERT ON claims BEGIN DELETE FROM tasks; END"],
        ["CREATE VIEW live AS SELECT * FROM claims"],
        ["CREATE TABLE more (x)"],
        ["CREATE INDEX more ON claims (state)"],
        ["DROP TRIGGER events_are_kept"],
        ["DROP INDEX claims_live"],
        ["ALTER TABLE claims ADD COLUMN note TEXT"],
        ["DROP TABLE tasks", "CREATE VIEW tasks AS SELECT 1 AS stream"],
        [
            "PRAGMA writable_schema = ON",
            "CREATE TRIGGER spy AFTER INSERT ON claims BEGIN DELETE FROM tasks; END",
            (
                "UPDATE sqlite_schema SET sql = replace(sql, 'spy', 'sqlite_stat_spy'),"
                " name = 'sqlite_stat_spy' WHERE name = 'spy'"
            ),
        ],
        [
            "PRAGMA writable_schema = ON",
            (
                "UPDATE sqlite_schema SET sql = replace(sql, 'RAISE(ABORT', 'RAISE(IGNORE')"
                " WHERE name = 'events_are_facts'"
            ),
        ],
    ],
    ids=[
        "a trigger more",
        "a view more",
        "a table more",
        "an index more",
        "a trigger less",
        "an index less",
        "a column more",
        "a view for a table",
        "a trigger named like statistics",
        "a trigger disarmed",
    ],
)
def test_another_schema_is_refused_before_it_is_used(path: Path, statements: list[str]) -> None:
    """A ledger whose schema is not exactly its own is store_corrupt, and stays as it is."""
    wrong.ledger(path)
    wrong.with_statements(path, *statements)
    before = folder_state(path.parent)
    with store_refused("store_corrupt"):
        opened(path, lambda: START)
    assert without_locks(path.parent) == before


def test_another_schema_is_refused_with_a_pending_wal_left_alone(path: Path) -> None:
    """A WAL that a crash left beside an altered ledger is not folded into the file."""
    wrong.ledger(path)
    connection = foreign(path)
    connection.execute("CREATE TABLE more (x)")
    wrong.crashed(path, connection)
    before = folder_state(path.parent)
    with store_refused("store_corrupt"):
        opened(path, lambda: START)
    after = without_locks(path.parent)
    after.pop("claims.sqlite3-shm")
    assert after == before


def test_a_ledger_is_taken_over_with_the_wal_of_a_crash(path: Path) -> None:
    """What a dead process committed is there, and is folded into the file at the end."""
    wrong.ledger(path)
    at_rest = path.read_bytes()
    connection = foreign(path)
    connection.execute("DELETE FROM claims")
    wrong.crashed(path, connection)
    assert path.read_bytes() == at_rest
    with opened(path, lambda: START) as ledger:
        assert ledger.peek(task(), READER) == ()
    assert path.read_bytes() != at_rest
    assert not path.with_name(path.name + "-wal").exists()


def test_the_statistics_of_the_engine_are_no_alteration(path: Path) -> None:
    """A ledger that somebody ran ANALYZE on is still a ledger."""
    wrong.ledger(path)
    wrong.with_statements(path, "ANALYZE")
    with opened(path, lambda: START) as again:
        assert len(again.peek(task(), READER)) == 1


@pytest.mark.parametrize("make", [wrong.cut, wrong.bad_schema_page])
def test_a_damaged_file_is_refused_untouched(path: Path, make: Callable[[Path], None]) -> None:
    """A truncated file and a spoilt first page are store_corrupt at the opening."""
    make(path)
    before = folder_state(path.parent)
    with store_refused("store_corrupt"):
        opened(path, lambda: START)
    assert without_locks(path.parent) == before


def test_a_damaged_page_is_found_when_it_is_read(path: Path) -> None:
    """A page that no longer makes sense is store_corrupt for each call that meets it."""
    wrong.ledger(path)
    connection = foreign(path)
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'claims'").get
    connection.close()
    content = bytearray(path.read_bytes())
    page = (int(root) - 1) * 4096
    content[page : page + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    with opened(path, lambda: START) as damaged:
        for call in (damaged.peek, damaged.snapshot):
            with store_refused("store_corrupt"):
                call(task(), READER)
        with store_refused("store_corrupt"):
            list(damaged.survey(task().scope, READER))


STAND_INS = [wrong.folder, wrong.dangling, wrong.second_name, wrong.pipe, wrong.plug]


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("make", STAND_INS)
def test_what_stands_in_for_a_side_file_is_refused(
    path: Path, suffix: str, make: Callable[[Path], None]
) -> None:
    """A link, a pipe or a folder named like SQLite's own side files is never opened."""
    wrong.ledger(path)
    make(path.with_name(path.name + suffix))
    before = folder_state(path.parent)
    with store_refused("store_unsafe"):
        opened(path, lambda: START)
    assert folder_state(path.parent) == before


@pytest.mark.parametrize("suffix", LOCK_FILES)
@pytest.mark.parametrize("make", STAND_INS)
def test_what_stands_in_for_a_lock_file_is_refused(
    path: Path, suffix: str, make: Callable[[Path], None]
) -> None:
    """A link, a pipe or a folder named like a lock file is store_unsafe, its mode untouched."""
    wrong.ledger(path)
    make(path.with_name(path.name + suffix))
    before = folder_state(path.parent)
    with store_refused("store_unsafe"):
        opened(path, lambda: START)
    after = folder_state(path.parent)
    assert {name: after[name] for name in before} == before
