"""The golden log: one story with every event type ever, kept for ever, and what it folds to."""

import json
import shutil
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import msgspec
from builders import DISPATCHER, SCOPE, START, Clock, opened, task
from test_schemas import CLAIM, FOLDER, LEGACY, TAGS, contents, run_tool, validator

from idkmesh import TenantScope
from idkmesh.events.port import Row
from idkmesh.replay import verify
from idkmesh.seal import Seal
from idkmesh.transfer import end_of, import_lines, line_of


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
    """Each type of today and of earlier has a line whose body satisfies the type's schema."""
    for row in golden():
        validator(f"events/{row['type']}.schema.json").validate(json.loads(row["body"]))
    assert {row["type"] for row in golden()} == TAGS | LEGACY


def test_both_scopes_have_observations_and_a_repaired_clock() -> None:
    """What belongs to a scope rather than to a task is there in two scopes."""
    for kind in ("prerequisite.observed.v1", "clock.observed.v1", "clock.repaired.v1"):
        found = {row["scope"] for row in golden() if row["type"] == kind}
        assert found == {"acme/apollo", "acme/gemini"}


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
    first, approved, plain, gated = (
        json.loads(row["body"]) for row in golden() if row["type"] == "execution.reserved.v1"
    )
    assert approved["by"] == by
    assert approved["owner_by"] == {**by, "action": "execute", "actor": worker}
    for each in (first, plain, gated):
        assert each["by"] == {**by, "code": "authorized", "approval": None}


def test_the_golden_logs_chain_is_the_documented_rule() -> None:
    """Numbers have no gap, time falls by repairs alone, every chain value follows the rule."""
    counts: Counter[str] = Counter()
    chains: dict[str, bytes] = {}
    last = 0
    for row in golden():
        keys = ("file", f"scope {row['scope']}", f"stream {row['stream']}")
        counts.update(keys)
        assert [counts[key] for key in keys] == [row["sequence"], row["number"], row["version"]]
        assert (row["at"] < last) == (row["type"] == "clock.repaired.v1")
        last = row["at"]
        data = chains.get(row["scope"], b"\x00" * 32)
        for name in ("sequence", "scope", "number", "stream", "version", "at", "type", "body"):
            column = str(row[name]).encode("utf-8")
            data += len(column).to_bytes(8, "big") + column
        chains[row["scope"]] = sha256(data).digest()
        assert row["chain"] == chains[row["scope"]].hex()
    assert len(chains) == 2


def imported(path: Path) -> None:
    """Make a ledger of the golden log."""
    rows = [Row(**{**row, "chain": bytes.fromhex(row["chain"])}) for row in golden()]
    heads = {row.scope: (row.scope, row.number, row.chain) for row in rows}
    lines = [*map(line_of, rows), end_of(Seal.of(len(rows), heads.values()))]
    import_lines((msgspec.json.encode(line) + b"\n" for line in lines), path)


def golden_state() -> dict[str, list[dict[str, Any]]]:
    """Read the golden state."""
    state = json.loads((FOLDER / "golden-state.json").read_text(encoding="utf-8"))
    assert list(state) == ["tasks", "claims", "observations"]
    return state  # type: ignore[no-any-return]  # JSON has no types


def tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the tables of a ledger that nobody has open."""
    connection = apsw.Connection(str(path))
    state = {}
    for table in ("tasks", "claims", "observations"):
        cursor = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3")  # noqa: S608  (a constant)
        names = [name for name, _ in cursor.get_description()]
        state[table] = [dict(zip(names, row, strict=True)) for row in cursor]
    connection.close()
    return state


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
    assert tables(path) == golden_state()


def test_the_golden_log_verifies_when_imported(path: Path) -> None:
    """A ledger made of the golden log has no problem, old events and repairs among them."""
    imported(path)
    found = verify(path)
    assert (found.events, found.tasks, found.claims, found.problems) == (48, 4, 8, ())
    assert tables(path) == golden_state()


def test_a_ledger_goes_on_behind_the_golden_log(path: Path) -> None:
    """Commands act on what an earlier version and two repairs have left, and it all verifies."""
    imported(path)
    gemini = TenantScope("acme", "gemini")
    boss = msgspec.structs.replace(DISPATCHER, scopes=frozenset({SCOPE, gemini}))
    with opened(path, Clock(START + 900)) as ledger:
        (oldest,) = ledger.snapshot(task("T-0", gemini), boss)
        assert (oldest.occupancy, oldest.execution_reference) == ("terminal", "runs/0/end")
    with opened(path, Clock(START + 1_100)) as ledger:
        first, second = ledger.snapshot(task("T-1", gemini), boss)
        assert (first.state, second.state) == ("expired", "expired")
    found = verify(path)
    assert (found.events, found.problems) == (50, ())


def test_the_golden_state_is_what_the_story_says() -> None:
    """The golden tables, read by hand: who held what, until when, and how it ended."""
    state = golden_state()
    tasks = [
        f"{row['stream']} {row['attempts']} {row['epoch_0']} {row['epoch_1']} {row['epoch_2']}"
        for row in state["tasks"]
    ]
    assert tasks == [
        "acme/apollo/task/T-1 3 2 1 0",
        "acme/apollo/task/T-2 2 2 0 0",
        "acme/gemini/task/T-0 1 1 0 0",
        "acme/gemini/task/T-1 2 2 0 0",
    ]
    # Scope, task, slot, epoch, owner, state; in seconds since the start: created, acknowledged
    # (None: never), the four deadlines; occupancy.
    claims = [
        f"{row['stream'].removeprefix('acme/').replace('/task/', ' ')}"
        f" {row['slot']} {row['epoch']} {row['principal_id']} {row['state']}"
        f" {row['created_at'] - START}"
        f" {row['acknowledged_at'] and row['acknowledged_at'] - START}"
        f" {row['ack_by'] - START} {row['lease_until'] - START} {row['progress_by'] - START}"
        f" {row['hard_until'] - START} {row['occupancy']}"
        for row in state["claims"]
    ]
    assert claims == [
        "apollo T-1 0 1 worker-1 released 0 10 300 400 1900 86400 terminal",
        "apollo T-1 0 2 worker-2 expired 200 None 500 500 2000 86600 none",
        "apollo T-1 1 1 worker-1 expired 200 200 500 799 2000 86600 none",
        "apollo T-2 0 1 worker-1 expired 600 600 900 900 2400 87000 terminal",
        "apollo T-2 0 2 worker-2 expired 700 None 1000 1000 2500 87100 none",
        "gemini T-0 0 1 worker-2 released -1000 -1000 -700 -700 800 85400 terminal",
        "gemini T-1 0 1 worker-2 expired 200 200 500 500 2000 86600 terminal",
        "gemini T-1 0 2 worker-1 active 800 None 1100 1100 2600 87200 none",
    ]
    # Which observation of which unit, and what of the evidence is there.
    evidence = "integrated_revision artifacts_digest verification_reference integration_reference"
    observations = [
        f"{row['scope']} {row['work_unit_id']} {row['sequence']} {row['state']}"
        f" {[row[name] is not None for name in evidence.split()].count(True)}"
        for row in state["observations"]
    ]
    assert observations == [
        "acme/apollo feeds/parse 1 pending 0",
        "acme/apollo feeds/read 1 candidate 1",
        "acme/apollo feeds/read 2 integrated 4",
        "acme/gemini feeds/read 1 rejected 1",
    ]


def test_a_repair_ends_every_claim_of_both_scopes_at_the_old_watermark() -> None:
    """The golden log's repairs: whose claims ended, at which time, and where time went back to."""
    ahead = START + 315_360_000
    told = []
    for row in golden():
        body = json.loads(row["body"])
        if body.get("deadline") == "clock_repair":
            assert (row["at"], body["due_at"]) == (ahead, ahead)
            told.append(f"{row['stream']} {body['slot']}/{body['epoch']}")
        elif row["type"] == "clock.repaired.v1":
            assert body["old_watermark"] == ahead
            told.append(f"{row['stream']} {row['at'] - START} {body['evidence']}")
    assert told == [
        "acme/apollo/task/T-1 1/1",
        "acme/apollo/task/T-2 0/1",
        "acme/gemini/task/T-1 0/1",
        "acme/gemini/clock 700 Uhr zehn Jahre voraus, tickets/9",
        "acme/apollo/task/T-2 0/2",
        "acme/apollo/clock 800 tickets/10",
    ]


def test_an_event_of_an_earlier_version_differs_from_todays_by_one_member() -> None:
    """The golden log's old reconciliation has all that today's has but ``from_reserve``."""
    (old,) = (json.loads(row["body"]) for row in golden() if row["type"] in LEGACY)
    new = next(
        json.loads(row["body"]) for row in golden() if row["type"] == "execution.reconciled.v1"
    )
    assert list(old) == ["type", "by", "slot", "epoch", "status", "evidence_reference"]
    assert list(new) == [*old, "from_reserve"]
