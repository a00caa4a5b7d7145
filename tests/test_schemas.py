"""The published schemas: fresh, strict, and with the keys of the contracts."""

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "schemas"
CLAIM = "task-claim-v0.1.schema.json"
ADMISSION = "executor-admission-v0.1.schema.json"
OBSERVATION = "prerequisite-observation-v0.1.schema.json"
OBSERVED = "events/prerequisite.observed.v1.schema.json"
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
    "prerequisite.observed.v1",
    "clock.observed.v1",
    "clock.repaired.v1",
}
LEGACY = {"execution.reconciled.v0"}
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


def test_check_finds_whichever_file_is_stale(tmp_path: Path) -> None:
    """With one character more in every file, each of them is named, and the golden ones too."""
    folder = tmp_path / "schemas"
    shutil.copytree(FOLDER, folder)
    for name in contents(folder):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write("\n")
    done = run_tool("--check", "--folder", str(folder))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"{name}: stale" for name in sorted(contents(FOLDER))]
    assert {*NAMES, "golden-log.jsonl", "golden-state.json"} == contents(FOLDER).keys()


def test_writing_makes_every_file(tmp_path: Path) -> None:
    """Into an empty folder the program writes what is published, byte for byte."""
    done = run_tool("--folder", str(tmp_path / "new"))
    assert done.returncode == 0
    assert contents(tmp_path / "new") == contents(FOLDER)


def test_every_event_type_has_a_schema() -> None:
    """There is one schema for each event type, earlier versions included, and none beside."""
    assert {path.name for path in (FOLDER / "events").iterdir()} == {
        f"{tag}.schema.json" for tag in TAGS | LEGACY
    }


def test_the_records_have_their_schemas() -> None:
    """Beside the events there are the four records' schemas and no other."""
    assert {name for name in NAMES if "/" not in name} == {
        CLAIM,
        ADMISSION,
        OBSERVATION,
        "work-unit-v0.2.schema.json",
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


def keys_of(name: str) -> dict[str, str]:
    """Return the keys of each object of a schema by its place, where all are required."""
    root = schema(name)
    found = {}
    pending = [("", root)]
    for place, node in pending:  # grows while it is walked
        shape = resolved(node, root)
        if shape.get("type") == "object":
            assert shape["required"] == list(shape["properties"])
            found[place] = " ".join(shape["properties"])
            pending += [(f"{place}.{key}", each) for key, each in shape["properties"].items()]
    return found


CLAIM_KEYS = {
    "": "kind schema_version task request_id request_digest slot epoch owner binding state"
    " created_at acknowledged_at ack_by lease_until progress_by hard_until occupancy"
    " operation_id execution_reference submission_digest authority",
    ".task": "kind schema_version tenant_id project_id resource_type resource_id",
    ".owner": "principal_id issuer actor_type",
    ".binding": "work_unit_digest source_revision inputs_digest",
    ".authority": "executes_worker accepts_candidate merge",
}
BINDING_KEYS = "work_unit_id work_unit_version work_unit_digest source_revision"


def test_the_claim_schema_has_exactly_the_contracts_keys() -> None:
    """A claim record has the keys of the contract, all of them, and its authority grants none."""
    assert keys_of(CLAIM) == CLAIM_KEYS
    assert sample(schema(CLAIM), schema(CLAIM))["authority"] == {
        "executes_worker": False,
        "accepts_candidate": False,
        "merge": False,
    }


def test_the_admission_schema_has_exactly_the_contracts_keys() -> None:
    """An admission record has the contract's keys, a claim record among them, and grants none."""
    assert keys_of(ADMISSION) == {
        "": "kind schema_version phase scope graph_digest observation_digest work_unit_id binding"
        " inputs_digest created claim authority",
        ".scope": "tenant_id project_id",
        ".binding": BINDING_KEYS,
        **{f".claim{place}": keys for place, keys in CLAIM_KEYS.items()},
        ".authority": "dispatch executes_worker accepts_candidate merge",
    }
    root = schema(ADMISSION)
    assert sample(root, root)["authority"] == {
        "dispatch": False,
        "executes_worker": False,
        "accepts_candidate": False,
        "merge": False,
    }
    assert root["properties"]["phase"] == {
        "enum": ["admission", "execution-reservation", "submission"]
    }
    head = {"$schema", "$id", "title", "description"}
    alone = {key: part for key, part in schema(CLAIM).items() if key not in head}
    assert root["properties"]["claim"] == alone


def test_the_observation_schema_has_exactly_the_contracts_keys() -> None:
    """An observation has the contract's keys, all of them, whether or not there is evidence."""
    assert keys_of(OBSERVATION) == {
        "": "scope event_id sequence binding state inputs_digest integrated_revision"
        " artifacts_digest verification_reference integration_reference",
        ".scope": "tenant_id project_id",
        ".binding": BINDING_KEYS,
    }


@pytest.mark.parametrize("name", [OBSERVATION, OBSERVED])
def test_an_integrated_observation_needs_its_evidence(name: str) -> None:
    """Each of the four may be null in every state but integrated, which needs them all."""
    root = schema(name)
    check = validator(name)
    full = sample(root, root)
    evidence = "integrated_revision artifacts_digest verification_reference integration_reference"
    for state in ("pending", "candidate", "integrated", "rejected"):
        assert check.is_valid({**full, "state": state})
        for field in evidence.split():
            lacking = {**full, "state": state, field: None}
            assert check.is_valid(lacking) == (state != "integrated")
