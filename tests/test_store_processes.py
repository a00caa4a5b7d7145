"""Many processes on one file: one winner each time, and nobody is waited for for ever."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import DISPATCHER, READER, START, WORKER, binding, opened, task
from programs import line_of, program, tell
from store_checks import require_whole, store_refused
from waiting import Asking, is_locked, until

from idkmesh import ClaimLedger, TaskClaimPolicy


def test_of_eight_coordinators_one_wins_each_slot_and_epoch(path: Path) -> None:
    """Eight processes race for three tasks: what each was answered is what the log holds."""
    policy = TaskClaimPolicy(concurrent_slots=2, max_attempts=32, competition_reason="race")
    with opened(path, lambda: START) as ledger:
        for name in ("T-0", "T-1", "T-2"):
            ledger.configure_task(task(name), DISPATCHER, policy)
        with program("process_racer.py", path, 8, 8) as racers:
            answers = [json.loads(text) for text in racers.communicate(timeout=60)[0].splitlines()]
        assert racers.returncode == 0
        assert len(answers) == 8 * 8 * 3
        refusals = {answer["code"] for answer in answers if "code" in answer}
        assert refusals <= {"task_capacity_reserved", "attempt_budget_exhausted"}
        assert all(answer["created"] for answer in answers if "epoch" in answer)
        for name in ("T-0", "T-1", "T-2"):
            won = sorted(
                (answer["slot"], answer["epoch"], answer["request"])
                for answer in answers
                if answer["task"] == name and "epoch" in answer
            )
            shown = ledger.peek(task(name), READER)
            assert sorted((each.slot, each.epoch, each.request_id) for each in shown) == won
            for slot in (0, 1):
                epochs = [epoch for each, epoch, _ in won if each == slot]
                assert epochs == list(range(1, len(epochs) + 1))
    require_whole(path)


@pytest.fixture
def ledger(path: Path) -> Iterator[ClaimLedger]:
    """Give a patient ledger with one task."""
    with opened(path, lambda: START, busy_timeout_seconds=60) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
        yield ledger


@pytest.fixture
def hasty(path: Path, ledger: ClaimLedger) -> Iterator[ClaimLedger]:
    """Give another ledger on the same file, which waits for hardly any time."""
    del ledger
    with opened(path, lambda: START, busy_timeout_seconds=0.01) as hasty:
        yield hasty


@pytest.fixture
def holder(path: Path, hasty: ClaimLedger) -> Iterator[subprocess.Popen[str]]:
    """Give another process that stands in the middle of claiming the task."""
    del hasty  # which must be opened before
    with program("process_holder.py", path) as process:
        assert line_of(process) == "inside"
        yield process


def test_a_stopped_holder_means_store_locked_for_the_others(
    path: Path, ledger: ClaimLedger, hasty: ClaimLedger, holder: subprocess.Popen[str]
) -> None:
    """While a process is stopped in its command, others give up in time, and may look."""
    os.kill(holder.pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(holder.pid, os.WUNTRACED)[1])
    for _ in range(2):
        with store_refused("store_locked"):
            hasty.snapshot(task(), READER)
        with store_refused("store_locked"):
            opened(path, lambda: START, busy_timeout_seconds=0.01)
    assert hasty.peek(task(), READER) == ()
    os.kill(holder.pid, signal.SIGCONT)
    tell(holder)
    assert line_of(holder) == "done"
    assert [each.request_id for each in ledger.snapshot(task(), READER)] == ["held"]


def test_a_killed_holder_frees_the_turn_for_whoever_waits(
    path: Path, ledger: ClaimLedger, holder: subprocess.Popen[str]
) -> None:
    """A process killed in its command leaves nothing of it, and the one that waits goes on."""
    waiting = Asking(lambda _: ledger.snapshot(task(), READER), 0)
    until(lambda: is_locked(path, "-queue"))
    holder.kill()
    assert waiting.wait() == ()
    assert ledger.claim(task(), WORKER, request_id="r-1", binding=binding()).created is True
    assert [row.type for row in require_whole(path)] == ["task.configured.v1", "claim.granted.v1"]


def test_a_wait_that_was_given_up_is_no_burden(
    hasty: ClaimLedger, ledger: ClaimLedger, holder: subprocess.Popen[str]
) -> None:
    """After many waits given up, the turn comes through as soon as it is free."""
    for _ in range(20):
        with store_refused("store_locked"):
            hasty.snapshot(task(), READER)
    holder.kill()
    assert ledger.snapshot(task(), READER) == ()


def test_an_opening_waits_for_its_turn(path: Path, holder: subprocess.Popen[str]) -> None:
    """Whoever opens the file while another process writes waits, and then has it."""
    opening = Asking(lambda _: opened(path, lambda: START, busy_timeout_seconds=60).close(), 0)
    until(lambda: is_locked(path, "-queue"))
    tell(holder)
    assert line_of(holder) == "done"
    assert opening.wait() is None
