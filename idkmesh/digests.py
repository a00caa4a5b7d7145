"""Canonical JSON and the digests over it: the same content gives the same digest anywhere."""

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from idkmesh.errors import InvalidInput

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 10_000_000


def canonical_json(value: object) -> bytes:
    """Return the one JSON text of ``value``: sorted keys, no blanks, UTF-8.

    Args:
        value: JSON content: dict with str keys, list, tuple, str, int, finite float, bool, None.

    Returns:
        The text as bytes.

    Raises:
        InvalidInput: The content is not JSON: another type, a key that is no ``str``, a
            non-finite number, a lone surrogate, an int of absurd length, nesting deeper than
            64 levels, or more than 10,000,000 values (``invalid_input``).
    """
    _refuse_foreign(value, MAX_DEPTH, MAX_VALUES)
    try:
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return text.encode()
    except ValueError as error:
        message = "expected JSON content, but it holds a number or text that JSON cannot carry"
        raise InvalidInput(message) from error


def canonical_digest(value: object) -> str:
    """Return ``sha256:`` and the hex SHA-256 of ``value``'s canonical JSON.

    Args:
        value: JSON content, as for ``canonical_json``.

    Raises:
        InvalidInput: As for ``canonical_json`` (``invalid_input``).
    """
    return f"sha256:{sha256(canonical_json(value)).hexdigest()}"


def _refuse_foreign(value: object, depth: int, left: int) -> int:
    """Refuse what ``json`` would coerce, or follow without end; return how much may follow."""
    if left <= 0:  # lists that share their members can be short and yet have no end
        message = f"expected JSON content of at most {MAX_VALUES} values, but it has more"
        raise InvalidInput(message)
    kind = type(value)
    if kind is str or kind is int or value is None or kind is bool or kind is float:
        return left - 1
    if depth == 0:
        message = f"expected JSON content of at most {MAX_DEPTH} levels, but it is deeper"
        raise InvalidInput(message)
    members: Iterable[object]
    if isinstance(value, dict):
        if any(type(key) is not str for key in value):
            message = "expected JSON objects to have str keys, but one has not"
            raise InvalidInput(message)
        members = value.values()
    elif isinstance(value, (list, tuple)):
        members = value
    else:
        message = f"expected JSON content, but it holds a {kind.__name__}"
        raise InvalidInput(message)
    left -= 1
    for each in members:
        left = _refuse_foreign(each, depth - 1, left)
    return left
