"""Helper program: forks with a ledger open, in one of several ways, and tells what happened.

Called as ``process_fork.py SCENARIO PATH``; prints one JSON document. A process of its own,
because the tests' process has threads and files that no fork should see.
"""

import fcntl
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builders import DISPATCHER, READER, START, WORKER, binding, granted, opened, task
from programs import answer
from store_checks import ledger_on

from idkmesh import ClaimLedger, StoreError, TaskClaimPolicy
from idkmesh.events.sqlite_store import SqliteStore


def in_child(work: Callable[[], Any]) -> Any:
    """Fork, do the work in the child alone, and return what it gave or the code it met."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = work()
        except StoreError as error:
            answer = f"{error.code}: {error.message}"
        except BaseException as error:  # noqa: BLE001  (whatever it is, the test is to see it)
            answer = repr(error)
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:  # noqa: PTH123  (a descriptor, no path)
        answer = json.loads(pipe.read() or "null")
    os.waitpid(child, 0)
    return answer


def descriptors(path: Path) -> list[str]:
    """Return the open files of this process that belong to a ledger."""
    found = []
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208  (the names are numbers)
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")  # noqa: PTH115  (as above)
        except FileNotFoundError:
            continue  # the listing's own
        if target.startswith(str(path)):
            found.append(target.removeprefix(str(path)))
    return sorted(found)


def claim(ledger: ClaimLedger, request_id: str) -> bool:
    """Claim the task that the scenarios share; say whether the claim is new."""
    return ledger.claim(task(), WORKER, request_id=request_id, binding=binding()).created


def outcome(work: Callable[[], Any]) -> Any:
    """Return what the work gave, or the code that refused it."""
    try:
        return work()
    except StoreError as error:
        return error.code


def inherited(path: Path) -> Any:
    """Use, write through and close a ledger that was open before the fork."""
    with opened(path, lambda: START) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())

        def child() -> Any:
            answers = [
                outcome(lambda: ledger.peek(task(), READER)),
                outcome(lambda: claim(ledger, "child")),
                outcome(lambda: list(ledger.survey(task().scope, READER))),
                outcome(ledger.rebuild),
            ]
            ledger.close()
            return answers

        return {"child": in_child(child), "parent": claim(ledger, "parent")}


def anew(path: Path) -> Any:
    """Open the file again in the child of a parent that has it open."""
    with opened(path, lambda: START) as ledger:
        granted(ledger)
        again = in_child(lambda: opened(path, lambda: START).close())
        return {"child": again, "parent": len(ledger.peek(task(), READER))}


def closed(path: Path) -> Any:
    """Open the file in a child after the parent has closed it, and in the parent again."""
    with opened(path, lambda: START) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())

    def child() -> Any:
        with opened(path, lambda: START) as ledger:
            return claim(ledger, "child")

    answer = in_child(child)
    with opened(path, lambda: START) as ledger:
        return {"child": answer, "parent": claim(ledger, "child")}


def other(path: Path) -> Any:
    """Open another ledger in the child of a parent that has one open."""
    second = path.with_name("second.sqlite3")
    with opened(path, lambda: START):

        def child() -> Any:
            with opened(second, lambda: START) as ledger:
                granted(ledger)
                return len(ledger.peek(task(), READER))

        return {"child": in_child(child)}


def turn(path: Path) -> Any:
    """Fork while holding the turn and SQLite's lock; the child ends, the parent goes on."""
    store = SqliteStore.open(path)
    with ledger_on(store, lambda: START) as ledger:
        granted(ledger, acknowledged=False)
        with store.write() as session:
            child = in_child(lambda: descriptors(path))
            held = {"turn": turn_is_held(path), "locks": answer("process_probe.py", path)}
            session.rows("DELETE FROM claims")
            session.commit()
        ledger.rebuild()
        return {
            "child": [name for name in child if name in {"-queue", "-lock"}],
            "held": held,
            "parent": len(ledger.peek(task(), READER)),
        }


def turn_is_held(path: Path) -> bool:
    """Say whether somebody has the turn, by asking the kernel from a new descriptor."""
    with Path(f"{path}-lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def inside(path: Path) -> Any:
    """Fork in the middle of a command; both processes then run it to its end."""
    answers: list[Any] = []
    ledger: ClaimLedger

    def clock() -> int:
        if not answers and armed:
            answers.append(in_child(lambda: outcome(lambda: claim(ledger, "child"))))
        return START

    armed = False
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
        armed = True
        return {"parent": claim(ledger, "parent"), "child": answers[0]}


def returning(path: Path) -> Any:
    """Fork in the middle of a command, and let the child run the parent's command on."""
    armed = False

    def clock() -> int:
        if armed and child_of(parent) == 0 and os.fork() != 0:
            os.wait()
        return START

    parent = os.getpid()
    reading, writing = os.pipe()
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
        armed = True
        answer = outcome(lambda: claim(ledger, "both"))
        if child_of(parent):
            os.write(writing, json.dumps(answer).encode())
            os._exit(0)
        armed = False
        return {"child": json.loads(os.read(reading, 4096)), "parent": answer}


def leaving(path: Path) -> Any:
    """Fork while writing, and let the child leave by the interpreter's ordinary exit."""
    store = SqliteStore.open(path)
    with ledger_on(store, lambda: START) as ledger:
        granted(ledger, acknowledged=False)
        with store.write() as session:
            session.rows("DELETE FROM claims")
            child = os.fork()
            if child == 0:
                sys.exit(0)
            status = os.waitpid(child, 0)[1]
            held = {"turn": turn_is_held(path), "locks": answer("process_probe.py", path)}
            session.commit()
        ledger.rebuild()
        return {
            "child": status,
            "held": held,
            "parent": len(ledger.peek(task(), READER)),
        }


def child_of(process: int) -> bool:
    """Say whether this is a fork of that process."""
    return os.getpid() != process


def threads(path: Path) -> Any:
    """Fork while idle threads have connections of their own."""
    with opened(path, lambda: START) as ledger:
        granted(ledger)
        ready, done = threading.Barrier(4), threading.Event()

        def idle() -> None:
            ledger.peek(task(), READER)
            ready.wait()
            done.wait()

        idlers = [threading.Thread(target=idle) for _ in range(3)]
        for thread in idlers:
            thread.start()
        ready.wait()
        before = descriptors(path)
        with warnings.catch_warnings():
            # From 3.12 on Python warns of just what this is about.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = in_child(lambda: descriptors(path))
        done.set()
        for thread in idlers:
            thread.join()
        return {"parent": before, "child": child}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))  # noqa: T201  (its answer)
