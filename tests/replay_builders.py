"""Ledgers with a past, and the means to forge them behind the store's back.

``life`` is one task's story, short enough to name each of its events by sequence. ``world``
is a ledger that went through everything there is. Both are made once and copied.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import msgspec
from builders import OTHER_SCOPE, SCOPE, START, Clock, actor, binding, digest, opened, task
from store_checks import foreign
from unit_builders import observation

from idkmesh import ClaimLedger, ScopedResourceRef, TaskClaimPolicy
from idkmesh.events import chain
from idkmesh.events.port import Row
from idkmesh.repair import repair_clock
from idkmesh.replay import Verification, verify

TEN_YEARS = 315_360_000
BOTH = frozenset({SCOPE, OTHER_SCOPE})
ADA = actor("ada", "worker", scopes=BOTH)
BOB = actor("bob", "worker", scopes=BOTH)
DESK = actor("desk", "dispatcher", actor_type="service", scopes=BOTH)
CHIEF = actor("chief", "admin", scopes=BOTH)
EYE = actor("eye", "auditor", scopes=BOTH)

SHORT = TaskClaimPolicy(
    max_attempts=4, ack_seconds=10, lease_seconds=20, progress_seconds=30, hard_seconds=60
)
CONTEST = TaskClaimPolicy(
    concurrent_slots=3, max_attempts=4, competition_reason="three designs", risk="high"
)
APPROVED: dict[str, Any] = {"approver": CHIEF, "approval_reference": "CHG-7"}

C1 = "acme/apollo/task/C-1"
T1 = "acme/apollo/task/T-1"
GEMINI_T1 = "acme/gemini/task/T-1"
SEEN = "acme/apollo/observations"
LIFE = (  # the types of the story's events, by sequence
    "1 task.configured.v1",
    "2 claim.granted.v1",
    "3 claim.acknowledged.v1",
    "4 claim.renewed.v1",
    "5 claim.progressed.v1",
    "6 execution.reserved.v1",
    "7 execution.reconciled.v1",
    "8 submission.recorded.v1",
    "9 clock.observed.v1",
    "10 execution.reconciled.v1",
    "11 claim.released.v1",
    "12 claim.granted.v1",
    "13 claim.expired.v1",
    "14 prerequisite.observed.v1",
)

Found = tuple[str, int | None, str | None, str]
Change = Callable[[list[Row]], list[Row]]


def at(clock: Clock, seconds: int) -> None:
    """Set the clock to so many seconds behind the start."""
    clock.now = START + seconds


def live(ledger: ClaimLedger, clock: Clock) -> None:
    """Live the short story, one second a step."""
    held: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
    ledger.configure_task(task(), DESK, SHORT)
    ledger.claim(task(), ADA, request_id="r-1", binding=binding("a"))
    at(clock, 1)
    ledger.acknowledge(task(), ADA, **held)
    at(clock, 2)
    ledger.renew(task(), ADA, **held)
    at(clock, 3)
    ledger.progress(task(), ADA, **held)
    at(clock, 4)
    ledger.reserve_dispatch(task(), DESK, ADA, **held)
    at(clock, 5)
    ledger.reconcile_execution(task(), DESK, **held, status="running", evidence_reference="run-1")
    at(clock, 6)
    ledger.record_submission(task(), ADA, **held, artifact_digest=digest("c"))
    at(clock, 7)
    ledger.snapshot(task(), EYE)
    at(clock, 8)
    ledger.reconcile_execution(
        task(), DESK, **held, status="terminal", evidence_reference="run-1:exit-0"
    )
    at(clock, 9)
    ledger.release(task(), ADA, **held)
    at(clock, 10)
    ledger.claim(task(), BOB, request_id="r-2", binding=binding("b"))
    at(clock, 20)
    ledger.snapshot(task(), EYE)
    at(clock, 21)
    ledger.transactor.observe(observation(scope=SCOPE))


def _grow(ledger: ClaimLedger, clock: Clock) -> None:
    """Go on from the short story: three slots under approval, both scopes, every deadline."""
    contest, twin = task("C-1"), task("T-1", OTHER_SCOPE)
    ledger.configure_task(contest, DESK, CONTEST, **APPROVED)
    for number, worker in enumerate((ADA, BOB, ADA), start=1):
        ledger.claim(contest, worker, request_id=f"c-{number}", binding=binding("d"))
    ledger.acknowledge(contest, ADA, request_id="c-1", epoch=1)
    ledger.reserve_dispatch(contest, DESK, ADA, request_id="c-1", epoch=1, **APPROVED)
    ledger.configure_task(twin, DESK, SHORT)
    _expire(ledger, clock, twin)
    ledger.transactor.observe(observation(scope=OTHER_SCOPE))
    ledger.transactor.observe(
        observation(
            event_id="delivery 80",
            sequence=6,
            scope=OTHER_SCOPE,
            state="candidate",
            integrated_revision=None,
            artifacts_digest=None,
            verification_reference=None,
            integration_reference=None,
        )
    )
    ledger.claim(twin, BOB, request_id="r-4", binding=binding("e"))
    ledger.acknowledge(twin, BOB, request_id="r-4", epoch=4)
    ledger.reserve_dispatch(twin, DESK, BOB, request_id="r-4", epoch=4)


def _expire(ledger: ClaimLedger, clock: Clock, twin: ScopedResourceRef) -> None:
    """Let a lease, a progress window and an ownership run out; the time is 22 to 150."""
    for epoch, (name, begin) in enumerate({"r-1": 22, "r-2": 50, "r-3": 90}.items(), start=1):
        held: dict[str, Any] = {"request_id": name, "epoch": epoch}
        at(clock, begin)
        ledger.claim(twin, ADA, request_id=name, binding=binding("e"))
        ledger.acknowledge(twin, ADA, **held)
        for seconds in {"r-1": (), "r-2": (15,), "r-3": (15, 30, 45)}[name]:
            at(clock, begin + seconds)
            ledger.renew(twin, ADA, **held)
            if name == "r-3":
                ledger.progress(twin, ADA, **held)
        at(clock, begin + {"r-1": 20, "r-2": 30, "r-3": 60}[name])
        ledger.snapshot(twin, EYE)


@cache
def _made(name: str) -> bytes:
    folder = Path(tempfile.mkdtemp())
    path = folder / "claims.sqlite3"
    clock = Clock()
    try:
        with opened(path, clock) as ledger:
            live(ledger, clock)
            if name == "world":
                _grow(ledger, clock)
                clock.now += TEN_YEARS
                ledger.configure_task(task("T-2"), DESK, SHORT)
        if name == "world":
            at(clock, 160)
            repair_clock(path, evidence="the host's clock was ten years ahead", clock=clock)
            with opened(path, clock) as ledger:
                ledger.claim(task("T-2"), ADA, request_id="r-1", binding=binding("f"))
                at(clock, 161)
                ledger.snapshot(task("T-1", OTHER_SCOPE), EYE)
        return path.read_bytes()
    finally:
        shutil.rmtree(folder)


def life(path: Path) -> Path:
    """Put a copy of the short story's ledger at the path."""
    path.write_bytes(_made("life"))
    return path


def world(path: Path) -> Path:
    """Put a copy at the path of a ledger that went through everything."""
    path.write_bytes(_made("world"))
    return path


@contextmanager
def writers(path: Path, *names: str, tasks: int) -> Iterator[None]:
    """Let processes write to a ledger during the block, three events a task; see them end."""
    program = str(Path(__file__).with_name("process_replay_writer.py"))
    running = [
        subprocess.Popen(
            [sys.executable, program, str(path), name, str(tasks)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    try:
        outputs = [process.stdout for process in running if process.stdout is not None]
        assert [output.readline() for output in outputs] == ["writing\n"] * len(names)
        yield
        assert [output.readline() for output in outputs] == ["done\n"] * len(names)
    finally:
        for process in running:
            process.kill()
            process.communicate()


# Forging.


@contextmanager
def unguarded(path: Path) -> Iterator[apsw.Connection]:
    """Open a ledger without the triggers that keep its log; they are put back at the end."""
    connection = foreign(path)
    connection.pragma("synchronous", "OFF")
    connection.pragma("ignore_check_constraints", "ON")
    found = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid"
    )
    guards = [(str(name), str(sql)) for name, sql in found]
    try:
        with connection:
            for name, _ in guards:
                connection.execute(f"DROP TRIGGER {name}")
            yield connection
            for _, sql in guards:
                connection.execute(sql)
    finally:
        connection.close()


@contextmanager
def untyped(path: Path, table: str) -> Iterator[apsw.Connection]:
    """Open a ledger with a table that takes any value in any column for a while."""
    with unguarded(path) as connection:
        found = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,))
        sql = str(found.get)
        loose = re.sub(r" (TEXT|INTEGER|BLOB)(?! PRIMARY)( NOT NULL)?", "", sql)
        loose = loose.replace(" STRICT, WITHOUT", " WITHOUT").replace(" STRICT", "")
        _redefine(connection, table, loose)
        yield connection
        _redefine(connection, table, sql)


def _redefine(connection: apsw.Connection, table: str, sql: str) -> None:
    connection.pragma("writable_schema", "ON")
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))
    connection.pragma("writable_schema", "RESET")


def rows_of(path: Path) -> list[Row]:
    """Read the log past the store, as it is."""
    connection = foreign(path)
    try:
        return [Row(*row) for row in connection.execute("SELECT * FROM events ORDER BY sequence")]
    finally:
        connection.close()


def contents(path: Path) -> dict[str, object]:
    """Return everything that a ledger's file says: its schema, its version, and every row."""
    connection = foreign(path)
    try:
        schema = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        tables = [name for name, sql in schema if str(sql).startswith("CREATE TABLE")]
        return {
            "version": connection.pragma("user_version"),
            "schema": schema,
            **{
                str(name): connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2, 3").fetchall()  # noqa: S608  (a table's own name)
                for name in tables
            },
        }
    finally:
        connection.close()


def numbered(rows: Iterable[Row]) -> list[Row]:
    """Number rows anew in the order given: by the file, the scope and the stream."""
    counts: Counter[str] = Counter()
    made = []
    for sequence, row in enumerate(rows, start=1):
        scope, stream = f"scope {row.scope}", f"stream {row.stream}"
        counts.update((scope, stream))
        fresh = row._replace(sequence=sequence, number=counts[scope], version=counts[stream])
        made.append(fresh)
    return made


def chained(rows: Iterable[Row]) -> list[Row]:
    """Chain rows anew, whatever their numbers, so that only what they say can betray them."""
    links: dict[str, bytes] = {}
    made = []
    for row in rows:
        links[row.scope] = chain.link(links.get(row.scope, chain.START), *row[:8])
        made.append(row._replace(chain=links[row.scope]))
    return made


def put_log(path: Path, rows: Iterable[Row]) -> Path:
    """Replace a ledger's log by these rows, word for word."""
    with unguarded(path) as connection:
        connection.execute("DELETE FROM events")
        for row in rows:
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    return path


def forge(path: Path, change: Change) -> Path:
    """Change a ledger's log, then number and chain it anew, as an honest log of it would be."""
    return put_log(path, chained(numbered(change(rows_of(path)))))


def body_with(row: Row, /, **changes: Any) -> Row:
    """Change members of a row's body, and the row's type with the body's.

    A name with two underscores reaches into a member: ``by__action``.
    """
    content = msgspec.json.decode(row.body)
    for name, value in changes.items():
        *path, last = name.split("__")
        part = content
        for step in path:
            part = part[step]
        part[last] = value
    return row._replace(type=content["type"], body=msgspec.json.encode(content).decode())


def edited(event: int, /, **changes: Any) -> Change:
    """Make the change of members of one event's body."""
    return lambda rows: [
        body_with(row, **changes) if row.sequence == event else row for row in rows
    ]


def told(event: int, /, **columns: Any) -> Change:
    """Make the change of columns of one event's row; ``at`` is in seconds behind the start."""
    if "at" in columns:
        columns["at"] += START
    return lambda rows: [row._replace(**columns) if row.sequence == event else row for row in rows]


def ordered(*sequences: int) -> Change:
    """Make the change that keeps just these events, in this order; one may come twice."""
    return lambda rows: [rows[sequence - 1] for sequence in sequences]


def both(*changes: Change) -> Change:
    """Make several changes one after the other."""

    def change(rows: list[Row]) -> list[Row]:
        for each in changes:
            rows = each(rows)
        return rows

    return change


# Judging.


def found(checked: Verification) -> list[Found]:
    """Return a verification's problems as plain tuples."""
    return [(each.place, each.sequence, each.stream, each.meaning) for each in checked.problems]


def problems(path: Path, seal: str | None = None) -> list[Found]:
    """Verify a ledger, demand that its file stays as it is, and return the problems."""
    before = path.read_bytes()
    checked = verify(path, seal=seal)
    assert path.read_bytes() == before
    return found(checked)
