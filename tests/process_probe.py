"""Helper program: says which of SQLite's locks on a ledger another process may have.

Called as ``process_probe.py PATH``; prints one JSON document.
"""

import json
import sys

import apsw


def attempt(path: str, *statements: str) -> str:
    """Try statements on a connection of their own, without waiting; undo what they did."""
    connection = apsw.Connection(path)
    try:
        for statement in statements:
            connection.execute(statement)
    except apsw.BusyError:
        return "busy"
    else:
        return "free"
    finally:
        connection.close()


if __name__ == "__main__":
    write = attempt(sys.argv[1], "BEGIN IMMEDIATE", "ROLLBACK")
    # Nobody may leave WAL mode while anybody has the file open.
    exclusive = attempt(sys.argv[1], "PRAGMA journal_mode = DELETE", "PRAGMA journal_mode = WAL")
    print(json.dumps({"write": write, "exclusive": exclusive}))  # noqa: T201  (its answer)
