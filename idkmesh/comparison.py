"""The tables beside the log: what a table holds, and what the log folds to."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from idkmesh.errors import StoreError
from idkmesh.events.catalog import observations_stream
from idkmesh.events.port import ReadSession
from idkmesh.projections import observed, tables
from idkmesh.projections.observations import Observations
from idkmesh.projections.task import TaskState

_Columns = tuple[Any, ...]


class Folded(NamedTuple):
    """What a whole log folds to.

    Attributes:
        tasks: Every task by its stream.
        observations: Every scope's observations by their stream.
        doubtful: Streams whose fold met a problem; their rows are not compared.
    """

    tasks: dict[str, TaskState]
    observations: dict[str, Observations]
    doubtful: set[str]

    def differences(
        self, session: ReadSession, table: tables.Table
    ) -> Iterator[tuple[str | None, str]]:
        """Yield the name of each row of a table that is not as the log says, and how it is not.

        Args:
            session: The point to read at.
            table: The table.
        """
        expected = {_key(table, row): row for row in self._rows(table)}
        try:
            for row in tables.stored(session, table):
                wanted = expected.pop(_key(table, row), None)
                if self._stream_of(table, row) in self.doubtful:
                    continue
                if wanted is None:
                    yield _name(table, row), "the row does not follow from the log"
                elif row != wanted:
                    yield _name(table, row), "the row differs from what the log folds to"
        except StoreError as error:
            yield None, f"the table cannot be read: {error.message}"
            return
        for row in expected.values():
            if self._stream_of(table, row) not in self.doubtful:
                yield _name(table, row), "the row is missing"

    def _rows(self, table: tables.Table) -> Iterator[_Columns]:
        """Yield every row that a table should hold."""
        if table == "observations":
            for known in self.observations.values():
                for each in known.added:
                    yield observed.row(known, each)
            return
        for state in self.tasks.values():
            if state.policy is None:
                continue
            if table == "tasks":
                yield tables.task_row(state)
            else:
                for claim in state.claims.values():
                    yield tables.claim_row(state, claim)

    @staticmethod
    def _stream_of(table: tables.Table, row: _Columns) -> str:
        return observations_stream(str(row[0])) if table == "observations" else str(row[0])


def _key(table: tables.Table, row: _Columns) -> _Columns:
    return row[:1] if table == "tasks" else row[:3]


def _name(table: tables.Table, row: _Columns) -> str:
    return "/".join(map(str, _key(table, row)))
