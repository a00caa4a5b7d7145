"""What a ledger's file says at one moment, as plain rows and facts.

The invariants and the random runs read a ledger through this. Bodies are read as plain
JSON, and the columns are written out, so that nothing here follows the library's own code.
"""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from idkmesh.events.port import ReadSession, Row

CLAIM_COLUMNS = (
    "stream",
    "slot",
    "epoch",
    "request_id",
    "request_digest",
    "principal_id",
    "issuer",
    "actor_type",
    "work_unit_digest",
    "source_revision",
    "inputs_digest",
    "state",
    "created_at",
    "acknowledged_at",
    "ack_by",
    "lease_until",
    "progress_by",
    "hard_until",
    "occupancy",
    "operation_id",
    "execution_reference",
    "submission_digest",
    "reconciled_from_reserve",
)
TASK_COLUMNS = (
    "stream",
    "scope",
    "task_id",
    "data_classification",
    "policy",
    "attempts",
    "epoch_0",
    "epoch_1",
    "epoch_2",
)
Table = tuple[dict[str, Any], ...]


class Image(NamedTuple):
    """Everything that a ledger's file says at one moment."""

    rows: tuple[Row, ...]
    tasks: Table
    claims: Table


class Fact(NamedTuple):
    """One event of a task: which claim it is about, what happened, when."""

    claim: tuple[str, int, int]
    kind: str
    at: int
    version: int
    body: dict[str, Any]


def image_of(session: ReadSession) -> Image:
    """Read a session's log and tables."""
    tasks = session.rows(f"SELECT {', '.join(TASK_COLUMNS)} FROM tasks ORDER BY 1")  # noqa: S608 - the names are constants
    claims = session.rows(f"SELECT {', '.join(CLAIM_COLUMNS)} FROM claims ORDER BY 1, 2, 3")  # noqa: S608 - as above
    return Image(
        tuple(session.log()),
        tuple(dict(zip(TASK_COLUMNS, row, strict=True)) for row in tasks),
        tuple(dict(zip(CLAIM_COLUMNS, row, strict=True)) for row in claims),
    )


def kind_of(row: Row) -> str:
    """Return what a row's event is, without the version of its shape."""
    return row.type.rpartition(".v")[0]


def facts(rows: Iterable[Row]) -> Iterator[Fact]:
    """Yield the events that are about a claim."""
    for row in rows:
        body = content_of(row.body)
        if "slot" in body and "epoch" in body:
            claim = (row.stream, body["slot"], body["epoch"])
            yield Fact(claim, kind_of(row), row.at, row.version, body)


@lru_cache(maxsize=4096)
def content_of(body: str) -> dict[str, Any]:
    """Return a body as plain JSON; shared, so not to be changed."""
    content: dict[str, Any] = json.loads(body)
    return content
