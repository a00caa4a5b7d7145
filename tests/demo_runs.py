"""Real performances of the demo, for every test that looks at one."""

import io
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from idkmesh.cli import show
from idkmesh.cli.demo import play
from idkmesh.cli.plans import example_units, make_plans
from idkmesh.cli.story import Story

IDKMESH: Final = [sys.executable, "-W", "error", "-c", "from idkmesh.cli import main; main()"]
HANG_SECONDS: Final = 120

# The example WorkUnits.
RESEARCH: Final = "trip-import/research-timestamps"
CODE: Final = "trip-import/code-timestamps"
REVIEW: Final = "trip-import/review-timestamps"
TEST: Final = "trip-import/test-timestamps"


class Ran(NamedTuple):
    """What a program left: its code and what it printed."""

    code: int
    out: str
    err: str


class Runs(NamedTuple):
    """Three performances at once: as JSON, as text on other units, and inside this process."""

    document: dict[str, Any]
    json: Ran
    kept: Path
    text: Ran
    scratch: Path
    story: Story


def write_units(folder: Path, **changes: Any) -> Path:
    """Copy the example WorkUnits, with a few parts of each replaced."""
    folder.mkdir()
    for file in example_units().iterdir():
        unit = {**json.loads(file.read_text(encoding="utf-8")), **changes}
        (folder / file.name).write_text(json.dumps(unit), encoding="utf-8")
    return folder


@cache
def perform(base: Path) -> Runs:
    """Play three performances at the same time, once for all tests."""
    folder = base / "performances"
    folder.mkdir()
    kept = folder / "kept" / "claims.sqlite3"
    units = write_units(
        folder / "units",
        objective="Check\nthe \u202eimporter\u200b.",
        security={
            "risk_class": "critical",
            "data_classification": "restricted",
            "minimum_worker_trust": "trusted",
            "sandbox_required": True,
        },
    )
    scratch = folder / "scratch"
    scratch.mkdir()
    started = [
        subprocess.Popen(
            [*IDKMESH, "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(scratch), "FORCE_COLOR": "1", "PYTHONUTF8": "1"},
        )
        for arguments in (["--json", "--ledger", str(kept)], ["--work-units", str(units)])
    ]
    try:
        story = play(
            folder / "inside.sqlite3", make_plans(), show.Document(io.StringIO()), kept=True
        )
        ended = [Ran(-1, *process.communicate(timeout=HANG_SECONDS)) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    as_json, as_text = (
        ran._replace(code=process.returncode) for ran, process in zip(ended, started, strict=True)
    )
    return Runs(json.loads(as_json.out), as_json, kept, as_text, scratch, story)
