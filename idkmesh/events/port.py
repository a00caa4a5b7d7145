"""The store port: what the ledger asks of whatever keeps its log.

A store decides nothing. It gives one writer at a time a session on the newest state, and
any number of readers a session on one consistent point.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events.types import Event

Progress = Callable[[int, int], None]
"""Told now and then how much is done, and how much there is."""


class Head(NamedTuple):
    """The end of the log: what its last row says; 0 and no scope before the first.

    Attributes:
        sequence: How many events there are.
        at: The watermark, in epoch seconds.
        scope: The scope that the last one belongs to.
    """

    sequence: int
    at: int
    scope: str


NOTHING: Final = Head(0, 0, "")


class Row(NamedTuple):
    """One row of the log, as it is stored."""

    sequence: int
    scope: str
    number: int
    stream: str
    version: int
    at: int
    type: str
    body: str
    chain: bytes


ROW_TYPES: Final = (int, str, int, str, int, int, str, str, bytes)
"""Of a row's columns. A damaged page, or a forged one, may hold anything else."""


def typed(row: Row) -> Row:
    """Return a row whose values are all of their columns' types.

    Raises:
        StoreError: One is not (``store_corrupt``).
    """
    if tuple(map(type, row)) != ROW_TYPES:
        raise mistyped()
    return row


def mistyped() -> StoreError:
    """Return what is said of a column of the log that holds what it may not."""
    message = "expected the log's columns to hold what their types say, but one does not"
    return StoreError(ErrorCode.STORE_CORRUPT, message)


class ReadSession(Protocol):
    """A consistent point of the ledger, readable until the session ends."""

    def head(self) -> Head:
        """Return the end of the log at this point."""

    def last_sequence(self) -> int:
        """Return the last event's sequence, 0 before the first, whatever else its row holds."""

    def stream_version(self, stream: str) -> int:
        """Return how many events the stream holds."""

    def rows(self, sql: str, bindings: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""

    def each(self, sql: str, bindings: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Run one statement and yield its rows, however many."""

    def problems(self) -> list[str]:
        """Return what the engine finds wrong with the file's schema and pages."""

    def copy_into(self, path: str) -> None:
        """Copy the whole ledger into an empty file."""

    def scope_heads(self) -> list[tuple[str, int, bytes]]:
        """Return each scope with its last number and chain value, sorted."""

    def log(self, after: int = 0) -> Iterator[Row]:
        """Yield the log's rows behind a sequence, in the file's order."""

    def page(self, after: int, most: int) -> list[Row]:
        """Return at most so many of the log's rows behind a sequence, in order, as they are."""

    def stream(self, stream: str) -> Iterator[Row]:
        """Yield one stream's rows in order."""

    def before_the_first(self) -> int:
        """Return how many rows stand before sequence 1, where none may."""

    def next_sequence(self, after: int) -> int | None:
        """Return the first sequence behind another, or None."""

    def last_until(self, at: int) -> int:
        """Return the last sequence whose time is ``at`` or before, or 0."""

    def streams(self) -> list[str]:
        """Return the name of every stream, sorted."""


class WriteSession(ReadSession, Protocol):
    """The one writer's session: whatever is not committed is undone when it ends."""

    def append(self, scope: str, stream: str, version: int, at: int, event: Event) -> None:
        """Add one event to the log, as the given version of its stream."""

    def adopt(self, row: Row) -> None:
        """Add a row of another ledger's log as it is, as the next of everything."""

    def commit(self) -> None:
        """Make everything of the session durable."""

    def remake(self, refold: Callable[["WriteSession"], None]) -> None:
        """Refold the tables, mark the file as of today's version, and commit, or do nothing."""

    def reset_tables(self) -> None:
        """Drop what the log folds to and make the tables anew, empty."""


class Store(Protocol):
    """Keeps one ledger."""

    def read(self) -> AbstractContextManager[ReadSession]:
        """Open a reading session."""

    def write(self) -> AbstractContextManager[WriteSession]:
        """Open the writing session, once every earlier writer has ended."""

    def close(self) -> None:
        """Let go of the file; twice is as good as once."""
