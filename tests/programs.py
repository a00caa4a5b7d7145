"""Running the helper programs beside the tests, ``process_*.py``, and talking to them."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def answer(program: str, *arguments: object, timeout: float = 60) -> Any:
    """Run one of the helper programs beside the tests, and return what it printed as JSON."""
    script = Path(__file__).with_name(program)
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@contextmanager
def program(name: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start one of the helper programs beside the tests, and end it in any case.

    A program that hangs is killed in the end, so that whoever reads from it comes back.
    """
    script = Path(__file__).with_name(name)
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that a program prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str = "") -> None:
    """Give a program that waits for a line one, so that it goes on."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
