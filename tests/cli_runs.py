"""The command line's verbs, run in every way: in a pipe, on a terminal, as a program."""

import io
import os
import pty
import queue
import re
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from builders import DISPATCHER, RIVAL, RUNNING, WORKER, Clock, binding, granted, opened, task
from click.testing import CliRunner
from demo_runs import HANG_SECONDS, IDKMESH, Ran
from replay_builders import chained, numbered, put_log
from store_checks import foreign

from idkmesh import TaskClaimPolicy
from idkmesh.cli import verbs
from idkmesh.events.port import Row

NAMES = (
    "log",
    "show",
    "tasks",
    "history",
    "verify",
    "seal",
    "rebuild",
    "export",
    "import",
    "backup",
    "repair-clock",
)
# Whoever starts the tests in the background may have turned Ctrl-C off for all that they start.
INTERRUPTIBLE = [
    *IDKMESH[:-1],
    f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {IDKMESH[-1]}",
]
# A program writes into a pipe in blocks unless it was told otherwise, and that is what counts.
BUFFERED = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
CONTROL = re.compile(r"[^\x20-\x7e\u00a0-\U0010ffff\n]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """An output that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def idkmesh(*arguments: object, stdin: bytes = b"") -> Ran:
    """Run the command line in this process, its output a pipe."""
    result = CliRunner().invoke(verbs.idkmesh, [str(each) for each in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def on_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Ran:
    """Run the command line in this process, its output a terminal with colours."""
    for name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    out, err = Terminal(), Terminal()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        with pytest.raises(SystemExit) as ended:
            verbs.idkmesh.main([str(each) for each in arguments], prog_name="idkmesh")
    assert isinstance(ended.value.code, int)
    return Ran(ended.value.code, out.getvalue(), err.getvalue())


def program(*arguments: object, stdin: bytes = b"") -> Ran:
    """Run the command line as a program of its own, its output a pipe."""
    done = subprocess.run(
        [*IDKMESH, *map(str, arguments)],
        input=stdin,
        env=BUFFERED,
        capture_output=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


class Follower:
    """A program that is read line by line while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def line(self) -> str:
        """Return the next line, for which nobody waits for ever."""
        return self._lines.get(timeout=HANG_SECONDS)

    def ended(self) -> Ran:
        """Wait for the end; return the code and whatever was not read yet."""
        code = self.process.wait(timeout=HANG_SECONDS)
        self._reader.join(timeout=HANG_SECONDS)
        rest = []
        with suppress(queue.Empty):
            while True:
                rest.append(self._lines.get_nowait())
        assert self.process.stderr is not None
        return Ran(code, "".join(rest), self.process.stderr.read())

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)


@contextmanager
def followed(*arguments: object) -> Iterator[Follower]:
    """Start the command line as a program, and see to it that it ends."""
    process = subprocess.Popen(
        [*INTERRUPTIBLE, *map(str, arguments)],
        env=BUFFERED,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Follower(process)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def asked(
    answer: bytes | signal.Signals,
    *arguments: object,
    meanwhile: Callable[[], object] = lambda: None,
) -> tuple[int, str]:
    """Run the command line on a real terminal, answer its question, return code and screen.

    What happens meanwhile happens between the question and the answer.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*INTERRUPTIBLE, *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**BUFFERED, "TERM": "xterm-256color", "COLUMNS": "120"},
    )
    os.close(theirs)
    try:
        screen = b""
        with suppress(OSError):  # how a terminal's end is told on Linux
            while select.select([ours], [], [], HANG_SECONDS)[0]:
                read = os.read(ours, 65536)
                if not read:
                    break
                screen += read
                if b"[y/N] " not in read:
                    continue
                meanwhile()
                if isinstance(answer, bytes):
                    os.write(ours, answer)
                else:
                    process.send_signal(answer)
        return process.wait(timeout=HANG_SECONDS), COLOUR.sub("", screen.decode())
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def steers(text: str) -> set[str]:
    """Return every character of an output that a terminal would obey."""
    return set(CONTROL.findall(text))


def contested(path: Path, clock: Clock) -> Path:
    """Make a ledger in which one task has two claims and an execution, and one has ended."""
    policy = TaskClaimPolicy(
        concurrent_slots=2, competition_reason="two designs", max_attempts=4, ack_seconds=100
    )
    grant: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
    with opened(path, clock) as ledger:
        granted(ledger, policy=policy)
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **grant)
        ledger.reconcile_execution(task(), DISPATCHER, **RUNNING)
        clock.now += 10
        ledger.claim(task(), RIVAL, request_id="r-2", binding=binding("b"))
        granted(ledger, name="T-2", request_id="q-1")
        ledger.release(task("T-2"), WORKER, request_id="q-1", epoch=1)
    return path


def put_anew(path: Path, rows: Iterable[Row]) -> Path:
    """Replace a ledger's log by these rows, numbered and chained as an honest log of them."""
    return put_log(path, chained(numbered(rows)))


def spoil(path: Path, *statements: str) -> None:
    """Run statements on a ledger, past the store."""
    connection = foreign(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()
