"""The admission demo: one JSON document, a table for a person, and exit 1 where it was untrue."""

import contextlib
import json
import os
import pty
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from idkmesh import ErrorCode
from idkmesh.commands.fence import OnSameInputs
from idkmesh.events.types import Authority, TaskEvent
from idkmesh.projections.task import TaskState

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "examples" / "coordination" / "admission_demo.py"
SCHEMA = ROOT / "schemas" / "executor-admission-v0.1.schema.json"
CODING = "trip-import/code-timestamps"
RESEARCH = "trip-import/research-timestamps"
REVIEW = "trip-import/review-timestamps"
TESTING = "trip-import/test-timestamps"

STORY = [
    ("blocked", "task_not_ready", 0, 0),
    ("admitted", "latest", 0, 0),
    ("admitted", "created", 1, 0),
    ("worked on", "active", 1, 0),
    ("worked on", "created", 1, 0),
    ("worked on", "created", 1, 1),
    ("overtaken", "latest", 1, 1),
    ("overtaken", "inputs_changed", 1, 1),
]


def demo(**options: Any) -> subprocess.Popen[str]:
    """Start the demo as a program of its own, every warning an error."""
    command = [sys.executable, "-W", "error", str(DEMO)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", **options)


def shown_on(terminal: int) -> bytes:
    """Return all that was written to a terminal whose other end is closed, and let it go."""
    shown = b""
    with contextlib.closing(os.fdopen(terminal, "rb", buffering=0)) as screen:
        try:
            while more := screen.read(4_096):
                shown += more
        except OSError:
            return shown  # how Linux says that the other end is closed
    return shown


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder that the demo is told to keep temporary files in."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def document(scratch: Path) -> dict[str, Any]:
    """Give what the demo prints where nobody watches."""
    with demo(stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(scratch)}) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_the_evidence_is_marked_as_made_up(document: dict[str, Any]) -> None:
    """The document says what it is and that nothing in it is evidence of real work."""
    assert document["kind"] == "idkmesh-admission-demo"
    assert document["evidence_class"] == "synthetic_fixture"
    assert document["as_told"] is True


def test_the_story_is_the_one_that_was_promised(document: dict[str, Any]) -> None:
    """Step by step: what it belongs to, what came of it, and what was on record after it."""
    told = [
        (
            step["scene"],
            step["happened"]["outcome"],
            step["happened"]["claims"],
            step["happened"]["submissions"],
        )
        for step in document["steps"]
    ]
    assert told == STORY
    assert [step["expected"] == step["happened"] for step in document["steps"]] == [True] * 8


def test_it_runs_on_the_four_units(document: dict[str, Any]) -> None:
    """Research comes before coding, coding before testing and review; and so they are ready."""
    requires = {each["work_unit_id"]: each["requires"] for each in document["work_units"]}
    assert requires == {RESEARCH: [], CODING: [RESEARCH], TESTING: [CODING], REVIEW: [CODING]}
    assert document["steps"][0]["blockers"] == [f"prerequisite_missing:{RESEARCH}"]
    ready = [step["ready_units"] for step in document["steps"]]
    assert ready == [[RESEARCH]] + [[CODING]] * 7


def test_it_shows_the_records_of_the_three_phases(document: dict[str, Any]) -> None:
    """What a phase wrote has its record, on one and the same inputs; a refusal has none."""
    records = [step["record"] for step in document["steps"]]
    phases = [record and record["phase"] for record in records]
    assert phases == [
        None,
        None,
        "admission",
        None,
        "execution-reservation",
        "submission",
        None,
        None,
    ]
    made = [record for record in records if record]
    fits = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    for record in made:
        fits.validate(record)
    assert len({record["inputs_digest"] for record in made}) == 1
    assert {record["work_unit_id"] for record in made} == {CODING}
    assert {record["graph_digest"] for record in made} == {document["graph_digest"]}


def test_there_is_no_second_submission(document: dict[str, Any]) -> None:
    """The one claim keeps its first candidate, and its execution stays as it was reserved."""
    (claim,) = document["claims"]
    (submitted,) = (
        step["record"]["claim"]["submission_digest"]
        for step in document["steps"]
        if step["record"] and step["record"]["phase"] == "submission"
    )
    assert claim["submission_digest"] == submitted
    assert (claim["state"], claim["occupancy"]) == ("active", "unknown")


def test_it_leaves_nothing_behind(document: dict[str, Any], scratch: Path) -> None:
    """The ledger is gone when the demo is over."""
    assert document["claims"]
    assert list(scratch.iterdir()) == []


def test_a_person_gets_a_table_as_well(tmp_path: Path) -> None:
    """On a terminal the story is drawn too, apart from the document, in plain short lines."""
    master, terminal = pty.openpty()
    with demo(stderr=terminal, cwd=tmp_path) as process:
        os.close(terminal)
        out, _ = process.communicate()
    drawn = shown_on(master).decode("ascii").splitlines()
    assert process.returncode == 0
    assert json.loads(out)["as_told"] is True
    assert drawn[0] == "Executor admission, told on synthetic fixtures"
    assert max(map(len, drawn)) <= 79
    outcomes = [line for line in drawn if line.rstrip().endswith(("0", "1"))]
    assert len(outcomes) == len(STORY)
    for line, (_, outcome, claims, submissions) in zip(outcomes, STORY, strict=True):
        sign = "x" if outcome in set(ErrorCode) else "+"
        assert f"{sign} {outcome} " in line
        assert line.split()[-2:] == [str(claims), str(submissions)]


# Where it is not as told.


def play(monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the demo in this process, whose library a test has changed; return its exit code."""
    monkeypatch.setattr(sys, "argv", [str(DEMO)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(DEMO), run_name="__main__")
    code: int = ended.value.code  # type: ignore[assignment]  # the demo always gives a number
    return code


def test_it_fails_where_the_gate_does_not_look_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a gate that lets moved inputs pass, the demo exits 1 and says which step was untrue."""

    def heedless(
        self: OnSameInputs, by: tuple[Authority, ...], now: int, state: TaskState
    ) -> TaskEvent | None:
        return self.command.decide(by, now, state)

    monkeypatch.setattr(OnSameInputs, "decide", heedless)
    assert play(monkeypatch) == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["as_told"] is False
    assert [step["as_told"] for step in document["steps"]] == [True] * 7 + [False]
    assert document["steps"][7]["happened"]["outcome"] == "submission_conflict"
    assert err.startswith("admission_demo: not as told: submit another candidate: expected ")
    assert err.count("\n") == 1


def test_it_says_in_one_line_why_there_is_no_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where no ledger can be made, the demo exits 1 with one line and no document."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert play(monkeypatch) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("admission_demo: ")
    assert err.count("\n") == 1
