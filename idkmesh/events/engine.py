"""SQLite, done properly: one configured connection, and every engine error as a code.

Each setting is here for a measured reason; ``docs/decisions.md`` gives them.
"""

import os
import re
from functools import cache
from typing import Final

import apsw

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events import files
from idkmesh.events.sql import statements

OLDEST_ENGINE: Final = (3, 51, 3)
_SYNC_FULL: Final = 2
_BACKUP_PAGES: Final = 4096

_SCHEMA: Final = statements(__file__, "schema.sql")
# The statistics that ANALYZE leaves are nobody's business. They are told by type and name:
# a trigger may be named like them.
_OBJECTS: Final = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema"
    " WHERE type IS NOT 'table' OR name IS NOT 'sqlite_stat1' AND name IS NOT 'sqlite_stat4'"
    " ORDER BY type, name"
)


def require_engine(version: str) -> None:
    """Refuse an SQLite with the WAL-reset defect.

    Raises:
        StoreError: The engine is older than 3.51.3 (``store_unsafe``).
    """
    if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < OLDEST_ENGINE:
        message = "expected SQLite 3.51.3 or newer, but the engine is older"
        raise StoreError(ErrorCode.STORE_UNSAFE, message)


def connect(path: str, *, read_only: bool, timeout_ms: int, vfs: str | None) -> apsw.Connection:
    """Open one connection with every setting that the promises rest on.

    Raises:
        StoreError: Whatever the engine refuses, as a code; ``store_unsafe`` where it does
            not keep WAL and FULL.
    """
    access = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    in_memory = path == files.MEMORY
    if not read_only and not in_memory:
        files.require_writable(path)  # SQLite would quietly open it for reading
    connection: apsw.Connection | None = None
    try:
        connection = apsw.Connection(
            path, flags=access | apsw.SQLITE_OPEN_NOFOLLOW, vfs=vfs, statementcachesize=64
        )
        connection.set_busy_timeout(timeout_ms)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        # A plan that depends on bound values would be made anew for every command.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        if not in_memory and _has_wal(path):
            # Until the file is known as ours, closing must not fold a WAL into it.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.enable_load_extension(False)  # noqa: FBT003  (apsw's own signature)
        for pragma in ("foreign_keys=ON", "cell_size_check=ON", "mmap_size=0", "synchronous=FULL"):
            connection.pragma(*pragma.split("="))
    except apsw.Error as error:
        if connection is not None:
            discard(connection)
        raise translated(error) from error
    return connection


def _has_wal(path: str) -> bool:
    try:
        return os.stat(path + "-wal").st_size > 0  # noqa: PTH116  (a path is text here)
    except OSError:
        return False


def use_wal(connection: apsw.Connection, *, in_memory: bool) -> None:
    """Make sure of WAL and FULL, by what the engine answers and not by what was asked.

    Raises:
        StoreError: The engine stayed in another mode (``store_unsafe``).
    """
    try:
        if connection.readonly("main"):
            return  # whoever only reads may read a copy in any mode
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        change = () if in_memory else ("WAL",)
        mode = connection.pragma("journal_mode", *change)
        level = connection.pragma("synchronous")
    except apsw.Error as error:
        raise translated(error) from error
    if mode != ("memory" if in_memory else "wal") or level != _SYNC_FULL:
        message = "expected the engine to keep WAL and FULL, but it stayed in another mode"
        raise StoreError(ErrorCode.STORE_UNSAFE, message)


def create(connection: apsw.Connection) -> None:
    """Make an empty file a ledger, wholly or not at all.

    This runs in the rollback journal, before WAL: so the file's own header carries the
    application's mark from its first commit on, and a crash leaves an empty file.
    """
    try:
        connection.execute("BEGIN EXCLUSIVE")
        try:
            if not connection.execute(_OBJECTS).fetchall():
                connection.pragma("application_id", files.APPLICATION_ID)
                connection.pragma("user_version", files.USER_VERSION)
                for part in _SCHEMA.values():
                    connection.execute(part)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    except apsw.Error as error:
        raise translated(error) from error


def file_version(connection: apsw.Connection) -> int:
    """Return the schema version that a file is marked with."""
    try:
        return int(connection.pragma("user_version"))
    except apsw.Error as error:
        raise translated(error) from error


def mark_version(connection: apsw.Connection) -> None:
    """Mark a file with today's schema version, as a part of the transaction under way."""
    try:
        connection.pragma("user_version", files.USER_VERSION)
    except apsw.Error as error:
        raise translated(error) from error


def is_empty(connection: apsw.Connection) -> bool:
    """Say whether the file holds no page yet."""
    try:
        return bool(connection.pragma("page_count") == 0)
    except apsw.Error as error:
        raise translated(error) from error


def require_schema(connection: apsw.Connection, *, log_only: bool) -> None:
    """Compare the schema found with the one expected.

    Args:
        connection: The file.
        log_only: Let tables that are damaged or gone pass, as long as the log is there.

    Raises:
        StoreError: ``store_foreign`` (another program's file), ``store_newer`` (a later
            version's), ``store_corrupt`` (ours, with an altered schema).
    """
    try:
        application_id = connection.pragma("application_id")
        version = connection.pragma("user_version")
        found = connection.execute(_OBJECTS).fetchall()
    except apsw.Error as error:
        raise translated(error) from error
    except UnicodeDecodeError as error:
        message = "expected the ledger's own schema, but the file's is no text"
        raise StoreError(ErrorCode.STORE_CORRUPT, message) from error
    if application_id != files.APPLICATION_ID:
        message = "expected an idkmesh ledger, but the database is another program's"
        raise StoreError(ErrorCode.STORE_FOREIGN, message)
    files.judge_version(int(version))
    expected = _expected_objects()
    if log_only:
        known = {each[:3] for each in expected}
        found = [each for each in found if each[1] == "events" or each[:3] not in known]
        expected = [each for each in expected if each[1] == "events"]
    if found != expected:
        message = "expected the ledger's own schema, but the file's is another"
        raise StoreError(ErrorCode.STORE_CORRUPT, message)


def problems(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with the schema and the pages, in the engine's words and ours."""
    found: list[str] = []
    try:
        present = {each[:2]: each for each in connection.execute(_OBJECTS)}
        expected = {each[:2]: each for each in _expected_objects()}
        for kind, name in sorted(present.keys() | expected.keys(), key=str):
            if (kind, name) not in present:
                found.append(f"{kind} {name} is missing from the schema")
            elif (kind, name) not in expected:
                found.append(f"a {kind} stands in the schema that is not ours")
            elif present[kind, name] != expected[kind, name]:
                found.append(f"{kind} {name} is not as it was made")
        for (word,) in connection.execute("PRAGMA integrity_check"):
            if word != "ok":
                found.append(str(word))
    except (apsw.Error, UnicodeDecodeError) as error:
        found.append(f"the engine gave up: {type(error).__name__}")
    return found


def backup(connection: apsw.Connection, path: str) -> None:
    """Copy a database, as the connection's transaction sees it, into a file that is new.

    Raises:
        StoreError: The file cannot be made or filled.
    """
    files.prepare(path, file_mode=0o600, read_only=False, allow_network=True)
    try:
        copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
        try:
            with copy.backup("main", connection, "main") as work:
                while not work.done:
                    work.step(_BACKUP_PAGES)
        finally:
            copy.close()
    except apsw.Error as error:
        raise translated(error) from error


def reset_tables(connection: apsw.Connection) -> None:
    """Drop whatever the log folds to and make the tables anew."""
    for _, name, table, _ in _expected_objects():
        if name == table and name != "events":
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')
    connection.execute(_SCHEMA["tables"])


@cache
def _expected_objects() -> list[tuple[object, ...]]:
    """Return the schema that a new ledger has."""
    connection = apsw.Connection(files.MEMORY)
    for part in _SCHEMA.values():
        connection.execute(part)
    objects = connection.execute(_OBJECTS).fetchall()
    connection.close()
    return objects


def discard(connection: apsw.Connection) -> None:
    """Close a connection that nothing good is expected of any more."""
    try:
        connection.close(True)  # noqa: FBT003  (apsw's own signature)
    except apsw.Error:
        return


def translated(error: apsw.Error) -> StoreError:
    """Return the ledger's code for an engine error; the caller keeps it as the cause."""
    for kind, code, message in _MEANINGS:
        if isinstance(error, kind):
            return StoreError(code, message)
    message = "expected the engine to carry the statement out, but it refused"
    return StoreError(ErrorCode.STORE_CORRUPT, message)


_MEANINGS: Final[tuple[tuple[type[apsw.Error], ErrorCode, str], ...]] = (
    (
        apsw.BusyError,
        ErrorCode.STORE_LOCKED,
        "expected the file within the busy timeout, but another program held it",
    ),
    (
        apsw.ProtocolError,
        ErrorCode.STORE_LOCKED,
        "expected to reach the file's write-ahead log, but too many others did at once",
    ),
    (
        apsw.LockedError,
        ErrorCode.STORE_LOCKED,
        "expected the file to be free, but this process holds it",
    ),
    (
        apsw.ReadOnlyError,
        ErrorCode.STORE_READONLY,
        "expected leave to write the ledger and beside it, but the system gives none",
    ),
    (
        apsw.PermissionsError,
        ErrorCode.STORE_READONLY,
        "expected leave to use the ledger, but the system gives none",
    ),
    (
        apsw.CantOpenError,
        ErrorCode.STORE_READONLY,
        "expected a ledger that can be opened, but the system refused",
    ),
    (apsw.FullError, ErrorCode.STORE_FULL, "expected room on the disk, but there is none"),
    (
        apsw.NotADBError,
        ErrorCode.STORE_FOREIGN,
        "expected an idkmesh ledger, but the file is no SQLite database",
    ),
    (
        apsw.CorruptError,
        ErrorCode.STORE_CORRUPT,
        "expected a file as the engine writes it, but it is damaged",
    ),
    (
        apsw.ConnectionClosedError,
        ErrorCode.STORE_CLOSED,
        "expected an open ledger, but it was closed",
    ),
    (
        apsw.IOError,
        ErrorCode.STORE_UNSAFE,
        "expected the file system to read and write, but it failed",
    ),
    (
        apsw.NoMemError,
        ErrorCode.STORE_UNSAFE,
        "expected memory for the statement, but there is none",
    ),
)
