"""The standard streams of a program: closed, full, or with nobody at their other end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import BUFFERED
from demo_runs import HANG_SECONDS, IDKMESH
from replay_builders import life

from idkmesh.replay import verify

TOOL = [sys.executable, "-W", "error", str(Path(__file__).parent.parent / "tools" / "replay.py")]
CALLS: list[list[str]] = [
    [*IDKMESH, "log", "L"],
    [*IDKMESH, "tasks", "L"],
    [*IDKMESH, "verify", "L", "--json"],
    [*IDKMESH, "export", "L", "F"],
    [*IDKMESH, "backup", "L", "F"],
    [*IDKMESH, "rebuild", "L"],
    [*TOOL, "state", "L"],
    [*TOOL, "verify", "L"],
    [*TOOL, "rebuild", "L", "F"],
]
PRINTING: list[list[str]] = [
    *CALLS[:3],
    *CALLS[6:],
    [*IDKMESH, "--help"],
    [*IDKMESH, "--version"],
    [*IDKMESH, "log", "--help"],
    [*TOOL, "--help"],
]


def words(call: list[str]) -> str:
    """Return a call as a test is named by it."""
    name = "replay.py" if call[: len(TOOL)] == TOOL else "idkmesh"
    return " ".join([name, *(word for word in call if word not in {*TOOL, *IDKMESH})])


def run(path: Path, call: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    """Run a call on a ledger, its streams redirected as a shell does it."""
    names = {"L": str(life(path)), "F": str(path.with_name("new"))}
    return subprocess.run(
        [
            "/bin/sh",
            "-c",
            f'exec "$@" {redirection}',
            "sh",
            *(names.get(each, each) for each in call),
        ],
        env=BUFFERED,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("call", CALLS, ids=words)
def test_a_closed_stream_leads_nowhere(path: Path, call: list[str], closed: str) -> None:
    """Where a standard stream is closed, everything is done, and no file takes its place."""
    done = run(path, call, closed)
    assert (done.returncode, done.stderr) == (0, "")
    assert verify(path).ok
    if "F" in call:
        assert path.with_name("new").stat().st_size > 4096


def test_what_is_wrong_has_its_code_without_an_error_output(path: Path) -> None:
    """A verb that cannot say what is wrong still exits with what it means."""
    for redirection in ("2>&-", "2>/dev/full"):
        for call, code in (
            ([*IDKMESH, "log", "none"], 3),
            ([*IDKMESH, "show", "L", "T-9"], 2),
            ([*IDKMESH, "show"], 2),
            ([*IDKMESH, "grant"], 2),
            ([*TOOL, "state", "none"], 3),
            ([*TOOL, "grant"], 2),
        ):
            done = run(path.with_name(f"{len(redirection)}{words(call)}"), call, redirection)
            assert (done.returncode, done.stderr) == (code, ""), (call, redirection)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("call", PRINTING, ids=words)
def test_an_output_that_takes_nothing_exits_3(path: Path, call: list[str]) -> None:
    """Where the output cannot be written, the error output says so in one line; exit 3."""
    done = run(path, call, ">/dev/full")
    assert done.returncode == 3
    assert done.stderr.endswith(": ENOSPC: No space left on device\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("call", PRINTING, ids=words)
def test_an_output_that_nobody_reads_exits_141(path: Path, call: list[str]) -> None:
    """Where whoever read the output has gone, a program says nothing and exits 141."""
    read, write = os.pipe()
    os.close(read)
    names = {"L": str(life(path)), "F": str(path.with_name("new"))}
    try:
        done = subprocess.run(
            [names.get(each, each) for each in call],
            env=BUFFERED,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
            timeout=HANG_SECONDS,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_no_arguments_are_answered_with_the_help(path: Path) -> None:
    """Without a verb the help is printed as it is, on the error output; exit 2."""
    done = run(path, IDKMESH, "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "\n  verify        Check a ledger, and that it only grew.\n" in done.stderr


@pytest.mark.parametrize("call", [[*IDKMESH, "log", "x"], [*TOOL, "state", "x"]], ids=words)
def test_a_working_folder_that_is_gone_exits_3(path: Path, call: list[str]) -> None:
    """Where the working folder was removed, a name in it cannot be read, which is said; exit 3."""
    gone = path.with_name("gone")
    gone.mkdir()
    done = run(path, ["/bin/sh", "-c", f'cd "{gone}"; rmdir "{gone}"; exec "$@"', "sh", *call], "")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith(": ENOENT: No such file or directory\n")
    assert done.stderr.count("\n") == 1
