"""Verification: the whole log folded again with every check on, and compared with the tables.

It reads one consistent point, takes no write lock, changes nothing, and reports every
problem that it finds, each with its place and meaning. Behind a problem it goes on with
what the file says, so that one fault is one report and not a thousand.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from idkmesh.comparison import Folded
from idkmesh.errors import StoreError
from idkmesh.events import chain, codec
from idkmesh.events import types as facts
from idkmesh.events.catalog import clock_stream, observations_stream
from idkmesh.events.files import Target
from idkmesh.events.port import ROW_TYPES, Progress, ReadSession, Row
from idkmesh.events.sqlite_store import reading
from idkmesh.events.types import Event, TaskEvent
from idkmesh.legality import (
    ABOUT_TIME,
    Course,
    broken_invariant,
    impossible,
    is_scope,
    misplaced,
    require_stream,
    require_task_stream,
)
from idkmesh.naming import shown
from idkmesh.projections import observations, tables
from idkmesh.projections.observations import Observations
from idkmesh.projections.task import APPLIERS, TaskState, evolve
from idkmesh.scalars import MAX_INT
from idkmesh.seal import Seal

_MOST_UNREADABLE: Final = 1000
_PAGE: Final = 512
_BEFORE: Final = (0, chain.START)


class Problem(Struct, frozen=True):
    """Something that is not as the ledger's rules say.

    Attributes:
        place: Where: ``events``, a table, ``schema`` or ``seal``.
        sequence: The event that it is about, or None.
        stream: The stream or row that it is about, or None.
        meaning: What is wrong, in a sentence.
    """

    place: str
    sequence: int | None
    stream: str | None
    meaning: str


class Verification(Struct, frozen=True):
    """What a verification found.

    Attributes:
        events: How many events were read.
        tasks: How many tasks they fold to.
        claims: How many claims those have.
        seal: The seal of the log as it was read.
        problems: Everything that is wrong; empty where the ledger verifies.
    """

    events: int
    tasks: int
    claims: int
    seal: str
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(
    target: Target,
    *,
    seal: str | None = None,
    progress: Progress | None = None,
    allow_network: bool = False,
) -> Verification:
    """Check a ledger file against its own rules, and against an earlier seal.

    Args:
        target: The ledger's file; others may be writing to it.
        seal: A seal that was taken earlier and kept elsewhere, or None.
        progress: Called now and then with the events read and the events there are. A pass
            begins with nothing read; of the engine's own check, 0 of 0 is all that is told.
        allow_network: Read from a network file system all the same.

    Returns:
        What was found.

    Raises:
        InvalidInput: ``seal`` is no seal, or ``target`` is no path (``invalid_input``).
        StoreError: The file cannot be read as a ledger at all (``store_foreign``,
            ``store_newer``, ``store_unsafe``, ``store_readonly``, ``store_locked``,
            ``store_corrupt`` where there is no log in it).
        TypeError: ``target`` is neither ``str`` nor a path object.
    """
    earlier = None if seal is None else Seal.read(seal)
    with reading(target, allow_network=allow_network) as session:
        return Verifier(session, earlier, progress).run()


class Verifier:
    """One verification under way.

    Args:
        session: The point to verify.
        earlier: A seal to compare with, or None.
        progress: Called with the events read and the events there are.
    """

    def __init__(
        self,
        session: ReadSession,
        earlier: Seal | None,
        progress: Progress | None,
    ) -> None:
        self._session = session
        self._earlier = earlier
        self._progress = progress or (lambda _done, _all: None)
        self.problems: list[Problem] = []
        self._sequence = 0
        self._events = 0
        self._course = Course()
        self._heads: dict[str, tuple[int, bytes]] = {}
        self._versions: dict[str, int] = {}
        self._tasks: dict[str, TaskState] = {}
        self._observations: dict[str, Observations] = {}
        self._doubtful: set[str] = set()  # streams whose fold has met a problem
        self._active: set[str] = set()  # streams of tasks with an active claim
        self._sealed: Seal | None = None  # the log's own, where the earlier one was taken

    def run(self) -> Verification:
        """Verify everything: the log, the engine's file, the tables, the seal.

        The engine looks its rows up from each index, all over the file; once the log has been
        read from end to end, most of that is in memory. What it finds still comes first, since
        it may explain the rest.
        """
        self.read_log()
        self._progress(0, 0)
        broken = [Problem("schema", None, None, each) for each in self._session.problems()]
        self.problems[:0] = broken
        folded = Folded(self._tasks, self._observations, self._doubtful)
        for table in tables.TABLES:
            for name, meaning in folded.differences(self._session, table):
                self._note(table, None, name, meaning)
        self._compare_seal()
        return Verification(
            events=self._events,
            tasks=len(self._tasks),
            claims=sum(len(state.claims) for state in self._tasks.values()),
            seal=str(self._seal()),
            problems=tuple(self.problems),
        )

    def read_log(self) -> None:
        """Read and fold the log, every check on."""
        if self._earlier is not None and self._earlier.events == 0:
            self._sealed = Seal.of(0, ())
        total = self._head()
        self._progress(0, total)
        for row in self._rows():
            self._events += 1
            self._row(row)
            if self._earlier is not None and self._sequence == self._earlier.events:
                self._sealed = self._seal()
            if not self._events & 0x3FF:
                self._progress(self._events, total)
        if (begun := self._course.begun) is not None:
            self._note("events", self._sequence, begun.stream, begun.meaning)
        self._progress(self._events, total)

    def _note(self, place: str, sequence: int | None, stream: str | None, meaning: str) -> None:
        name = None if stream is None else shown(stream)
        self.problems.append(Problem(place, sequence, name, meaning))

    def _head(self) -> int:
        try:
            return self._session.last_sequence()
        except StoreError:
            return 0

    def _rows(self) -> Iterator[Row]:
        """Yield every row that can be read, and note those that cannot."""
        try:
            before = self._session.before_the_first()
        except StoreError:
            before = 0  # the page in question will say so
        if before:
            self._note("events", None, None, f"{before} rows stand before the log's first")
        after, most = 0, _PAGE
        unreadable = 0
        while unreadable < _MOST_UNREADABLE:
            try:
                page = self._session.page(after, most)
            except StoreError as error:
                if most > 1:
                    most = 1  # row by row up to the one that cannot be read
                    continue
                following = self._following(after)
                self._note("events", following, None, f"the row cannot be read: {error.message}")
                self._doubt_everything()
                if following is None:
                    return
                unreadable += 1
                after, most = following, _PAGE
                continue
            yield from page
            last = page[-1].sequence if page else None
            if type(last) is not int or last <= after:
                return
            after = last
        self._note("events", None, None, "too many rows cannot be read; the rest is not looked at")

    def _following(self, after: int) -> int | None:
        try:
            return self._session.next_sequence(after)
        except StoreError:
            return None

    def _doubt_everything(self) -> None:
        self._doubtful.update(self._tasks, self._observations)

    def _row(self, row: Row) -> None:
        """Judge one row by those before it, and fold its event."""
        sequence, scope, number, stream, version, at, kind, body, link = row
        # fmt: off
        types = (type(sequence), type(scope), type(number), type(stream), type(version),
                 type(at), type(kind), type(body), type(link))  # map() takes twice as long
        # fmt: on
        if types != ROW_TYPES:
            self._mistyped(row)
            return
        last_number, last_link = self._heads.get(scope, _BEFORE)
        linked = chain.link(last_link, sequence, scope, number, stream, version, at, kind, body)
        if (
            linked != link
            or sequence != self._sequence + 1
            or number != last_number + 1
            or version != self._versions.get(stream, 0) + 1
        ):
            self._misfit(row, last_number, linked)
        if last_number == 0 and not is_scope(scope):
            self._about(row, "scope is no tenant's project")
        self._sequence = sequence
        self._heads[scope] = (number, link)
        self._versions[stream] = version
        course = self._course
        try:
            tag, event = codec.read(body)
        except StoreError as error:
            self._about(row, error.message)
            self._doubtful.add(stream)
            for meaning in course.judge_time(row, None):
                self._about(row, meaning)
            course.at, course.scope = at, scope
            return
        if tag != kind:
            self._about(row, "type is not the one in the body")
        if course.begun or not course.at <= at <= MAX_INT or type(event) in ABOUT_TIME:
            for meaning in course.judge(row, event):
                self._about(row, meaning)
        course.at, course.scope = at, scope
        try:
            self._fold(row, event)
        except StoreError as error:
            self._about(row, error.message)
            self._doubtful.add(stream)

    def _mistyped(self, row: Row) -> None:
        """Note a row with a value that is not of its column's type, and go on behind it."""
        known = type(row.stream) is str
        meaning = "the row holds a value that is not of its column's type"
        self._note("events", row.sequence, row.stream if known else None, meaning)
        self._sequence = row.sequence
        if type(row.scope) is str:
            last_number, _ = self._heads.get(row.scope, _BEFORE)
            number = row.number if type(row.number) is int else last_number + 1
            link = row.chain if type(row.chain) is bytes else chain.START
            self._heads[row.scope] = (number, link)
        if known:
            last = self._versions.get(row.stream, 0)
            self._versions[row.stream] = row.version if type(row.version) is int else last + 1
            self._doubtful.add(row.stream)
        else:
            self._doubt_everything()

    def _misfit(self, row: Row, last_number: int, linked: bytes) -> None:
        """Note in what a row does not go on from those before it."""
        last_version = self._versions.get(row.stream, 0)
        for column, whose, expected, value in (
            ("sequence", "file", self._sequence + 1, row.sequence),
            ("number", "scope", last_number + 1, row.number),
            ("version", "stream", last_version + 1, row.version),
        ):
            if value != expected:
                self._about(
                    row, f"{column} is not the {whose}'s next: expected {expected}, not {value}"
                )
        if row.version != last_version + 1:
            self._doubtful.add(row.stream)
        if linked != row.chain:
            self._about(row, "the chain value does not follow from the rows before it and this one")

    def _about(self, row: Row, meaning: str) -> None:
        self._note("events", row.sequence, row.stream, meaning)

    def _seal(self) -> Seal:
        heads = [(scope, number, link) for scope, (number, link) in self._heads.items()]
        return Seal.of(self._sequence, heads)

    def _fold(self, row: Row, event: Event) -> None:
        """Fold one event, in the stream where its kind belongs."""
        kind = type(event)
        if kind in APPLIERS:
            if row.stream not in self._doubtful:
                self._fold_task(row, event)  # type: ignore[arg-type]  # appliers are of task events
        elif isinstance(event, facts.PrerequisiteObserved):
            require_stream(row.stream, observations_stream(row.scope))
            if row.stream not in self._doubtful:
                known = self._observations.setdefault(row.stream, Observations(row.stream))
                observations.evolve(known, event)
        else:
            require_stream(row.stream, clock_stream(row.scope))
            if isinstance(event, facts.ClockRepaired):
                self._check_repair(row)

    def _fold_task(self, row: Row, event: TaskEvent) -> None:
        state = self._tasks.get(row.stream)
        if state is None:
            require_task_stream(row.stream, row.scope)
            state = self._tasks[row.stream] = TaskState(row.stream)
        elif not row.stream.startswith(f"{row.scope}/"):
            raise misplaced()
        at = row.at
        for meaning in impossible(state, event, at):
            self._about(row, meaning)
        evolve(state, event, at)
        for claim in state.changed.values():
            broken = broken_invariant(state, claim)
            if broken is not None:
                self._about(row, broken)
        if state.moved:
            self._note_active(row.stream, state)
            if isinstance(event, facts.ClaimExpired):
                self._course.expired(state, row, event)
        state.settle()

    def _note_active(self, stream: str, state: TaskState) -> None:
        if any(claim.state == "active" for claim in state.claims.values()):
            self._active.add(stream)
        else:
            self._active.discard(stream)

    def _check_repair(self, row: Row) -> None:
        for stream in sorted(self._active - self._doubtful):
            meaning = "a clock repair left this task's claim active"
            self._note("events", row.sequence, stream, meaning)

    def _compare_seal(self) -> None:
        if self._earlier is None or self._sealed == self._earlier:
            return
        if self._sealed is None:
            meaning = (
                f"the seal was taken over {self._earlier.events} events, but the log has "
                f"{self._events}: it was cut off, or an old copy was put back"
            )
        else:
            meaning = (
                f"the first {self._earlier.events} events are not those that were sealed: the log "
                "was rewritten or swapped, or it is a copy that went its own way"
            )
        self._note("seal", None, None, meaning)
