"""Modes and permissions: who may read and write a ledger's files, and what is said otherwise."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import wrong_files as wrong
from builders import START, granted, opened
from programs import answer
from store_checks import folder_state

FILES = ["", "-lock", "-queue", "-shm", "-wal"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that every user of the machine can reach."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        inner = folder / "ledgers"
        inner.mkdir()
        inner.chmod(0o777)
        yield inner
        inner.chmod(0o755)


@pytest.fixture
def umask() -> Iterator[None]:
    """Put the umask back."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777])
@pytest.mark.parametrize(
    ("options", "mode"), [({}, 0o600), ({"file_mode": 0o660}, 0o660), ({"file_mode": 0o644}, 0o644)]
)
def test_new_files_have_the_mode_asked_for(
    path: Path, mask: int, options: dict[str, int], mode: int
) -> None:
    """The ledger, its WAL, its shared memory and its lock files have one mode under any umask."""
    os.umask(mask)
    with opened(path, lambda: START, **options) as ledger:
        granted(ledger)
        found = {
            suffix: stat.S_IMODE(path.with_name(path.name + suffix).stat().st_mode)
            for suffix in FILES
        }
    assert found == dict.fromkeys(FILES, mode)


def test_a_ledger_that_is_there_keeps_its_modes(path: Path) -> None:
    """Opening an existing ledger changes no mode, whatever is asked for new files."""
    with opened(path, lambda: START, file_mode=0o660):
        pass
    before = folder_state(path.parent)
    with opened(path, lambda: START, file_mode=0o600):
        pass
    assert folder_state(path.parent) == before


def test_new_lock_files_are_open_to_whoever_may_write_the_ledger(path: Path) -> None:
    """Lock files that were lost are made anew for everybody whom the ledger's mode lets write."""
    with opened(path, lambda: START, file_mode=0o660):
        pass
    for suffix in ("-lock", "-queue"):
        path.with_name(path.name + suffix).unlink()
    with opened(path, lambda: START):
        pass
    for suffix in ("-lock", "-queue"):
        assert stat.S_IMODE(path.with_name(path.name + suffix).stat().st_mode) == 0o660


DENIED = [
    ("write", 0o444, 0o777),
    ("write", 0o444, 0o555),
    ("write", 0o666, 0o555),
    ("write", 0o000, 0o777),
    ("write", 0o666, 0o000),
    ("read", 0o000, 0o777),
    ("read", 0o444, 0o555),
    ("read", 0o444, 0o000),
]


def test_without_permission_a_ledger_is_refused_untouched(folder: Path) -> None:
    """A file or folder that gives no leave is store_readonly, and nothing is left beside it."""
    asked: list[object] = []
    befores = []
    for scenario, file_mode, folder_mode in DENIED:
        inner = folder / f"{scenario}-{file_mode:o}-{folder_mode:o}"
        inner.mkdir()
        wrong.ledger(inner / "claims.sqlite3")
        before = folder_state(inner)
        (inner / "claims.sqlite3").chmod(file_mode)
        inner.chmod(folder_mode)
        befores.append((inner, before))
        asked += [scenario, inner / "claims.sqlite3"]
    assert answer("process_nobody.py", *asked) == ["store_readonly"] * 8
    for inner, before in befores:
        inner.chmod(0o755)
        (inner / "claims.sqlite3").chmod(0o600)
        assert folder_state(inner) == before


def test_a_folder_that_may_not_be_written_gets_no_ledger(folder: Path) -> None:
    """Where no file can be made the answer is store_readonly, for a folder within, too."""
    folder.chmod(0o555)
    targets = ["write", folder / "claims.sqlite3", "write", folder / "a" / "b.sqlite3"]
    assert answer("process_nobody.py", *targets) == ["store_readonly", "store_readonly"]
    assert list(folder.iterdir()) == []


def test_a_reader_needs_no_permission_to_write(folder: Path) -> None:
    """A file that may only be read is looked into, in a ledger at rest and in one in use."""
    idle = folder / "idle.sqlite3"
    wrong.ledger(idle)
    idle.chmod(0o444)
    content = idle.read_bytes()
    used = folder / "used" / "claims.sqlite3"
    with opened(used, lambda: START, file_mode=0o644) as ledger:
        granted(ledger)
        used.parent.chmod(0o555)
        answers = answer("process_nobody.py", "read", idle, "read", used)
        used.parent.chmod(0o755)
    assert answers == [[1, "store_readonly"], [1, "store_readonly"]]
    assert idle.read_bytes() == content


def test_a_permission_that_is_taken_away_is_noticed(folder: Path) -> None:
    """An open connection lives on when the file's permissions go; a new one is store_readonly."""
    answers = answer("process_nobody.py", "revoked", folder / "claims.sqlite3")
    assert answers == [[1, "store_readonly"]]
