"""The chain: one value per row that commits to every row of its scope before it."""

from hashlib import sha256
from typing import Final

START: Final = bytes(32)


class _Sizes(dict[int, str]):
    """Lengths in eight bytes, a character a byte; the common ones are made once."""

    def __missing__(self, size: int) -> str:
        return size.to_bytes(8).decode("latin-1")


_SIZES: Final = _Sizes({size: size.to_bytes(8).decode("latin-1") for size in range(1024)})


def link(  # noqa: PLR0917  (a row's columns)
    previous: bytes,
    sequence: int,
    scope: str,
    number: int,
    stream: str,
    version: int,
    at: int,
    kind: str,
    body: str,
) -> bytes:
    """Return a row's chain value.

    It is the SHA-256 over the scope's previous value and the row's columns, each as UTF-8
    text (integers in decimal) behind its length in eight bytes, big end first. Written out
    column by column, since every command and every replayed row goes through here.

    Args:
        previous: The scope's previous value, ``START`` at first.
        sequence: The row's column; the others are too, in the order of the table.
        scope: The row's column.
        number: The row's column.
        stream: The row's column.
        version: The row's column.
        at: The row's column.
        kind: The row's column ``type``.
        body: The row's column.
    """
    if not (scope.isascii() and stream.isascii() and kind.isascii() and body.isascii()):
        # A character of ASCII is a byte of UTF-8; of any other text, make it so.
        scope, stream, kind, body = [
            each.encode().decode("latin-1") for each in (scope, stream, kind, body)
        ]
    one, two, three, four = str(sequence), str(number), str(version), str(at)
    size = _SIZES
    framed = (
        f"{size[len(one)]}{one}{size[len(scope)]}{scope}"
        f"{size[len(two)]}{two}{size[len(stream)]}{stream}"
        f"{size[len(three)]}{three}{size[len(four)]}{four}"
        f"{size[len(kind)]}{kind}{size[len(body)]}{body}"
    )
    return sha256(previous + framed.encode("latin-1")).digest()
