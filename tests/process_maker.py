"""Helper program: makes a file out of a ledger, and kills itself in the midst of it.

Called as ``process_maker.py WAY SOURCE TARGET MOMENT``. The moment is the name of a function of
``os`` to die just before or after ("before link", "after link"), or the number of the step of
the progress to die at. Who comes to the end of the work exits with 0.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from idkmesh.events.making import making
from idkmesh.transfer import backup, export_lines, import_lines, rebuild_into

Progress = Callable[[int, int], None]


def die() -> None:
    """Die of what no program survives or notices."""
    os.kill(os.getpid(), signal.SIGKILL)


def at_step(last: int) -> Progress:
    """Die at a step of the progress."""
    count = itertools.count(1)

    def progress(_done: int, _total: int) -> None:
        if next(count) == last:
            die()

    return progress


def at_call(when: str, name: str) -> None:
    """Die where a function of the system is called for the first time."""
    real: Callable[..., Any] = getattr(os, name)

    def dying(*arguments: Any) -> Any:
        if when == "before":
            die()
        real(*arguments)
        die()

    setattr(os, name, dying)


def export(source: str, target: str, progress: Progress) -> None:
    """Export as the verb does."""
    with making(target) as path, Path(path).open("wb") as out:
        for line in export_lines(source, progress=progress):
            out.write(line)
            out.flush()


def main(way: str, source: str, target: str, moment: str) -> None:
    """Go one way, and die at the moment."""
    lines = list(export_lines(source))
    when, _, name = moment.rpartition(" ")
    if when:
        at_call(when, name)
    progress = at_step(0 if when else int(moment))
    if way == "import":
        import_lines(lines, target, progress=progress)
    elif way == "export":
        export(source, target, progress)
    else:
        {"rebuild": rebuild_into, "backup": backup}[way](source, target, progress=progress)


if __name__ == "__main__":
    main(*sys.argv[1:])
