"""Helper program: an adapter that keeps moving the inputs of a graph while others work on it.

Called as ``process_gate_integrator.py PATH SEED MOST``. It says "ready", waits for a line,
and then observes until its input ends or MOST observations are made: mostly READ integrated
with the one or the other artifacts, often PARSE integrated after it, at times READ rejected
or the last event delivered again. It prints what it was answered as one JSON document.
"""

import json
import random
import select
import sys
from collections import Counter

from builders import START, digest, opened
from gate_builders import PARSE, READ, gate_on, seen

from idkmesh import ExecutorAdmission, PrerequisiteObservation


def drawn(gate: ExecutorAdmission, chance: random.Random, turn: int) -> PrerequisiteObservation:
    """Draw what is observed next."""
    what = chance.choices(("integrated", "parsed", "rejected", "again"), (6, 4, 1, 1))[0]
    if what == "parsed" and gate.readiness(PARSE).ready:
        return seen(gate, PARSE, artifacts_digest=digest("ef"[turn % 2]))
    if what == "again" and turn > 1:
        return gate.observations(READ)[-1]
    if what == "rejected":
        return seen(gate, READ, "rejected")
    return seen(gate, READ, artifacts_digest=digest("cd"[turn % 2]))


def main(path: str, seed: str, most: str) -> None:
    """Observe until told to stop."""
    chance = random.Random(seed)  # noqa: S311 - the runs must be repeatable
    answers: Counter[str] = Counter()
    with opened(path, lambda: START) as ledger:
        gate = gate_on(ledger)
        print("ready", flush=True)  # noqa: T201 - the test waits for it
        sys.stdin.readline()
        for turn in range(1, int(most) + 1):
            if select.select([sys.stdin], [], [], 0)[0]:
                break
            latest = gate.observe(drawn(gate, chance, turn))
            answers["latest" if latest else "not"] += 1
    print(json.dumps(answers))  # noqa: T201 - its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
