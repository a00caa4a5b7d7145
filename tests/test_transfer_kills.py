"""A file that is being made when its maker ends: nothing under its name before it is whole."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest
from builders import START, Clock, opened, task
from interrupts import interrupted
from replay_builders import DESK, SHORT, contents, life, problems
from store_checks import LOCK_FILES, foreign, store_refused
from unit_builders import refusal

from idkmesh.events.making import making
from idkmesh.replay import Verification, seal, verify
from idkmesh.transfer import backup, export_lines, import_lines, rebuild_into

MAKER = Path(__file__).with_name("process_maker.py")
LEDGERS = ("import", "rebuild", "backup")
TAKEN = "expected target to be a file that does not exist yet, but it does"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Give the path of a file that is to be made, in a folder of its own."""
    folder = tmp_path / "new"
    folder.mkdir()
    return folder / "claims.sqlite3"


def ended(way: str, source: Path, target: Path, moment: object) -> int:
    """Make a file in a process that dies at a moment; return how it ended."""
    done = subprocess.run(
        [sys.executable, str(MAKER), way, str(source), str(target), str(moment)],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert done.stderr == b""
    return done.returncode


def names(folder: Path) -> set[str]:
    """Return what lies in a folder under a name that is not hidden."""
    return {each.name for each in folder.iterdir() if not each.name.startswith(".")}


# Killed.


@pytest.mark.parametrize(("way", "steps"), [("import", 6), ("rebuild", 7), ("backup", 4)])
def test_a_killed_maker_leaves_no_ledger(path: Path, new: Path, way: str, steps: int) -> None:
    """Killed at any step, import, rebuild and backup leave nothing under the ledger's name.

    What they leave is hidden, and in nobody's way who makes the ledger again.
    """
    life(path)
    for step in count(1):
        if ended(way, path, new, step) == 0:
            break
        assert names(new.parent) == set()
        assert len(list(new.parent.glob(".claims.sqlite3.*.making"))) == step
    assert step == steps + 1
    assert names(new.parent) == {"claims.sqlite3"}
    assert problems(new, seal(path)) == []


def test_a_killed_export_leaves_no_file(path: Path, new: Path) -> None:
    """Killed while it writes lines or before it is done, an export has no file of its name."""
    life(path)
    for moment in (1, "before fsync", "after fsync", "before link"):
        assert ended("export", path, new, moment) == -signal.SIGKILL
        assert names(new.parent) == set()
    assert ended("export", path, new, 0) == 0
    assert import_lines(new.read_bytes().splitlines(keepends=True), new.with_name("copy")).ok


@pytest.mark.parametrize("way", LEDGERS)
def test_a_file_has_no_name_before_it_is_flushed(path: Path, new: Path, way: str) -> None:
    """Killed before or after the flush or before the naming, there is no ledger of the name."""
    life(path)
    for moment in ("before fsync", "after fsync", "before link"):
        assert ended(way, path, new, moment) == -signal.SIGKILL
        assert names(new.parent) == set()


def test_killed_between_two_names_a_ledger_waits_for_the_hidden_one_to_go(
    path: Path, new: Path
) -> None:
    """A whole ledger under two names is refused, and serves when the hidden one is removed."""
    life(path)
    assert ended("rebuild", path, new, "after link") == -signal.SIGKILL
    with store_refused("store_unsafe"):
        opened(new, Clock(START + 60))
    (hidden,) = new.parent.glob(".*")
    hidden.unlink()
    assert problems(new, seal(path)) == []


def test_new_content_is_flushed_before_its_name(
    path: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut takes no content of a file that has its name: it, then the name is flushed."""
    life(path)
    calls: list[str] = []
    flush, link = os.fsync, os.link

    def flushing(descriptor: int) -> None:
        calls.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        flush(descriptor)

    def linking(old: str, name: str) -> None:
        calls.append(Path(name).name)
        link(old, name)

    monkeypatch.setattr(os, "fsync", flushing)
    monkeypatch.setattr(os, "link", linking)
    assert rebuild_into(path, new).ok
    hidden, *rest = calls
    assert hidden.startswith(".claims.sqlite3.")
    assert rest == ["claims.sqlite3", "new"]


def test_ctrl_c_at_any_point_leaves_a_whole_file_or_none(new: Path) -> None:
    """Interrupted at any point of the making, there is the whole file under its name, or none."""

    def work() -> None:
        with making(new) as path, Path(path).open("wb") as out:
            out.write(b"whole")

    found = set()
    for _ in interrupted(work, lambda: new.unlink(missing_ok=True)):
        assert names(new.parent) <= {new.name}
        found.add(new.read_bytes() if new.exists() else None)
    assert found == {b"whole", None}


# Names that are taken.


@pytest.mark.parametrize("way", LEDGERS)
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal", *LOCK_FILES])
def test_what_stands_beside_a_name_is_anothers(
    path: Path, new: Path, way: str, suffix: str
) -> None:
    """Where something stands that would be the new ledger's, none is made, and it stays."""
    life(path)
    beside = new.with_name(new.name + suffix)
    beside.write_bytes(b"precious")
    error = refusal(lambda: made(way, path, new))
    assert (error.code, error.message) == ("invalid_input", TAKEN)
    assert beside.read_bytes() == b"precious"
    assert list(new.parent.iterdir()) == [beside]


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_name_that_is_taken_meanwhile_is_anothers(path: Path, new: Path, suffix: str) -> None:
    """What came to stand there while lines were read stays, and nothing else is left."""
    lines = list(export_lines(life(path)))
    other = new.with_name(new.name + suffix)

    def meanwhile() -> Iterator[bytes]:
        yield from lines
        other.write_bytes(b"precious")

    error = refusal(lambda: import_lines(meanwhile(), new))
    assert (error.code, error.message) == ("invalid_input", TAKEN)
    assert other.read_bytes() == b"precious"
    assert list(new.parent.iterdir()) == [other]


def test_a_name_that_is_taken_at_the_last_moment_is_anothers(
    path: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is given exclusively: what took it after the last look stays."""
    link = os.link

    def late(old: str, name: str) -> None:
        new.write_bytes(b"precious")
        link(old, name)

    monkeypatch.setattr(os, "link", late)
    assert refusal(lambda: rebuild_into(life(path), new)).message == TAKEN
    assert new.read_bytes() == b"precious"
    assert list(new.parent.iterdir()) == [new]


@pytest.mark.parametrize("way", LEDGERS)
def test_without_hard_links_a_file_is_renamed(
    path: Path, new: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A file system that knows no hard links gets the same file, by a look and a rename."""
    life(path)

    def none(_old: str, _name: str) -> None:
        raise PermissionError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", none)
    assert made(way, path, new).ok
    assert list(new.parent.iterdir()) == [new]
    assert contents(new) == contents(path)
    assert refusal(lambda: made(way, path, new)).message == TAKEN


def made(way: str, source: Path, target: Path) -> Verification:
    """Make a ledger out of another."""
    if way == "import":
        return import_lines(export_lines(source), target)
    return {"rebuild": rebuild_into, "backup": backup}[way](source, target)


# Whole, and alone.


@pytest.mark.parametrize("way", LEDGERS)
def test_nothing_is_left_but_the_file(path: Path, new: Path, way: str) -> None:
    """A new ledger has nothing beside it, and one name."""
    assert made(way, life(path), new).ok
    assert list(new.parent.iterdir()) == [new]
    assert new.stat().st_nlink == 1


def test_what_a_killed_maker_left_is_nobody_elses(
    path: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a killed process had the same id, its hidden file and WAL stay, and are not read."""
    life(path)
    monkeypatch.setattr("idkmesh.events.making._numbers", count(7))
    hidden = f".claims.sqlite3.{os.getpid()}"
    left = {f"{hidden}-7.making", f"{hidden}-8.making-wal"}
    for name in left:
        new.with_name(name).write_bytes(b"another's")
    assert rebuild_into(path, new).ok
    assert {each.name for each in new.parent.iterdir()} == {new.name, *left}
    assert {new.with_name(name).read_bytes() for name in left} == {b"another's"}


def test_a_long_name_serves(path: Path, new: Path) -> None:
    """A name to which SQLite can just add its own has room for a hidden one, and is opened."""
    long = new.with_name("ä" * 123 + "b")
    assert rebuild_into(life(path), long).ok
    assert list(new.parent.iterdir()) == [long]
    assert verify(long).ok


@pytest.mark.parametrize("make", [rebuild_into, backup])
def test_a_name_that_nobody_could_open_is_refused(
    path: Path, new: Path, make: Callable[[Path, Path], object]
) -> None:
    """Where the names beside a file would be too long for the system, none is made."""
    life(path)
    with store_refused("store_unsafe"):
        make(path, new.with_name("ä" * 124))
    assert list(new.parent.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_a_file_that_took_the_name_first_keeps_it(
    path: Path, new: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Whoever comes second is refused, even where it comes between a look and the name."""
    life(path)

    def no_link(_hidden: str, final: str) -> None:
        Path(final).write_bytes(b"another's")
        raise OSError(code, "no links here")

    monkeypatch.setattr("os.link", no_link)
    assert refusal(lambda: rebuild_into(path, new)).code == "invalid_input"
    assert new.read_bytes() == b"another's"
    assert list(new.parent.iterdir()) == [new]


def test_a_system_that_refuses_the_name_is_not_asked_otherwise(
    path: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where links are unknown is there another way; any other refusal is the answer."""

    def no_link(_hidden: str, _final: str) -> None:
        raise OSError(errno.EIO, "broken")

    life(path)
    monkeypatch.setattr("os.link", no_link)
    with store_refused("store_unsafe"):
        rebuild_into(path, new)
    assert list(new.parent.iterdir()) == []


def test_a_path_leaves_room_for_the_hidden_name(path: Path, new: Path) -> None:
    """A path so long that SQLite could not open the hidden one is refused with its limit."""
    life(path)
    folder = new.parent / ("a" * 200) / ("b" * (467 - len(str(new.parent)) - 203))
    assert rebuild_into(path, folder / "c").ok
    assert len(str(folder / "cd")) == 469
    error = refusal(lambda: rebuild_into(path, folder / "cd"))
    assert error.message == "expected target to be a path of at most 468 bytes, but it is not"


def test_a_file_that_needs_its_journal_gets_no_name(path: Path, new: Path) -> None:
    """Where another program keeps the new file's WAL from being folded in, none is made."""
    life(path)
    others: list[apsw.Connection] = []

    def progress(_done: int, _total: int) -> None:
        if not others:  # while the transaction is under way, so that the WAL must wait for it
            (hidden,) = new.parent.glob(".*.making")
            others.append(foreign(hidden))
            others[0].execute("BEGIN; SELECT * FROM sqlite_schema")

    with store_refused("store_unsafe"):
        import_lines(list(export_lines(path)), new, progress=progress)
    others[0].close()
    assert list(new.parent.iterdir()) == []


def test_a_ledger_that_does_not_verify_gets_no_name(
    path: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk does not give back what was written, import and rebuild make nothing."""
    life(path)

    def damaging(hidden: str, **options: object) -> Verification:
        connection = foreign(Path(hidden))
        connection.execute("DELETE FROM tasks")
        connection.close()
        return verify(hidden, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("idkmesh.transfer.verify", damaging)
    for way in ("import", "rebuild"):
        with store_refused("store_corrupt"):
            made(way, path, new)
        assert list(new.parent.iterdir()) == []


def test_two_imports_into_one_name_give_one_ledger(path: Path, new: Path) -> None:
    """Who is whole first has the name; the other is refused, and removes nothing."""
    lines = list(export_lines(life(path)))
    with opened(path, Clock(START + 60)) as ledger:
        ledger.configure_task(task("T-2"), DESK, SHORT)
    longer = list(export_lines(path))

    def meanwhile() -> Iterator[bytes]:
        yield from lines[:7]
        assert import_lines(longer, new).ok
        yield from lines[7:]

    error = refusal(lambda: import_lines(meanwhile(), new))
    assert (error.code, error.message) == ("invalid_input", TAKEN)
    assert problems(new, seal(path)) == []
    assert names(new.parent) - {f"{new.name}-wal", f"{new.name}-shm"} == {new.name}
