"""Write the published schemas, the golden log, and the state that it must fold to.

python tools/schemas.py            write whatever is stale
python tools/schemas.py --check    write nothing; name each stale file and exit 1

The golden log is a small story told by the real ledger on a clock that stands where it is
put. It holds every event type, and its lines are kept for ever: it may grow at its end, and
the program refuses to change a line that is already there, because a log that somebody has
written cannot be changed either.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from idkmesh import (
    ActorContext,
    AuthorizationPolicy,
    ClaimBinding,
    ClaimLedger,
    PolicyRule,
    ScopedResourceRef,
    TaskClaimPolicy,
    TenantScope,
)
from idkmesh.events.catalog import TAGS
from idkmesh.events.port import ReadSession
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.projections import tables
from idkmesh.schemas import event_schema, task_claim_schema
from idkmesh.workunits import work_unit_schema

FOLDER = Path(__file__).resolve().parent.parent / "schemas"
LOG = "golden-log.jsonl"
STATE = "golden-state.json"
START = 1_700_000_000


def main() -> int:
    """Write or check the files; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the schemas and the golden log.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if stale")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are")
    options = parser.parse_args()
    folder: Path = options.folder
    wanted = published()
    found = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.json*")
    }
    if not options.check and not wanted[LOG].startswith(found.get(LOG, "")):
        print(f"{LOG}: a line would change, but a written event never does: use a new tag")
        return 1
    failed = False
    for name in sorted(wanted.keys() | found.keys()):
        text, old = wanted.get(name), found.get(name)
        if text == old:
            continue
        if text is None:
            failed = True
            print(f"{name}: unknown, nothing writes it")
        elif options.check:
            failed = True
            print(f"{name}: {'missing' if old is None else 'stale'}")
        else:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"{name}: written")
    return int(failed)


def published() -> dict[str, str]:
    """Return every file's name in the folder, and its text."""
    files = {
        "task-claim-v0.1.schema.json": pretty(task_claim_schema()),
        "work-unit-v0.2.schema.json": pretty(work_unit_schema()),
    }
    for tag, event in TAGS.items():
        files[f"events/{tag}.schema.json"] = pretty(event_schema(event))
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore.open(Path(folder) / "golden.sqlite3")
        clock = Clock()
        with ClaimLedger(store, golden_policy(), clock=clock) as ledger:
            tell(ledger, clock)
            with store.read() as session:
                files[LOG] = "".join(lines(session))
                files[STATE] = pretty(state(session))
    return files


def pretty(content: object) -> str:
    """Return content as the files hold it."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def lines(session: ReadSession) -> Iterator[str]:
    """Yield one line for each row of the log; the chain value in hex, the body as its text."""
    for row in session.log():
        columns = {**row._asdict(), "chain": row.chain.hex()}
        yield json.dumps(columns, ensure_ascii=False) + "\n"


def state(session: ReadSession) -> dict[str, list[dict[str, Any]]]:
    """Return every row of the tables, by column."""
    found = {}
    for table in ("tasks", "claims"):
        names = [
            name for (name,) in session.rows("SELECT name FROM pragma_table_info(?)", (table,))
        ]
        rows = tables.stored(session, table)
        found[table] = [dict(zip(names, row, strict=True)) for row in rows]
    return found


class Clock:
    """A clock that stands where the story puts it."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        """Return the time in epoch seconds."""
        return self.now


def golden_policy() -> AuthorizationPolicy:
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


def tell(ledger: ClaimLedger, clock: Clock) -> None:
    """Tell the story; new event types are told at its end."""
    apollo, gemini = TenantScope("acme", "apollo"), TenantScope("acme", "gemini")
    risky = ScopedResourceRef(apollo, "task", "T-1")
    plain = ScopedResourceRef(gemini, "task", "T-1")
    scopes = frozenset({apollo, gemini})
    dispatcher = actor("dispatcher-1", "service", "dispatcher", scopes)
    first = actor("worker-1", "human", "worker", scopes)
    second = actor("worker-2", "human", "worker", scopes)
    approval: dict[str, Any] = {
        "approver": actor("owner-1", "human", "owner", scopes),
        "approval_reference": "approvals/17",
    }
    binding = ClaimBinding("sha256:" + "a" * 64, "b" * 40, "sha256:" + "c" * 64)

    ledger.configure_task(
        risky,
        dispatcher,
        TaskClaimPolicy(concurrent_slots=2, competition_reason="two ways to solve it", risk="high"),
        **approval,
    )
    ledger.configure_task(plain, dispatcher, TaskClaimPolicy())

    ledger.claim(risky, first, request_id="r-1", binding=binding)
    clock.now = START + 10
    held: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
    ledger.acknowledge(risky, first, **held)
    clock.now = START + 100
    ledger.renew(risky, first, **held)
    ledger.progress(risky, first, **held)
    ledger.reserve_dispatch(risky, dispatcher, first, **held, **approval)
    for status, evidence in (("running", "runs/1: übernommen"), ("terminal", "runs/1/end")):
        clock.now += 20
        ledger.reconcile_execution(
            risky,
            dispatcher,
            **held,
            status=status,  # type: ignore[arg-type]
            evidence_reference=evidence,
            **approval,
        )
    ledger.record_submission(risky, first, **held, artifact_digest="sha256:" + "d" * 64, **approval)
    ledger.release(risky, first, **held)

    clock.now = START + 200
    ledger.claim(risky, second, request_id="r-2", binding=binding)
    ledger.claim(risky, first, request_id="r-3", binding=binding)
    ledger.claim(plain, second, request_id="r-1", binding=binding)
    ledger.acknowledge(plain, second, **held)
    ledger.reserve_dispatch(plain, dispatcher, second, **held)
    ledger.acknowledge(risky, first, request_id="r-3", epoch=1)
    clock.now = START + 499
    ledger.renew(risky, first, request_id="r-3", epoch=1)
    clock.now = START + 500
    ledger.snapshot(risky, dispatcher)
    clock.now = START + 501
    ledger.snapshot(risky, dispatcher)


def actor(name: str, kind: str, role: str, scopes: frozenset[TenantScope]) -> ActorContext:
    """Make one of the story's identities."""
    return ActorContext(
        principal_id=name,
        actor_type=kind,
        issuer="https://id.example",
        roles=frozenset({role}),
        scopes=scopes,
        data_clearance="restricted",
        identity_revision="rev-1",
    )


if __name__ == "__main__":
    sys.exit(main())
