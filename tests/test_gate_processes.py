"""Many processes at one gate: whatever is on record was true when it was committed.

One process keeps integrating a prerequisite anew, with alternating artifacts, while others
admit, reserve and submit. Afterwards the log is read in its order and folded here, by code
that shares nothing with the library, and every claim, reservation and submission must fit
the observations before it.
"""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import pytest
from builders import START, log, opened
from gate_builders import PARSE, READ, REVIEW, TEST, UNITS
from jsonschema import Draft202012Validator
from unit_builders import REVISION

from idkmesh.events.port import Row

SEED = "1709"
WORKERS = ("ada", "bea", "cyn")
TASKS = 30
MOST_OBSERVATIONS = 20_000

PROGRAMS = Path(__file__).parent
SCHEMA = PROGRAMS.parent / "schemas" / "executor-admission-v0.1.schema.json"
SCOPE_RECORD = {"tenant_id": "acme", "project_id": "apollo"}
REQUIRES = {READ: [], PARSE: [READ], TEST: [PARSE], REVIEW: [PARSE, READ]}
# What the test calls the phases' events.
PHASES = {
    "claim.granted.v1": "admission",
    "execution.reserved.v1": "execution-reservation",
    "submission.recorded.v1": "submission",
}

Json = dict[str, Any]


def digest_of(value: object) -> str:
    """Return the digest of canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


BINDINGS: dict[str, Json] = {
    each["id"]: {
        "work_unit_id": each["id"],
        "work_unit_version": 1,
        "work_unit_digest": digest_of(each),
        "source_revision": REVISION,
    }
    for each in UNITS
}
NODES = {binding["work_unit_digest"]: unit for unit, binding in BINDINGS.items()}


class Fold:
    """What the log says up to one of its rows."""

    def __init__(self) -> None:
        """Begin before the first row."""
        self.latest: dict[str, Json] = {}
        self.claims: dict[tuple[str, int, int], Json] = {}

    def inputs(self, node: str) -> str | None:
        """Return the digest of a unit's inputs, or None where it is not ready."""
        pins = []
        for need in REQUIRES[node]:
            if not self.satisfied(need):
                return None
            pins.append(
                {
                    "binding": BINDINGS[need],
                    "inputs_digest": self.inputs(need),
                    "integrated_revision": self.latest[need]["integrated_revision"],
                    "artifacts_digest": self.latest[need]["artifacts_digest"],
                }
            )
        return digest_of({"scope": SCOPE_RECORD, "binding": BINDINGS[node], "prerequisites": pins})

    def satisfied(self, node: str) -> bool:
        """Say whether a unit is integrated, as it is bound, on the inputs of now."""
        seen = self.latest.get(node)
        return (
            seen is not None
            and seen["state"] == "integrated"
            and seen["binding"] == BINDINGS[node]
            and seen["inputs_digest"] == self.inputs(node)
        )

    def observations(self, node: str) -> str:
        """Return the digest of the latest observations of a unit and all before it."""
        lineage = {node}
        for _ in REQUIRES:
            lineage |= {need for unit in lineage for need in REQUIRES[unit]}
        shown = [self.latest[unit] for unit in sorted(lineage) if unit in self.latest]
        return digest_of([{"scope": SCOPE_RECORD, **each} for each in shown])

    def add(self, row: Row) -> Json | None:
        """Take the next row; give what must be true of a phase's event, or None for others."""
        body: Json = json.loads(row.body)
        if row.type == "prerequisite.observed.v1":
            del body["type"]
            unit = body["binding"]["work_unit_id"]
            if unit not in self.latest or self.latest[unit]["sequence"] < body["sequence"]:
                self.latest[unit] = body
            return None
        if row.type not in PHASES:
            return None
        place = (row.stream, body["slot"], body["epoch"])
        if row.type == "claim.granted.v1":
            self.claims[place] = body
        claim = self.claims[place]
        node = NODES[claim["binding"]["work_unit_digest"]]
        now = self.inputs(node)
        where = f"row {row.sequence}, {row.type} of {row.stream} for {node} (seed {SEED})"
        assert claim["binding"]["source_revision"] == REVISION, where
        assert now is not None, f"{where}: it is not ready"
        assert claim["binding"]["inputs_digest"] == now, f"{where}: the inputs are others"
        if row.type == "claim.granted.v1":
            assert not self.satisfied(node), f"{where}: it is integrated already"
        return {
            "task": row.stream.rpartition("/")[2],
            "phase": PHASES[row.type],
            "request_id": claim["request_id"],
            "work_unit_id": node,
            "inputs_digest": now,
            "observation_digest": self.observations(node),
        }


class Process(NamedTuple):
    """A helper program that is running, and both ways to it."""

    running: subprocess.Popen[str]
    to: IO[str]
    of: IO[str]

    @classmethod
    def start(cls, program: str, *arguments: str) -> Self:
        """Start a helper program, and wait until it is ready."""
        command = [sys.executable, str(PROGRAMS / f"process_gate_{program}.py"), *arguments]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
        running = subprocess.Popen(command, **pipes)
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        return cls(running, running.stdin, running.stdout)

    def go(self) -> None:
        """Let it begin."""
        self.to.write("go\n")
        self.to.flush()

    def answer(self) -> Any:
        """Close its input, wait until it has ended, and return what it says."""
        said, _ = self.running.communicate()
        assert self.running.returncode == 0
        return json.loads(said)


class Run(NamedTuple):
    """One run of all processes: the log that they left, and what they were answered."""

    rows: list[Row]
    told: list[Json]
    observed: Json

    @classmethod
    def of(cls, path: Path) -> Self:
        """Let every process begin at once; once the workers are done, so is the adapter."""
        with ExitStack() as stack:
            adapter = Process.start("integrator", str(path), SEED, str(MOST_OBSERVATIONS))
            stack.enter_context(adapter.running)
            workers = []
            for name in WORKERS:
                workers.append(Process.start("worker", str(path), SEED, name, str(TASKS)))
                stack.enter_context(workers[-1].running)
            for process in (adapter, *workers):
                process.go()
            told = [each for worker in workers for each in worker.answer()]
            observed = adapter.answer()
        with opened(path, lambda: START) as ledger:
            return cls(log(ledger), told, observed)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Give the one run that the tests look at."""
    return Run.of(tmp_path_factory.mktemp("gate") / "claims.sqlite3")


def test_whatever_is_on_record_was_true_at_its_commit(run: Run) -> None:
    """Every claim, reservation and submission fits the observations before it in the log."""
    fold = Fold()
    written = [each for each in map(fold.add, run.rows) if each is not None]
    assert {each["phase"] for each in written} == set(PHASES.values())
    assert {each["work_unit_id"] for each in written} == {PARSE, REVIEW, TEST}


def test_every_answer_says_what_its_transaction_saw(run: Run) -> None:
    """What was answered as created is on record just once, on those inputs and observations."""
    fold = Fold()
    written = [each for each in map(fold.add, run.rows) if each is not None]
    answered = [
        {
            "task": each["task"],
            "phase": each["record"]["phase"],
            "request_id": each["record"]["claim"]["request_id"],
            "work_unit_id": each["record"]["work_unit_id"],
            "inputs_digest": each["record"]["inputs_digest"],
            "observation_digest": each["record"]["observation_digest"],
        }
        for each in run.told
        if each["code"] is None and each["record"]["created"]
    ]

    def place(each: Json) -> tuple[str, str, str]:
        return each["task"], each["request_id"], each["phase"]

    assert sorted(answered, key=place) == sorted(written, key=place)


def test_every_record_fits_its_schema(run: Run) -> None:
    """Whatever was answered under way is what the published schema describes."""
    fits = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    records = [each["record"] for each in run.told if each["code"] is None]
    assert {record["created"] for record in records} == {True, False}
    for record in records:
        fits.validate(record)


def test_the_inputs_did_move_under_the_workers(run: Run) -> None:
    """The run means something: some got through, some met moved inputs, none anything else."""
    codes = Counter(each["code"] for each in run.told)
    assert set(codes) == {None, "task_not_ready", "inputs_changed", "task_already_integrated"}
    observed = [row for row in run.rows if row.type == "prerequisite.observed.v1"]
    assert run.observed["latest"] == len(observed) < MOST_OBSERVATIONS
    moved = Counter(json.loads(row.body)["artifacts_digest"] for row in observed)
    assert len(moved) == 5  # two of each unit, and none where it was rejected
