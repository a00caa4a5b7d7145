"""Helper program: starts writers to be killed, which say what they were answered.

Called as ``process_writer.py``. For each line ``PATH NAME`` that comes in it forks a writer,
says ``NAME began PID``, and the writer says ``NAME TASK EVENT`` for each command that it was
answered, by the event that the command added. Once the writer is dead, it says ``NAME ended``.
For an empty line it waits until one of them is.
"""

import os
import sys
import traceback
from itertools import count

from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    RUNNING,
    START,
    WORKER,
    binding,
    digest,
    opened,
    task,
)

from idkmesh import TaskClaimPolicy


def say(*words: object) -> None:
    """Print a line, whole and at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write(path: str, name: str) -> None:
    """Lead one task after the other through its whole life, without end."""
    with opened(path, lambda: START, busy_timeout_seconds=60) as it:
        for number in count():
            ref = task(f"{name}-{number}")
            it.configure_task(ref, DISPATCHER, TaskClaimPolicy())
            say(name, ref.resource_id, "task.configured.v1")
            it.claim(ref, WORKER, request_id="r-1", binding=binding())
            say(name, ref.resource_id, "claim.granted.v1")
            it.acknowledge(ref, WORKER, **GRANT)
            say(name, ref.resource_id, "claim.acknowledged.v1")
            it.reserve_dispatch(ref, DISPATCHER, WORKER, **GRANT)
            say(name, ref.resource_id, "execution.reserved.v1")
            it.reconcile_execution(ref, DISPATCHER, **RUNNING)
            say(name, ref.resource_id, "execution.reconciled.v1")
            it.record_submission(ref, WORKER, artifact_digest=digest("b"), **GRANT)
            say(name, ref.resource_id, "submission.recorded.v1")
            it.reconcile_execution(ref, DISPATCHER, **ENDED)
            say(name, ref.resource_id, "execution.reconciled.v1")
            it.release(ref, WORKER, **GRANT)
            say(name, ref.resource_id, "claim.released.v1")


def serve() -> None:
    """Fork and bury writers as the lines say."""
    writers: dict[int, str] = {}
    for line in sys.stdin:
        if not line.strip():
            writer, _ = os.wait()
            say(writers.pop(writer), "ended")
            continue
        path, name = line.split()
        writer = os.fork()
        if writer == 0:
            try:
                write(path, name)
            except BaseException:  # noqa: BLE001  (the test reads it and fails)
                say(name, "failed", traceback.format_exc().replace("\n", " | "))
                os._exit(1)
        writers[writer] = name
        say(name, "began", writer)


if __name__ == "__main__":
    serve()
