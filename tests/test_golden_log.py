"""The golden log: one story with every event type, kept for ever, and what it folds to."""

import json
import shutil
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
from builders import START, Clock, opened
from test_schemas import CLAIM, FOLDER, TAGS, contents, run_tool, validator


def golden() -> list[dict[str, Any]]:
    """Read the golden log."""
    text = (FOLDER / "golden-log.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_written_line_of_the_golden_log_is_never_changed(tmp_path: Path) -> None:
    """Where a line of the golden log would change, nothing at all is written."""
    folder = tmp_path / "schemas"
    shutil.copytree(FOLDER, folder)
    log = folder / "golden-log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"worker-2", b"worker-3", 1))
    (folder / CLAIM).unlink()
    before = contents(folder)
    done = run_tool("--folder", str(folder))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "golden-log.jsonl: a line would change, but a written event never does: use a new tag"
    ]
    assert contents(folder) == before


def test_the_golden_log_holds_every_event_type() -> None:
    """Each event type has a line whose body satisfies the type's schema."""
    for row in golden():
        validator(f"events/{row['type']}.schema.json").validate(json.loads(row["body"]))
    assert {row["type"] for row in golden()} == TAGS


def test_an_event_says_who_allowed_it() -> None:
    """A reservation keeps both decisions: the actor, the policy's revision, the approval."""
    by: dict[str, Any] = {
        "action": "dispatch",
        "code": "authorized_with_distinct_approval",
        "policy_id": "golden",
        "policy_revision": "1",
        "actor": {
            "principal_id": "dispatcher-1",
            "issuer": "https://id.example",
            "actor_type": "service",
        },
        "identity_revision": "rev-1",
        "approval": {
            "principal_id": "owner-1",
            "issuer": "https://id.example",
            "actor_type": "human",
            "identity_revision": "rev-1",
            "reference": "approvals/17",
        },
    }
    worker = {
        "principal_id": "worker-1",
        "issuer": "https://id.example",
        "actor_type": "human",
    }
    approved, plain = (
        json.loads(row["body"]) for row in golden() if row["type"] == "execution.reserved.v1"
    )
    assert approved["by"] == by
    assert approved["owner_by"] == {**by, "action": "execute", "actor": worker}
    assert plain["by"] == {**by, "code": "authorized", "approval": None}


def test_the_golden_logs_chain_is_the_documented_rule() -> None:
    """Numbers have no gap, time never falls, and every chain value is recomputed by the rule."""
    counts: Counter[str] = Counter()
    chains: dict[str, bytes] = {}
    last = 0
    for row in golden():
        keys = ("file", f"scope {row['scope']}", f"stream {row['stream']}")
        counts.update(keys)
        assert [counts[key] for key in keys] == [row["sequence"], row["number"], row["version"]]
        assert row["at"] >= last
        last = row["at"]
        data = chains.get(row["scope"], b"\x00" * 32)
        for name in ("sequence", "scope", "number", "stream", "version", "at", "type", "body"):
            column = str(row[name]).encode("utf-8")
            data += len(column).to_bytes(8, "big") + column
        chains[row["scope"]] = sha256(data).digest()
        assert row["chain"] == chains[row["scope"]].hex()
    assert len(chains) == 2


def test_the_golden_log_folds_to_the_golden_state(path: Path, clock: Clock) -> None:
    """The rows of the golden log, put into a new file, rebuild to the golden tables."""
    opened(path, clock).close()
    connection = apsw.Connection(str(path))
    for row in golden():
        values = (*list(row.values())[:-1], bytes.fromhex(row["chain"]))
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    connection.close()
    with opened(path, clock) as ledger:
        ledger.rebuild()
    connection = apsw.Connection(str(path))
    state = {}
    for table in ("tasks", "claims"):
        cursor = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3")  # noqa: S608  (a constant)
        names = [name for name, _ in cursor.get_description()]
        state[table] = [dict(zip(names, row, strict=True)) for row in cursor]
    connection.close()
    assert state == json.loads((FOLDER / "golden-state.json").read_text(encoding="utf-8"))


def test_the_golden_state_is_what_the_story_says() -> None:
    """The golden tables, read by hand: who held what, until when, and how it ended."""
    state = json.loads((FOLDER / "golden-state.json").read_text(encoding="utf-8"))
    tasks = [
        (row["stream"], row["attempts"], row["epoch_0"], row["epoch_1"], row["epoch_2"])
        for row in state["tasks"]
    ]
    assert tasks == [("acme/apollo/task/T-1", 3, 2, 1, 0), ("acme/gemini/task/T-1", 1, 1, 0, 0)]
    # Scope, slot, epoch, owner, state; created, acknowledged (-1: never), the four deadlines
    # in seconds since the start; occupancy.
    claims = [
        f"{row['stream'][5:11]} {row['slot']} {row['epoch']} {row['principal_id']} {row['state']}"
        f" {row['created_at'] - START} {(row['acknowledged_at'] or START - 1) - START}"
        f" {row['ack_by'] - START} {row['lease_until'] - START} {row['progress_by'] - START}"
        f" {row['hard_until'] - START} {row['occupancy']}"
        for row in state["claims"]
    ]
    assert claims == [
        "apollo 0 1 worker-1 released 0 10 300 400 1900 86400 terminal",
        "apollo 0 2 worker-2 expired 200 -1 500 500 2000 86600 none",
        "apollo 1 1 worker-1 active 200 200 500 799 2000 86600 none",
        "gemini 0 1 worker-2 active 200 200 500 500 2000 86600 unknown",
    ]
