"""Builders for the gate: five units, a gate on them, and what an adapter sees of a unit."""

from collections.abc import Mapping
from typing import Any

from builders import DISPATCHER, SCOPE, WORKER, digest, task
from unit_builders import REVISION, Unit, unit

from idkmesh import (
    ClaimLedger,
    DependencyGraph,
    ExecutorAdmission,
    PrerequisiteObservation,
    TaskClaimPolicy,
    TenantScope,
)

READ = "feeds/read"
PARSE = "feeds/parse"
TEST = "feeds/test"
REVIEW = "feeds/review"
STYLE = "docs/style"

# Reading comes before parsing, that before testing; a review wants both; nobody needs STYLE.
UNITS = (
    unit(READ),
    unit(PARSE, READ),
    unit(TEST, PARSE),
    unit(REVIEW, READ, PARSE),
    unit(STYLE),
)

OTHER_PARSE = unit(PARSE, READ, note="rewritten")


def graph_of(
    *changed: Unit, scope: TenantScope = SCOPE, revisions: Mapping[str, str] | None = None
) -> DependencyGraph:
    """Make the graph of the five units, those that are given in the form given."""
    units = {each["id"]: each for each in (*UNITS, *changed)}
    return DependencyGraph(
        scope, units.values(), {**dict.fromkeys(units, REVISION), **(revisions or {})}
    )


def gate_on(
    ledger: ClaimLedger,
    *changed: Unit,
    scope: TenantScope = SCOPE,
    revisions: Mapping[str, str] | None = None,
) -> ExecutorAdmission:
    """Put a gate before a ledger, over the five units."""
    return ExecutorAdmission(graph_of(*changed, scope=scope, revisions=revisions), ledger)


def seen(
    gate: ExecutorAdmission, node: str, state: str = "integrated", **changes: Any
) -> PrerequisiteObservation:
    """Make what an adapter that is in order sees next of a unit, but for the fields given."""
    known = gate.observations(node)
    sequence = changes.get("sequence", known[-1].sequence + 1 if known else 1)
    evidence: dict[str, Any] = {
        "integrated_revision": "c" * 40,
        "artifacts_digest": digest("c"),
        "verification_reference": "check 1",
        "integration_reference": "merge 1",
    }
    fields: dict[str, Any] = {
        "scope": gate.graph.scope,
        "event_id": f"{node} {sequence}" if _is_short(sequence) else f"{node} odd",
        "sequence": sequence,
        "binding": gate.graph.bindings[node],
        "state": state,
        "inputs_digest": gate.readiness(node).inputs_digest or digest("0"),
        **(evidence if state == "integrated" else {}),
        **changes,
    }
    return PrerequisiteObservation(**fields)


def integrate(gate: ExecutorAdmission, *nodes: str, artifacts: str = "c") -> None:
    """Have units seen as integrated, one after the other, as they are bound now."""
    for node in nodes:
        assert gate.observe(seen(gate, node, artifacts_digest=digest(artifacts)))


def configured(
    ledger: ClaimLedger, name: str = "T-1", policy: TaskClaimPolicy | None = None, **approval: Any
) -> None:
    """Freeze a task's policy."""
    assert ledger.configure_task(task(name), DISPATCHER, policy or TaskClaimPolicy(), **approval)


def admitted(
    gate: ExecutorAdmission,
    ledger: ClaimLedger,
    node: str = PARSE,
    *,
    request_id: str = "r-1",
    acknowledged: bool = True,
) -> int:
    """Admit WORKER to T-1 on a unit, acknowledge, and return the claim's epoch."""
    claim, record = gate.admit(node, task(), WORKER, request_id=request_id)
    assert record.created
    if acknowledged:
        ledger.acknowledge(task(), WORKER, request_id=request_id, epoch=claim.epoch)
    return claim.epoch


def _is_short(number: object) -> bool:
    """Say whether a number is one that can be written out."""
    return type(number) is int and abs(number) < 2**31
