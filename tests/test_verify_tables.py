"""Verification of what is beside the log: the tables row for row, the schema, the pages."""

from pathlib import Path
from typing import Any

import pytest
from builders import digest
from replay_builders import (
    C1,
    GEMINI_T1,
    T1,
    Found,
    body_with,
    edited,
    forge,
    life,
    problems,
    put_log,
    rows_of,
    unguarded,
    untyped,
    world,
)
from store_checks import foreign, store_refused

from idkmesh.replay import seal, verify

DIFFERS = "the row differs from what the log folds to"
EXTRA = "the row does not follow from the log"
MISSING = "the row is missing"
REFUSED = "expected the engine to carry the statement out, but it refused"
REWRITTEN = (
    "the first 49 events are not those that were sealed: the log was rewritten or swapped, or it"
    " is a copy that went its own way"
)

COLUMNS: dict[str, tuple[tuple[str, Any], ...]] = {
    "tasks": (
        ("scope", "acme/gemini"),
        ("task_id", "T-3"),
        ("data_classification", "internal"),
        ("policy", "{}"),
        ("attempts", 3),
        ("epoch_0", 1),
        ("epoch_1", 1),
        ("epoch_2", 1),
    ),
    "claims": (
        ("request_id", "r-9"),
        ("request_digest", digest("0")),
        ("principal_id", "eve"),
        ("issuer", "https:other"),
        ("actor_type", "service"),
        ("work_unit_digest", digest("0")),
        ("source_revision", "0" * 40),
        ("inputs_digest", digest("0")),
        ("state", "active"),
        ("created_at", 1),
        ("acknowledged_at", None),
        ("ack_by", 1),
        ("lease_until", 1),
        ("progress_by", 1),
        ("hard_until", 1),
        ("occupancy", "running"),
        ("operation_id", None),
        ("execution_reference", "run-2"),
        ("submission_digest", None),
        ("reconciled_from_reserve", 1),
    ),
    "observations": (
        ("event_id", "delivery 82"),
        ("work_unit_version", 4),
        ("work_unit_digest", digest("0")),
        ("source_revision", "0" * 40),
        ("state", "candidate"),
        ("inputs_digest", digest("0")),
        ("integrated_revision", None),
        ("artifacts_digest", None),
        ("verification_reference", None),
        ("integration_reference", "merge 5"),
    ),
}
ROWS: dict[str, tuple[str, str]] = {  # a row of each table: where it is, and its name
    "tasks": (f"stream = '{T1}'", T1),
    "claims": (f"stream = '{T1}' AND epoch = 1", f"{T1}/0/1"),
    "observations": ("scope = 'acme/apollo'", "acme/apollo/import/parse/7"),
}
KEYS = {
    "tasks": ("stream", "acme/apollo/task/T-3", "acme/apollo/task/T-3"),
    "claims": ("epoch", 3, f"{T1}/0/3"),
    "observations": ("sequence", 8, "acme/apollo/import/parse/8"),
}


def run(path: Path, statement: str, *values: Any) -> None:
    """Run a statement on a ledger that no trigger guards."""
    with unguarded(path) as connection:
        connection.execute(statement, values)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [(table, *change) for table, changes in COLUMNS.items() for change in changes],
)
def test_a_changed_row_is_found(path: Path, table: str, column: str, value: Any) -> None:
    """Whatever column of whatever table is changed, just that row is named."""
    where, name = ROWS[table]
    run(life(path), f"UPDATE {table} SET {column} = ? WHERE {where}", value)  # noqa: S608  (constants)
    assert problems(path) == [(table, None, name, DIFFERS)]


@pytest.mark.parametrize("table", ROWS)
def test_a_missing_row_is_found(path: Path, table: str) -> None:
    """A row that was deleted is named."""
    where, name = ROWS[table]
    run(life(path), f"DELETE FROM {table} WHERE {where}")  # noqa: S608  (constants)
    assert problems(path) == [(table, None, name, MISSING)]


@pytest.mark.parametrize("table", ROWS)
def test_a_row_under_another_key_is_found(path: Path, table: str) -> None:
    """A row whose key was changed is one too many where it is, and missing where it was."""
    where, name = ROWS[table]
    column, value, moved = KEYS[table]
    run(life(path), f"UPDATE {table} SET {column} = ? WHERE {where}", value)  # noqa: S608  (constants)
    assert problems(path) == [(table, None, moved, EXTRA), (table, None, name, MISSING)]


@pytest.mark.parametrize("table", ROWS)
def test_an_extra_row_is_found(path: Path, table: str) -> None:
    """A row that the log knows nothing of is named."""
    where, _ = ROWS[table]
    column, value, name = KEYS[table]
    with unguarded(life(path)) as connection:
        connection.execute(f"CREATE TEMP TABLE more AS SELECT * FROM {table} WHERE {where}")  # noqa: S608  (constants)
        connection.execute(f"UPDATE more SET {column} = ?", (value,))  # noqa: S608  (a constant)
        if table == "observations":
            connection.execute("UPDATE more SET event_id = 'delivery 82'")
        connection.execute(f"INSERT INTO {table} SELECT * FROM more")  # noqa: S608  (a constant)
        connection.execute("DROP TABLE more")
    assert problems(path) == [(table, None, name, EXTRA)]


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("tasks", "attempts", b"2"),
        ("tasks", "policy", None),
        ("claims", "state", 1),
        ("claims", "created_at", "soon"),
        ("observations", "sequence", 7.5),
    ],
)
def test_a_value_of_another_type_is_found(path: Path, table: str, column: str, value: Any) -> None:
    """A value in a table that its column's type forbids is found by the engine and by us."""
    with untyped(life(path), table) as connection:
        where, _ = ROWS[table]
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))  # noqa: S608  (constants)
    places = {place for place, _, _, _ in problems(path)}
    assert places == {"schema", table}


def test_rows_of_a_stream_that_does_not_fold_are_not_blamed(path: Path) -> None:
    """Behind an event that does not fold, its task's rows are not compared; others' are."""
    forge(world(path), edited(4, lease_until=0))
    run(path, "UPDATE claims SET state = 'released'")
    blamed = {name for place, _, name, _ in problems(path) if place == "claims"}
    assert blamed == {
        "acme/apollo/task/T-2/0/1",
        *(f"{C1}/{slot}/1" for slot in range(3)),
        *(f"{GEMINI_T1}/0/{epoch}" for epoch in range(1, 5)),
    }


# The schema.

SCHEMAS: dict[str, tuple[tuple[str, ...], list[Found]]] = {
    "a trigger gone": (
        ("DROP TRIGGER events_are_next",),
        [("schema", None, None, "trigger events_are_next is missing from the schema")],
    ),
    "a trigger without teeth": (
        (
            "DROP TRIGGER events_are_facts",
            "CREATE TRIGGER events_are_facts BEFORE UPDATE ON events BEGIN SELECT 1; END",
        ),
        [("schema", None, None, "trigger events_are_facts is not as it was made")],
    ),
    "an index gone": (
        ("DROP INDEX claims_live",),
        [("schema", None, None, "index claims_live is missing from the schema")],
    ),
    "an index on less": (
        (
            "DROP INDEX claims_live",
            "CREATE INDEX claims_live ON claims (stream) WHERE state = 'active'",
        ),
        [("schema", None, None, "index claims_live is not as it was made")],
    ),
    "a column more": (
        ("ALTER TABLE tasks ADD COLUMN note TEXT",),
        [
            ("schema", None, None, "table tasks is not as it was made"),
            ("tasks", None, T1, DIFFERS),
        ],
    ),
    "a table gone": (
        ("DROP TABLE tasks",),
        [
            ("schema", None, None, "table tasks is missing from the schema"),
            (
                "tasks",
                None,
                None,
                f"the table cannot be read: {REFUSED}",
            ),
        ],
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_altered_schema_is_found(path: Path, name: str) -> None:
    """A trigger, index or table that is gone or altered is named, and the log judged."""
    statements, expected = SCHEMAS[name]
    connection = foreign(life(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()
    assert problems(path) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (note)",
        "CREATE TRIGGER mine AFTER INSERT ON tasks BEGIN DELETE FROM tasks; END",
        "CREATE VIEW mine AS SELECT * FROM tasks",
        "ALTER TABLE events ADD COLUMN note TEXT",
    ],
)
def test_a_schema_with_more_in_it_is_refused(path: Path, statement: str) -> None:
    """What is not the ledger's own, or another table of events, is refused before it is read."""
    connection = foreign(life(path))
    connection.execute(statement)
    connection.close()
    with store_refused("store_corrupt"):
        verify(path)


# The pages.


def test_a_page_that_the_engine_finds_wrong_is_reported(path: Path) -> None:
    """An index without one of its entries is the engine's finding, and nothing else is."""
    connection = foreign(life(path))
    (root,) = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_events_2'"
    )
    page = (root[0] - 1) * 4096
    connection.close()
    content = bytearray(path.read_bytes())
    cells = int.from_bytes(content[page + 3 : page + 5])
    content[page + 3 : page + 5] = (cells - 1).to_bytes(2)
    path.write_bytes(content)
    found = problems(path)
    assert {place for place, _, _, _ in found} == {"schema"}
    assert any("sqlite_autoindex_events_2" in meaning for _, _, _, meaning in found)


# Many at once.


def test_every_problem_is_reported(path: Path) -> None:
    """Independent faults in schema, log, tables and seal are all named in one verification."""
    kept = seal(world(path))
    forge(path, edited(20, by__action="claim"))
    rows = rows_of(path)
    rows[36] = body_with(rows[36], event_id="delivery 79")
    rows[48] = rows[48]._replace(chain=bytes(32))
    put_log(path, rows)
    run(path, "UPDATE claims SET state = 'active' WHERE stream = ? AND epoch = 1", GEMINI_T1)
    run(path, "DELETE FROM tasks WHERE stream = ?", T1)
    run(path, "DELETE FROM observations WHERE scope = 'acme/apollo'")
    connection = foreign(path)
    connection.execute("DROP TRIGGER events_are_kept")
    connection.close()
    chain = "the chain value does not follow from the rows before it and this one"
    assert problems(path, kept) == [
        ("schema", None, None, "trigger events_are_kept is missing from the schema"),
        ("events", 20, C1, "the decision that allowed it was about another action"),
        ("events", 37, "acme/gemini/observations", chain),
        ("events", 49, "acme/gemini/clock", chain),
        ("tasks", None, T1, MISSING),
        ("claims", None, f"{GEMINI_T1}/0/1", DIFFERS),
        ("observations", None, "acme/gemini/import/parse/7", DIFFERS),
        ("observations", None, "acme/apollo/import/parse/7", MISSING),
        (
            "seal",
            None,
            None,
            REWRITTEN,
        ),
    ]
