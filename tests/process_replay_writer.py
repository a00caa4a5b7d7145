"""Helper program: a coordinator that goes on writing while others read.

Called as ``process_replay_writer.py PATH NAME TASKS``. It configures so many tasks of its own,
claims each and releases it, and says "writing" once the first is done and "done" at the end.
"""

import sys

from builders import DISPATCHER, START, WORKER, binding, opened, task

from idkmesh import TaskClaimPolicy


def main(path: str, name: str, tasks: int) -> None:
    """Take every task, three events each."""
    with opened(path, lambda: START + 60) as ledger:
        for number in range(tasks):
            mine = task(f"{name}-{number}")
            ledger.configure_task(mine, DISPATCHER, TaskClaimPolicy())
            claim, _ = ledger.claim(mine, WORKER, request_id="r-1", binding=binding())
            ledger.release(mine, WORKER, request_id="r-1", epoch=claim.epoch)
            if number == 0:
                print("writing", flush=True)  # noqa: T201  (what the test waits for)
    print("done", flush=True)  # noqa: T201  (what the test waits for)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
