"""Rebuild state from a ledger's log, without the command line's extra: JSON out, one object a line.

python tools/replay.py verify LEDGER [--seal TEXT]           every problem, and the seal
python tools/replay.py state LEDGER [--sequence N | --time T]  each task with its claims
python tools/replay.py rebuild LEDGER [NEW]                  the tables, in place or in a new file

Exit codes as for ``idkmesh``: 0 fine, 1 problems found, 2 usage, 3 a file cannot be read or
written, 130 interrupted, 141 the reader of the output has gone. The same functions stand
behind both.
"""

import argparse
import sys

import msgspec

from idkmesh.cli import program
from idkmesh.errors import ClaimError, StoreError
from idkmesh.events import files
from idkmesh.events.making import in_the_way
from idkmesh.replay import TaskAsOf, Verification, rebuild, state_at, verify
from idkmesh.transfer import rebuild_into


def main() -> int:
    """Do what the arguments say; return the exit code."""
    parser = arguments()
    options = parser.parse_args()
    new = getattr(options, "new", None)
    if files.MEMORY in {options.ledger, new}:
        parser.error("expected the name of a file, but it is that of memory")
    refused = program.USAGE
    try:
        files.resolve(options.ledger)
        if new is not None and in_the_way(files.resolve(new)) is not None:
            parser.error("expected NEW to be a new file, but it is there, or what belongs to one")
        if options.verb == "rebuild":
            refused = program.PROBLEMS  # from here on it is an event
        if options.verb == "state":
            for task in state_at(options.ledger, sequence=options.sequence, time=options.time):
                show(state(task))
            return program.FINE
        found: Verification
        if options.verb == "verify":
            found = verify(options.ledger, seal=options.seal)
        elif new is not None:
            found = rebuild_into(options.ledger, new)
        else:
            rebuild(options.ledger)
            found = verify(options.ledger)
    except (ClaimError, StoreError) as error:
        show({"error": {"code": error.code, "message": error.message}})
        return program.UNREADABLE if isinstance(error, StoreError) else refused
    show({"ok": found.ok, **msgspec.to_builtins(found)})
    return program.FINE if found.ok else program.PROBLEMS


def arguments() -> argparse.ArgumentParser:
    """Return the program's arguments."""
    parser = argparse.ArgumentParser(description="Rebuild state from a ledger's log.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verifying = verbs.add_parser("verify", help="check everything")
    verifying.add_argument("ledger")
    verifying.add_argument("--seal", help="an earlier seal: prove that the log only grew since")
    reading = verbs.add_parser("state", help="each task with its claims, as of a point")
    reading.add_argument("ledger")
    point = reading.add_mutually_exclusive_group()
    point.add_argument("--sequence", type=int, help="as it stood after this event")
    point.add_argument("--time", type=int, help="at this time, in epoch seconds")
    mending = verbs.add_parser("rebuild", help="make the tables anew, in place or in a new file")
    mending.add_argument("ledger")
    mending.add_argument("new", nargs="?")
    return parser


def state(task: TaskAsOf) -> dict[str, object]:
    """Return a task with its claims as JSON content."""
    return {
        "task": task.task.to_dict(),
        "policy": msgspec.to_builtins(task.policy),
        "claims": [claim.to_dict() for claim in task.claims],
    }


def show(content: dict[str, object]) -> None:
    """Print one object in ASCII, so that no text in it can steer a terminal."""
    sys.stdout.write(program.json_line(content) + "\n")


if __name__ == "__main__":
    program.fill_descriptors()
    with program.ending("replay.py"):
        sys.exit(main())
