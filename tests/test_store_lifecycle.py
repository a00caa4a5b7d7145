"""A ledger's life: closed, dropped, interrupted, used by many, its file taken away."""

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wrong_files as wrong
from builders import (
    DISPATCHER,
    GRANT,
    READER,
    RUNNING,
    START,
    WORKER,
    Clock,
    binding,
    digest,
    granted,
    opened,
    task,
)
from interrupts import interrupted
from programs import answer
from store_checks import require_whole, store_refused
from waiting import is_locked, until

from idkmesh import ClaimError, ClaimLedger, StoreError, TaskClaimPolicy

COMMANDS: dict[str, Callable[[ClaimLedger], object]] = {
    "configure_task": lambda it: it.configure_task(task(), DISPATCHER, TaskClaimPolicy()),
    "claim": lambda it: it.claim(task(), WORKER, request_id="r-1", binding=binding()),
    "acknowledge": lambda it: it.acknowledge(task(), WORKER, **GRANT),
    "renew": lambda it: it.renew(task(), WORKER, **GRANT),
    "progress": lambda it: it.progress(task(), WORKER, **GRANT),
    "release": lambda it: it.release(task(), WORKER, **GRANT),
    "update_owner": lambda it: it.update_owner(task(), WORKER, operation="renew", **GRANT),
    "reserve_dispatch": lambda it: it.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT),
    "reconcile_execution": lambda it: it.reconcile_execution(task(), DISPATCHER, **RUNNING),
    "record_submission": lambda it: it.record_submission(
        task(), WORKER, artifact_digest=digest("b"), **GRANT
    ),
    "snapshot": lambda it: it.snapshot(task(), READER),
    "rebuild": lambda it: it.rebuild(),
}
QUESTIONS: dict[str, Callable[[ClaimLedger], object]] = {
    "peek": lambda it: it.peek(task(), READER),
    "policy": lambda it: it.policy(task(), READER),
    "lookup": lambda it: it.lookup(task(), READER, request_id="r-1"),
    "survey": lambda it: list(it.survey(task().scope, READER)),
}


@pytest.mark.parametrize("name", [*COMMANDS, *QUESTIONS])
def test_a_closed_ledger_answers_nothing(ledger: ClaimLedger, name: str) -> None:
    """After close, however often, every command and question is store_closed."""
    granted(ledger)
    ledger.close()
    ledger.close()
    with store_refused("store_closed"):
        {**COMMANDS, **QUESTIONS}[name](ledger)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_ledger_for_reading_takes_no_command(path: Path, name: str) -> None:
    """Opened for reading, every command is store_readonly and every question is answered."""
    wrong.ledger(path)
    with opened(path, lambda: START, read_only=True) as ledger:
        with store_refused("store_readonly"):
            COMMANDS[name](ledger)
        for ask in QUESTIONS.values():
            ask(ledger)


def test_a_closed_ledger_for_reading_is_closed_first(path: Path) -> None:
    """Closed comes before read-only."""
    wrong.ledger(path)
    ledger = opened(path, lambda: START, read_only=True)
    ledger.close()
    with store_refused("store_closed"):
        ledger.snapshot(task(), READER)


def test_a_survey_under_way_ends_with_the_ledger(ledger: ClaimLedger) -> None:
    """A survey that is asked for more after the close is store_closed, and holds nothing open."""
    granted(ledger)
    survey = ledger.survey(task().scope, READER)
    assert next(survey).request_id == "r-1"
    ledger.close()
    with store_refused("store_closed"):
        next(survey)


def test_closing_waits_for_the_commands_under_way(path: Path) -> None:
    """A command that has begun is answered although another thread closes meanwhile."""
    inside, go_on = threading.Event(), threading.Event()

    def clock() -> int:
        inside.set()
        assert go_on.wait(60)
        return START

    ledger = opened(path, clock)
    answers: list[object] = []
    working = threading.Thread(
        target=lambda: answers.append(ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy()))
    )
    working.start()
    assert inside.wait(60)
    closing = threading.Thread(target=ledger.close)
    closing.start()
    until(lambda: ledger._store._closed)  # type: ignore[attr-defined]  # the SQLite store's own
    go_on.set()
    closing.join()
    working.join()
    assert answers == [True]
    with store_refused("store_closed"):
        ledger.snapshot(task(), READER)
    assert len(require_whole(path)) == 1


def test_closing_while_many_work_is_store_closed_to_them(path: Path) -> None:
    """Whoever works while others close is answered or told so, and what was answered is there."""
    with opened(path, lambda: START) as first:
        first.configure_task(task(), DISPATCHER, TaskClaimPolicy(max_attempts=32))
    for _ in range(10):
        ledger = opened(path, lambda: START)
        ready = threading.Barrier(9)
        codes: list[str] = []

        def work(ledger: ClaimLedger, ready: threading.Barrier, codes: list[str]) -> None:
            ready.wait()
            try:
                while True:
                    ledger.peek(task(), READER)
                    ledger.snapshot(task(), READER)
            except StoreError as error:
                codes.append(error.code)

        def close(ledger: ClaimLedger, ready: threading.Barrier) -> None:
            ready.wait()
            ledger.close()

        threads = [threading.Thread(target=work, args=(ledger, ready, codes)) for _ in range(6)]
        threads += [threading.Thread(target=close, args=(ledger, ready)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == ["store_closed"] * 6
        assert answer("process_probe.py", path) == {"write": "free", "exclusive": "free"}


def test_closing_inside_a_command_ends_it(path: Path) -> None:
    """A ledger closed out of the command itself refuses it, and leaves nothing held."""
    armed: list[ClaimLedger] = []

    def clock() -> int:
        for ledger in armed:
            ledger.close()
        return START

    ledger = opened(path, clock)
    ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    armed.append(ledger)
    with store_refused("store_closed"):
        ledger.claim(task(), WORKER, request_id="r-1", binding=binding())
    assert not is_locked(path, "-lock")
    assert [row.type for row in require_whole(path)] == ["task.configured.v1"]


# Dropped.


def test_a_ledger_that_is_dropped_lets_go_of_its_file(path: Path) -> None:
    """A ledger lost without a close is closed by the collector: no lock, no file stays open."""
    ledger = opened(path, lambda: START)
    granted(ledger)
    del ledger
    gc.collect()
    assert answer("process_probe.py", path) == {"write": "free", "exclusive": "free"}
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "claims.sqlite3",
        "claims.sqlite3-lock",
        "claims.sqlite3-queue",
    ]


def test_dropped_ledgers_do_not_add_up(tmp_path: Path) -> None:
    """Opening and losing ledgers again and again uses up no descriptors."""

    def lose(name: str) -> int:
        opened(tmp_path / name, lambda: START)
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    before = lose("first.sqlite3")
    assert [lose(f"{place}.sqlite3") for place in range(10)] == [before] * 10


def test_a_ledger_that_is_only_used_stays_open(path: Path) -> None:
    """A ledger that nothing refers to but the call under way is not taken away from it."""

    def clock() -> int:
        gc.collect()
        return START

    def survey() -> Any:
        ledger = opened(path, clock)
        granted(ledger)
        return ledger.survey(task().scope, READER)

    assert [claim.request_id for claim in survey()] == ["r-1"]
    assert opened(path, clock).configure_task(task("T-2"), DISPATCHER, TaskClaimPolicy())


@pytest.mark.parametrize(
    "scenario", ["plain", "raising", "threaded", "waiting", "last_words", "abrupt"]
)
def test_leaving_with_a_ledger_open_is_quiet(path: Path, scenario: str) -> None:
    """An interpreter that ends with a ledger open says nothing, and leaves no lock behind."""
    script = Path(__file__).with_name("process_leaver.py")
    done = subprocess.run(
        [sys.executable, str(script), scenario, str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
    types = [row.type for row in require_whole(path)]
    assert types[0] == "task.configured.v1"
    with opened(path, lambda: START, busy_timeout_seconds=0) as ledger:
        ledger.snapshot(task(), READER)


# Interrupted.


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, MemoryError, ZeroDivisionError])
def test_a_command_that_is_broken_off_leaves_no_lock(
    path: Path, failure: type[BaseException]
) -> None:
    """Whatever breaks a command off comes out as it is, rolls back, and frees the way at once."""
    failing: list[type[BaseException]] = []

    def clock() -> int:
        for kind in failing:
            raise kind
        return START

    with (
        opened(path, clock, busy_timeout_seconds=0) as ledger,
        opened(path, lambda: START, busy_timeout_seconds=0) as other,
    ):
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
        failing.append(failure)
        for work in (COMMANDS["claim"], COMMANDS["snapshot"], QUESTIONS["peek"]):
            with pytest.raises(failure):
                work(ledger)
        assert other.snapshot(task(), READER) == ()
        assert not is_locked(path, "-lock")
        failing.clear()
        assert ledger.claim(task(), WORKER, request_id="r-1", binding=binding()).created is True
    assert [row.type for row in require_whole(path)] == ["task.configured.v1", "claim.granted.v1"]


@pytest.mark.parametrize("name", ["claim", "rebuild", "peek"])
def test_an_interrupt_at_any_point_leaves_no_lock(path: Path, name: str) -> None:
    """Ctrl-C anywhere in a call: wholly done or not at all, repeatable, and the way is free."""
    with opened(path, lambda: START, busy_timeout_seconds=0) as ledger:
        place = [0]
        calls: dict[str, Callable[[], object]] = {
            "claim": lambda: ledger.claim(
                task(f"T-{place[0]}"), WORKER, request_id="r-1", binding=binding()
            ),
            "rebuild": ledger.rebuild,
            "peek": lambda: ledger.peek(task("T-0"), READER),
        }
        work = calls[name]
        ledger.configure_task(task("T-0"), DISPATCHER, TaskClaimPolicy())
        points = 0
        for where in interrupted(work):
            points += 1
            assert not is_locked(path, "-lock"), where
            work()
            assert not is_locked(path, "-lock"), where
            if name == "claim":  # once claimed, a task is no longer what it was
                place[0] += 1
                ledger.configure_task(task(f"T-{place[0]}"), DISPATCHER, TaskClaimPolicy())
        assert points > 50
    require_whole(path)


# The file.


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_a_file_that_is_taken_away_is_written_no_more(path: Path, how: str) -> None:
    """Once the name is gone or means another file, every command is store_unsafe."""
    ledger = opened(path, lambda: START)
    granted(ledger)
    if how == "removed":
        path.unlink()
    else:
        path.rename(path.with_name("away.sqlite3"))
        if how == "replaced":
            wrong.ledger(path)
    for work in COMMANDS.values():
        with store_refused("store_unsafe"):
            work(ledger)
    answers: list[str] = []

    def from_a_new_thread() -> None:
        try:
            ledger.peek(task(), READER)
        except StoreError as error:
            answers.append(error.code)

    thread = threading.Thread(target=from_a_new_thread)
    thread.start()
    thread.join()
    assert answers == ["store_unsafe"]
    ledger.close()


# Threads.


@pytest.mark.parametrize("target", ["file", ":memory:"])
def test_sixteen_threads_share_one_ledger(path: Path, target: str, clock: Clock) -> None:
    """Sixteen threads race for two slots through one ledger: each slot and epoch has one winner."""
    with opened(path if target == "file" else target, clock) as ledger:
        policy = TaskClaimPolicy(concurrent_slots=2, max_attempts=32, competition_reason="race")
        ledger.configure_task(task(), DISPATCHER, policy)
        ready = threading.Barrier(16)
        won: list[tuple[int, int, str]] = []
        refused: list[str] = []

        def work(worker: int) -> None:
            ready.wait()
            for attempt in range(4):
                name = f"w{worker}-{attempt}"
                try:
                    claim, _ = ledger.claim(task(), WORKER, request_id=name, binding=binding())
                except (ClaimError, StoreError) as error:
                    refused.append(error.code)
                    continue
                won.append((claim.slot, claim.epoch, name))
                ledger.peek(task(), READER)
                ledger.release(task(), WORKER, request_id=name, epoch=claim.epoch)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(refused) <= {"task_capacity_reserved", "attempt_budget_exhausted"}
        assert len(won) + len(refused) == 64
        shown = [(each.slot, each.epoch, each.request_id) for each in ledger.peek(task(), READER)]
        assert sorted(shown) == sorted(won)
        for slot in (0, 1):
            epochs = [epoch for each, epoch, _ in sorted(won) if each == slot]
            assert epochs == list(range(1, len(epochs) + 1))
    if target == "file":
        require_whole(path)
