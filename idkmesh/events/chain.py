"""The chain: one value per row that commits to every row of its scope before it."""

from hashlib import sha256
from typing import Final

START: Final = bytes(32)

Columns = tuple[int, str, int, str, int, int, str, str]


class _Sizes(dict[int, bytes]):
    """Lengths in eight bytes; the common ones are made once."""

    def __missing__(self, size: int) -> bytes:
        return size.to_bytes(8)


_SIZES: Final = _Sizes({size: size.to_bytes(8) for size in range(1024)})


def link(previous: bytes, columns: Columns) -> bytes:
    """Return a row's chain value.

    It is the SHA-256 over the scope's previous value and the row's columns, each as UTF-8
    text (integers in decimal) behind its length in eight bytes, big end first. Written out
    column by column, since every command and every replayed row goes through here.

    Args:
        previous: The scope's previous value, ``START`` at first.
        columns: sequence, scope, number, stream, version, at, type and body, as in the table.
    """
    sequence, scope, number, stream, version, at, kind, body = [
        str(each).encode() for each in columns
    ]
    size = _SIZES
    return sha256(
        b"".join(
            (
                previous,
                size[len(sequence)],
                sequence,
                size[len(scope)],
                scope,
                size[len(number)],
                number,
                size[len(stream)],
                stream,
                size[len(version)],
                version,
                size[len(at)],
                at,
                size[len(kind)],
                kind,
                size[len(body)],
                body,
            )
        )
    ).digest()
