"""Helper program: leaves the interpreter with a ledger open, in one of several ways.

Called as ``process_leaver.py SCENARIO PATH``; prints ``ready`` before it leaves.
"""

import atexit
import os
import sys
import threading

from builders import DISPATCHER, READER, START, WORKER, binding, opened, task

from idkmesh import ClaimLedger, TaskClaimPolicy
from idkmesh.events.turnstile import FileTurn

kept: list[object] = []


def ready() -> None:
    """Say that the rest is up to the interpreter."""
    print("ready", flush=True)  # noqa: T201  (its answer)


def made(path: str) -> ClaimLedger:
    """Make a ledger with a claim, and keep it for ever."""
    ledger = opened(path, lambda: START, busy_timeout_seconds=1)
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    ledger.claim(task(), WORKER, request_id="r-1", binding=binding())
    kept.append(ledger)
    return ledger


def plain(path: str) -> None:
    """Leave without closing."""
    made(path)
    ready()


def raising(path: str) -> None:
    """Leave by SystemExit out of a command's clock."""

    def clock() -> int:
        if kept:
            ready()
            sys.exit(0)
        return START

    ledger = opened(path, clock)
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    kept.append(ledger)
    ledger.claim(task(), WORKER, request_id="r-1", binding=binding())


def threaded(path: str) -> None:
    """Leave while a daemon thread works on."""
    ledger = made(path)

    def work() -> None:
        while True:
            ledger.peek(task(), READER)

    threading.Thread(target=work, daemon=True).start()
    ready()


def waiting(path: str) -> None:
    """Leave while a daemon thread waits for the turn, and another process's wait was given up."""
    ledger = made(path)
    holder = FileTurn(path, 0o600)
    holder.acquire(0)
    kept.append(holder)
    begun = threading.Event()

    def work() -> None:
        begun.set()
        ledger.snapshot(task(), READER)

    threading.Thread(target=work, daemon=True).start()
    begun.wait()
    ready()


def last_words(path: str) -> None:
    """Use and close the ledger when the interpreter is on its way out."""
    ledger = made(path)

    @atexit.register
    def leave() -> None:
        ledger.release(task(), WORKER, request_id="r-1", epoch=1)
        ledger.close()

    ready()


def abrupt(path: str) -> None:
    """Leave without the interpreter's knowledge."""
    made(path)
    ready()
    os._exit(0)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
