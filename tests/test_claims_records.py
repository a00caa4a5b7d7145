"""The claim's record, and every digest in it worked out again by hand."""

import hashlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    READER,
    RUNNING,
    WORKER,
    Clock,
    actor,
    binding,
    digest,
    granted,
    refused,
    task,
)
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from idkmesh import ClaimLedger, InvalidInput, TaskClaimPolicy, canonical_digest

SCHEMA = json.loads(Path("schemas/task-claim-v0.1.schema.json").read_text(encoding="utf-8"))


def by_hand(text: str) -> str:
    """Digest a canonical text that the test has written out."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


TASK_TEXT = (
    '{"kind":"idkmesh-enterprise-resource-ref","project_id":"apollo","resource_id":"T-1",'
    '"resource_type":"task","schema_version":"0.1","tenant_id":"acme"}'
)
OWNER_TEXT = '{"actor_type":"human","issuer":"https:idp","principal_id":"worker-1"}'
BINDING_TEXT = (
    '{"inputs_digest":"sha256:' + "a" * 64 + '","source_revision":"' + "a" * 40 + '",'
    '"work_unit_digest":"sha256:' + "a" * 64 + '"}'
)


@pytest.fixture
def ledger(memory_ledger: ClaimLedger) -> ClaimLedger:
    """Give a ledger without a file."""
    return memory_ledger


def test_a_request_digest_is_over_task_owner_binding_and_policy(ledger: ClaimLedger) -> None:
    """The request digest is the digest of the four records, every field of the policy in it."""
    policy = TaskClaimPolicy(
        concurrent_slots=2, competition_reason="zwei Entwürfe", max_attempts=4, lease_seconds=60
    )
    granted(ledger, policy=policy)
    policy_text = (
        '{"ack_seconds":300,"competition_reason":"zwei Entwürfe","concurrent_slots":2,'
        '"data_classification":"public","hard_seconds":86400,"lease_seconds":60,'
        '"max_attempts":4,"max_events":10000,"progress_seconds":1800,"risk":"low"}'
    )
    text = (
        f'{{"binding":{BINDING_TEXT},"owner":{OWNER_TEXT},"policy":{policy_text},'
        f'"task":{TASK_TEXT}}}'
    )
    assert ledger.lookup(task(), READER, request_id="r-1").request_digest == by_hand(text)


def test_an_operation_id_is_over_key_slot_epoch_and_binding(ledger: ClaimLedger) -> None:
    """The operation id is the digest of the task's key, the slot, the epoch and the binding."""
    granted(ledger)
    ledger.release(task(), WORKER, **GRANT)
    ledger.claim(task(), WORKER, request_id="r-2", binding=binding())
    second: dict[str, Any] = {"request_id": "r-2", "epoch": 2}
    ledger.acknowledge(task(), WORKER, **second)
    claim = ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **second).claim
    text = f'{{"binding":{BINDING_TEXT},"epoch":2,"slot":0,"task":"acme/apollo/task/T-1"}}'
    assert claim.operation_id == by_hand(text)


def test_a_full_record_reads_as_written_here(ledger: ClaimLedger, clock: Clock) -> None:
    """The JSON form of a claim that has been through everything, field by field."""
    granted(ledger)
    clock.now += 5
    ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
    ledger.renew(task(), WORKER, **GRANT)
    ledger.record_submission(task(), WORKER, **GRANT, artifact_digest=digest("c"))
    ledger.reconcile_execution(task(), DISPATCHER, **RUNNING)
    ledger.reconcile_execution(task(), DISPATCHER, **ENDED)
    record = ledger.release(task(), WORKER, **GRANT).to_dict()
    operation = f'{{"binding":{BINDING_TEXT},"epoch":1,"slot":0,"task":"acme/apollo/task/T-1"}}'
    request_digest = record.pop("request_digest")
    assert len(request_digest) == 71
    assert record == {
        "kind": "idkmesh-task-claim",
        "schema_version": "0.1",
        "task": {
            "kind": "idkmesh-enterprise-resource-ref",
            "schema_version": "0.1",
            "tenant_id": "acme",
            "project_id": "apollo",
            "resource_type": "task",
            "resource_id": "T-1",
        },
        "request_id": "r-1",
        "slot": 0,
        "epoch": 1,
        "owner": {"principal_id": "worker-1", "issuer": "https:idp", "actor_type": "human"},
        "binding": {
            "work_unit_digest": digest("a"),
            "source_revision": "a" * 40,
            "inputs_digest": digest("a"),
        },
        "state": "released",
        "created_at": 1_700_000_000,
        "acknowledged_at": 1_700_000_000,
        "ack_by": 1_700_000_300,
        "lease_until": 1_700_000_305,
        "progress_by": 1_700_001_800,
        "hard_until": 1_700_086_400,
        "occupancy": "terminal",
        "operation_id": by_hand(operation),
        "execution_reference": "run-1:exit-0",
        "submission_digest": digest("c"),
        "authority": {"executes_worker": False, "accepts_candidate": False, "merge": False},
    }


def test_records_of_every_stage_satisfy_the_schema(ledger: ClaimLedger, clock: Clock) -> None:
    """At each stage of its life a claim's record is what the schema describes."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    granted(ledger, acknowledged=False)
    steps: list[Callable[[], object]] = [
        lambda: ledger.acknowledge(task(), WORKER, **GRANT),
        lambda: ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT),
        lambda: ledger.reconcile_execution(task(), DISPATCHER, **RUNNING),
        lambda: ledger.record_submission(task(), WORKER, **GRANT, artifact_digest=digest("c")),
        lambda: ledger.reconcile_execution(task(), DISPATCHER, **ENDED),
        lambda: ledger.snapshot(task(), READER),
    ]
    for step in steps:
        validator.validate(ledger.lookup(task(), READER, request_id="r-1").to_dict())
        step()
        clock.now += 50
    validator.validate(ledger.lookup(task(), READER, request_id="r-1").to_dict())


@pytest.mark.parametrize(
    "change",
    [
        {"state": "done"},
        {"slot": 3},
        {"slot": -1},
        {"epoch": 0},
        {"epoch": 1.5},
        {"kind": "idkmesh-task-claim\n"},
        {"schema_version": "0.2"},
        {"request_id": " "},
        {"request_id": "a\n"},
        {"request_digest": digest("a") + "\n"},
        {"operation_id": digest("a") + "\n"},
        {"submission_digest": "sha256:A" + "a" * 63},
        {"occupancy": None},
        {"acknowledged_at": "soon"},
        {"authority": {"executes_worker": True, "accepts_candidate": False, "merge": False}},
        {"authority": {}},
        {"owner": {"principal_id": "w\n", "issuer": "i", "actor_type": "human"}},
        {"owner": {"principal_id": "w", "issuer": "i", "actor_type": "human", "roles": []}},
        {"capability": "yes"},
    ],
    ids=str,
)
def test_the_schema_refuses_what_no_record_holds(
    ledger: ClaimLedger, change: dict[str, Any]
) -> None:
    """A word, a number, a newline or a key that no claim has does not pass the schema."""
    granted(ledger)
    record = ledger.lookup(task(), READER, request_id="r-1").to_dict()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate({**record, **change})


# Canonical digests.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-7, "-7"),
        (1.5, "1.5"),
        ("é", '"é"'),
        ('a"\\\n', '"a\\"\\\\\\n"'),
        ([1, [], {}], "[1,[],{}]"),
        ((1, 2), "[1,2]"),
        ({"b": 1, "a": [None], "B": {"y": 1, "x": 2}}, '{"B":{"x":2,"y":1},"a":[null],"b":1}'),
        (2**64, "18446744073709551616"),
    ],
    ids=str,
)
def test_a_canonical_digest_is_over_sorted_unspaced_utf8(value: Any, text: str) -> None:
    """The digest is the SHA-256 of the one JSON text that the content has."""
    assert canonical_digest(value) == by_hand(text)


def test_a_known_digest_stays_what_it_was() -> None:
    """One digest is written out, so that no change of rules can go unseen."""
    expected = "sha256:43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777"
    assert canonical_digest({"b": 2, "a": 1}) == expected


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers()))
def test_a_digest_does_not_depend_on_the_order_of_keys(value: dict[str, int]) -> None:
    """Two objects of the same content have one digest, however they were put together."""
    assert canonical_digest(dict(reversed(value.items()))) == canonical_digest(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [float("inf")],
        {"a": -float("inf")},
        {1: "a"},
        {None: 1},
        b"bytes",
        {"a"},
        "\ud800",
        {"\udfff": 1},
        ...,
        10**5_000,
    ],
    ids=lambda value: repr(value)[:12] if not isinstance(value, int) else "huge",
)
def test_what_is_no_json_has_no_digest(value: Any) -> None:
    """A number without end, bytes, a set, a lone surrogate or a key that is no text is refused."""
    with pytest.raises(InvalidInput):
        canonical_digest(value)


def test_absurd_nesting_has_no_digest() -> None:
    """A hundred thousand levels, and a list in itself, are refused instead of overflowing."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    circle: list[Any] = []
    circle.append(circle)
    for value in (deep, circle):
        with pytest.raises(InvalidInput):
            canonical_digest(value)


# A record is an answer and nothing more.


def test_a_record_is_no_capability(ledger: ClaimLedger) -> None:
    """A claim's record is accepted nowhere in place of a task, an identity or a binding."""
    granted(ledger)
    record: Any = ledger.lookup(task(), READER, request_id="r-1")
    with pytest.raises(TypeError):
        ledger.release(record, WORKER, **GRANT)
    with pytest.raises(TypeError):
        ledger.release(task(), record, **GRANT)
    with pytest.raises(TypeError):
        ledger.claim(task(), WORKER, request_id="r-2", binding=record)
    with refused("invalid_input"):
        ledger.release(task(), WORKER, request_id=record, epoch=1)


def test_a_record_does_not_change(ledger: ClaimLedger) -> None:
    """A record is frozen, and what became of the claim since does not show in it."""
    granted(ledger, acknowledged=False)
    record: Any = ledger.lookup(task(), READER, request_id="r-1")
    ledger.acknowledge(task(), WORKER, **GRANT)
    assert record.acknowledged_at is None
    with pytest.raises(AttributeError):
        record.state = "released"
    assert hash(record) == hash(replace(record))


def test_a_record_shows_no_free_text_by_itself(ledger: ClaimLedger) -> None:
    """The repr of a claim keeps request ids and evidence to itself."""
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    who = actor("worker-1", "worker")
    claim = ledger.claim(task(), who, request_id="s3cret", binding=binding()).claim
    assert "s3cret" not in repr(claim)


def test_no_method_takes_a_time() -> None:
    """Time comes from the ledger's clock alone: no method of a task has an argument for it."""
    commands = (
        *("configure_task", "claim", "acknowledge", "renew", "progress", "release"),
        *("update_owner", "reserve_dispatch", "reconcile_execution", "record_submission"),
        *("snapshot", "peek", "policy", "lookup", "survey"),
    )
    names = {
        name
        for command in commands
        for name in inspect.signature(getattr(ClaimLedger, command)).parameters
    }
    assert names == {
        *("self", "task", "scope", "actor", "dispatcher", "owner", "approver", "policy"),
        *("request_id", "epoch", "binding", "operation", "status", "evidence_reference"),
        *("artifact_digest", "approval_reference", "state", "occupancy", "overdue"),
    }
