"""A file system that fails on demand: SQLite's own, with one chosen call refused.

``FaultVFS`` hands every call down to the system's VFS and counts the openings, writes,
syncs, truncations and removals. ``fail`` names the one to refuse, and every later one of its kind
until ``heal``, as a disk that has gone bad stays bad.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import apsw

_names = count(1)


class FaultVFS(apsw.VFS):
    """The system's VFS with a fault in it.

    Attributes:
        calls: Every counted call since the last ``heal``: what was asked of which file, as
            in ``("write", "-wal")``. The database itself has the empty suffix.
        fired: Whether the fault has been met.
        at_fault: Called in the moment of the fault, before anything is undone.
    """

    def __init__(self) -> None:
        self.base = ""
        self.name = f"fault-{next(_names)}"
        self.calls: list[tuple[str, str]] = []
        self.fired = False
        self.at_fault: Callable[[], object] = lambda: None
        self._call = ("", "")
        self._left = 0
        self._error: type[apsw.Error] = apsw.IOError
        super().__init__(self.name, self.base)

    def fail(
        self, call: tuple[str, str], nth: int = 1, error: type[apsw.Error] = apsw.IOError
    ) -> None:
        """Refuse the nth such call from now on, and all behind it."""
        self.heal()
        self._call, self._left, self._error = call, nth, error

    def heal(self) -> None:
        """Refuse nothing any more, and count anew."""
        self._call, self._left, self.fired = ("", ""), 0, False
        self.calls.clear()

    def meet(self, operation: str, path: str) -> None:
        """Count a call, and raise where it is the one to refuse."""
        call = (operation, _suffix(path))
        self.calls.append(call)
        if call == self._call:
            self._left -= 1
            if self._left <= 0:
                self.fired = True
                self.at_fault()
                raise self._error

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  (SQLite's name)
        """Open a file whose calls are counted."""
        self.meet("open", name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        return FaultFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802  (SQLite's own signature)
        """Remove a file."""
        self.meet("delete", filename)
        super().xDelete(filename, syncdir)


class FaultFile(apsw.VFSFile):
    """An open file of a ``FaultVFS``."""

    def __init__(
        self, vfs: FaultVFS, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._vfs = vfs
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  (SQLite's name)
        """Write, or fail before a byte has gone out."""
        self._vfs.meet("write", self._path)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802  (SQLite's name)
        """Flush to the disk."""
        self._vfs.meet("sync", self._path)
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  (SQLite's name)
        """Cut the file."""
        self._vfs.meet("truncate", self._path)
        super().xTruncate(newsize)


@contextmanager
def fault_vfs() -> Iterator[FaultVFS]:
    """Register a failing VFS for as long as the block lasts."""
    vfs = FaultVFS()
    try:
        yield vfs
    finally:
        vfs.unregister()


def _suffix(path: str) -> str:
    name = os.path.basename(path)  # noqa: PTH119  (SQLite speaks of paths as text)
    for suffix in ("-wal", "-journal", "-shm"):
        if name.endswith(suffix):
            return suffix
    return ""
