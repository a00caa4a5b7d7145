"""Write the published schemas, the golden log, and the state that it must fold to.

python tools/schemas.py            write whatever is stale
python tools/schemas.py --check    write nothing; name each stale file and exit 1

The golden log is a small story (``golden_story.py``) told by the real ledger. It holds every
event type that was ever written, and its lines are kept for ever: it may grow at its end, and
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

import golden_story

from idkmesh import ClaimLedger
from idkmesh.events.catalog import EVENTS
from idkmesh.events.legacy import UPCASTS
from idkmesh.events.port import ReadSession
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.projections import tables
from idkmesh.schemas import (
    event_schema,
    executor_admission_schema,
    prerequisite_observation_schema,
    task_claim_schema,
)
from idkmesh.workunits import work_unit_schema

FOLDER = Path(__file__).resolve().parent.parent / "schemas"
LOG = "golden-log.jsonl"
STATE = "golden-state.json"


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
    schemas = {
        "task-claim-v0.1": task_claim_schema(),
        "executor-admission-v0.1": executor_admission_schema(),
        "prerequisite-observation-v0.1": prerequisite_observation_schema(),
        "work-unit-v0.2": work_unit_schema(),
    }
    for event in (*EVENTS, *UPCASTS):
        schemas[f"events/{event.__struct_config__.tag}"] = event_schema(event)
    files = {f"{name}.schema.json": pretty(schema) for name, schema in schemas.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.sqlite3"
        store = SqliteStore.open(path)
        clock = golden_story.Clock()
        with ClaimLedger(store, golden_story.rules(), clock=clock) as ledger:
            golden_story.tell(path, store, ledger, clock)
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
    found: dict[str, list[dict[str, Any]]] = {}
    for table in tables.TABLES:
        names = [
            name for (name,) in session.rows("SELECT name FROM pragma_table_info(?)", (table,))
        ]
        rows = tables.stored(session, table)
        found[table] = [dict(zip(names, row, strict=True)) for row in rows]
    return found


if __name__ == "__main__":
    sys.exit(main())
