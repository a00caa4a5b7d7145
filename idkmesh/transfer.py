"""A ledger in motion: out to JSON Lines and back, into a backup, into a new file.

Whatever comes in is judged line by line before it is believed, and a file gets its name once
it is whole. Progress is told in passes, each of which begins with nothing done; 0 of 0 is one
of unknown length.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Raw, Struct

from idkmesh.errors import ErrorCode, InvalidInput, StoreError
from idkmesh.events.files import Target
from idkmesh.events.making import making
from idkmesh.events.port import Progress, Row, WriteSession
from idkmesh.events.sqlite_store import SqliteStore, reading
from idkmesh.projections import tables
from idkmesh.scalars import MAX_INT
from idkmesh.seal import Seal
from idkmesh.strict_json import screen
from idkmesh.verification import Verification, Verifier, verify

MAX_LINE_BYTES: Final = 65_536
ENDED: Final = "idkmesh.export.ended.v1"
_DIGITS: Final = 20
_LAST_RFC3339: Final = 253_402_300_799  # the end of the year 9999


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of an export: a CloudEvent 1.0 whose extensions are the row's columns.

    Integers travel as text, since an integer of CloudEvents has only 32 bits. ``data`` is
    the event's body to the byte.
    """

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    datacontenttype: str
    time: str | None
    sequence: str
    scope: str
    number: str
    streamversion: str
    epochseconds: str
    chain: str
    data: Raw


class Sealed(Struct, frozen=True, forbid_unknown_fields=True):
    """What an export's last line says: the seal of the log that the lines before it are."""

    seal: str


class End(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An export's last line: a CloudEvent 1.0 whose ``id`` is the count of the lines before it.

    Without it nobody could tell a log from its beginning, since that is a log too.
    """

    specversion: str
    id: str
    source: str
    type: str
    datacontenttype: str
    data: Sealed


class _Kind(Struct):
    type: str


_lines: Final = msgspec.json.Decoder(Line)
_ends: Final = msgspec.json.Decoder(End)
_kinds: Final = msgspec.json.Decoder(_Kind)
_writer: Final = msgspec.json.Encoder()


def export_lines(target: Target, *, progress: Progress | None = None) -> Iterator[bytes]:
    """Yield a ledger's log as JSON Lines, one CloudEvent a line, at one consistent point.

    The last line holds the log's seal, so that what was cut off is no export.

    Args:
        target: The ledger's file; others may be writing to it.
        progress: Called now and then with the events written and the events there are.

    Raises:
        InvalidInput: ``target`` is no path (``invalid_input``).
        StoreError: The file cannot be read, with the codes of ``verify``; or a row cannot
            (``store_corrupt``).
        TypeError: ``target`` is neither ``str`` nor a path object.
    """
    with reading(target) as session:
        for row in _counted(session.log(), session.last_sequence(), progress):
            yield _writer.encode(line_of(row)) + b"\n"
        seal = Seal.of(session.last_sequence(), session.scope_heads())
        yield _writer.encode(end_of(seal)) + b"\n"


def import_lines(
    lines: Iterable[bytes],
    target: Target,
    *,
    progress: Progress | None = None,
) -> Verification:
    """Make a ledger out of an export; its log has the same seal.

    Args:
        lines: The export's lines, as bytes, to its last one, which holds the log's seal.
        target: A file that does not exist yet.
        progress: Called now and then with the events done and the events there are, in
            passes, once all lines are read.

    Returns:
        The verification of what was made.

    Raises:
        InvalidInput: ``target`` exists or is no path, or a line is not what an export of this
            version holds there; the message names the line (``invalid_input``).
        StoreError: The target cannot be made (``store_readonly``, ``store_full``,
            ``store_unsafe``, ``outcome_unknown``), or does not verify once it is
            (``store_corrupt``).
        TypeError: A line is no ``bytes``, or ``target`` neither ``str`` nor a path object.

    Nothing is left of the target after any of them.
    """
    return _fill(target, _rows(lines), "line", progress)


def rebuild_into(
    source: Target, target: Target, *, progress: Progress | None = None
) -> Verification:
    """Make a new ledger out of another's log, whatever state its tables are in.

    Args:
        source: The ledger whose log is read.
        target: A file that does not exist yet.
        progress: Called now and then with the events done and the events there are, in
            passes.

    Returns:
        The verification of what was made.

    Raises:
        InvalidInput: ``target`` exists or is no path, or an event breaks the log's rules or is
            of a later version; the message names its place (``invalid_input``).
        StoreError: The source cannot be read, with the codes of ``verify``; or as for
            ``import_lines``.
        TypeError: ``source`` or ``target`` is neither ``str`` nor a path object.

    Nothing is left of the target after any of them.
    """
    with reading(source) as session:
        rows = _counted(session.log(), session.last_sequence(), progress)
        return _fill(target, rows, "event", progress)


def backup(source: Target, target: Target, *, progress: Progress | None = None) -> Verification:
    """Copy a live ledger through the engine's backup interface, and verify the copy.

    Args:
        source: The ledger; others may be writing to it.
        target: A file that does not exist yet.
        progress: Called now and then with the events verified and the events there are, in
            passes, the first of which is the copy.

    Returns:
        The verification of the copy. A copy with problems is kept: its source has them too.

    Raises:
        InvalidInput: ``target`` exists, or one of the two is no path (``invalid_input``).
        StoreError: The source cannot be read, with the codes of ``verify``; or the target not
            made (``store_readonly``, ``store_full``, ``store_unsafe``).
        TypeError: ``source`` or ``target`` is neither ``str`` nor a path object.
    """
    with making(target) as path:
        with reading(source) as session:
            if progress is not None:
                progress(0, 0)
            session.copy_into(path)
        return verify(path, progress=progress, allow_network=True)  # a copy may lie anywhere


def line_of(row: Row) -> Line:
    """Return a row of the log as a line of an export."""
    return Line(
        specversion="1.0",
        id=str(row.number),
        source=f"idkmesh:{row.scope}",
        type=row.type,
        subject=row.stream,
        datacontenttype="application/json",
        time=_rfc3339(row.at),
        sequence=str(row.sequence),
        scope=row.scope,
        number=str(row.number),
        streamversion=str(row.version),
        epochseconds=str(row.at),
        chain=row.chain.hex(),
        data=Raw(row.body.encode()),
    )


def end_of(seal: Seal) -> End:
    """Return the last line of an export of the log that a seal is of."""
    return End(
        specversion="1.0",
        id=str(seal.events),
        source="idkmesh:",
        type=ENDED,
        datacontenttype="application/json",
        data=Sealed(str(seal)),
    )


def _read(line: bytes, name: str) -> Row | End:
    """Return the row that a line holds, where an export would have written the line so.

    Or the end, which is for the caller to judge, who knows the lines before it.
    """
    if len(line) > MAX_LINE_BYTES:
        message = f"expected {name} to be at most {MAX_LINE_BYTES} bytes, but it is longer"
        raise InvalidInput(message)
    try:
        screen(line.decode(), name)
        if _kinds.decode(line).type == ENDED:
            return _ends.decode(line)
        found = _lines.decode(line)
        row = Row(
            sequence=_whole(found.sequence),
            scope=found.scope,
            number=_whole(found.number),
            stream=found.subject,
            version=_whole(found.streamversion),
            at=_whole(found.epochseconds),
            type=found.type,
            body=bytes(found.data).decode(),
            chain=bytes.fromhex(found.chain),
        )
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        message = f"expected {name} to be an event of an export, but it does not read"
        raise InvalidInput(message) from error
    if line_of(row) != found:
        message = f"expected {name} as an export writes it, but its attributes disagree"
        raise InvalidInput(message)
    return row


def _rows(lines: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows of an export, whose last line must hold their seal."""
    number, ended = 0, False
    heads: dict[str, tuple[str, int, bytes]] = {}
    for number, line in enumerate(lines, 1):
        if not isinstance(line, bytes):
            message = f"expected lines to be bytes, but one is a {type(line).__name__}"
            raise TypeError(message)
        if ended:
            message = f"expected line {number - 1} to be the export's last, but more follows"
            raise InvalidInput(message)
        if not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
            message = f"expected line {number} to end with a newline, but the file is torn there"
            raise InvalidInput(message)
        found = _read(line, f"line {number}")
        if isinstance(found, Row):
            heads[found.scope] = found.scope, found.number, found.chain
            yield found
        elif found == end_of(Seal.of(number - 1, heads.values())):
            ended = True
        else:
            message = f"expected line {number} to hold the seal of those before it, but it does not"
            raise InvalidInput(message)
    if not ended:
        place = f"line {number + 1}"
        message = f"expected {place} to be the last and hold the seal, but the file is torn there"
        raise InvalidInput(message)


def _fill(
    target: Target,
    rows: Iterable[Row],
    unit: str,
    progress: Progress | None,
) -> Verification:
    """Make a ledger of rows in one transaction: adopt each, verify the log, fold the tables."""
    with making(target) as path:
        store = SqliteStore.open(path)
        try:
            with store.write() as session:
                for count, row in enumerate(rows, 1):
                    _adopt(session, row, f"{unit} {count}")
                log = Verifier(session, None, progress)
                log.read_log()
                if log.problems:
                    first = log.problems[0]
                    place = f"{unit} {first.sequence}"
                    message = f"expected a log that verifies, but {place} does not: {first.meaning}"
                    raise InvalidInput(message)
                tables.rebuild(session, progress)
                session.commit()
        finally:
            store.close()
        made = verify(path, progress=progress)
        if not made.ok:
            message = "expected the new ledger to verify, but it does not read as it was written"
            raise StoreError(ErrorCode.STORE_CORRUPT, message)
        return made


def _adopt(session: WriteSession, row: Row, name: str) -> None:
    try:
        session.adopt(row)
    except StoreError as error:
        if error.code is not ErrorCode.STORE_CORRUPT:
            raise
        message = f"expected {name} to be the log's next, but it is not"
        raise InvalidInput(message) from error


def _counted(rows: Iterable[Row], total: int, progress: Progress | None) -> Iterator[Row]:
    for done, row in enumerate(rows):
        if progress is not None and not done & 0x3FF:
            progress(done, total)
        yield row


def _whole(text: str) -> int:
    """Read a decimal without sign, blanks or leading zeros."""
    value = int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else -1
    if str(value) != text or value > MAX_INT:
        message = "expected a whole number"
        raise ValueError(message)
    return value


def _rfc3339(at: int) -> str | None:
    if not 0 <= at <= _LAST_RFC3339:
        return None
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
