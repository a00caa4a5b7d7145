"""The moves of a random run at the gate as plain data, and the strategies that draw them.

A move says what is wanted in words; the pair of gate and model turns them into arguments
when the move is played. Most draws are what a well-meaning caller would do.
"""

from dataclasses import dataclass
from typing import Any

from builders import digest
from gate_builders import OTHER_PARSE, PARSE, READ, REVIEW, STYLE, TEST
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from machine_cast import DISPATCHER, WORKERS
from machine_moves import (
    Move,
    Tick,
    claim_replays,
    claims,
    mostly,
    owner_moves,
    places,
    reconciliations,
    reservations,
    snapshots,
    submissions,
    ticks,
)
from unit_builders import unit

NEW = "feeds/new"
NODES = (READ, PARSE, TEST, REVIEW, STYLE)

# Two graphs of one scope: the second has PARSE rewritten, TEST waits for STYLE too, a review
# is no longer wanted, and a new unit is.
UNITS = {
    "old": (unit(READ), unit(PARSE, READ), unit(TEST, PARSE), unit(REVIEW, READ, PARSE)),
    "new": (unit(READ), OTHER_PARSE, unit(TEST, PARSE, STYLE), unit(NEW, READ)),
}
GRAPHS = tuple(UNITS)


@dataclass(frozen=True)
class Sighting:
    """An observation.

    Attributes:
        node: The unit.
        graph: Which graph's gate is told, and whose binding is right.
        state: The state that is seen.
        binding: "right", or a way to be otherwise.
        inputs: "right" for the inputs that the unit has now, or a way to be wrong.
        artifacts: A hex digit for what came out.
        sequence: "next", or a way to be late or taken.
        event: "fresh", "known" for the id of another event, "redelivered" for all of one.
        place: Which retained observation is meant, counted from the newest.
        elsewhere: Whether it is of another scope.
        second: Whether the second ledger object on the file is told.
    """

    node: str = READ
    graph: str = "old"
    state: str = "integrated"
    binding: str = "right"
    inputs: str = "right"
    artifacts: str = "c"
    sequence: str = "next"
    event: str = "fresh"
    place: int = 0
    elsewhere: bool = False
    second: bool = False


@dataclass(frozen=True)
class Clearing:
    """Whatever a unit waits for is seen as integrated, as the graph binds it now."""

    node: str
    graph: str


@dataclass(frozen=True)
class Passing:
    """A phase of the gate: the ledger's move behind it, for a unit of a graph."""

    node: str
    graph: str
    move: Move


@dataclass(frozen=True)
class Work:
    """A unit's whole way in the usual form: made ready, admitted, acknowledged, and gone on with.

    Attributes:
        node: The unit.
        graph: Which graph's gate is used.
        task: A name out of ``TASKS``.
        worker: Who does it.
        between: What happens once it is acknowledged; a sighting is of what the unit requires.
        phases: The ledger's moves behind the phases that follow.
        ends: Whether the execution is over then, and the claim released.
    """

    node: str
    graph: str
    task: str
    worker: str
    between: Sighting | Tick | None
    phases: tuple[Move, ...]
    ends: bool


@dataclass(frozen=True)
class Asking:
    """A question to the gate."""

    call: str
    node: object
    graph: str
    second: bool


@dataclass(frozen=True)
class Trouble:
    """Something happens to the clock, for the one step that comes with it, or to the file.

    Attributes:
        event: "restart", "second", "rebuild", "behind" or "no time".
        most: The budget for observations after a restart.
        seconds: How far the clock is set back.
        now: What the clock gives where it gives no time.
        step: What is tried meanwhile.
    """

    event: str
    most: int
    seconds: int
    now: object
    step: Sighting | Passing | Asking


Step = Sighting | Clearing | Passing | Work | Asking | Move | Tick | Trouble

graphs = mostly("old", rarely=("new",), odds=3)
nodes = mostly(PARSE, PARSE, TEST, REVIEW, NEW, READ, STYLE, rarely=("feeds/none",), odds=30)
any_node: SearchStrategy[object] = st.one_of(
    nodes, nodes, nodes, st.sampled_from((None, 7, "", "feeds/read\n", b"feeds/read"))
)
sightings = st.builds(
    Sighting,
    node=mostly(READ, READ, PARSE, STYLE, TEST, NEW, rarely=(REVIEW, "feeds/none"), odds=20),
    graph=graphs,
    state=mostly("integrated", rarely=("pending", "candidate", "rejected"), odds=4),
    binding=mostly("right", rarely=("other", "version", "revision", "capitals"), odds=5),
    inputs=mostly("right", rarely=("last", "other"), odds=6),
    artifacts=st.sampled_from("ccd"),
    sequence=mostly("next", rarely=("gap", "late", "late", "taken"), odds=3),
    event=mostly("fresh", rarely=("redelivered", "redelivered", "known"), odds=3),
    place=places,
    elsewhere=st.integers(0, 39).map(lambda drawn: drawn == 39),
    second=st.booleans(),
)
clearings = st.builds(Clearing, node=nodes, graph=graphs)
admissions = st.builds(Passing, node=nodes, graph=graphs, move=claims | claims | claim_replays)
# To the unit that the claim is for, which a random draw would seldom hit, and to any other.
passages = st.builds(
    Passing,
    node=st.just("its own") | st.just("its own") | nodes,
    graph=graphs,
    move=reservations | submissions | claim_replays,
)
USUAL = (
    Move("reserve_dispatch", who=DISPATCHER, among="active", extra=(("owner", "owner"),)),
    Move("record_submission", among="active", extra=(("artifact_digest", digest("c")),)),
)
ENDING = (
    Move(
        "reconcile_execution",
        who=DISPATCHER,
        among="reserved",
        extra=(("status", "terminal"), ("evidence_reference", "run/1")),
    ),
    Move("release", among="active"),
)
movers = st.builds(
    Sighting,
    state=mostly("integrated", rarely=("pending", "rejected"), odds=3),
    artifacts=st.sampled_from("cde"),
    place=places,
)
works = st.sampled_from(
    (
        *(("old", PARSE), ("old", PARSE), ("old", TEST), ("old", REVIEW)),
        *(("new", PARSE), ("new", TEST), ("new", NEW)),
    )
).flatmap(
    lambda drawn: st.builds(
        Work,
        node=st.just(drawn[1]),
        graph=st.just(drawn[0]),
        task=st.sampled_from(("first", "second")),
        worker=st.sampled_from(WORKERS),
        between=st.none() | st.none() | movers | movers | ticks,
        phases=st.sampled_from((USUAL, USUAL, (*USUAL, *USUAL), USUAL[1:], USUAL[:1], ())),
        ends=st.booleans(),
    )
)
askings = st.builds(
    Asking,
    call=st.sampled_from(("readiness", "ready_units", "observations")),
    node=any_node,
    graph=graphs,
    second=st.booleans(),
)
budgets = mostly(100_000, rarely=(5, 12), odds=3)
troubles = st.builds(
    Trouble,
    event=st.sampled_from(("restart", "second", "rebuild", "behind", "no time")),
    most=budgets,
    seconds=st.sampled_from((1, 30, 100_000)),
    now=st.sampled_from((None, True, -1, 2**62, 1.5, "1700000000")),
    step=sightings | passages | askings,
)
_KINDS: tuple[SearchStrategy[Any], ...] = (
    *(sightings, sightings, sightings, clearings, admissions, works, works, works, passages),
    *(passages, owner_moves, reconciliations, snapshots, askings, ticks, troubles, troubles),
)
steps: SearchStrategy[Step] = st.sampled_from(_KINDS).flatmap(lambda drawn: drawn)
