"""A new file, whole under its name or not at all, whatever ends the program that makes it."""

import errno
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from idkmesh.errors import ErrorCode, InvalidInput, StoreError
from idkmesh.events import files

_HIDING_BYTES: Final = 32  # what a hidden name has more than the final one, at most
_NAME_CHARACTERS: Final = 32  # of the final name, so that the hidden one is not too long
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_numbers: Final = itertools.count()


@contextmanager
def making(target: object) -> Iterator[str]:
    """Give the path of a hidden empty file, which gets its final name once the block is through.

    Whoever is killed before leaves nothing under the final name. A block that raises leaves
    nothing but the folders that were made on the way.

    Args:
        target: The path of a file that does not exist yet, and beside which nothing stands
            that would belong to it.

    Raises:
        InvalidInput: It exists, or is no path that a new file could have (``invalid_input``).
        StoreError: It cannot be made there (``store_readonly``, ``store_full``,
            ``store_unsafe``), or a journal holds some of what was made (``store_unsafe``).
        TypeError: It is neither ``str`` nor a path object.
    """
    path = files.resolve(target, spare=_HIDING_BYTES)
    _require_new(path)
    try:
        files.make_folder(os.path.dirname(path))
        hidden = _hidden(path)
    except OSError as error:
        raise files.refused(error) from error
    try:
        yield hidden
        _require_whole(hidden)
        _remove_beside(hidden)
        _publish(hidden, path)
    except BaseException:
        _remove_beside(hidden)
        with suppress(OSError):
            os.unlink(hidden)
        raise


def in_the_way(path: str) -> str | None:
    """Return the suffix of what stands where a new file is to be: none for the file itself.

    Raises:
        StoreError: The system does not say, as of a name too long for it (``store_unsafe``,
            ``store_readonly``).
    """
    for suffix in ("", *files.BESIDE):
        try:
            os.lstat(path + suffix)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise files.refused(error) from error
        return suffix
    return None


def _require_new(path: str) -> None:
    if path == files.MEMORY or in_the_way(path) is not None:
        raise _taken()


def _taken() -> InvalidInput:
    message = "expected target to be a file that does not exist yet, but it does"
    return InvalidInput(message)


def _hidden(path: str) -> str:
    """Make an empty file for its owner alone, under a name that nobody has or had."""
    folder, name = os.path.split(path)
    while True:
        other = f".{name[:_NAME_CHARACTERS]}.{os.getpid()}-{next(_numbers)}.making"
        hidden = os.path.join(folder, other)
        if in_the_way(hidden) is None:  # a killed process may have had this one's id
            with suppress(FileExistsError):
                files.create(hidden, 0o600)
                return hidden


def _require_whole(hidden: str) -> None:
    for suffix in ("-journal", "-wal"):
        with suppress(FileNotFoundError):
            if os.stat(hidden + suffix).st_size:
                message = "expected a file that is whole by itself, but its journal holds some"
                raise StoreError(ErrorCode.STORE_UNSAFE, message)


def _publish(hidden: str, path: str) -> None:
    """Flush the file, give it its final name where that is free, and flush the name."""
    try:
        descriptor = os.open(hidden, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _require_new(path)
        try:
            os.link(hidden, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            files.create(path, 0o600)  # a crash just behind it leaves an empty file
            os.replace(hidden, path)
        else:
            # A crash just before leaves both names: the file is whole, but as one with several
            # links it is refused until the hidden name is removed.
            os.unlink(hidden)
    except FileExistsError as error:
        raise _taken() from error
    except OSError as error:
        raise files.refused(error) from error
    files.keep_names(os.path.dirname(path))


def _remove_beside(path: str) -> None:
    for suffix in files.BESIDE:
        with suppress(OSError):
            os.unlink(path + suffix)
