"""The gate's story on four WorkUnits: blocked, admitted, carried out, and overtaken.

Run it with ``python examples/coordination/admission_demo.py``. It works on a ledger in a
temporary folder and prints one JSON document; where standard error is a terminal, the same
story is drawn there as a table. Every actor and every observation is made up: no worker, no
verifier and no integration runs. It exits with 1 if anything happens otherwise than told.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from idkmesh import (
    ActorContext,
    ClaimError,
    ClaimLedger,
    DependencyGraph,
    ErrorCode,
    ExecutorAdmission,
    PrerequisiteObservation,
    ScopedResourceRef,
    StoreError,
    TaskClaimPolicy,
    TenantScope,
    canonical_digest,
    load_work_units,
)

WORK_UNITS: Final = Path(__file__).parents[1] / "work-units"
RESEARCH: Final = "trip-import/research-timestamps"
CODING: Final = "trip-import/code-timestamps"

SCOPE: Final = TenantScope("idkmesh-demo", "admission")
# Whoever calls names the task; no part of the unit's binding is part of that name.
TASK: Final = ScopedResourceRef(SCOPE, "task", "instants-in-trip-import")
REQUEST: Final = "demo-request-1"
REFUSALS: Final = frozenset(map(str, ErrorCode))
_MADE_UP_REVISION: Final = "5eed" * 10
_MADE_UP_IDENTITY: Final[dict[str, Any]] = {
    "issuer": "demo:nobody",
    "scopes": frozenset({SCOPE}),
    "data_clearance": "internal",
    "identity_revision": "demo-1",
}


class Told(NamedTuple):
    """One step as the story tells it, before it is taken.

    Attributes:
        scene: Which part of the story it belongs to.
        text: What is done, in words.
        outcome: What must come of it: a word, or the code of a refusal.
        claims: How many claims there must be afterwards.
        submissions: How many submissions there must be afterwards.
    """

    scene: str
    text: str
    outcome: str
    claims: int
    submissions: int


class Happened(NamedTuple):
    """What came of a step."""

    outcome: str
    record: dict[str, Any] | None = None
    blockers: tuple[str, ...] = ()


class Demo:
    """Plays the story on a ledger and writes down what happens.

    Args:
        ledger: An empty ledger.
    """

    def __init__(self, ledger: ClaimLedger) -> None:
        units = {each["id"]: each for each in load_work_units(WORK_UNITS)}
        revisions = {
            name: each["provenance"].get("source_revision", _MADE_UP_REVISION)
            for name, each in units.items()
        }
        self._coding = units[CODING]
        self._ledger = ledger
        self._gate = ExecutorAdmission(
            DependencyGraph(SCOPE, units.values(), source_revisions=revisions), ledger
        )
        self._dispatcher = ActorContext(
            principal_id="demo-dispatcher",
            actor_type="service",
            roles=frozenset({"dispatcher"}),
            **_MADE_UP_IDENTITY,
        )
        self._worker = ActorContext(
            principal_id="demo-worker",
            actor_type="node",
            roles=frozenset({"worker"}),
            **_MADE_UP_IDENTITY,
        )
        self._seen = 0
        self._epoch = 0
        self.steps: list[dict[str, Any]] = []

    def play(self) -> None:
        """Take every step of the story."""
        self._configure()
        self._take(
            Told("blocked", "admit coding ahead of research", "task_not_ready", 0, 0),
            self._admit,
        )
        self._take(
            Told("admitted", "research is integrated", "latest", 0, 0),
            lambda: self._integrate_research("timestamps.md, first reading"),
        )
        self._take(Told("admitted", "admit coding", "created", 1, 0), self._admit)
        self._take(Told("worked on", "the worker acknowledges", "active", 1, 0), self._consent)
        self._take(
            Told("worked on", "reserve its execution", "created", 1, 0),
            lambda: self._phase(
                self._gate.reserve_execution, self._dispatcher, self._worker, epoch=self._epoch
            ),
        )
        self._take(
            Told("worked on", "submit a candidate", "created", 1, 1),
            lambda: self._submit("first patch"),
        )
        self._take(
            Told("overtaken", "research is integrated anew", "latest", 1, 1),
            lambda: self._integrate_research("timestamps.md, second reading"),
        )
        self._take(
            Told("overtaken", "submit another candidate", "inputs_changed", 1, 1),
            lambda: self._submit("second patch"),
        )

    def document(self) -> dict[str, Any]:
        """Return the whole story as JSON content."""
        graph = self._gate.graph
        return {
            "kind": "idkmesh-admission-demo",
            "schema_version": "0.1",
            "evidence_class": "synthetic_fixture",
            "scope": {"tenant_id": SCOPE.tenant_id, "project_id": SCOPE.project_id},
            "graph_digest": graph.digest,
            "work_units": [
                {"work_unit_id": unit, "requires": list(graph.requires[unit])}
                for unit in graph.order
            ],
            "steps": self.steps,
            "claims": [each.to_dict() for each in self._ledger.peek(TASK, self._dispatcher)],
            "as_told": all(each["as_told"] for each in self.steps),
        }

    def _configure(self) -> None:
        """Freeze the task's policy on the terms that the WorkUnit states."""
        security = self._coding["security"]
        policy = TaskClaimPolicy(
            max_attempts=self._coding["failure_semantics"]["max_attempts"],
            risk=security["risk_class"],
            data_classification=security["data_classification"],
        )
        self._ledger.configure_task(TASK, self._dispatcher, policy)

    def _take(self, told: Told, act: Callable[[], Happened]) -> None:
        """Take one step, and write down what was told beside what happened."""
        try:
            happened = act()
        except ClaimError as refusal:
            happened = Happened(str(refusal.code), blockers=refusal.blockers)
        claims = self._ledger.peek(TASK, self._dispatcher)
        submissions = sum(each.submission_digest is not None for each in claims)
        found = Told(told.scene, told.text, happened.outcome, len(claims), submissions)
        self.steps.append(
            {
                "scene": told.scene,
                "text": told.text,
                "expected": _counts(told),
                "happened": _counts(found),
                "as_told": found == told,
                "blockers": list(happened.blockers),
                "ready_units": list(self._gate.ready_units()),
                "record": happened.record,
            }
        )

    def _integrate_research(self, artifacts: str) -> Happened:
        """Say, as a trusted adapter would, that research is integrated with these artifacts."""
        self._seen += 1
        inputs = self._gate.readiness(RESEARCH).inputs_digest
        latest = self._gate.observe(
            PrerequisiteObservation(
                scope=SCOPE,
                event_id=f"demo-event-{self._seen}",
                sequence=self._seen,
                binding=self._gate.graph.bindings[RESEARCH],
                state="integrated",
                inputs_digest=str(inputs),
                integrated_revision=f"{self._seen:040x}",
                artifacts_digest=canonical_digest(artifacts),
                verification_reference="demo: nothing was verified",
                integration_reference="demo: nothing was merged",
            )
        )
        return Happened("latest" if latest else "older")

    def _admit(self) -> Happened:
        return self._phase(self._gate.admit, self._worker)

    def _consent(self) -> Happened:
        claim = self._ledger.acknowledge(TASK, self._worker, request_id=REQUEST, epoch=self._epoch)
        return Happened(claim.state)

    def _submit(self, candidate: str) -> Happened:
        return self._phase(
            self._gate.submit,
            self._worker,
            epoch=self._epoch,
            artifact_digest=canonical_digest(candidate),
        )

    def _phase(self, phase: Callable[..., Any], *actors: ActorContext, **more: object) -> Happened:
        claim, record = phase(CODING, TASK, *actors, request_id=REQUEST, **more)
        self._epoch = claim.epoch
        return Happened("created" if record.created else "retained", record.to_dict())


def _counts(step: Told) -> dict[str, Any]:
    return {
        "outcome": step.outcome,
        "claims": step.claims,
        "submissions": step.submissions,
    }


def table(document: dict[str, Any]) -> str:
    """Draw a story as a table for a person: plain ASCII, at most 79 columns wide."""
    rows = [("", "what is done", "outcome", "claims", "submitted")]
    scene = ""
    for step in document["steps"]:
        happened = step["happened"]
        sign = "x" if happened["outcome"] in REFUSALS else "+"
        rows.append(
            (
                "" if step["scene"] == scene else step["scene"],
                step["text"] if step["as_told"] else f"{step['text']} (!)",
                f"{sign} {happened['outcome']}",
                str(happened["claims"]),
                str(happened["submissions"]),
            )
        )
        scene = step["scene"]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    signs = "+ done   x refused" if document["as_told"] else "+ done   x refused   (!) not as told"
    return "\n".join(["Executor admission, told on synthetic fixtures", "", *lines, "", signs])


def main() -> int:
    """Play the story and print it; return the exit code."""
    try:
        with (
            TemporaryDirectory(prefix="idkmesh-") as folder,
            ClaimLedger.open(Path(folder) / "admission.sqlite3") as ledger,
        ):
            demo = Demo(ledger)
            demo.play()
            document = demo.document()
    except (ClaimError, StoreError, OSError) as error:
        print(f"admission_demo: {error}", file=sys.stderr)
        return 1
    if sys.stderr.isatty():
        print(table(document), file=sys.stderr)
    print(json.dumps(document, indent=2))
    for step in document["steps"]:
        if not step["as_told"]:
            faults = f"expected {step['expected']}, but it was {step['happened']}"
            print(f"admission_demo: not as told: {step['text']}: {faults}", file=sys.stderr)
    return 0 if document["as_told"] else 1


if __name__ == "__main__":
    sys.exit(main())
