"""The published schemas and the golden log: fresh, strict, and true of what really happens."""

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from builders import (
    APPROVER,
    DISPATCHER,
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
from jsonschema import Draft202012Validator

from idkmesh import ClaimLedger, StoreError, TaskClaimPolicy
from idkmesh.events import codec

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "schemas"
CLAIM = "task-claim-v0.1.schema.json"
NAMES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.schema.json"))
TAGS = {
    "task.configured.v1",
    "claim.granted.v1",
    "claim.acknowledged.v1",
    "claim.renewed.v1",
    "claim.progressed.v1",
    "claim.released.v1",
    "claim.expired.v1",
    "execution.reserved.v1",
    "execution.reconciled.v1",
    "submission.recorded.v1",
    "clock.observed.v1",
}
# What a string may be: each pattern of the schemas takes one of these.
EXAMPLES = ("acme", "sha256:" + "0" * 64, "0" * 40)


def schema(name: str) -> Any:
    """Read a published schema."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def validator(name: str) -> Any:
    """Make the validator of a published schema."""
    return Draft202012Validator(schema(name))


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program that writes the files."""
    program = [sys.executable, str(ROOT / "tools" / "schemas.py"), *arguments]
    return subprocess.run(program, capture_output=True, text=True, encoding="utf-8", check=False)


def contents(folder: Path) -> dict[str, bytes]:
    """Read every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# The files.


def test_the_published_files_are_what_the_code_writes() -> None:
    """No published file is stale, missing or unknown."""
    done = run_tool("--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_check_names_every_file_that_is_not_fresh_and_changes_none(tmp_path: Path) -> None:
    """--check prints a line for each file that is not as it should be, and exits with 1."""
    folder = tmp_path / "schemas"
    shutil.copytree(FOLDER, folder)
    (folder / "golden-state.json").unlink()
    (folder / "events" / "claim.granted.v0.schema.json").write_text("{}\n", encoding="utf-8")
    with (folder / CLAIM).open("a", encoding="utf-8") as file:
        file.write("\n")
    before = contents(folder)
    done = run_tool("--check", "--folder", str(folder))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "events/claim.granted.v0.schema.json: unknown, nothing writes it",
        "golden-state.json: missing",
        "task-claim-v0.1.schema.json: stale",
    ]
    assert contents(folder) == before


def test_writing_makes_every_file(tmp_path: Path) -> None:
    """Into an empty folder the program writes what is published, byte for byte."""
    done = run_tool("--folder", str(tmp_path / "new"))
    assert done.returncode == 0
    assert contents(tmp_path / "new") == contents(FOLDER)


def test_every_event_type_has_a_schema() -> None:
    """There is one schema for each event type and none beside."""
    assert {path.name for path in (FOLDER / "events").iterdir()} == {
        f"{tag}.schema.json" for tag in TAGS
    }


def test_every_schema_is_draft_2020_12_with_an_id_of_its_own() -> None:
    """Each schema names its dialect, is valid in it, and has an id that no other has."""
    ids = set()
    for name in NAMES:
        Draft202012Validator.check_schema(schema(name))
        assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        ids.add(schema(name)["$id"])
    assert len(ids) == len(NAMES)


# Strictness, generated: a value that fits, and every way to break it in one place.


def resolved(node: Any, root: Any) -> Any:
    """Follow a reference within a schema."""
    reference = node.get("$ref")
    return root["$defs"][reference.removeprefix("#/$defs/")] if reference else node


def sample(node: Any, root: Any) -> Any:
    """Make a value that fits a schema, with every member present and nothing null."""
    node = resolved(node, root)
    if "anyOf" in node:
        return sample(node["anyOf"][0], root)
    if "const" in node or "enum" in node:
        return node["const"] if "const" in node else node["enum"][0]
    if node["type"] == "object":
        return {key: sample(each, root) for key, each in node.get("properties", {}).items()}
    if node["type"] == "array":
        return [sample(node["items"], root)]
    if node["type"] == "string":
        return next(each for each in EXAMPLES if re.search(node["pattern"], each))
    return True if node["type"] == "boolean" else node["minimum"]


def faults(node: Any, value: Any, root: Any) -> Iterator[Any]:
    """Yield copies of a value that fits, each broken in one place."""
    node = resolved(node, root)
    if "anyOf" in node:
        assert node["anyOf"][1:] == [{"type": "null"}]
        yield from (each for each in faults(node["anyOf"][0], value, root) if each is not None)
        return
    yield None
    if isinstance(value, list):
        yield from ([broken] for broken in faults(node["items"], value[0], root))
    elif isinstance(value, dict):
        yield from lost_and_found(node, value, root)
        for key, each in node.get("properties", {}).items():
            yield from ({**value, key: broken} for broken in faults(each, value[key], root))
    else:
        yield from misfits(node, value)


def lost_and_found(node: Any, value: dict[str, Any], root: Any) -> Iterator[Any]:
    """Yield an object with one key more, and with each of its required keys gone."""
    if node.get("additionalProperties") is False:
        yield {**value, "surplus": "acme"}
    else:  # the one object that may hold anything
        assert node is root["properties"]["extensions"]
    for key in node.get("required", ()):
        yield {other: each for other, each in value.items() if other != key}


def misfits(node: Any, value: Any) -> Iterator[Any]:
    """Yield what a scalar may not be."""
    if isinstance(value, str):
        yield from ("", 1, True)
        if not ("pattern" in node and re.search(node["pattern"], "two\nlines")):
            yield value + "\n"
    elif isinstance(value, bool):
        yield from (0, 1, "true", *([not value] if "const" in node else []))
    else:
        limit = node["maximum"] if "maximum" in node else node["exclusiveMaximum"] - 1
        yield from (True, False, value + 0.5, str(value), node["minimum"] - 1, limit + 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_takes_nothing_that_is_broken_in_one_place(name: str) -> None:
    """At any depth a schema refuses a newline at the end, a wrong type, a missing or new key."""
    root = schema(name)
    check = validator(name)
    value = sample(root, root)
    assert check.is_valid(value)
    broken = list(faults(root, copy.deepcopy(value), root))
    assert len(broken) >= 4
    assert [each for each in broken if check.is_valid(each)] == []


def test_the_claim_schema_has_exactly_the_contracts_keys() -> None:
    """A claim record has the keys of the contract, all of them, and its authority grants none."""
    root = schema(CLAIM)
    expected = {
        "": "kind schema_version task request_id request_digest slot epoch owner binding state"
        " created_at acknowledged_at ack_by lease_until progress_by hard_until occupancy"
        " operation_id execution_reference submission_digest authority",
        "task": "kind schema_version tenant_id project_id resource_type resource_id",
        "owner": "principal_id issuer actor_type",
        "binding": "work_unit_digest source_revision inputs_digest",
        "authority": "executes_worker accepts_candidate merge",
    }
    for place, keys in expected.items():
        node = root["properties"][place] if place else root
        assert list(node["properties"]) == keys.split()
        assert node["required"] == keys.split()
    assert sample(root, root)["authority"] == {
        "executes_worker": False,
        "accepts_candidate": False,
        "merge": False,
    }


# Real runs.


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


def test_every_event_of_a_real_run_conforms(path: Path, clock: Clock) -> None:
    """The body of every row satisfies the schema of its type, and each type occurs."""
    with opened(path, clock) as ledger:
        tell(ledger, clock)
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT type, body FROM events").fetchall()
    connection.close()
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
