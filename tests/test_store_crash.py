"""Writers killed at random moments: what was answered is there, and nothing is there by half."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from programs import line_of, program, tell
from store_checks import require_whole

SEED = 914
ROUNDS = 25


def answered(process: subprocess.Popen[str], answers: Counter[tuple[str, str]]) -> list[str]:
    """Read one line of the writers', keep what it says was answered, and return its words."""
    words = line_of(process).split(maxsplit=2)
    assert len(words) > 1, "the writers are gone"
    assert words[1] != "failed", words
    if words[1] not in {"began", "ended"}:
        answers[words[1], words[2]] += 1
    return words


def test_writers_killed_at_random_lose_nothing_answered(tmp_path: Path) -> None:
    """Two writers at a time are killed in their commands: the log holds each answer, and folds.

    The log may hold one event more for each writer: of the command under way.
    """
    dice = random.Random(SEED)  # noqa: S311  (chance that can be repeated)
    answers: Counter[tuple[str, str]] = Counter()
    path = tmp_path
    with program("process_writer.py") as writers:
        for turn in range(ROUNDS):
            if turn % 5 == 0:  # a new ledger, so that some die while they make it
                path = tmp_path / f"claims-{turn}.sqlite3"
                answers.clear()
                unanswered = 0
            pids = {}
            for name in (f"a{turn}", f"b{turn}"):
                tell(writers, f"{path} {name}")
                while name not in pids:
                    words = answered(writers, answers)
                    if words[1] == "began":
                        pids[words[0]] = int(words[2])
            for pid in dice.sample(sorted(pids.values()), 2):
                for _ in range(dice.randrange(24)):
                    answered(writers, answers)
                time.sleep(dice.random() * 0.002)  # into the middle of whatever it does
                os.kill(pid, signal.SIGKILL)
                tell(writers)
                while answered(writers, answers)[1] != "ended":
                    pass
            unanswered += 2
            found = Counter(
                (row.stream.rpartition("/")[2], row.type) for row in require_whole(path)
            )
            assert not answers - found, f"answered but lost in round {turn} of seed {SEED}"
            assert (found - answers).total() <= unanswered, f"round {turn} of seed {SEED}"
