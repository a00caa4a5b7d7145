"""What the store's tests look at: the log, its chain, its tables, and the files beside it."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from idkmesh import AuthorizationPolicy, ClaimLedger, StoreError
from idkmesh.events.port import Row
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.projections import tables

LOCK_FILES = ("-queue", "-lock")


def ledger_on(store: SqliteStore, clock: Callable[[], int]) -> ClaimLedger:
    """Put a ledger over an opened store."""
    return ClaimLedger(store, AuthorizationPolicy.enterprise_baseline(), clock=clock)


@contextmanager
def store_refused(code: str) -> Iterator[None]:
    """Demand a StoreError of this code."""
    with pytest.raises(StoreError) as caught:
        yield
    assert caught.value.code == code


def log_of(path: Path) -> list[Row]:
    """Return a ledger's whole log, read through a store of its own."""
    store = SqliteStore.open(path, busy_timeout_seconds=30)
    try:
        with store.read() as session:
            return list(session.log())
    finally:
        store.close()


def require_whole(path: Path) -> list[Row]:
    """Demand that the chain, the numbering and the tables of a ledger fit its log; return it.

    The chain is computed here anew, as the documentation of events gives it.
    """
    store = SqliteStore.open(path, busy_timeout_seconds=30)
    try:
        with store.read() as session:
            log = list(session.log())
        require_chained(log)
        live = tables_of(store)
        with store.write() as session:
            tables.rebuild(session)
            session.commit()
        assert tables_of(store) == live
    finally:
        store.close()
    return log


def require_chained(log: list[Row]) -> None:
    """Demand that every row is the next of its file, scope and stream, and is chained."""
    numbers: dict[str, int] = {}
    versions: dict[str, int] = {}
    chains: dict[str, bytes] = {}
    for place, row in enumerate(log, start=1):
        assert row.sequence == place
        assert row.number == numbers.get(row.scope, 0) + 1
        assert row.version == versions.get(row.stream, 0) + 1
        hashed = hashlib.sha256(chains.get(row.scope, bytes(32)))
        for column in row[:-1]:
            text = str(column).encode()
            hashed.update(len(text).to_bytes(8, "big") + text)
        assert row.chain == hashed.digest(), f"row {row.sequence} breaks the chain"
        numbers[row.scope], versions[row.stream] = row.number, row.version
        chains[row.scope] = row.chain


def tables_of(store: SqliteStore) -> list[tuple[Any, ...]]:
    """Return every row that the log has folded to."""
    with store.read() as session:
        return [*tables.stored(session, "tasks"), *tables.stored(session, "claims")]


def folder_state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return what lies in a folder: each name's mode, time of change, and bytes or target."""
    found = {}
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        if path.is_symlink():
            content = os.fsencode(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        else:
            content = b""
        found[path.name] = (status.st_mode, status.st_mtime_ns, content)
    return found


def foreign(path: Path) -> apsw.Connection:
    """Open the file as another tool would: past the store, with the engine's defaults."""
    return apsw.Connection(str(path))


def without_locks(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return what lies in a folder besides the lock files, which are made for a writer."""
    state = folder_state(folder)
    return {name: found for name, found in state.items() if not name.endswith(LOCK_FILES)}
