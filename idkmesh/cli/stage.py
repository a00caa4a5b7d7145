"""The demo's worker processes: started, listened to, spoken to, and surely ended."""

import multiprocessing
import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Final, Self

from idkmesh.cli import crew
from idkmesh.cli.crew import Message, Report, Stop
from idkmesh.cli.plans import Plan

_FAREWELL_SECONDS: Final = 3


class Stage:
    """Worker processes, each on a line of its own; a context manager that ends them all.

    Args:
        target: The ledger's file, which every worker opens for itself.
        names: The workers.
        plans: What they may be offered.
    """

    def __init__(self, target: str, names: Sequence[str], plans: tuple[Plan, ...]) -> None:
        self._target = target
        self._names = names
        self._plans = plans
        self._processes: dict[str, SpawnProcess] = {}
        self._lines: dict[Connection, str] = {}

    def __enter__(self) -> Self:
        # A spawned process shares nothing with this one but its line: no open ledger, no
        # lock, no thread.
        context = multiprocessing.get_context("spawn")
        try:
            for name in self._names:
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=crew.run,
                    args=(name, self._target, self._plans, theirs),
                    name=name,
                    daemon=True,
                )
                process.start()
                theirs.close()  # so that the line ends when the worker does
                self._processes[name] = process
                self._lines[ours] = name
        except BaseException:
            self._end(0)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(_FAREWELL_SECONDS if error is None else 0)

    @property
    def pids(self) -> dict[str, int]:
        """Each worker's process id."""
        return {name: process.pid for name, process in self._processes.items() if process.pid}

    @property
    def exit_codes(self) -> dict[str, int | None]:
        """How each worker ended: 0, minus the signal that killed it, or None for not yet."""
        return {name: process.exitcode for name, process in self._processes.items()}

    @property
    def present(self) -> tuple[str, ...]:
        """The workers whose lines are open."""
        return tuple(self._lines.values())

    def say(self, message: Message, names: Iterable[str]) -> None:
        """Send a message to the workers named."""
        named = frozenset(names)
        for line, name in self._lines.items():
            if name in named:
                with suppress(ConnectionError):  # it is dead, which hear() will notice
                    line.send(message)

    def hear(self, timeout_seconds: float) -> list[tuple[str, Report | None]]:
        """Return what arrives within a time: who says what; None from one who is gone."""
        heard: list[tuple[str, Report | None]] = []
        for line in wait(list(self._lines), timeout_seconds):
            if not isinstance(line, Connection):
                continue
            name = self._lines[line]
            try:
                heard.append((name, line.recv()))
            except (EOFError, ConnectionError):
                heard.append((name, None))
                del self._lines[line]
                line.close()
        return heard

    def kill(self, name: str) -> None:
        """Kill a worker with SIGKILL, and wait until it has ended."""
        os.kill(self.pids[name], signal.SIGKILL)
        self._processes[name].join()

    def _end(self, patience_seconds: float) -> None:
        self.say(Stop(), self.present)
        for process in self._processes.values():
            process.join(patience_seconds)
            if process.is_alive():
                process.kill()
                process.join()
        for line in self._lines:
            line.close()
        self._lines.clear()
