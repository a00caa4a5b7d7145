"""The demo shows what it should, on any output, and says plainly what it cannot do."""

import io
import json
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path

import pytest
from click.testing import CliRunner
from demo_runs import CODE, RESEARCH, REVIEW, TEST, Ran, Runs, perform, write_units
from msgspec.structs import replace

from idkmesh import ClaimError, ClaimLedger, ErrorCode
from idkmesh.cli import crew, show, verbs, words
from idkmesh.cli.crew import Report
from idkmesh.cli.demo import play
from idkmesh.cli.director import Director
from idkmesh.cli.plans import SCOPE, dispatcher, make_plans
from idkmesh.cli.story import Moment, Promise, Story

PROMISES = [
    "processes",
    "race",
    "blocked",
    "admitted",
    "overtaken",
    "held",
    "freed",
    "killed",
    "takeover",
    "late",
    "ready",
    "rebuilt",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Give three performances, played at the same time."""
    return perform(tmp_path_factory.getbasetemp())


def idkmesh(*arguments: str) -> Ran:
    """Run the command line in this process."""
    result = CliRunner().invoke(verbs.idkmesh, arguments)
    return Ran(result.exit_code, result.stdout, result.stderr)


# What is seen.


def test_keeps_every_promise(runs: Runs) -> None:
    """The demo exits 0 and says of each of its promises that it was kept."""
    assert (runs.json.code, runs.json.err) == (0, "")
    assert runs.document["complete"] is True
    assert [promise["name"] for promise in runs.document["promises"]] == PROMISES
    assert [promise["kept"] for promise in runs.document["promises"]] == [True] * 12
    assert (runs.text.code, runs.text.err) == (0, "")


def test_one_task_a_work_unit(runs: Runs) -> None:
    """Each WorkUnit becomes a task, prerequisites first, and each misfortune befalls one."""
    tasks = [(each["work_unit_id"], each["act"]) for each in runs.document["tasks"]]
    assert tasks == [
        (RESEARCH, "race"),
        (CODE, "overtaken"),
        (REVIEW, "killed"),
        (TEST, "late"),
    ]


def test_workers_are_processes(runs: Runs) -> None:
    """Four workers are four processes, of which SIGKILL ends one and the others end well."""
    pids = {worker["pid"] for worker in runs.document["workers"]}
    assert len(pids) == 4
    assert runs.document["coordinator"]["pid"] not in pids
    ends = sorted(worker["exit_code"] for worker in runs.document["workers"])
    assert ends == [-signal.SIGKILL, 0, 0, 0]


def test_shows_slots_and_epochs(runs: Runs) -> None:
    """Two workers win the two slots of the first task; the others' slot has two epochs."""
    won: dict[str, list[tuple[int, int]]] = {}
    for claim in runs.document["claims"]:
        won.setdefault(claim["task"]["resource_id"], []).append((claim["slot"], claim["epoch"]))
    assert won == {
        "trip-import.research-timestamps": [(0, 1), (1, 1)],
        "trip-import.code-timestamps": [(0, 1), (0, 2)],
        "trip-import.review-timestamps": [(0, 1), (0, 2)],
        "trip-import.test-timestamps": [(0, 1), (0, 2)],
    }


def test_late_submission_is_stale(runs: Runs) -> None:
    """The late worker hands in after somebody else has taken over, and is told stale_claim."""
    told = [
        (moment["what"], moment["epoch"], moment.get("code"))
        for moment in runs.document["moments"]
        if moment.get("unit") == TEST
        and moment["what"] in {"granted", "submitted", "submission_refused"}
    ]
    assert told[:2] == [("granted", 1, None), ("granted", 2, None)]
    assert sorted(told[2:]) == [("submission_refused", 1, "stale_claim"), ("submitted", 2, None)]


def test_unknown_execution_holds_its_slot(runs: Runs) -> None:
    """From the reservation to the evidence whoever asks is refused; behind it somebody is not."""
    told = [moment for moment in runs.document["moments"] if moment.get("unit") == CODE]
    order = [moment["what"] for moment in told]
    held = told[order.index("reserved") : order.index("reconciled")]
    refused = [moment["code"] for moment in held if moment.get("holder") == "an execution"]
    assert set(refused) == {"task_capacity_reserved"}
    assert [moment for moment in held if moment["what"] == "granted"] == []
    freed = [moment for moment in told[order.index("reconciled") :] if moment["what"] == "granted"]
    assert [(moment["slot"], moment["epoch"]) for moment in freed] == [(0, 2)]


def test_ledger_can_be_kept(runs: Runs) -> None:
    """The file that --ledger names, folders included, is the ledger that was shown."""
    with ClaimLedger.open(runs.kept, read_only=True) as ledger:
        claims = [claim.to_dict() for claim in ledger.survey(SCOPE, dispatcher())]
    assert claims == runs.document["claims"]
    assert runs.document["ledger"] == str(runs.kept)
    assert runs.kept.stat().st_mode & 0o777 == 0o600


def test_leaves_nothing_behind(runs: Runs) -> None:
    """A ledger that nobody asked for is gone when the demo is over."""
    assert list(runs.scratch.iterdir()) == []


# How it ends.


def test_exits_1_where_a_promise_is_broken(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo exits 1 and names what it promised and did not see."""
    broken = Promise(name="late", text="a late result was refused", kept=False)
    story = replace(runs.story, promises=(*runs.story.promises, broken))
    monkeypatch.setattr(verbs, "play", lambda *_, **__: story)
    assert idkmesh("demo", "--json") == Ran(1, "", "idkmesh demo: not seen: late\n")


def test_exits_1_where_the_story_stops_short(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo exits 1 and says what it waited for, even if all that it promised was seen."""
    story = replace(runs.story, broken="waited 15 seconds for a worker, in vain")
    monkeypatch.setattr(verbs, "play", lambda *_, **__: story)
    ran = idkmesh("demo")
    assert (ran.code, ran.err) == (1, "idkmesh demo: waited 15 seconds for a worker, in vain\n")


def test_refusal_ends_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal that nobody arranged ends the story, which is told and judged up to there."""
    refusal = ClaimError(ErrorCode.CLOCK_ROLLBACK, "expected time to go on, but it did not")

    def refuse(_: Director) -> None:
        raise refusal

    monkeypatch.setattr(Director, "direct", refuse)
    out = io.StringIO()
    story = play(tmp_path / "claims.sqlite3", make_plans(), show.Document(out), kept=False)
    assert json.loads(out.getvalue())["broken"] == story.broken == str(refusal)
    assert [promise.name for promise in story.promises if promise.kept] == ["processes"]


# How it is shown.


class Terminal(io.StringIO):
    """An output that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def told(story: Story, out: io.StringIO) -> str:
    """Tell a story that has happened once more."""
    teller = show.Teller(out)
    teller.begins(story)
    for moment in story.moments:
        teller.waits("nothing", 0)
        teller.sees(story, moment)
    teller.ends(story)
    return out.getvalue()


def test_pipe_gets_plain_text(runs: Runs) -> None:
    """What is no terminal gets no control code but newlines, whatever the environment forces."""
    strange = {each for each in runs.text.out if not each.isprintable() and each != "\n"}
    assert strange == set()


def test_names_cannot_steer(runs: Runs) -> None:
    """What a WorkUnit's text does to a terminal's direction or width is escaped."""
    assert "Check the \\u202eimporter\\u200b." in runs.text.out


def test_story_is_told(runs: Runs) -> None:
    """The text has who won what, the takeovers, the refusals, every claim and every promise."""
    text = runs.text.out
    for word in (
        "slot 1 epoch 1",
        "task_capacity_reserved",
        "task_not_ready: prerequisite_missing:research-timestamps\n",
        "everybody asked in vain; claims written: 0\n",
        "· ready: code-timestamps\n",
        "slot 0 epoch 2 · on new inputs sha256:",
        "inputs_changed",
        "SIGKILL",
        "stale_claim",
        "· ready: nothing\n",
    ):
        assert word in text
    assert text.count("task_not_ready") == 2  # one speaks for all who asked for the same unit
    assert text.count("slot 0 epoch 2 · takes over, after") == 2
    assert text.count("✓ handed in") == 2 * 5  # a line and a row for each
    assert "● holds a claim   ✓ counts   ✗ refused or dead   ? may be running   ○ over" in text
    assert text.count("\n  ✓ ") == 12
    assert text.endswith("\nEverything that was promised was seen.\n")


def test_terminal_gets_colours(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, what counts is green and what is refused is red."""
    for name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    text = told(runs.story, Terminal())
    assert "\x1b[32m✓ handed in" in text
    assert "\x1b[31m✗ refused" in text
    assert "\x1b" not in told(runs.story, io.StringIO())


def test_broken_promise_is_shown(runs: Runs) -> None:
    """A promise that was not kept has another sign, and the last line says so."""
    broken = Promise(name="late", text="a late result was refused", kept=False)
    text = told(replace(runs.story, promises=(broken,)), io.StringIO())
    assert "\n  ✗ a late result was refused\n" in text
    assert text.endswith("\nNot all of what was promised was seen.\n")


def test_other_encodings_get_ascii(runs: Runs) -> None:
    """Where the output's encoding is not of Unicode, every sign has its stand-in."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    teller = show.Teller(out)
    teller.begins(runs.story)
    for moment in runs.story.moments:
        teller.sees(runs.story, moment)
    teller.ends(runs.story)
    out.flush()
    assert b"+ handed in" in raw.getvalue()


def test_document_is_one_ascii_document(runs: Runs) -> None:
    """The document is all that --json prints, and no character of it can steer a terminal."""
    plan = replace(runs.story.plans[0], unit="a\u202e\x7f\x9b")
    out = io.StringIO()
    show.Document(out).ends(replace(runs.story, plans=(plan,)))
    assert json.loads(out.getvalue())["tasks"][0]["work_unit_id"] == "a\u202e\x7f\x9b"
    assert {each for each in out.getvalue() if not " " <= each <= "~"} == {"\n"}
    assert {each for each in runs.json.out if not " " <= each <= "~"} == {"\n"}


# What is refused.


def test_existing_file_is_refused(tmp_path: Path) -> None:
    """A file that is there is nobody's new ledger: exit 2, the file untouched, its name escaped."""
    file = tmp_path / "a\x1b[31m.sqlite3"
    file.write_bytes(b"mine")
    ran = idkmesh("demo", "--ledger", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("idkmesh demo: expected --ledger to name a new file, but ")
    assert ran.err.endswith("/a\\x1b[31m.sqlite3 is there\n")
    assert file.read_bytes() == b"mine"


def test_dangling_link_is_refused(tmp_path: Path) -> None:
    """A symbolic link is not followed, even to nowhere."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    assert idkmesh("demo", "--ledger", str(link)).code == 2
    assert not (tmp_path / "elsewhere").exists()


def test_file_below_a_file_is_refused(tmp_path: Path) -> None:
    """A file that cannot be made is refused in one line, without a traceback."""
    (tmp_path / "file").write_bytes(b"")
    ran = idkmesh("demo", "--ledger", str(tmp_path / "file" / "claims.sqlite3"))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


def test_too_few_units_are_refused(tmp_path: Path) -> None:
    """The story needs a WorkUnit for each act; with fewer the demo exits 2 and makes nothing."""
    folder = write_units(tmp_path / "units")
    max(folder.iterdir()).unlink()
    ledger = tmp_path / "claims.sqlite3"
    ran = idkmesh("demo", "--work-units", str(folder), "--ledger", str(ledger))
    assert ran == Ran(2, "", "idkmesh demo: expected 4 to 12 WorkUnits, but there are 3\n")
    assert not ledger.exists()


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_missing_extra_is_named(missing: str) -> None:
    """Without the extra's packages the command says in one line what to install, and exits 2."""
    code = f"import sys; sys.modules[{missing!r}] = None; from idkmesh.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    line = "idkmesh: the command line needs an extra: pip install 'idkmesh[cli]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_worker_needs_no_extra() -> None:
    """A worker process loads neither the command line nor what it is shown with."""
    code = "import sys, idkmesh.cli.crew; print(sorted({'click', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_worker_says_what_its_ledger_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that cannot use the ledger says so in one report, and ends without a traceback."""
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process keeps its handlers
    ours, theirs = Pipe()
    crew.run("ada", str(tmp_path), make_plans(), theirs)
    assert ours.recv() == Report("failed", code="store_unsafe")
    story = Story(plans=(), ledger=None, coordinator_pid=1)
    moment = Moment(elapsed_ms=0, who="ada", what="failed", code="store_unsafe")
    line = words.line(story, moment)
    assert line is not None
    assert line.rest.startswith("store_unsafe: the engine, ")
