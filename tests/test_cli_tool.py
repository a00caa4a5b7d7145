"""The replay tool: the state of a ledger out of its log, where no extra is installed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from demo_runs import HANG_SECONDS, Ran
from replay_builders import edited, forge, life, put_log, rows_of
from store_checks import foreign

from idkmesh.replay import seal

TOOL = Path(__file__).resolve().parent.parent / "tools" / "replay.py"
# As it runs where the command line's extra was not installed.
BARE = (
    "import runpy, sys; sys.modules['click'] = sys.modules['rich'] = None;"
    " sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


# As it runs where Ctrl-C comes while the state is made.
INTERRUPTED = (
    "import signal, sys, idkmesh.replay as replay;"
    " signal.signal(signal.SIGINT, signal.default_int_handler);"
    f" replay.state_at = lambda *_, **__: signal.raise_signal(signal.SIGINT); {BARE}"
)


def run(as_it_runs: str, *arguments: object) -> Ran:
    """Run the tool as a program of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", as_it_runs, str(TOOL), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def replay(*arguments: object) -> tuple[int, list[Any]]:
    """Run the tool without the extra; return its code and the objects that it printed."""
    ran = run(BARE, *arguments)
    assert "Traceback" not in ran.err
    assert ran.out.isascii()
    return ran.code, [json.loads(line) for line in ran.out.splitlines()]


def test_state_is_every_task_with_its_claims(path: Path) -> None:
    """The state is one object a task, now, behind an event, or at a time."""
    life(path)

    def states(*point: object) -> list[tuple[int, str]]:
        code, found = replay("state", path, *point)
        assert code == 0
        return [(each["epoch"], each["state"]) for task in found for each in task["claims"]]

    assert states() == [(1, "released"), (2, "expired")]
    assert states("--sequence", 12) == [(1, "released"), (2, "active")]
    assert states("--time", 1_700_000_010) == [(1, "released"), (2, "active")]
    assert states("--sequence", 0) == []


def test_verify_is_one_object(path: Path) -> None:
    """A verification is one object with its problems, and exits 1 where there is one."""
    kept = seal(life(path))
    code, (found,) = replay("verify", path, "--seal", kept)
    assert (code, found["ok"], found["events"], found["seal"]) == (0, True, 14, kept)
    put_log(path, rows_of(path)[:13])
    code, (found,) = replay("verify", path, "--seal", kept)
    assert (code, found["ok"]) == (1, False)
    assert "seal" in {each["place"] for each in found["problems"]}


def test_rebuild_makes_the_tables_anew(path: Path) -> None:
    """The tables come back out of the log, in place or in a new file."""
    connection = foreign(life(path))
    connection.execute("DROP TABLE claims")
    connection.close()
    new = path.with_name("new.sqlite3")
    code, (found,) = replay("rebuild", path, new)
    assert (code, found["ok"], found["claims"]) == (0, True, 2)
    assert replay("verify", path)[0] == 1
    assert replay("rebuild", path)[0] == 0
    assert replay("verify", path)[0] == 0
    assert replay("rebuild", path, new) == (2, [])


@pytest.mark.parametrize("verb", ["verify", "state", "rebuild"])
def test_no_ledger_exits_3(path: Path, verb: str) -> None:
    """What cannot be read is one object with a code and a message, and exits 3; none is made."""
    code, (found,) = replay(verb, path)
    assert code == 3
    assert found["error"]["code"] == "store_readonly"
    assert not path.exists()


def test_a_log_that_breaks_its_rules_is_not_rebuilt(path: Path) -> None:
    """An event that breaks the log's rules is named, exits 1, and leaves no new file."""
    forge(life(path), edited(4, by__action="release"))
    new = path.with_name("new.sqlite3")
    code, (found,) = replay("rebuild", path, new)
    assert code == 1
    assert "event 4" in found["error"]["message"]
    assert not new.exists()


def test_what_is_asked_wrongly_exits_2(path: Path) -> None:
    """A seal that is none, and a point that is none, exit 2."""
    life(path)
    assert replay("verify", path, "--seal", "monday")[0] == 2
    assert replay("state", path, "--sequence", -1)[0] == 2
    assert replay("state", path, "--sequence", 1, "--time", 1)[0] == 2
    assert replay("state", path, "--sequence", 14)[0] == 0
    assert replay("state", path, "--sequence", 15)[0] == 2


@pytest.mark.parametrize("verb", ["verify", "state", "rebuild"])
@pytest.mark.parametrize("name", [":memory:", "x" * 501, "\udcff", ""], ids=ascii)
def test_a_name_of_no_ledger_exits_2(path: Path, verb: str, name: str) -> None:
    """A name that is too long, no text, or that of memory, is usage, wherever it stands."""
    assert replay(verb, name)[0] == 2
    if verb == "rebuild":
        assert replay(verb, life(path), name)[0] == 2


def test_breaking_off_exits_130(path: Path) -> None:
    """Ctrl-C ends the tool without a word."""
    assert run(INTERRUPTED, "state", life(path)) == (130, "", "")


def test_what_belongs_to_a_new_file_is_in_its_way(path: Path, tmp_path: Path) -> None:
    """A file that stands where the engine would put its own beside NEW is a wrong argument."""
    new = tmp_path / "other.sqlite3"
    new.with_name(new.name + "-wal").touch()
    assert run(BARE, "rebuild", life(path), new).code == 2
    assert not new.exists()
