"""Canonical JSON and the digests over it: the same content gives the same digest anywhere."""

import json
from hashlib import sha256
from typing import Final

from idkmesh.errors import InvalidInput

MAX_DEPTH: Final = 64


def canonical_json(value: object) -> bytes:
    """Return the one JSON text of ``value``: sorted keys, no blanks, UTF-8.

    Args:
        value: JSON content: dict with str keys, list, tuple, str, int, finite float, bool, None.

    Returns:
        The text as bytes.

    Raises:
        InvalidInput: The content is not JSON: another type, a key that is no ``str``, a
            non-finite number, a lone surrogate, an int of absurd length, or nesting deeper
            than 64 levels (``invalid_input``).
    """
    _refuse_foreign(value, MAX_DEPTH)
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


def _refuse_foreign(value: object, depth: int) -> None:
    """Refuse what ``json`` would coerce or recurse into without end."""
    kind = type(value)
    if kind is str or kind is int or value is None or kind is bool or kind is float:
        return
    if depth == 0:
        message = f"expected JSON content of at most {MAX_DEPTH} levels, but it is deeper"
        raise InvalidInput(message)
    if isinstance(value, dict):
        for key, each in value.items():
            if type(key) is not str:
                message = "expected JSON objects to have str keys, but one has not"
                raise InvalidInput(message)
            _refuse_foreign(each, depth - 1)
        return
    if isinstance(value, (list, tuple)):
        for each in value:
            _refuse_foreign(each, depth - 1)
        return
    message = f"expected JSON content, but it holds a {kind.__name__}"
    raise InvalidInput(message)
