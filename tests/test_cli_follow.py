"""A log that is followed: new events as they come, each once, until somebody has had enough."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from builders import DISPATCHER, RIVAL, WORKER, Clock, binding, granted, opened, task
from cli_runs import BUFFERED, Follower, followed, idkmesh
from demo_runs import HANG_SECONDS, IDKMESH

from idkmesh import TaskClaimPolicy


def next_sequence(follower: Follower) -> int:
    """Return the number of the next event that a follower prints."""
    sequence: int = json.loads(follower.line())["sequence"]
    return sequence


def test_new_events_are_printed_as_they_come(path: Path, clock: Clock) -> None:
    """A follower prints what is there, then each event that another process commits, once."""
    with opened(path, clock) as ledger:
        granted(ledger)
        with followed("log", path, "--follow", "--json") as follower:
            assert [next_sequence(follower) for _ in range(3)] == [1, 2, 3]
            ledger.release(task(), WORKER, request_id="r-1", epoch=1)
            assert next_sequence(follower) == 4
            ledger.claim(task(), RIVAL, request_id="r-2", binding=binding())
            ledger.acknowledge(task(), RIVAL, request_id="r-2", epoch=2)
            assert [next_sequence(follower) for _ in range(2)] == [5, 6]
            follower.process.send_signal(signal.SIGINT)
            assert follower.ended() == (130, "", "")


def test_a_follower_goes_on_where_another_stopped(path: Path, clock: Clock) -> None:
    """With the last number printed as its position, the next follower repeats and skips nothing."""
    with opened(path, clock) as ledger:
        granted(ledger)
        with followed("log", path, "--follow", "--json") as first:
            seen = [next_sequence(first) for _ in range(2)]
        ledger.release(task(), WORKER, request_id="r-1", epoch=1)
        with followed("log", path, "--follow", "--json", "--after", seen[-1]) as second:
            seen += [next_sequence(second) for _ in range(2)]
            ledger.claim(task(), RIVAL, request_id="r-2", binding=binding())
            seen += [next_sequence(second)]
    assert seen == [1, 2, 3, 4, 5]


def test_a_follower_of_one_task_prints_that_alone(path: Path, clock: Clock) -> None:
    """What is left out of a log is left out of what is followed, too."""
    with opened(path, clock) as ledger:
        granted(ledger)
        ledger.configure_task(task("T-2"), DISPATCHER, TaskClaimPolicy())
        ours = "acme/apollo/task/T-2"
        with followed("log", path, "--follow", "--json", "--task", ours) as follower:
            granted(ledger, name="T-3", request_id="r-3")
            granted(ledger, name="T-2", request_id="r-2")
            assert [next_sequence(follower) for _ in range(3)] == [4, 8, 9]


def test_a_follower_ends_quietly_with_its_reader(path: Path, clock: Clock) -> None:
    """A follower whose reader has gone ends by itself, though nothing new comes."""
    with opened(path, clock) as ledger:
        granted(ledger)
        with followed("log", path, "--follow") as follower:
            for _ in range(3):
                follower.line()
            reader = subprocess.Popen(
                [*IDKMESH, "log", str(path), "--follow"],
                env=BUFFERED,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            assert reader.stdout is not None
            assert reader.stderr is not None
            assert reader.stdout.readline().split()[0] == b"1"
            reader.stdout.close()
            assert reader.wait(timeout=HANG_SECONDS) == 141
            assert reader.stderr.read() == b""
            reader.stderr.close()
            assert follower.process.poll() is None  # whoever still has a reader goes on


@pytest.mark.parametrize("verb", [["log"], ["log", "--json"], ["tasks"], ["export"], ["verify"]])
def test_a_pipe_that_nobody_reads_ends_a_verb_quietly(
    path: Path, clock: Clock, verb: list[str]
) -> None:
    """Where the reader of a pipe has gone, a verb exits 141 and complains of nothing."""
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    read, write = os.pipe()
    os.close(read)
    try:
        name, *options = verb
        done = subprocess.run(
            [*IDKMESH, name, str(path), *options],
            env=BUFFERED,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
            timeout=HANG_SECONDS,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "words",
    [
        ("--task", "acme/apollo/task/T-1"),
        ("--task", "T-1", "--scope", "acme/apollo"),
        ("--scope", "acme/apollo"),
    ],
)
def test_what_is_still_to_come_can_be_followed(
    path: Path, clock: Clock, words: tuple[str, ...]
) -> None:
    """A watcher may be there before the first event of a scope or of a task."""
    watching = ("log", path, "--follow", "--json", *words)
    with opened(path, clock) as ledger, followed(*watching) as follower:
        granted(ledger)
        assert [next_sequence(follower) for _ in range(3)] == [1, 2, 3]


def test_without_follow_a_log_ends(path: Path, clock: Clock) -> None:
    """A log that is not followed ends with its last event."""
    with opened(path, clock) as ledger:
        granted(ledger)
        assert len(idkmesh("log", path).out.splitlines()) == 3
