"""Helper program: a worker that admits, reserves and submits while the inputs keep moving.

Called as ``process_gate_worker.py PATH SEED NAME TASKS``. It says "ready", waits for a line,
and takes one task of its own after the other, each for a unit that it draws, in a few
attempts. It prints every call and its answer as one JSON document.
"""

import json
import random
import sys
from collections.abc import Callable
from typing import Any

from builders import DISPATCHER, START, WORKER, digest, opened, task
from gate_builders import PARSE, REVIEW, TEST, configured, gate_on

from idkmesh import ClaimError, ClaimLedger, ExecutorAdmission
from idkmesh.records import Admission

ATTEMPTS = 3


class Worker:
    """Works on one ledger and writes down what it was answered."""

    def __init__(self, ledger: ClaimLedger, chance: random.Random) -> None:
        """Begin with nothing written down."""
        self.ledger = ledger
        self.gate: ExecutorAdmission = gate_on(ledger)
        self.chance = chance
        self.told: list[dict[str, Any]] = []

    def take(self, name: str) -> None:
        """Take one task, on a unit that is drawn, until a candidate is in or enough was tried."""
        configured(self.ledger, name)
        node = self.chance.choice((PARSE, PARSE, REVIEW, TEST))
        for attempt in range(1, ATTEMPTS + 1):
            if self._attempt(name, node, f"r-{attempt}"):
                return

    def _attempt(self, name: str, node: str, request_id: str) -> bool:
        admitted = self._ask(
            name, lambda: self.gate.admit(node, task(name), WORKER, request_id=request_id)
        )
        if admitted is None:
            return False
        grant: dict[str, Any] = {"request_id": request_id, "epoch": admitted.claim.epoch}
        self.ledger.acknowledge(task(name), WORKER, **grant)
        for _ in range(self.chance.randint(0, 2)):
            self._ask(
                name,
                lambda: self.gate.reserve_execution(node, task(name), DISPATCHER, WORKER, **grant),
            )
        candidate: dict[str, Any] = {"artifact_digest": digest(self.chance.choice("ab"))}
        submitted = None
        for _ in range(self.chance.randint(1, 2)):
            submitted = self._ask(
                name, lambda: self.gate.submit(node, task(name), WORKER, **grant, **candidate)
            )
        self.ledger.release(task(name), WORKER, **grant)
        held = self.ledger.lookup(task(name), WORKER, request_id=request_id).occupancy == "unknown"
        return submitted is not None or held

    def _ask(self, name: str, call: Callable[[], Admission]) -> Admission | None:
        try:
            answer = call()
        except ClaimError as refusal:
            self.told.append({"task": name, "code": refusal.code})
            return None
        self.told.append({"task": name, "code": None, "record": answer.record.to_dict()})
        return answer


def main(path: str, seed: str, name: str, tasks: str) -> None:
    """Take every task."""
    with opened(path, lambda: START) as ledger:
        worker = Worker(ledger, random.Random(f"{seed} {name}"))  # noqa: S311 - repeatable
        print("ready", flush=True)  # noqa: T201 - the test waits for it
        sys.stdin.readline()
        for number in range(int(tasks)):
            worker.take(f"{name}-{number}")
    print(json.dumps(worker.told))  # noqa: T201 - its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
