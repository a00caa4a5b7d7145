"""The golden log's story: real commands under rules of its own, on a clock that is put.

It holds every event of every version, in two scopes: what an earlier version wrote, claims
that end in each way, a gate that admits on what was observed, and a clock that ran ahead and
was repaired, twice. New types are told at its end, since a written line is never changed.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from idkmesh import (
    ActorContext,
    AuthorizationPolicy,
    ClaimBinding,
    ClaimLedger,
    DependencyGraph,
    ExecutorAdmission,
    PolicyRule,
    PrerequisiteObservation,
    ScopedResourceRef,
    TaskClaimPolicy,
    TenantScope,
)
from idkmesh.events import chain, codec
from idkmesh.events.legacy import ExecutionReconciledV0
from idkmesh.events.port import Row, Store
from idkmesh.events.types import ExecutionReserved
from idkmesh.prerequisites import ObservationState
from idkmesh.projections import tables
from idkmesh.repair import repair_clock
from idkmesh.scalars import ActorType, ExecutionStatus, Role

START: Final = 1_700_000_000
TEN_YEARS: Final = 315_360_000

APOLLO: Final = TenantScope("acme", "apollo")
GEMINI: Final = TenantScope("acme", "gemini")
RISKY: Final = ScopedResourceRef(APOLLO, "task", "T-1")
GATED: Final = ScopedResourceRef(APOLLO, "task", "T-2")
OLDEST: Final = ScopedResourceRef(GEMINI, "task", "T-0")
PLAIN: Final = ScopedResourceRef(GEMINI, "task", "T-1")

BINDING: Final = ClaimBinding("sha256:" + "a" * 64, "b" * 40, "sha256:" + "c" * 64)
HELD: Final[dict[str, Any]] = {"request_id": "r-1", "epoch": 1}

READ: Final = "feeds/read"
PARSE: Final = "feeds/parse"
REVISION: Final = "e" * 40
EVIDENCE: Final = {
    "integrated_revision": "f" * 40,
    "artifacts_digest": "sha256:" + "1" * 64,
    "verification_reference": "Prüflauf 12",
    "integration_reference": "merge 4",
}


class Clock:
    """A clock that stands where the story puts it."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        """Return the time in epoch seconds."""
        return self.now


def _actor(name: str, kind: ActorType, role: Role) -> ActorContext:
    return ActorContext(
        principal_id=name,
        actor_type=kind,
        issuer="https://id.example",
        roles=frozenset({role}),
        scopes=frozenset({APOLLO, GEMINI}),
        data_clearance="restricted",
        identity_revision="rev-1",
    )


DISPATCHER: Final = _actor("dispatcher-1", "service", "dispatcher")
FIRST: Final = _actor("worker-1", "human", "worker")
SECOND: Final = _actor("worker-2", "human", "worker")
APPROVAL: Final[dict[str, Any]] = {
    "approver": _actor("owner-1", "human", "owner"),
    "approval_reference": "approvals/17",
}


def rules() -> AuthorizationPolicy:
    """Return the story's own rules, which stay as they are whatever the baseline becomes."""
    human, staff = frozenset({"human"}), frozenset({"human", "service"})
    worker, dispatcher = frozenset({"worker"}), frozenset({"dispatcher"})
    owner = frozenset({"owner"})
    return AuthorizationPolicy(
        "golden",
        "1",
        (
            PolicyRule("read", dispatcher, staff),
            PolicyRule("claim", worker, staff),
            PolicyRule("release", worker, staff),
            PolicyRule(
                "dispatch",
                dispatcher,
                staff,
                distinct_approval_at_risk="high",
                approval_roles=owner,
            ),
            PolicyRule(
                "execute", worker, human, distinct_approval_at_risk="high", approval_roles=owner
            ),
        ),
    )


def tell(path: Path, store: Store, ledger: ClaimLedger, clock: Clock) -> None:
    """Tell the story; new event types are told at its end.

    Args:
        path: The ledger's file.
        store: The store that the ledger is on.
        ledger: A new ledger under the story's rules.
        clock: The ledger's clock.
    """
    tell_of_an_earlier_version(store, ledger, clock)
    tell_of_claims(ledger, clock)
    gate = tell_of_the_gate(ledger, clock)
    tell_of_repairs(path, ledger, gate, clock)


def tell_of_an_earlier_version(store: Store, ledger: ClaimLedger, clock: Clock) -> None:
    """A reconciliation is there that was written before today's shape of it."""
    clock.now = START - 1_000
    ledger.configure_task(OLDEST, DISPATCHER, TaskClaimPolicy())
    ledger.claim(OLDEST, SECOND, request_id="r-1", binding=BINDING)
    ledger.acknowledge(OLDEST, SECOND, **HELD)
    ledger.reserve_dispatch(OLDEST, DISPATCHER, SECOND, **HELD)
    adopt_reconciled_v0(store, at=START - 900)
    clock.now = START - 800
    reconcile(ledger, OLDEST, "terminal", "runs/0/end")
    ledger.release(OLDEST, SECOND, **HELD)


def adopt_reconciled_v0(store: Store, *, at: int) -> None:
    """Add, behind the oldest task's reservation, what an earlier version wrote there."""
    with store.write() as session:
        *_, last = session.stream(OLDEST.key)
        reserved = codec.decode(last.body)
        assert isinstance(reserved, ExecutionReserved)  # noqa: S101  (as told above)
        event = ExecutionReconciledV0(
            by=reserved.by, slot=0, epoch=1, status="running", evidence_reference="runs/0"
        )
        columns = (
            last.sequence + 1,
            last.scope,
            last.number + 1,
            last.stream,
            last.version + 1,
            at,
            "execution.reconciled.v0",
            msgspec.json.encode(event).decode(),
        )
        session.adopt(Row(*columns, chain.link(last.chain, *columns)))
        tables.rebuild(session)
        session.commit()


def tell_of_claims(ledger: ClaimLedger, clock: Clock) -> None:
    """Claims are won, carried on, handed in, released, overslept, and left unknown."""
    clock.now = START
    two = TaskClaimPolicy(
        concurrent_slots=2, competition_reason="two ways to solve it", risk="high"
    )
    ledger.configure_task(RISKY, DISPATCHER, two, **APPROVAL)
    ledger.configure_task(PLAIN, DISPATCHER, TaskClaimPolicy())

    ledger.claim(RISKY, FIRST, request_id="r-1", binding=BINDING)
    clock.now = START + 10
    ledger.acknowledge(RISKY, FIRST, **HELD)
    clock.now = START + 100
    ledger.renew(RISKY, FIRST, **HELD)
    ledger.progress(RISKY, FIRST, **HELD)
    ledger.reserve_dispatch(RISKY, DISPATCHER, FIRST, **HELD, **APPROVAL)
    clock.now = START + 120
    reconcile(ledger, RISKY, "running", "runs/1: übernommen", APPROVAL)
    clock.now = START + 140
    reconcile(ledger, RISKY, "terminal", "runs/1/end", APPROVAL)
    ledger.record_submission(RISKY, FIRST, **HELD, artifact_digest="sha256:" + "d" * 64, **APPROVAL)
    ledger.release(RISKY, FIRST, **HELD)

    clock.now = START + 200
    ledger.claim(RISKY, SECOND, request_id="r-2", binding=BINDING)
    ledger.claim(RISKY, FIRST, request_id="r-3", binding=BINDING)
    ledger.claim(PLAIN, SECOND, request_id="r-1", binding=BINDING)
    ledger.acknowledge(PLAIN, SECOND, **HELD)
    ledger.reserve_dispatch(PLAIN, DISPATCHER, SECOND, **HELD)
    ledger.acknowledge(RISKY, FIRST, request_id="r-3", epoch=1)
    clock.now = START + 499
    ledger.renew(RISKY, FIRST, request_id="r-3", epoch=1)
    clock.now = START + 500
    ledger.snapshot(RISKY, DISPATCHER)
    clock.now = START + 501
    ledger.snapshot(RISKY, DISPATCHER)


def tell_of_the_gate(ledger: ClaimLedger, clock: Clock) -> ExecutorAdmission:
    """Observations come in, late ones too, and a claim is admitted on them."""
    clock.now = START + 600
    gate = gate_in(APOLLO, ledger)
    gate.observe(seen(gate, READ, 2, "integrated", **EVIDENCE))
    gate.observe(seen(gate, READ, 1, "candidate", artifacts_digest=EVIDENCE["artifacts_digest"]))
    gate.observe(seen(gate, PARSE, 1, "pending"))
    ledger.configure_task(GATED, DISPATCHER, TaskClaimPolicy())
    gate.admit(PARSE, GATED, FIRST, request_id="r-1")
    ledger.acknowledge(GATED, FIRST, **HELD)
    gate.reserve_execution(PARSE, GATED, DISPATCHER, FIRST, **HELD)
    gate.submit(PARSE, GATED, FIRST, **HELD, artifact_digest="sha256:" + "2" * 64)
    other = gate_in(GEMINI, ledger)
    other.observe(seen(other, READ, 1, "rejected", verification_reference="Prüflauf 13"))
    return gate


def tell_of_repairs(path: Path, ledger: ClaimLedger, gate: ExecutorAdmission, clock: Clock) -> None:
    """The clock runs ahead in one scope and then in the other, and is set right each time."""
    clock.now = START + TEN_YEARS
    ledger.snapshot(OLDEST, DISPATCHER)
    clock.now = START + 700
    repair_clock(path, evidence="Uhr zehn Jahre voraus, tickets/9", clock=clock)
    reconcile(ledger, GATED, "terminal", "runs/2/end")
    gate.admit(PARSE, GATED, SECOND, request_id="r-2")

    clock.now = START + TEN_YEARS
    ledger.snapshot(RISKY, DISPATCHER)
    clock.now = START + 800
    repair_clock(path, evidence="tickets/10", clock=clock)
    reconcile(ledger, PLAIN, "terminal", "runs/3/end")
    ledger.claim(PLAIN, FIRST, request_id="r-2", binding=BINDING)


def reconcile(
    ledger: ClaimLedger,
    task: ScopedResourceRef,
    status: ExecutionStatus,
    evidence_reference: str,
    approval: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Report on the execution of a task's first claim."""
    ledger.reconcile_execution(
        task,
        DISPATCHER,
        **HELD,
        status=status,
        evidence_reference=evidence_reference,
        **approval,
    )


def gate_in(scope: TenantScope, ledger: ClaimLedger) -> ExecutorAdmission:
    """Put a gate before the ledger: parsing requires reading."""
    units = [unit(READ), unit(PARSE, READ)]
    return ExecutorAdmission(
        DependencyGraph(scope, units, {READ: REVISION, PARSE: REVISION}), ledger
    )


def unit(name: str, *requires: str) -> dict[str, Any]:
    """Make the least that a graph needs of a WorkUnit."""
    return {
        "schema_version": "0.2",
        "id": name,
        "version": 1,
        "security": {"risk_class": "low"},
        "dependencies": [{"work_unit_id": each, "relationship": "requires"} for each in requires],
        "provenance": {},
    }


def seen(
    gate: ExecutorAdmission, node: str, sequence: int, state: ObservationState, **evidence: str
) -> PrerequisiteObservation:
    """Make an observation of a unit as it is bound, on the inputs that it has now."""
    inputs = gate.readiness(node).inputs_digest
    assert inputs is not None  # noqa: S101  (what is observed here is ready)
    return PrerequisiteObservation(
        scope=gate.graph.scope,
        event_id=f"{node}#{sequence}",
        sequence=sequence,
        binding=gate.graph.bindings[node],
        state=state,
        inputs_digest=inputs,
        **evidence,
    )
