"""Helper program: coordinators that race each other for tasks, and say what they were answered.

Called as ``process_racer.py PATH PROCESSES ROUNDS``: forks that many processes, each of which
opens the ledger for itself, and lets them go once all have. Prints one JSON line for each
answer: the task, the request, and the slot and epoch that it was granted, or the code that
refused it.
"""

import json
import os
import sys

from builders import START, WORKER, binding, opened, task

from idkmesh import ClaimError

TASKS = ["T-0", "T-1", "T-2"]


def race(path: str, name: str, rounds: int, ready: int, go: int) -> None:
    """Claim every task again and again, and release what was granted."""
    with opened(path, lambda: START) as ledger:
        os.write(ready, b".")
        os.read(go, 1)
        for turn in range(rounds):
            for each in TASKS:
                request_id = f"{name}-{turn}"
                answer: dict[str, object] = {"task": each, "request": request_id}
                try:
                    claim, created = ledger.claim(
                        task(each), WORKER, request_id=request_id, binding=binding()
                    )
                except ClaimError as error:
                    answer["code"] = error.code
                else:
                    answer |= {"slot": claim.slot, "epoch": claim.epoch, "created": created}
                    ledger.release(task(each), WORKER, request_id=request_id, epoch=claim.epoch)
                os.write(1, json.dumps(answer).encode() + b"\n")


def start(path: str, processes: int, rounds: int) -> int:
    """Fork the racers, let them go together, and return how many of them failed."""
    ready, is_ready = os.pipe()
    waits, go = os.pipe()
    racers = []
    for place in range(processes):
        racer = os.fork()
        if racer == 0:
            race(path, f"p{place}", rounds, is_ready, waits)
            os._exit(0)
        racers.append(racer)
    for _ in racers:
        os.read(ready, 1)
    os.write(go, b"." * processes)
    return sum(os.waitpid(racer, 0)[1] != 0 for racer in racers)


if __name__ == "__main__":
    sys.exit(start(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
