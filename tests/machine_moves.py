"""The moves of a random run as plain data, and the strategies that draw them.

A move says what is wanted in words ("the newest claim's epoch", "its owner"); the pair of
ledger and model turns the words into arguments when the move is played. Most draws are
what a well-meaning caller would do, or no run would get anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from builders import digest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from machine_cast import (
    ADMIN_1,
    APPROVALS,
    AUDITOR,
    CAST,
    DISPATCHER,
    JUNIOR,
    LEAD,
    OUTSIDERS,
    POLICIES,
    RIVALS,
    TASKS,
    WORKERS,
)

OWNER_OPERATIONS = ("renew", "acknowledge", "progress", "release")
COMMANDS = (
    "configure_task",
    "claim",
    *OWNER_OPERATIONS,
    "update_owner",
    "reserve_dispatch",
    "reconcile_execution",
    "record_submission",
    "snapshot",
)


@dataclass(frozen=True)
class Move:
    """One call.

    Attributes:
        call: The method's name.
        task: A name out of ``TASKS``.
        who: A name out of ``CAST``, or "owner".
        request: "known" (a claim's own), "fresh", or a way to be wrong.
        among: Which claims may be meant: "active", "reserved", "any". Where the task has
            none, another task is asked that has one.
        place: Which of them, counted from the newest.
        epoch: "right", or a way to be wrong.
        approval: A name out of ``APPROVALS``, for the calls that take one.
        extra: Further arguments: names and values.
        second: Whether the second ledger object on the file is asked.
    """

    call: str
    task: str = "first"
    who: str = "owner"
    request: str = "known"
    among: str = "any"
    place: int = 0
    epoch: str = "right"
    approval: str = "given"
    extra: tuple[tuple[str, Any], ...] = ()
    second: bool = False


@dataclass(frozen=True)
class Tick:
    """The clock goes on by seconds, or to a deadline and some seconds off it.

    The deadline is an active claim's, or "identity": when the one identity expires that does.
    """

    seconds: int = 1
    deadline: str | None = None
    task: str = "first"
    place: int = 0


@dataclass(frozen=True)
class Take:
    """A worker begins in the usual way: claims, acknowledges, has an execution reserved."""

    task: str
    worker: str
    steps: int = 3


def mostly(*usual: Any, rarely: Sequence[Any], odds: int = 12) -> SearchStrategy[Any]:
    """Draw a usual value, and one time in about ``odds`` a rare one."""
    rare = st.sampled_from(tuple(rarely))
    ordinary = st.sampled_from(usual)
    return st.integers(0, odds - 1).flatmap(lambda drawn: rare if drawn == odds - 1 else ordinary)


tasks = mostly("first", "second", "twin", rarely=("never configured", "no task"), odds=20)
requests = mostly("known", rarely=("unknown", "fresh", "blank", "number", "long", "two lines"))
wrong_epochs = ("next", "last", "true", "kin", "float", "text", "none", "huge")
epochs = mostly("right", rarely=wrong_epochs, odds=8)
approvals = mostly(
    *["given"] * 9, "none", "by the owner", "by the caller", rarely=tuple(APPROVALS), odds=6
)
owners = mostly(*["owner"] * 9, *RIVALS, rarely=tuple(CAST), odds=12)
dispatchers = mostly(DISPATCHER, ADMIN_1, rarely=tuple(CAST), odds=8)
readers = mostly(AUDITOR, WORKERS[0], JUNIOR, rarely=tuple(CAST), odds=6)
places = st.sampled_from((0, 0, 0, 1, 1, 2, 3))


def moves(call: str | SearchStrategy[str], **fields: SearchStrategy[Any]) -> SearchStrategy[Move]:
    """Draw moves of one call; fields that are not given are drawn as usual."""
    usual: dict[str, SearchStrategy[Any]] = {
        "call": st.just(call) if isinstance(call, str) else call,
        "task": tasks,
        "who": owners,
        "request": requests,
        "among": mostly("active", "active", "any", rarely=("reserved",)),
        "place": places,
        "epoch": epochs,
        "approval": approvals,
        "second": st.booleans(),
    }
    return st.builds(Move, **{**usual, **fields})


def extras(**values: SearchStrategy[Any]) -> SearchStrategy[tuple[tuple[str, Any], ...]]:
    """Draw a move's further arguments."""
    names = tuple(values)
    return st.tuples(*values.values()).map(lambda drawn: tuple(zip(names, drawn, strict=True)))


configurations = moves(
    "configure_task",
    who=dispatchers,
    extra=extras(policy=mostly("same", rarely=tuple(POLICIES), odds=3)),
)
claims = moves(
    "claim",
    who=mostly(*WORKERS, rarely=(LEAD, JUNIOR, "owner", *OUTSIDERS), odds=6),
    request=mostly("fresh", rarely=("known", "blank", "long"), odds=6),
    extra=extras(binding=st.sampled_from("aab")),
)
claim_replays = moves(
    "claim", among=st.just("any"), extra=extras(binding=mostly("same", rarely="ab"))
)
owner_moves = moves(mostly("renew", "acknowledge", "progress", rarely=("release",), odds=5))
owner_moves_by_name = moves(
    "update_owner",
    extra=extras(operation=mostly(*OWNER_OPERATIONS, rarely=("seize", "", None))),
)
reservations = moves("reserve_dispatch", who=dispatchers, extra=extras(owner=owners))
reconciliations = moves(
    "reconcile_execution",
    who=dispatchers,
    among=mostly("reserved", rarely=("any", "active"), odds=4),
    extra=extras(
        status=mostly("running", "running", "terminal", rarely=("unknown", "", None), odds=20),
        evidence_reference=mostly("run/1", "run/2", rarely=("", "a\x00b", "x" * 513, 7), odds=20),
    ),
)
submissions = moves(
    "record_submission",
    extra=extras(
        artifact_digest=mostly(
            digest("c"),
            digest("d"),
            rarely=("sha256:" + "C" * 64, digest("c") + "\n", None),
            odds=20,
        )
    ),
)
snapshots = moves("snapshot", who=readers)
questions = moves(st.sampled_from(("peek", "lookup", "policy")), who=readers)
surveys = moves(
    "survey",
    who=readers,
    extra=extras(
        state=mostly(None, "active", "expired", rarely=("released", "gone")),
        occupancy=mostly(None, None, "unknown", rarely=("none", "running", "terminal", 1)),
        overdue=st.sampled_from((None, None, None, True, False, "yes")),
        owner=mostly(None, None, "worker-1", rarely=("worker-2", "two words")),
    ),
)
commands = st.one_of(
    claims,
    claim_replays,
    owner_moves,
    owner_moves,
    owner_moves_by_name,
    reservations,
    reconciliations,
    reconciliations,
    submissions,
    configurations,
    snapshots,
)
outsiders_moves = moves(
    st.sampled_from((*OWNER_OPERATIONS, "snapshot", "peek", "lookup", "policy")),
    who=st.sampled_from(OUTSIDERS),
    task=st.sampled_from(tuple(TASKS)),
)
readings = st.one_of(questions, surveys)
some_tasks = st.sampled_from(("first", "second", "twin"))
ticks = st.one_of(
    st.builds(
        Tick,
        seconds=st.sampled_from((0, -1, 1)),
        deadline=st.sampled_from(("earliest", "earliest", "hard_until", "identity")),
        task=some_tasks,
        place=places,
    ),
    st.builds(Tick, seconds=mostly(1, 0, 2, 3, 5, rarely=(8, 13, 1_000, 100_000))),
)
takes = st.builds(
    Take, task=some_tasks, worker=st.sampled_from(WORKERS), steps=st.sampled_from((3, 3, 2, 1))
)
