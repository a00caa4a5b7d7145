"""A ledger in motion: out to JSON Lines and back, into a backup, into a new file.

Whatever comes in is judged line by line before it is believed, and a file that is being
made is removed again unless it is whole.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from idkmesh.errors import ErrorCode, InvalidInput, StoreError
from idkmesh.events import codec, files
from idkmesh.events.catalog import observations_stream
from idkmesh.events.port import Row, WriteSession
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.events.turnstile import SUFFIXES
from idkmesh.identity import TASK
from idkmesh.projections import tables, watermark
from idkmesh.strict_json import refuse_duplicate_keys
from idkmesh.verification import Verification, verify

Target = str | os.PathLike[str]

MAX_LINE_BYTES: Final = 65_536
_LAST_RFC3339: Final = 253_402_300_799  # the end of the year 9999
_BESIDE: Final = ("", "-wal", "-shm", "-journal", *SUFFIXES)


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


_lines: Final = msgspec.json.Decoder(Line)
_writer: Final = msgspec.json.Encoder()
