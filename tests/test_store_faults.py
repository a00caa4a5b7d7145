"""A disk that fails or is full: what is answered, what is written, and how it goes on."""

import resource
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
import wrong_files as wrong
from builders import DISPATCHER, READER, START, WORKER, Clock, binding, granted, opened, task
from fault_vfs import FaultVFS, fault_vfs
from store_checks import folder_state, ledger_on, require_whole, store_refused

from idkmesh import ClaimLedger, StoreError, TaskClaimPolicy
from idkmesh.events.sqlite_store import SqliteStore


@pytest.fixture
def disk() -> Iterator[FaultVFS]:
    """Give a file system that can be made to fail."""
    with fault_vfs() as vfs:
        yield vfs


@pytest.fixture
def store(path: Path, disk: FaultVFS) -> Iterator[SqliteStore]:
    """Give a store on the failing file system."""
    store = SqliteStore.open(path, busy_timeout_seconds=5, vfs=disk.name)
    yield store
    store.close()


@pytest.fixture
def ledger(store: SqliteStore, clock: Clock) -> ClaimLedger:
    """Give a ledger on the failing file system, with one task."""
    ledger = ledger_on(store, clock)
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    return ledger


def claimed(ledger: ClaimLedger, request_id: str = "r-1") -> bool:
    """Claim the task; say whether the claim is new."""
    return ledger.claim(task(), WORKER, request_id=request_id, binding=binding()).created


@pytest.mark.parametrize(
    "call",
    [
        ("open", ""),
        ("open", "-journal"),
        ("write", "-journal"),
        ("sync", "-journal"),
        ("write", ""),
        ("sync", ""),
        ("delete", "-journal"),
    ],
)
def test_an_io_error_while_turning_to_wal_is_refused(
    path: Path, disk: FaultVFS, call: tuple[str, str]
) -> None:
    """A ledger whose change to WAL fails is store_unsafe, and opens once the disk is well."""
    wrong.ledger(path)
    wrong.with_statements(path, "PRAGMA journal_mode = DELETE")
    disk.fail(call)
    with store_refused("store_unsafe"):
        SqliteStore.open(path, vfs=disk.name)
    assert disk.fired
    disk.heal()
    assert len(require_whole(path)) == 3


def test_a_ledger_is_made_wholly_or_not_at_all(path: Path, disk: FaultVFS) -> None:
    """Whichever call fails while a ledger is made, the file becomes a sound ledger afterwards."""
    made = SqliteStore.open(path, vfs=disk.name)
    calls = list(disk.calls)
    made.close()
    for place, call in enumerate(calls):
        fresh = path.with_name(f"fresh-{place}.sqlite3")
        disk.fail(call, calls[: place + 1].count(call))
        with store_refused("store_unsafe"):
            SqliteStore.open(fresh, vfs=disk.name)
        assert disk.fired
        disk.heal()
        with opened(fresh, lambda: START) as ledger:
            assert granted(ledger) == 1


def test_a_power_cut_while_a_ledger_is_made_leaves_an_empty_one(path: Path, disk: FaultVFS) -> None:
    """Whichever of the first pages a power cut lost, the file becomes a ledger afterwards."""
    left: dict[str, bytes] = {}

    def power_cut() -> None:
        for suffix in ("", "-journal"):  # the undoing meets the fault again
            left.setdefault(suffix, path.with_name(path.name + suffix).read_bytes())

    disk.fail(("sync", ""))
    disk.at_fault = power_cut
    with store_refused("store_unsafe"):
        SqliteStore.open(path, vfs=disk.name)
    pages = [left[""][place : place + 4096] for place in range(0, len(left[""]), 4096)]
    assert len(pages) > 3
    for lost in range(len(pages)):
        for cut in (False, True):  # zeros where it was, or nothing from there on
            rest = [] if cut else [bytes(4096), *pages[lost + 1 :]]
            fresh = path.with_name(f"fresh-{lost}-{cut}.sqlite3")
            fresh.write_bytes(b"".join([*pages[:lost], *rest]))
            fresh.with_name(fresh.name + "-journal").write_bytes(left["-journal"])
            with opened(fresh, lambda: START) as ledger:
                assert granted(ledger) == 1


def test_a_lost_first_page_of_anything_else_is_refused(path: Path) -> None:
    """A file that held something before the power cut is not taken for an unborn ledger."""
    wrong.ledger(path)
    content = path.read_bytes()
    path.write_bytes(bytes(4096) + content[4096:])
    journal = path.with_name(path.name + "-journal")
    pages = (len(content) // 4096).to_bytes(4, "big")
    journal.write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(8) + pages + bytes(492))
    before = folder_state(path.parent)
    with store_refused("store_foreign"):
        opened(path, lambda: START)
    assert folder_state(path.parent) == before


# Errors at COMMIT.


def refused_commits(
    path: Path, disk: FaultVFS, call: tuple[str, str], error: type[apsw.Error]
) -> Iterator[tuple[Path, ClaimLedger, str]]:
    """Let each such call in the commit of a claim fail, on a fresh ledger each time.

    Yields the ledger with the disk still failing, and the code that the claim was refused by.
    """
    for nth in count(1):
        fresh = path.with_name(f"fresh-{nth}.sqlite3")
        store = SqliteStore.open(fresh, busy_timeout_seconds=5, vfs=disk.name)
        with ledger_on(store, lambda: START) as ledger:
            ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
            disk.fail(call, nth, error)
            code = ""
            try:
                claimed(ledger)
            except StoreError as refusal:
                code = refusal.code
            if not disk.fired:
                assert nth > 1
                return
            yield fresh, ledger, code


@pytest.mark.parametrize("call", [("write", "-wal"), ("sync", "-wal")])
def test_an_io_error_at_the_commit_is_an_unknown_outcome(
    path: Path, disk: FaultVFS, call: tuple[str, str]
) -> None:
    """Whichever write or flush of a commit fails: outcome_unknown, and a repeat settles it."""
    for fresh, ledger, code in refused_commits(path, disk, call, apsw.IOError):
        assert code == "outcome_unknown"
        disk.heal()
        claim, _ = ledger.claim(task(), WORKER, request_id="r-1", binding=binding())
        assert (claim.slot, claim.epoch) == (0, 1)
        assert ledger.peek(task(), READER) == (claim,)
        ledger.release(task(), WORKER, request_id="r-1", epoch=1)
        assert [row.type for row in require_whole(fresh)] == [
            "task.configured.v1",
            "claim.granted.v1",
            "claim.released.v1",
        ]


def test_a_full_disk_writes_nothing_and_recovers(path: Path, disk: FaultVFS) -> None:
    """Whichever write of a commit finds no room: store_full, nothing added, readers go on."""
    for fresh, ledger, code in refused_commits(path, disk, ("write", "-wal"), apsw.FullError):
        assert code == "store_full"
        assert ledger.peek(task(), READER) == ()
        with store_refused("store_full"):
            claimed(ledger)
        disk.heal()
        assert claimed(ledger) is True
        assert [row.type for row in require_whole(fresh)] == [
            "task.configured.v1",
            "claim.granted.v1",
        ]


@pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError])
def test_a_rebuild_that_fails_leaves_the_tables(
    path: Path, disk: FaultVFS, ledger: ClaimLedger, error: type[apsw.Error]
) -> None:
    """A rebuild that the disk refuses leaves the old tables, and can be repeated."""
    claimed(ledger)
    before = ledger.peek(task(), READER)
    disk.fail(("write", "-wal"), 5, error)
    with pytest.raises(StoreError):
        ledger.rebuild()
    disk.heal()
    assert ledger.peek(task(), READER) == before
    ledger.rebuild()
    assert ledger.peek(task(), READER) == before
    require_whole(path)


def test_after_an_unknown_outcome_another_connection_serves(
    disk: FaultVFS, ledger: ClaimLedger
) -> None:
    """The connection that erred is dropped: the next call opens the database anew."""
    disk.fail(("sync", "-wal"))
    with store_refused("outcome_unknown"):
        claimed(ledger)
    disk.heal()
    ledger.peek(task(), READER)
    assert disk.calls.count(("open", "")) == 1


def test_an_unknown_outcome_disturbs_no_other_thread(
    path: Path, disk: FaultVFS, ledger: ClaimLedger
) -> None:
    """While one thread's commit fails, another's readings go on, and afterwards its commands."""
    answers: list[Any] = []
    turns = [threading.Event(), threading.Event()]

    def other() -> None:
        answers.append(ledger.peek(task(), READER))
        turns[0].set()
        turns[1].wait()
        answers.append(len(ledger.peek(task(), READER)))
        answers.append(claimed(ledger, "r-2"))

    thread = threading.Thread(target=other)
    thread.start()
    turns[0].wait()
    disk.fail(("write", "-wal"))
    with store_refused("outcome_unknown"):
        claimed(ledger)
    disk.heal()
    turns[1].set()
    thread.join()
    assert answers == [(), 0, True]
    assert [row.type for row in require_whole(path)] == ["task.configured.v1", "claim.granted.v1"]


def test_a_limit_of_the_kernel_is_an_unknown_outcome(path: Path, clock: Clock) -> None:
    """A write that the kernel itself refuses is outcome_unknown, and all is well without it."""
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
        size = path.with_name(path.name + "-wal").stat().st_size
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            with store_refused("outcome_unknown"):
                claimed(ledger)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert ledger.peek(task(), READER) == ()
        assert claimed(ledger) is True
    assert [row.type for row in require_whole(path)] == ["task.configured.v1", "claim.granted.v1"]
