"""The record of a phase: what it says of the unit, its inputs, the observations, the claim."""

import json
from typing import Any

import pytest
from builders import DISPATCHER, GRANT, SCOPE, START, WORKER, Clock, digest, task
from gate_builders import (
    PARSE,
    READ,
    REVIEW,
    STYLE,
    TEST,
    admitted,
    configured,
    gate_on,
    integrate,
    seen,
)
from unit_builders import REVISION, sha256, unit

from idkmesh import AdmissionRecord, ClaimLedger, ExecutorAdmission, TaskClaim

KEYS = {
    "kind",
    "schema_version",
    "phase",
    "scope",
    "graph_digest",
    "observation_digest",
    "work_unit_id",
    "binding",
    "inputs_digest",
    "created",
    "claim",
    "authority",
}


@pytest.fixture
def gate(memory_ledger: ClaimLedger) -> ExecutorAdmission:
    """Give a gate whose reading is integrated, so that parsing is ready, and a task."""
    configured(memory_ledger)
    gate = gate_on(memory_ledger)
    integrate(gate, READ)
    return gate


def _observed(gate: ExecutorAdmission, node: str, **changes: str) -> str:
    """Write out what ``integrate`` has seen of a unit as canonical JSON."""
    binding = gate.graph.bindings[node]
    fields = {
        "sequence": "1",
        "event_id": f'"{node} 1"',
        "inputs_digest": f'"{gate.readiness(node).inputs_digest}"',
        **changes,
    }
    return (
        f'{{"artifacts_digest":"{digest("c")}",'
        f'"binding":{{"source_revision":"{REVISION}",'
        f'"work_unit_digest":"{binding.work_unit_digest}",'
        f'"work_unit_id":"{node}","work_unit_version":1}},'
        f'"event_id":{fields["event_id"]},"inputs_digest":{fields["inputs_digest"]},'
        f'"integrated_revision":"{"c" * 40}","integration_reference":"merge 1",'
        '"scope":{"project_id":"apollo","tenant_id":"acme"},'
        f'"sequence":{fields["sequence"]},"state":"integrated","verification_reference":"check 1"}}'
    )


def test_an_admission_record_says_all_of_it(gate: ExecutorAdmission) -> None:
    """The record of an admission, key by key."""
    claim, record = gate.admit(PARSE, task(), WORKER, request_id="r-1")
    made = record.to_dict()
    assert made.keys() == KEYS
    assert made == {
        "kind": "idkmesh-executor-admission",
        "schema_version": "0.1",
        "phase": "admission",
        "scope": {"tenant_id": "acme", "project_id": "apollo"},
        "graph_digest": gate.graph.digest,
        "observation_digest": sha256(f"[{_observed(gate, READ)}]"),
        "work_unit_id": "feeds/parse",
        "binding": {
            "work_unit_id": "feeds/parse",
            "work_unit_version": 1,
            "work_unit_digest": gate.graph.bindings[PARSE].work_unit_digest,
            "source_revision": REVISION,
        },
        "inputs_digest": gate.readiness(PARSE).inputs_digest,
        "created": True,
        "claim": claim.to_dict(),
        "authority": {
            "dispatch": False,
            "executes_worker": False,
            "accepts_candidate": False,
            "merge": False,
        },
    }
    assert json.loads(json.dumps(made)) == made


def test_each_phase_has_its_record(memory_ledger: ClaimLedger, gate: ExecutorAdmission) -> None:
    """Phases differ by name and claim; created is True for what a call wrote and False after."""
    candidate: dict[str, Any] = {"artifact_digest": digest("e")}

    def admission() -> tuple[TaskClaim, AdmissionRecord]:
        return gate.admit(PARSE, task(), WORKER, request_id="r-1")

    def reservation() -> tuple[TaskClaim, AdmissionRecord]:
        return gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT)

    def submission() -> tuple[TaskClaim, AdmissionRecord]:
        return gate.submit(PARSE, task(), WORKER, **GRANT, **candidate)

    first = admission()
    memory_ledger.acknowledge(task(), WORKER, **GRANT)
    for phase, created, (claim, record) in (
        ("admission", True, first),
        ("admission", False, admission()),
        ("execution-reservation", True, reservation()),
        ("execution-reservation", False, reservation()),
        ("submission", True, submission()),
        ("submission", False, submission()),
        ("admission", False, admission()),
    ):
        made = record.to_dict()
        assert made.keys() == KEYS
        assert (made["phase"], made["created"], made["claim"]) == (phase, created, claim.to_dict())
        alike = ("scope", "graph_digest", "observation_digest", "binding", "inputs_digest")
        assert {name: made[name] for name in alike} == {
            name: first[1].to_dict()[name] for name in alike
        }
    assert admission()[0].submission_digest == digest("e")


def test_the_records_fields_are_attributes(gate: ExecutorAdmission) -> None:
    """What a record holds can be read off it, and not be changed."""
    claim, record = gate.admit(PARSE, task(), WORKER, request_id="r-1")
    assert (record.phase, record.created, record.claim) == ("admission", True, claim)
    assert (record.scope, record.work_unit_id) == (SCOPE, PARSE)
    assert record.binding == gate.graph.bindings[PARSE]
    assert record.graph_digest == gate.graph.digest
    assert record.inputs_digest == claim.binding.inputs_digest
    assert record.observation_digest == sha256(f"[{_observed(gate, READ)}]")
    for name in ("created", "phase", "claim", "anything_else"):
        with pytest.raises(AttributeError):
            setattr(record, name, True)


# The digest of observations.


def test_no_observation_has_a_digest_too(gate: ExecutorAdmission) -> None:
    """Where nothing was ever seen of a unit that requires nothing, the digest is of no entry."""
    record = gate.admit(STYLE, task(), WORKER, request_id="r-1").record
    assert record.observation_digest == sha256("[]")


def test_the_observations_are_the_latest_of_node_and_ancestors_in_id_order(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """Earlier observations, other branches and descendants are left out, the node's own is in."""
    integrate(gate, PARSE, STYLE)
    gate.observe(seen(gate, TEST, "candidate"))
    gate.observe(seen(gate, READ, sequence=30, event_id="a redelivery of the feed"))
    integrate(gate, PARSE)
    record = gate.admit(REVIEW, task(), WORKER, request_id="r-1").record
    parse = _observed(gate, PARSE, sequence="2", event_id='"feeds/parse 2"')
    read = _observed(gate, READ, sequence="30", event_id='"a redelivery of the feed"')
    assert record.observation_digest == sha256(f"[{parse},{read}]")
    assert record.inputs_digest == gate.readiness(REVIEW).inputs_digest
    gate.observe(seen(gate, REVIEW, "pending"))
    memory_ledger.acknowledge(task(), WORKER, **GRANT)
    again = gate.reserve_execution(REVIEW, task(), DISPATCHER, WORKER, **GRANT).record
    pending = (
        f'{{"artifacts_digest":null,"binding":{{"source_revision":"{REVISION}",'
        f'"work_unit_digest":"{gate.graph.bindings[REVIEW].work_unit_digest}",'
        '"work_unit_id":"feeds/review","work_unit_version":1},"event_id":"feeds/review 1",'
        f'"inputs_digest":"{record.inputs_digest}","integrated_revision":null,'
        '"integration_reference":null,"scope":{"project_id":"apollo","tenant_id":"acme"},'
        '"sequence":1,"state":"pending","verification_reference":null}'
    )
    assert again.observation_digest == sha256(f"[{parse},{read},{pending}]")


def test_delivery_moves_the_observations_and_not_the_inputs(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """A newer observation of the same result is other evidence for the same inputs."""
    first = gate.admit(PARSE, task(), WORKER, request_id="r-1").record
    memory_ledger.acknowledge(task(), WORKER, **GRANT)
    gate.observe(seen(gate, READ, verification_reference="check 2"))
    again = gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT).record
    assert again.inputs_digest == first.inputs_digest
    assert again.observation_digest != first.observation_digest


def test_a_record_names_the_graph_that_was_looked_through(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """A replay through a graph that differs elsewhere names that graph and the same binding."""
    first = gate.admit(PARSE, task(), WORKER, request_id="r-1").record
    grown = gate_on(memory_ledger, unit("feeds/new", STYLE))
    again = grown.admit(PARSE, task(), WORKER, request_id="r-1").record
    assert again.created is False
    assert again.graph_digest == grown.graph.digest != first.graph_digest
    assert again.binding == first.binding


def test_the_claim_of_a_record_is_as_of_its_answer(
    memory_ledger: ClaimLedger, clock: Clock, gate: ExecutorAdmission
) -> None:
    """A record keeps the claim as it was answered, whatever happens to it afterwards."""
    admitted(gate, memory_ledger)
    record = gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT).record
    clock.now = START + 5
    memory_ledger.renew(task(), WORKER, **GRANT)
    assert record.to_dict()["claim"]["lease_until"] == START + 300
    assert record.to_dict()["claim"]["occupancy"] == "unknown"
