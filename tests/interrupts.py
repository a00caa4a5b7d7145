"""Ctrl-C at every point where Python looks for signals: at a function's start, after a C call."""

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import idkmesh

PACKAGE = str(Path(idkmesh.__file__).parent)


class Interrupt:
    """A profiler that raises KeyboardInterrupt at the nth point inside the package.

    Attributes:
        where: The file, line and function of that point, once it was come to.
    """

    def __init__(self, nth: int) -> None:
        self._left = nth
        self.where = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count the point, and interrupt where it is the one."""
        del argument
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(PACKAGE):
            self._left -= 1
            if self._left == 0:
                code = frame.f_code
                file = code.co_filename.removeprefix(PACKAGE)
                self.where = f"{file}:{frame.f_lineno} in {code.co_name} at {event}"
                raise KeyboardInterrupt


def interrupted(
    work: Callable[[], object], before: Callable[[], object] = lambda: None
) -> Iterator[str]:
    """Do the work again and again, interrupted one point later each time, until it is whole.

    Yields each point after the interrupted work has come back, so that the caller can look
    at what it left. What is to be done before each attempt is never interrupted.
    """
    for nth in count(1):
        before()
        interrupt = Interrupt(nth)
        sys.setprofile(interrupt)
        try:
            work()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        if not interrupt.where:
            return
        yield interrupt.where
