"""A real ledger on a real file beside the model of it: every call is made on both.

After each call the answers are compared, then the file with the model: the log event by
event, the tables row by row, both with a refold of the log and with the invariants.
"""

import copy
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import invariants
import msgspec
from builders import Clock, binding, opened
from machine_cast import APPROVALS, CAST, CONFIGURED, POLICIES, TASKS, TEMP, WORKER_1
from machine_image import CLAIM_COLUMNS, TASK_COLUMNS, Image, Table, image_of, kind_of
from machine_moves import COMMANDS, Move, Tick
from oracle import Grant, Oracle, Refused
from oracle_terms import owner_record, policy_record, storage_key

from idkmesh import (
    ActorContext,
    ClaimError,
    ClaimLedger,
    ScopedResourceRef,
    TaskClaim,
    TaskClaimPolicy,
)
from idkmesh.events.port import ReadSession
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.projections import tables

APPROVED = ("configure_task", "reserve_dispatch", "reconcile_execution", "record_submission")
OF_A_CLAIM = (
    "acknowledge",
    "renew",
    "progress",
    "release",
    "update_owner",
    "reserve_dispatch",
    "reconcile_execution",
    "record_submission",
)
# What the model calls the events of the log.
WORDS = {
    "task.configured": "configured",
    "claim.granted": "granted",
    "claim.acknowledged": "acknowledge",
    "claim.renewed": "renew",
    "claim.progressed": "progress",
    "claim.released": "release",
    "claim.expired": "expired",
    "execution.reserved": "reserved",
    "execution.reconciled": "reconciled",
    "submission.recorded": "submitted",
    "clock.observed": "clock",
}


class Kin(int):
    """An ``int`` that is not exactly one."""


class Answer(NamedTuple):
    """What a call gave: a value in plain data, or the code of a refusal."""

    value: Any = None
    refusal: str | None = None


class Call(NamedTuple):
    """A move turned into arguments, so that the very same call can be made again."""

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    second: bool
    stream: str


class Pair:
    """The ledger under test and its model.

    Args:
        folder: Where the ledger's file is made.
        clock_resolution_seconds: As for ``ClaimLedger.open``.
    """

    def __init__(self, folder: Path, clock_resolution_seconds: int = 1) -> None:
        """Open an empty ledger and an empty model."""
        self.path = folder / "claims.sqlite3"
        self.resolution = clock_resolution_seconds
        self.clock = Clock()
        self.oracle = Oracle(clock_resolution_seconds)
        self.ledgers: list[ClaimLedger] = []
        self.image = Image((), (), ())
        self.calls = 0
        self._open()
        self.look()

    # What happens to the file besides calls.

    def restart(self) -> None:
        """Close everything that has the file open, and open it again."""
        self.close()
        self._open()
        self.look()

    def open_second(self) -> None:
        """Put a second ledger object on the file, or close it where there is one."""
        if len(self.ledgers) > 1:
            self.ledgers.pop().close()
        else:
            self.ledgers.append(self._ledger())

    def rebuild(self, *, second: bool) -> None:
        """Drop and refold the tables, which changes nothing at all."""
        before = self.image
        self.ledgers[-1 if second else 0].rebuild()
        self.look()
        invariants.check_nothing_written(before, self.image)

    def close(self) -> None:
        """Close everything."""
        for ledger in self.ledgers:
            ledger.close()
        self.ledgers.clear()
        self.watcher.close()

    # Calls.

    def play(self, move: Move, *, look: bool = True) -> Answer:
        """Make a move on both, and compare; ``look`` says whether at the file, too."""
        return self.make(self.prepare(move), look=look)

    def prepare(self, move: Move) -> Call:
        """Turn a move's words into arguments, by what the model knows now."""
        name, grant = self.meant(move.task, move.among, move.place)
        if move.call == "claim" and move.request == "fresh":
            name = move.task
        task = TASKS[name]
        caller = self._person(move.who, grant)
        named: dict[str, Any] = dict(move.extra)
        arguments: list[Any] = [task.scope if move.call == "survey" else task, caller]
        if move.call in (*OF_A_CLAIM, "claim", "lookup"):
            named["request_id"] = self._request(move.request, task, grant)
        if move.call in OF_A_CLAIM:
            named["epoch"] = _epoch(move.epoch, grant)
        if move.call in APPROVED:
            approver, named["approval_reference"] = APPROVALS[move.approval]
            person = caller if approver == "caller" else self._person(approver, grant)
            named["approver"] = None if approver is None else person
        match move.call:
            case "configure_task":
                policy = named.pop("policy")
                known = self.oracle.policies.get(storage_key(task), POLICIES["sprint"])
                arguments.append(copy.copy(known) if policy == "same" else POLICIES[policy])
            case "claim":
                letter = named["binding"]
                if letter == "same":
                    letter = grant.record["binding"]["source_revision"][0] if grant else "a"
                named["binding"] = binding(letter)
            case "reserve_dispatch":
                arguments.append(self._person(named.pop("owner"), grant))
        return Call(move.call, tuple(arguments), named, move.second, storage_key(task))

    def make(self, call: Call, *, look: bool = True) -> Answer:
        """Make a call on both, and compare."""
        self.calls += 1
        expected = self._ask(self.oracle, call)
        found = self._ask(self.ledgers[-1 if call.second else 0], call)
        assert found == expected, f"{call}: the ledger gives {found}, the model {expected}"
        if look:
            before = self.image
            self.look()
            if call.name not in COMMANDS:
                invariants.check_nothing_written(before, self.image)
            elif found.refusal is not None:
                invariants.check_refusal(before, self.image, call.stream)
        return found

    def pass_time(self, tick: Tick) -> None:
        """Let the clock go on."""
        _, grant = self.meant(tick.task, "active", tick.place)
        if tick.deadline is None:
            due = self.clock.now
        elif tick.deadline == "identity":
            due = CAST[TEMP].expires_at_epoch or 0
        elif grant is None:
            return
        elif tick.deadline == "earliest":
            names = ["lease_until", "progress_by", "hard_until"]
            names += ["ack_by"] * (grant.record["acknowledged_at"] is None)
            due = min(grant.record[name] for name in names)
        else:
            due = grant.record[tick.deadline]
        self.clock.now = max(self.clock.now, due + tick.seconds)

    def look(self) -> None:
        """Compare the file with the model, with a refold of its log, and with the rules."""
        with self.watcher.read() as session:
            image = image_of(session)
            refolded = _refolded(session) if image != self.image else image.tasks + image.claims
        log = [(row.stream, WORDS[kind_of(row)], row.at) for row in image.rows]
        same("the log", log, list(self.oracle.log))
        known = [_row(grant) for grant in self.oracle.grants]
        known.sort(key=lambda row: (row["stream"], row["slot"], row["epoch"]))
        same("the table of claims", image.claims, known)
        same("the tables beside a refold", image.tasks + image.claims, refolded)
        if image != self.image:
            invariants.check(image)
            invariants.check_step(self.image, image)
            self.image = image

    def meant(self, task: str, among: str, place: int) -> tuple[str, Grant | None]:
        """Return which claim is meant, of the task if it has such a one, and its task's name."""
        for name in (task, *CONFIGURED):
            grants = [
                grant
                for grant in self.oracle.of(storage_key(TASKS[name]))
                if among == "any"
                or (among == "active" and grant.record["state"] == "active")
                or (among == "reserved" and grant.record["operation_id"] is not None)
            ]
            if grants and task in CONFIGURED:
                return name, grants[-1 - place % len(grants)]
        return task, None

    def _open(self) -> None:
        self.ledgers.append(self._ledger())
        self.watcher = SqliteStore.open(self.path)

    def _ledger(self) -> ClaimLedger:
        return opened(self.path, self.clock, clock_resolution_seconds=self.resolution)

    def _ask(self, answerer: Oracle | ClaimLedger, call: Call) -> Answer:
        self.oracle.now = self.clock.now
        try:
            value = getattr(answerer, call.name)(*call.arguments, **call.named)
            if call.name == "survey":
                value = tuple(value)
        except (Refused, ClaimError) as refused:
            return Answer(refusal=str(refused.code))
        if call.name == "survey" and answerer is self.oracle:
            value = tuple(sorted(value, key=_place))  # it answers in order of admission
        return Answer(value=_plain(value))

    def _request(self, how: str, task: ScopedResourceRef, grant: Grant | None) -> object:
        known = grant.record["request_id"] if grant else "r-none"
        fresh = f"r-{len(self.oracle.of(storage_key(task))) + 1}"
        return {
            "known": known,
            "fresh": fresh,
            "unknown": "r-none",
            "blank": " \u2003",
            "number": 7,
            "long": "x" * 513,
            "two lines": f"{known}\n",
        }[how]

    @staticmethod
    def _person(name: str | None, grant: Grant | None) -> ActorContext:
        if name is None or name == "owner":
            owner = grant.record["owner"] if grant else owner_record(CAST[WORKER_1])
            return next(one for one in CAST.values() if owner_record(one) == owner)
        return CAST[name]


def _epoch(how: str, grant: Grant | None) -> object:
    right = grant.record["epoch"] if grant else 1
    return {
        "right": right,
        "next": right + 1,
        "last": right - 1,
        "true": True,
        "kin": Kin(right),
        "float": float(right),
        "text": str(right),
        "none": None,
        "huge": 2**80,
    }[how]


def _place(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["task"]["resource_id"], record["slot"], record["epoch"]


def _plain(value: Any) -> Any:
    """Return an answer of either side as plain data."""
    if isinstance(value, TaskClaim):
        return value.to_dict()
    if isinstance(value, TaskClaimPolicy):
        return policy_record(value)
    if isinstance(value, tuple):
        return tuple(_plain(each) for each in value)
    return value


def _row(grant: Grant) -> dict[str, Any]:
    """Return the table row of one of the model's claims."""
    known = {
        **grant.record,
        **grant.record["owner"],
        **grant.record["binding"],
        "stream": grant.stream,
        "reconciled_from_reserve": grant.from_reserve,
    }
    return {name: known[name] for name in CLAIM_COLUMNS}


def same(what: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Compare row by row, and show the first that differs."""
    for place, (one, other) in enumerate(zip_longest(found, expected)):
        assert one == other, f"{what}, row {place}: the ledger has {one}, expected was {other}"


def _refolded(session: ReadSession) -> Table:
    """Return the rows of both tables as the library's fold makes them of the log."""
    tasks, claims = [], []
    for stream in session.streams():
        if "/task/" not in stream:
            continue
        state = tables.fold(stream, session.stream(stream))
        scope, _, name = stream.partition("/task/")
        policy = msgspec.json.encode(policy_record(state.terms)).decode()
        row = (stream, scope, name, state.terms.data_classification, policy, len(state.claims))
        tasks.append(dict(zip(TASK_COLUMNS, (*row, *state.epochs), strict=True)))
        ordered = sorted(state.claims.values(), key=lambda claim: (claim.slot, claim.epoch))
        claims += [
            dict(zip(CLAIM_COLUMNS, (stream, *msgspec.structs.astuple(claim)), strict=True))
            for claim in ordered
        ]
    return (*tasks, *claims)
