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
from machine_cast import DISPATCHER, LEAD, WORKERS
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
from unit_builders import OTHER_REVISION, REVISION, unit

NEW = "ads/new"

# Two graphs of one scope. In the second PARSE is rewritten, STYLE has another revision and
# TEST waits for it too; a review is no longer wanted, and a new unit is.
UNITS = {
    "old": (unit(READ), unit(PARSE, READ), unit(TEST, PARSE), unit(REVIEW, READ, PARSE)),
    "new": (unit(READ), OTHER_PARSE, unit(TEST, PARSE, STYLE), unit(NEW, READ)),
}
STYLE_REVISIONS = {"old": REVISION, "new": OTHER_REVISION}


@dataclass(frozen=True)
class Sighting:
    """An observation.

    Attributes:
        node: The unit; in a ``Work`` also "its need" and "itself".
        graph: Which graph's gate is told, and whose binding is right.
        state: The state that is seen.
        binding: "right", or a way to be otherwise.
        inputs: "right" for the inputs that the unit has now, or a way to be wrong.
        result: Two hex digits for the revision and the artifacts that came out.
        sequence: "next", or a way to be late or taken.
        event: "fresh", "known" for the id of another event, "redelivered" for all of one.
        place: Which retained observation is meant, counted from the newest.
        elsewhere: Whether it is of another scope.
        second: Whether the second ledger object on the file is told.
        after: How many seconds pass before.
    """

    node: str = READ
    graph: str = "old"
    state: str = "integrated"
    binding: str = "right"
    inputs: str = "right"
    result: str = "cc"
    sequence: str = "next"
    event: str = "fresh"
    place: int = 0
    elsewhere: bool = False
    second: bool = False
    after: int = 0


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
    """A unit is made ready, and its task admitted, acknowledged, and gone on with.

    Attributes:
        unit: A graph and a unit of it.
        task: A name out of ``TASKS``.
        worker: Who does it.
        script: What follows: the ledger's moves behind a phase, sightings of what the unit
            requires or of the unit itself, and time that passes.
        ends: Whether the execution is over then, and the claim released.
    """

    unit: tuple[str, str]
    task: str
    worker: str
    script: list[Move | Sighting | Tick]
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
results = st.sampled_from(("cc", "cc", "cd", "dc"))
sightings = st.builds(
    Sighting,
    node=mostly(READ, PARSE, PARSE, STYLE, TEST, rarely=(NEW, REVIEW, "feeds/none"), odds=8),
    graph=graphs,
    state=mostly("integrated", rarely=("pending", "candidate", "rejected"), odds=3),
    binding=mostly("right", rarely=("other", "version", "revision", "capitals"), odds=5),
    inputs=mostly("right", rarely=("last", "other"), odds=6),
    result=results,
    sequence=mostly("next", rarely=("late", "late", "taken"), odds=3),
    event=mostly("fresh", rarely=("redelivered", "redelivered", "known"), odds=3),
    place=places,
    elsewhere=st.integers(0, 39).map(lambda drawn: drawn == 39),
    second=st.booleans(),
    after=st.sampled_from((0, 0, 1, 8)),
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
RESERVING = Move("reserve_dispatch", who=DISPATCHER, among="active", extra=(("owner", "owner"),))
SUBMITTING = Move("record_submission", among="active", extra=(("artifact_digest", digest("c")),))
ENDING = (
    Move(
        "reconcile_execution",
        who=DISPATCHER,
        among="reserved",
        extra=(("status", "terminal"), ("evidence_reference", "run/1")),
    ),
    Move("release", among="active"),
)
turns: SearchStrategy[Any] = st.one_of(
    st.just(RESERVING),
    st.just(RESERVING),
    st.just(SUBMITTING),
    st.just(SUBMITTING),
    st.builds(Sighting, node=st.just("its need"), result=results, place=places),
    st.builds(Sighting, node=st.just("its need"), state=st.just("rejected"), place=places),
    st.just(Sighting(node="itself")),
    st.builds(Tick, seconds=st.sampled_from((1, 4, 9))),
)
works = st.builds(
    Work,
    unit=st.sampled_from(
        (
            *(("old", PARSE), ("old", PARSE), ("old", TEST), ("old", REVIEW), ("old", STYLE)),
            *(("new", PARSE), ("new", TEST), ("new", NEW)),
        )
    ),
    task=st.sampled_from(("first", "second")),
    worker=mostly(*WORKERS, rarely=(LEAD,), odds=8),
    script=st.lists(turns, min_size=1, max_size=6),
    ends=st.booleans(),
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
    *(sightings, sightings, sightings, clearings, admissions, works, works, works, works),
    *(passages, owner_moves, reconciliations, snapshots, askings, ticks, troubles, troubles),
)
steps: SearchStrategy[Step] = st.sampled_from(_KINDS).flatmap(lambda drawn: drawn)
