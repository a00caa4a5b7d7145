"""What really happens satisfies the published schemas: records, observations, events."""

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from builders import (
    APPROVER,
    DISPATCHER,
    GRANT,
    READER,
    RIVAL,
    SCOPE,
    START,
    WORKER,
    Clock,
    binding,
    digest,
    opened,
    task,
)
from gate_builders import PARSE, READ, admitted, configured, gate_on, integrate, seen
from test_schemas import ADMISSION, CLAIM, OBSERVATION, TAGS, validator

from idkmesh import ClaimLedger, StoreError, TaskClaimPolicy
from idkmesh.events import codec
from idkmesh.records import Admission
from idkmesh.repair import repair_clock


def tell(ledger: ClaimLedger, clock: Clock) -> list[dict[str, Any]]:
    """Bring claims into every state there is, and return each record that was answered."""
    high: dict[str, Any] = {"approver": APPROVER, "approval_reference": "approvals/1"}
    risky = TaskClaimPolicy(
        concurrent_slots=3, max_attempts=6, competition_reason="Zwei Wege, ein Ziel", risk="high"
    )
    ledger.configure_task(task(), DISPATCHER, risky, **high)
    found = [ledger.claim(task(), WORKER, request_id="r-1", binding=binding()).claim]
    held: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
    found.append(ledger.acknowledge(task(), WORKER, **held))
    clock.now = START + 100
    found.append(ledger.renew(task(), WORKER, **held))
    found.append(ledger.progress(task(), WORKER, **held))
    found.append(ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **held, **high).claim)
    for status in ("running", "terminal"):
        evidence: dict[str, Any] = {
            "status": status,
            "evidence_reference": f"Läufe/1 {status} \U0001f680",
        }
        found.append(ledger.reconcile_execution(task(), DISPATCHER, **held, **evidence, **high))
    found.append(
        ledger.record_submission(task(), WORKER, **held, artifact_digest=digest("f"), **high)
    )
    found.append(ledger.release(task(), WORKER, **held))
    found.append(ledger.claim(task(), RIVAL, request_id="r-2", binding=binding("b")).claim)
    found.append(ledger.claim(task(), WORKER, request_id="r-3", binding=binding("c")).claim)
    ledger.acknowledge(task(), WORKER, request_id="r-3", epoch=1)
    ledger.reserve_dispatch(
        task(), DISPATCHER, WORKER, request_id="r-3", epoch=1, approver=APPROVER,
        approval_reference="approvals/2",
    )  # fmt: skip
    clock.now = START + 5_000
    found.extend(ledger.peek(task(), READER))
    found.extend(ledger.snapshot(task(), READER))
    clock.now = START + 5_001
    found.extend(ledger.survey(SCOPE, READER))
    found.append(ledger.lookup(task(), READER, request_id="r-1"))
    ledger.snapshot(task(), READER)
    return [claim.to_dict() for claim in found]


def test_every_record_of_a_real_run_conforms(ledger: ClaimLedger, clock: Clock) -> None:
    """Records in every state, as the ledger answers them and as JSON, satisfy the schema."""
    check = validator(CLAIM)
    records = tell(ledger, clock)
    for record in records:
        check.validate(record)
        assert json.loads(json.dumps(record)) == record
    reached = {
        (
            each["state"],
            each["occupancy"],
            each["acknowledged_at"] is not None,
            each["submission_digest"] is not None,
        )
        for each in records
    }
    assert reached == {
        ("active", "none", False, False),
        ("active", "none", True, False),
        ("active", "unknown", True, False),
        ("active", "running", True, False),
        ("active", "terminal", True, False),
        ("active", "terminal", True, True),
        ("released", "terminal", True, True),
        ("expired", "none", False, False),
        ("expired", "unknown", True, False),
    }


def go_through_the_gate(ledger: ClaimLedger) -> list[Admission]:
    """Take a claim through the three phases, each of them twice."""
    configured(ledger)
    gate = gate_on(ledger)
    integrate(gate, READ)
    admitted(gate, ledger)
    found = [gate.admit(PARSE, task(), WORKER, request_id="r-1")]
    for _ in range(2):
        found.append(gate.reserve_execution(PARSE, task(), DISPATCHER, WORKER, **GRANT))
        found.append(gate.submit(PARSE, task(), WORKER, **GRANT, artifact_digest=digest("e")))
    ledger.release(task(), WORKER, **GRANT)
    ledger.reconcile_execution(
        task(), DISPATCHER, **GRANT, status="terminal", evidence_reference="Lauf 1/Ende"
    )
    found.append(gate.admit(PARSE, task(), RIVAL, request_id="r-2"))
    return found


def test_every_admission_record_of_a_real_run_conforms(ledger: ClaimLedger) -> None:
    """The records of all three phases, of first calls and replays, satisfy the schema."""
    found = go_through_the_gate(ledger)
    for claim, record in found:
        written = record.to_dict()
        validator(ADMISSION).validate(written)
        validator(CLAIM).validate(written["claim"])
        assert written["claim"] == claim.to_dict()
        assert json.loads(json.dumps(written)) == written
    assert [(record.phase, record.created) for _, record in found] == [
        ("admission", False),
        ("execution-reservation", True),
        ("submission", True),
        ("execution-reservation", False),
        ("submission", False),
        ("admission", True),
    ]


def test_every_observation_of_a_real_run_conforms(ledger: ClaimLedger) -> None:
    """Observations of every state, as they were handed in and as they are given back, conform."""
    gate = gate_on(ledger)
    integrate(gate, READ)
    states = ("pending", "candidate", "integrated", "rejected")
    given = [seen(gate, PARSE, state, sequence=place) for place, state in enumerate(states, 1)]
    for observation in given:
        gate.observe(observation)
    kept = gate.observations(PARSE)
    assert [each.state for each in kept] == list(states)
    for handed_in, given_back in zip(given, kept, strict=True):
        validator(OBSERVATION).validate(handed_in.to_dict())
        assert given_back.to_dict() == handed_in.to_dict()
        assert json.loads(json.dumps(handed_in.to_dict())) == handed_in.to_dict()


def test_every_event_of_a_real_run_conforms(path: Path, clock: Clock) -> None:
    """The body of every row satisfies the schema of its type, and each type occurs."""
    with opened(path, clock) as ledger:
        tell(ledger, clock)
        integrate(gate_on(ledger), READ)
        clock.now = START + 9_000
        ledger.snapshot(task(), READER)
    repair_clock(path, evidence="Uhr ging vor", clock=Clock(START + 8_000))
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT type, body FROM events").fetchall()
    connection.close()
    assert len(rows) > len(TAGS)
    for kind, body in rows:
        validator(f"events/{kind}.schema.json").validate(json.loads(str(body)))
    assert {kind for kind, _ in rows} == TAGS


def test_an_integer_written_as_a_float_is_refused_when_read() -> None:
    """JSON Schema takes 1.0 for an integer; the codec, which reads the log, does not."""
    body = '{"type":"claim.expired.v1","slot":0,"epoch":1.0,"deadline":"ack_by","due_at":5}'
    assert validator("events/claim.expired.v1.schema.json").is_valid(json.loads(body))
    assert codec.decode(body.replace("1.0", "1"))
    with pytest.raises(StoreError) as caught:
        codec.decode(body)
    assert caught.value.code == "store_corrupt"
