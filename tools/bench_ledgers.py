"""The ledgers that are measured, made fast and then checked, and the floor beside them."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

import apsw
import msgspec
from bench_measure import Bars, Timed, timed

from idkmesh import (
    ActorContext,
    AuthorizationPolicy,
    ClaimBinding,
    ClaimLedger,
    ScopedResourceRef,
    TaskClaimPolicy,
    TenantScope,
)
from idkmesh.commands.claim import request_digest
from idkmesh.events import chain, codec
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.events.types import ClaimGranted, Event

SCOPE: Final = TenantScope("acme", "apollo")
LEASE_SECONDS: Final = 3_600
POLICY: Final = TaskClaimPolicy(
    ack_seconds=LEASE_SECONDS,
    lease_seconds=LEASE_SECONDS,
    progress_seconds=86_400,
    hard_seconds=604_800,
)
BINDING: Final = ClaimBinding("sha256:" + "a" * 64, "b" * 40, "sha256:" + "c" * 64)
DEPTH: Final = 100
"""Events in the stream of a task that is measured."""

_SYNC_FULL: Final = 2
_TOGETHER: Final = 50
_START: Final = 1_700_000_000
_DEADLINES: Final = ("ack_by", "lease_until", "progress_by", "hard_until")


def task_named(name: str) -> ScopedResourceRef:
    """Name a task of the benchmark's scope."""
    return ScopedResourceRef(SCOPE, "task", name)


def _actor(name: str, role: str) -> ActorContext:
    return ActorContext(
        principal_id=name,
        actor_type="service",
        issuer="https://id.example.org",
        roles=frozenset({role}),
        scopes=frozenset({SCOPE}),
        data_clearance="restricted",
        identity_revision="rev-1",
    )


WORKER: Final = _actor("bench-worker", "worker")
DISPATCHER: Final = _actor("bench-dispatcher", "dispatcher")


class Clock:
    """A clock that moves when it is told to, so that every command finds new time."""

    def __init__(self, now: int = _START) -> None:
        self.now = now

    def __call__(self) -> int:
        """Return the time in epoch seconds."""
        return self.now


class Floor:
    """The least that anything durable costs: one row and its commit, nothing else.

    Same engine, same folder, WAL and FULL, as one explicit transaction, which is what a
    command is too.
    """

    def __init__(self, folder: Path) -> None:
        self._connection = apsw.Connection(str(folder / "floor.sqlite3"))
        mode = self._connection.pragma("journal_mode", "WAL")
        self._connection.pragma("synchronous", "FULL")
        if mode != "wal" or self._connection.pragma("synchronous") != _SYNC_FULL:
            message = "expected the floor to run in WAL with FULL, but it does not"
            raise RuntimeError(message)
        self._connection.execute("CREATE TABLE IF NOT EXISTS floor (body TEXT NOT NULL)")
        self._row = ("x" * 300,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def run(self, times: int) -> Timed:
        """Commit so many rows, each in its own transaction."""
        return timed([self._one] * times)

    def _one(self) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO floor VALUES (?)", self._row)
        execute("COMMIT")


class Subject:
    """One ledger under measurement, on its own clock.

    Attributes:
        name: How the table speaks of it.
        ledger: The ledger.
        store: The same file's store, for counting what commands write.
        clock: The time that the ledger acts at.
        tasks: Its tasks whose streams are deep, in an order that says nothing.
    """

    def __init__(self, name: str, path: Path, *, clock: Clock | None = None) -> None:
        self.name = name
        self.clock = clock or Clock()
        self.store = SqliteStore.open(path)
        policy = AuthorizationPolicy.enterprise_baseline()
        self.ledger = ClaimLedger(self.store, policy, clock=self.clock)
        self.tasks: list[ScopedResourceRef] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ledger.close()

    def written(self) -> int:
        """Return how many events the file holds."""
        with self.store.read() as session:
            return session.head().sequence

    def require_written(self, before: int, tag: str, commands: int) -> None:
        """Do nothing where commands wrote one event of a type each.

        Args:
            before: How many events the file held before them.
            tag: The type that each had to write.
            commands: How many commands there were.

        Raises:
            RuntimeError: They wrote more, less or something else: what was timed is not
                what the table says.
        """
        with self.store.read() as session:
            found = [found.type for found in session.log(before)]
        if found != [tag] * commands:
            message = f"expected {commands} events of type {tag}, but the log got {found}"
            raise RuntimeError(message)


class _Moment(NamedTuple):
    """One event of the history that every deep task has, and when after its start."""

    after_seconds: int
    event: Event
    deadlines: tuple[str, ...]


def build(
    path: Path,
    bars: Bars,
    *,
    name: str,
    tasks: int,
    deep: int,
    seed: int,
    depth: int = DEPTH,
) -> Subject:
    """Make a ledger in which some tasks have a hundred events and the others one.

    One task's history is played through the public commands and then copied for every
    task, deadlines and digests moved, through the store's own gate, chain and triggers. The
    tables are then folded from the log, which stops at any event that no command could have
    written, and the chain is computed again over every row.

    Args:
        path: The file to make.
        bars: Where progress is shown.
        name: How the table speaks of the ledger.
        tasks: How many tasks it has.
        deep: How many of them have a hundred events.
        seed: What the choice and the order of tasks follow from.
        depth: How many events the deep ones have, where it is fewer than a hundred.

    Raises:
        RuntimeError: The ledger is not what it should be.
    """
    history = list(_history(path.with_name(path.name + "-history")))
    chance = random.Random(seed)  # noqa: S311  (an order to repeat, not a secret)
    named = [task_named(f"task-{number:07}") for number in range(tasks)]
    chance.shuffle(named)
    subject = Subject(name, path)
    subject.tasks = named[:deep]
    total = deep * depth + tasks - deep
    with bars.phase(f"{name}: write events", total) as advance:
        for group, events in ((named[:deep], depth), (named[deep:], 1)):
            for start in range(0, len(group), _TOGETHER):
                together = group[start : start + _TOGETHER]
                _write(subject, together, history[:events])
                advance(len(together) * events)
    with bars.phase(f"{name}: fold tables"):
        subject.ledger.rebuild()
    _verify(subject, bars, total)
    chance.shuffle(subject.tasks)
    return subject


def _history(path: Path) -> Iterator[_Moment]:
    """Play one task's life, from its policy to a release, in a hundred events."""
    with Subject("history", path) as subject:
        ledger, clock, task = subject.ledger, subject.clock, task_named("history")
        ledger.configure_task(task, DISPATCHER, POLICY)
        clock.now += _TOGETHER
        ledger.claim(task, WORKER, request_id="r-1", binding=BINDING)
        own = {"request_id": "r-1", "epoch": 1}
        middle = ["progress" if turn % 16 == 0 else "renew" for turn in range(DEPTH - 4)]
        for operation in ("acknowledge", *middle, "release"):
            clock.now += _TOGETHER
            ledger.update_owner(task, WORKER, operation=operation, **own)  # type: ignore[arg-type]
        with subject.store.read() as session:
            rows = list(session.stream(task.key))
    for found in rows:
        event = codec.decode(found.body)
        fields = tuple(each for each in _DEADLINES if hasattr(event, each))
        yield _Moment(found.at - _START, event, fields)


def _write(subject: Subject, together: list[ScopedResourceRef], history: list[_Moment]) -> None:
    """Let some tasks live the history at the same time, in one transaction."""
    start = subject.clock.now
    with subject.store.write() as session:
        for version, moment in enumerate(history, 1):
            for offset, task in enumerate(together):
                at = start + moment.after_seconds + offset
                event = _moved(moment, task, start + offset - _START)
                session.append(SCOPE.key, task.key, version, at, event)
        session.commit()
    subject.clock.now = at + 1


def _moved(moment: _Moment, task: ScopedResourceRef, seconds: int) -> Event:
    event = moment.event
    if not moment.deadlines:
        return event
    changed: dict[str, object] = {
        field: getattr(event, field) + seconds for field in moment.deadlines
    }
    if isinstance(event, ClaimGranted):
        owner = event.by.actor
        changed["request_digest"] = request_digest(task, owner, event.binding, POLICY)
    return msgspec.structs.replace(event, **changed)


def _verify(subject: Subject, bars: Bars, total: int) -> None:
    """Compute the chain again over every row, and count the rows."""
    link, count = chain.START, 0
    with (
        bars.phase(f"{subject.name}: check chain", total) as advance,
        subject.store.read() as session,
    ):
        for found in session.log():
            link = chain.link(link, *found[:8])
            count += 1
            if found.chain != link:
                message = f"expected a whole chain, but row {found.sequence} breaks it"
                raise RuntimeError(message)
            if count % _TOGETHER == 0:
                advance(_TOGETHER)
        advance(count % _TOGETHER)
    if count != total:
        message = f"expected {total} events, but the file holds {count}"
        raise RuntimeError(message)
