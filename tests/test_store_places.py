"""Where a ledger may be, and what else keeps it from being opened: mounts, engines, locks."""

import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
import wrong_files as wrong
from builders import READER, START, granted, opened, refused, task
from store_checks import folder_state, foreign, store_refused, without_locks

from idkmesh.events import engine, files


@pytest.mark.parametrize("tail", ["/", "/.", "/.."])
def test_a_path_that_ends_in_a_folder_is_refused(tmp_path: Path, tail: str) -> None:
    """A target that can only mean a folder is store_unsafe, and no folder is made for it."""
    with store_refused("store_unsafe"):
        opened(f"{tmp_path}/claims{tail}", lambda: START)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "target", ["", "a\x00b", "\udc80.sqlite3", "\ud800/claims.sqlite3", "x" * 501]
)
def test_a_path_that_is_none_is_invalid_input(target: str) -> None:
    """An empty path, one with NUL, one that is no UTF-8 and one too long for SQLite are refused."""
    with refused("invalid_input"):
        opened(target, lambda: START)


def test_the_longest_path_that_is_taken_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path of 500 bytes is one that SQLite can still put its own suffixes behind."""
    monkeypatch.chdir(tmp_path)
    room = 500 - len(bytes(tmp_path)) - 1
    folders = "/".join("d" * 100 for _ in range((room - 50) // 101))
    target = f"{folders}/{'f' * (room - len(folders) - 1)}"
    with opened(target, lambda: START) as made:
        granted(made)
        assert len(made.peek(task(), READER)) == 1


def test_a_device_is_refused() -> None:
    """A device is not a file to keep a ledger in."""
    with store_refused("store_unsafe"):
        opened("/dev/null", lambda: START)


def test_a_file_missing_to_a_reader_is_not_made(tmp_path: Path) -> None:
    """Opening for reading where there is nothing is store_readonly, and leaves nothing."""
    with store_refused("store_readonly"):
        opened(tmp_path / "folder" / "claims.sqlite3", lambda: START, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_a_ledger_but_for_a_reader(path: Path) -> None:
    """A file without a byte is nobody's: a writer makes it a ledger, a reader refuses it."""
    path.touch()
    with store_refused("store_foreign"):
        opened(path, lambda: START, read_only=True)
    assert path.stat().st_size == 0
    with opened(path, lambda: START) as made:
        assert granted(made) == 1


def test_a_folder_in_the_path_may_be_a_link(tmp_path: Path) -> None:
    """Only the file itself must not be a link: its folder is resolved before anything else."""
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    with opened(tmp_path / "alias" / "claims.sqlite3", lambda: START) as made:
        granted(made)
    with opened(tmp_path / "real" / "claims.sqlite3", lambda: START) as found:
        assert len(found.peek(task(), READER)) == 1


def test_a_name_is_never_read_as_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that looks like a URI is the name of a file."""
    monkeypatch.chdir(tmp_path)
    with opened("file:claims.sqlite3?immutable=1", lambda: START):
        assert (tmp_path / "file:claims.sqlite3?immutable=1").is_file()


MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 8:2 / /srv/local rw - xfs /dev/sdb1 rw
22 21 0:5 / /srv rw - nfs4 server:/export rw
24 21 0:6 / /mnt/over rw - ext4 /dev/sdc1 rw
25 24 0:7 / /mnt/over rw shared:1 - cifs //server/share rw
26 21 0:8 / /mnt/my\\040disk rw - fuse.sshfs me@host: rw
27 21 0:9 / /mnt/odd\u2028name\\134x\\012y rw - 9p host rw
28 21 0:9 / /net rw - smb3 //server/share rw
a line that is none
"""


@pytest.mark.parametrize(
    ("folder", "local"),
    [
        ("/", True),
        ("/data/me", True),
        ("/srv", False),
        ("/srv/claims", False),
        ("/srvx", True),
        ("/srv/local/claims", True),
        ("/mnt/over", False),
        ("/mnt/my disk/claims", False),
        ("/mnt/my", True),
        ("/mnt/odd\u2028name\\x\ny", False),
        ("/net/a/b", False),
    ],
)
def test_the_mount_table_tells_network_file_systems(folder: str, *, local: bool) -> None:
    """The mount nearest to the folder decides, the last of several on one point."""
    if local:
        files.refuse_network(folder, MOUNTS)
    else:
        with store_refused("store_unsafe"):
            files.refuse_network(folder, MOUNTS)


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "fuse.sshfs", "virtiofs"]
)
def test_a_network_file_system_is_refused_unless_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """On a network file system nothing is made; allow_network takes the risk knowingly."""
    monkeypatch.setattr(files, "mount_table", lambda: f"1 1 0:1 / / rw - {kind} server rw\n")
    with store_refused("store_unsafe"):
        opened(path, lambda: START)
    assert list(path.parent.iterdir()) == []
    with opened(path, lambda: START, allow_network=True) as made:
        assert granted(made) == 1


def test_where_there_is_no_mount_table_nothing_is_refused() -> None:
    """On a system that shows no mount table every file system is taken as it comes."""
    files.refuse_network("/srv", "")


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.9.99", "2.99.99"])
def test_an_old_engine_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """An SQLite older than 3.51.3 is store_unsafe before a file is made."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with store_refused("store_unsafe"):
        opened(path, lambda: START)
    assert not path.exists()


@pytest.mark.parametrize("version", ["3.51.3", "3.52", "3.100.0", "4.0.0"])
def test_a_new_engine_is_taken(version: str) -> None:
    """An SQLite from 3.51.3 on may keep a ledger."""
    engine.require_engine(version)


@pytest.fixture
def held(path: Path) -> Iterator[apsw.Connection]:
    """Give another program's connection to a sound ledger."""
    wrong.ledger(path)
    connection = foreign(path)
    yield connection
    connection.close()


def test_a_ledger_that_another_program_locks_is_store_locked(
    path: Path, held: apsw.Connection
) -> None:
    """A write that cannot begin within the busy timeout is store_locked, and readers go on."""
    with opened(path, lambda: START, busy_timeout_seconds=0.05) as waiting:
        held.execute("BEGIN IMMEDIATE")
        with store_refused("store_locked"):
            waiting.snapshot(task(), READER)
        assert len(waiting.peek(task(), READER)) == 1
        held.execute("ROLLBACK")
        assert len(waiting.snapshot(task(), READER)) == 1


def test_a_file_locked_against_everybody_cannot_be_opened(
    path: Path, held: apsw.Connection
) -> None:
    """An exclusive lock past the busy timeout is store_locked to whoever opens the file."""
    held.pragma("journal_mode", "DELETE")
    held.execute("BEGIN EXCLUSIVE")
    before = folder_state(path.parent)
    for read_only in (True, False):
        with store_refused("store_locked"):
            opened(path, lambda: START, busy_timeout_seconds=0.05, read_only=read_only)
    assert without_locks(path.parent) == before
    held.execute("ROLLBACK")
    with opened(path, lambda: START) as freed:
        assert len(freed.peek(task(), READER)) == 1


def test_new_names_are_flushed_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after the opening takes back neither the file's name nor its folders'."""
    flushed: list[str] = []
    flush = os.fsync

    def recording(descriptor: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    with opened(tmp_path / "a" / "b" / "claims.sqlite3", lambda: START):
        assert flushed == [str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/a/b"]
    with opened(tmp_path / "a" / "b" / "claims.sqlite3", lambda: START):
        assert len(flushed) == 3


def test_a_file_in_the_way_of_a_folder_is_refused(tmp_path: Path) -> None:
    """A path that goes through a file is store_unsafe, and the file stays."""
    (tmp_path / "a").write_text("mine", encoding="utf-8")
    for path in (tmp_path / "a" / "claims.sqlite3", tmp_path / "a" / "b" / "claims.sqlite3"):
        with store_refused("store_unsafe"):
            opened(path, lambda: START)
    assert (tmp_path / "a").read_text(encoding="utf-8") == "mine"
