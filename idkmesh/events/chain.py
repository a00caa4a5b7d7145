"""The chain: one value per row that commits to every row of its scope before it."""

from hashlib import sha256
from typing import Final

START: Final = bytes(32)
_COMMON: Final = 1024
_SIZES: Final = tuple(size.to_bytes(8) for size in range(_COMMON))

Columns = tuple[int, str, int, str, int, int, str, str]


def link(previous: bytes, columns: Columns) -> bytes:
    """Return a row's chain value.

    It is the SHA-256 over the scope's previous value and the row's columns, each as UTF-8
    text (integers in decimal) behind its length in eight bytes, big end first.

    Args:
        previous: The scope's previous value, ``START`` at first.
        columns: sequence, scope, number, stream, version, at, type and body, as in the table.
    """
    parts = [previous]
    for column in columns:
        data = str(column).encode()
        size = len(data)
        parts += (_SIZES[size] if size < _COMMON else size.to_bytes(8), data)
    return sha256(b"".join(parts)).digest()
