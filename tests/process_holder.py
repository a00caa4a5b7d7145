"""Helper program: stops in the middle of a command, holding the turn and SQLite's lock.

Called as ``process_holder.py PATH``: claims T-1, says ``inside`` once it holds everything,
goes on when a line comes in, and says ``done`` once it is answered.
"""

import sys

from builders import START, WORKER, binding, opened, task


def clock() -> int:
    """Tell the time only when the test says so: a command reads it with the locks in hand."""
    print("inside", flush=True)  # noqa: T201  (its answer)
    sys.stdin.readline()
    return START


if __name__ == "__main__":
    with opened(sys.argv[1], clock) as ledger:
        ledger.claim(task(), WORKER, request_id="held", binding=binding())
        print("done", flush=True)  # noqa: T201  (its answer)
