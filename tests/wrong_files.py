"""Files that are no ledger, or no longer one: each made at the path that is asked for."""

import os
import socket
from pathlib import Path

import apsw
from builders import START, granted, opened
from store_checks import LOCK_FILES, foreign


def text(path: Path) -> None:
    """Write a text file."""
    path.write_text("task T-1 is mine\n", encoding="utf-8")


def stub(path: Path) -> None:
    """Write a file that begins like a database and ends in the middle of the header."""
    path.write_bytes(b"SQLite format 3\x00" + bytes(40))


def zeros(path: Path) -> None:
    """Write what a lost first page reads as."""
    path.write_bytes(bytes(8192))


def others(path: Path) -> None:
    """Make another program's database, which names no application."""
    with_statements(path, "CREATE TABLE contacts (name)")


def others_wal(path: Path) -> None:
    """Make another program's database as a crash leaves it: with content in its WAL."""
    connection = foreign(path)
    connection.pragma("journal_mode", "WAL")
    connection.execute("CREATE TABLE contacts (name)")
    crashed(path, connection)


def bare(path: Path) -> None:
    """Make a database that holds nothing but its header, of no application."""
    with_statements(path, "PRAGMA user_version = 1")


def others_mark(path: Path) -> None:
    """Make a database with the mark of another application."""
    with_statements(path, "PRAGMA application_id = 0x0F055112", "CREATE TABLE files (name)")


def newer(path: Path) -> None:
    """Make a ledger of the next version."""
    ledger(path)
    with_statements(path, "PRAGMA user_version = 3")


def ledger(path: Path) -> None:
    """Make a ledger with one claim."""
    with opened(path, lambda: START) as made:
        granted(made)
    for suffix in LOCK_FILES:
        path.with_name(path.name + suffix).unlink()


def with_statements(path: Path, *statements: str) -> None:
    """Run statements on a file, past the store."""
    connection = foreign(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def crashed(path: Path, connection: apsw.Connection) -> None:
    """Leave the file and its WAL as they are now, as if the process had died."""
    kept = {name: Path(f"{path}{name}").read_bytes() for name in ("", "-wal")}
    connection.close()
    for name, content in kept.items():
        Path(f"{path}{name}").write_bytes(content)


def cut(path: Path) -> None:
    """Cut a ledger in the middle of its pages."""
    ledger(path)
    os.truncate(path, 12_000)


def bad_schema_page(path: Path) -> None:
    """Spoil the page that says what is in the file, behind the header."""
    ledger(path)
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xa5" * 3996
    path.write_bytes(content)


def folder(path: Path) -> None:
    """Make a folder of that name."""
    path.mkdir()


def link(path: Path) -> None:
    """Make a symbolic link to a sound ledger."""
    ledger(path.with_name("real.sqlite3"))
    path.symlink_to("real.sqlite3")


def dangling(path: Path) -> None:
    """Make a symbolic link to a ledger that is yet to be."""
    path.symlink_to("real.sqlite3")


def hard_link(path: Path) -> None:
    """Make a sound ledger with a second name."""
    ledger(path.with_name("real.sqlite3"))
    path.hardlink_to(path.with_name("real.sqlite3"))


def pipe(path: Path) -> None:
    """Make a named pipe, which a blocking open would wait on for ever."""
    os.mkfifo(path)


def plug(path: Path) -> None:
    """Make a socket."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def second_name(path: Path) -> None:
    """Give somebody else's file this name, too."""
    victim = path.with_name("victim")
    victim.write_bytes(b"precious")
    victim.chmod(0o644)
    path.hardlink_to(victim)
