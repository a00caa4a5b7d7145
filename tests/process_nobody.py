"""Helper program: uses a ledger without the superuser's powers, and tells what happened.

Called as ``process_nobody.py SCENARIO PATH ...`` with any number of pairs; prints their
answers as one JSON list. Where the tests run as root, it becomes nobody once everything is
imported: no permission holds root back.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from builders import READER, START, granted, opened, task

from idkmesh import StoreError

NOBODY = 65_534


def write(path: Path) -> Any:
    """Open the ledger for writing, and look."""
    with opened(path, lambda: START, busy_timeout_seconds=5) as ledger:
        return len(ledger.snapshot(task(), READER))


def read(path: Path) -> Any:
    """Open the ledger for reading, look, and try a command."""
    with opened(path, lambda: START, read_only=True) as ledger:
        seen = len(ledger.peek(task(), READER))
        try:
            ledger.snapshot(task(), READER)
        except StoreError as error:
            return [seen, error.code]
        return [seen]


def revoked(path: Path) -> Any:
    """Make a ledger, take every permission off it, and look from this thread and a new one."""
    answers: list[Any] = []

    def look() -> None:
        try:
            answers.append(len(ledger.peek(task(), READER)))
        except StoreError as error:
            answers.append(error.code)

    with opened(path, lambda: START) as ledger:
        granted(ledger)
        path.chmod(0)
        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    return answers


def answered(scenario: str, path: Path) -> Any:
    """Return what the scenario gave, or the code that refused it."""
    try:
        return globals()[scenario](path)
    except StoreError as error:
        return error.code


if __name__ == "__main__":
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    pairs = zip(sys.argv[1::2], sys.argv[2::2], strict=True)
    print(json.dumps([answered(scenario, Path(path)) for scenario, path in pairs]))  # noqa: T201  (its answer)
