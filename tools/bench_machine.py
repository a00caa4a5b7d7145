"""What the figures were measured on: machine, file system and versions."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Final

import apsw

FLUSHES_NOWHERE: Final = frozenset({"tmpfs", "ramfs"})

_MOUNT_TYPE: Final = 2
_MOUNT_FOLDER: Final = 1


def machine() -> dict[str, object]:
    """Return what is known of the machine; None where the system does not tell."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_mib": _memory_mib(),
    }


def load() -> float | None:
    """Return how many programs wanted a processor in the last minute; None where unknown."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def versions() -> dict[str, str]:
    """Return the versions of everything that the figures depend on."""
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "msgspec": metadata.version("msgspec"),
        "idkmesh": metadata.version("idkmesh"),
    }


def file_system(folder: Path) -> str | None:
    """Return the type of the file system that a folder is on; None where unknown."""
    resolved = folder.resolve()
    best, found = -1, None
    for line in _lines("/proc/self/mounts"):
        fields = line.split()
        mount = Path(fields[_MOUNT_FOLDER])
        if resolved.is_relative_to(mount) and len(mount.parts) >= best:
            best, found = len(mount.parts), fields[_MOUNT_TYPE]
    return found


def _processor() -> str | None:
    for line in _lines("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or None


def _memory_mib() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    except (AttributeError, OSError, ValueError):
        return None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
