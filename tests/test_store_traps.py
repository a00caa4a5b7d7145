"""SQLite's traps, each with the guard that the store sets before it."""

import os
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
import wrong_files as wrong
from builders import START, granted, opened
from programs import answer
from store_checks import ledger_on, store_refused

from idkmesh.events import engine
from idkmesh.events.sqlite_store import SqliteStore

SETTINGS = {
    "journal_mode": "wal",
    "synchronous": 2,
    "foreign_keys": 1,
    "cell_size_check": 1,
    "mmap_size": 0,
    "trusted_schema": 0,
}


def settings(store: SqliteStore) -> dict[str, Any]:
    """Return the settings of this thread's connection."""
    with store.read() as session:
        return {name: session.rows(f"PRAGMA {name}")[0][0] for name in SETTINGS}


# Settings.


def test_every_connection_is_set_for_durability(path: Path) -> None:
    """WAL, FULL and the other settings hold on the first connection and on every thread's own."""
    store = SqliteStore.open(path)
    found = [settings(store)]

    def look() -> None:
        found.append(settings(store))

    for _ in range(2):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    store.close()
    assert found == [SETTINGS, SETTINGS, SETTINGS]


def test_a_reader_is_set_like_a_writer(path: Path) -> None:
    """A store that is opened for reading has the same settings."""
    wrong.ledger(path)
    store = SqliteStore.open(path, read_only=True)
    assert settings(store) == SETTINGS
    store.close()


def test_extensions_and_attachments_do_not_reach_a_session(path: Path) -> None:
    """No SQL that a session runs can load code into the process."""
    store = SqliteStore.open(path)
    with store.read() as session, store_refused("store_corrupt"):
        session.rows("SELECT load_extension('libm.so.6')")
    store.close()


def test_an_engine_that_stays_out_of_wal_is_refused(path: Path) -> None:
    """A file system without shared memory leaves the old mode without a word: store_unsafe."""
    wrong.ledger(path)
    wrong.with_statements(path, "PRAGMA journal_mode = DELETE")
    with store_refused("store_unsafe"):
        SqliteStore.open(path, vfs="unix-dotfile")
    store = SqliteStore.open(path)
    assert settings(store)["journal_mode"] == "wal"
    store.close()


# A second descriptor on an open database.


def test_an_open_file_is_never_opened_by_other_means(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second ledger on a file that is open here looks at no header: closing would unlock."""
    wrong.ledger(path)
    seen: list[str] = []
    system_open = os.open

    def recording(name: Any, *rest: Any, **more: Any) -> int:
        seen.append(os.fspath(name))
        return system_open(name, *rest, **more)

    monkeypatch.setattr(os, "open", recording)
    with opened(path, lambda: START):
        assert seen.count(str(path)) == 1
        with opened(path, lambda: START), opened(path, lambda: START, read_only=True):
            assert seen.count(str(path)) == 1
    with opened(path, lambda: START):
        assert seen.count(str(path)) == 2


@pytest.mark.parametrize("options", [{"read_only": True}, {"busy_timeout_seconds": 0}], ids=str)
def test_opening_a_file_again_drops_no_lock_of_the_first(
    path: Path, options: dict[str, Any]
) -> None:
    """While one ledger writes, a second one in this process leaves its locks to it."""
    store = SqliteStore.open(path)
    ledger = ledger_on(store, lambda: START)
    granted(ledger)
    with store.write():
        if "read_only" in options:
            opened(path, lambda: START, **options).close()
        else:
            with store_refused("store_locked"):
                opened(path, lambda: START, **options)
        assert answer("process_probe.py", path) == {"write": "busy", "exclusive": "busy"}
    assert answer("process_probe.py", path) == {"write": "free", "exclusive": "busy"}
    store.close()
    assert answer("process_probe.py", path) == {"write": "free", "exclusive": "free"}


# Every engine error is a code.


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (apsw.BusyError, "store_locked"),
        (apsw.LockedError, "store_locked"),
        (apsw.ProtocolError, "store_locked"),
        (apsw.ReadOnlyError, "store_readonly"),
        (apsw.PermissionsError, "store_readonly"),
        (apsw.CantOpenError, "store_readonly"),
        (apsw.FullError, "store_full"),
        (apsw.NotADBError, "store_foreign"),
        (apsw.CorruptError, "store_corrupt"),
        (apsw.ConnectionClosedError, "store_closed"),
        (apsw.IOError, "store_unsafe"),
        (apsw.NoMemError, "store_unsafe"),
        (apsw.ConstraintError, "store_corrupt"),
        (apsw.SQLError, "store_corrupt"),
        (apsw.MismatchError, "store_corrupt"),
    ],
)
def test_an_engine_error_has_a_code(error: type[apsw.Error], code: str) -> None:
    """Each kind of engine error is a StoreError of its own code, and says no engine's words."""
    found = engine.translated(error("secret words"))
    assert found.code == code
    assert str(found).startswith(f"{code}: expected ")
    assert "secret" not in str(found)
