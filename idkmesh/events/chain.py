"""The chain: one value per row that commits to every row of its scope before it."""

from hashlib import sha256
from typing import Final

START: Final = bytes(32)


def link(
    previous: bytes,
    *,
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

    It is the SHA-256 over the scope's previous value (32 zero bytes at first) and the row's
    columns in their order in the table, each as UTF-8 text (integers in decimal) behind its
    length in eight bytes, big end first.
    """
    digest = sha256(previous)
    for column in (str(sequence), scope, str(number), stream, str(version), str(at), kind, body):
        data = column.encode()
        digest.update(len(data).to_bytes(8))
        digest.update(data)
    return digest.digest()
