"""A look over JSON text from outside, before anything decodes it (faults page, Attacks).

Decoders differ on what they let pass: duplicate keys, numbers of any length, numbers
without end, nesting to the depth of the stack. This one pass refuses all of them and
knows where in the text it is. Syntax as such is left to the decoder.
"""

import json
import math
import re
from typing import Final

from idkmesh.digests import MAX_DEPTH
from idkmesh.errors import InvalidInput
from idkmesh.naming import shown
from idkmesh.scalars import LAST_DEADLINE

_MAX_NUMBER_LENGTH: Final = 64

# Possessive, and an unclosed string is taken to the end of the text: no input makes the
# search go over the same characters twice.
_TOKEN: Final = re.compile(
    r'(?P<string>"(?:[^"\\]++|\\[\s\S])*+(?:"(?P<colon>[ \t\r\n]*+:)?|\\?\Z))'
    r"|(?P<open>[\[{])|(?P<close>[\]}])"
    r"|(?P<number>-?[0-9][0-9a-zA-Z.+-]*+)|(?P<endless>-?(?:NaN|Infinity))"
)


def place_in(text: str, index: int) -> str:
    """Return where a character of ``text`` stands, as line and column from 1."""
    line_start = text.rfind("\n", 0, index) + 1
    return f"line {text.count(chr(10), 0, index) + 1}, column {index - line_start + 1}"


def screen(text: str, source: str) -> None:
    """Refuse JSON text that decoders would disagree about or choke on.

    Args:
        text: The whole text.
        source: What to call it in a message.

    Raises:
        InvalidInput: It nests deeper than 64 levels, an object has a key twice, a number is
            not finite, longer than 64 characters or a whole one beyond the ledger's last
            deadline (2**62 + 604,799) either way, or a string holds a lone surrogate; the
            message names line and column (``invalid_input``).
    """
    keys_of_open: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        if token["string"] is not None:
            fault = _string_fault(token, keys_of_open)
        elif token["close"] is not None:
            del keys_of_open[-1:]
            fault = None
        elif token["open"] is not None:
            keys_of_open.append(set())
            deep = len(keys_of_open) > MAX_DEPTH
            fault = f"be at most {MAX_DEPTH} levels deep, but it is deeper" if deep else None
        else:
            fault = _number_fault(token[0])
        if fault is not None:
            message = f"expected {source} at {place_in(text, token.start())} to {fault}"
            raise InvalidInput(message)


def _string_fault(token: re.Match[str], keys_of_open: list[set[str]]) -> str | None:
    content = _content(token["string"].removesuffix(token["colon"] or ""))
    if content is None:
        return None
    try:
        content.encode()
    except UnicodeEncodeError:
        return "hold whole characters, but it holds a lone surrogate"
    if token["colon"] is not None and keys_of_open:
        if content in keys_of_open[-1]:
            return f"be a key that its object has once, but {shown(content)} is there already"
        keys_of_open[-1].add(content)
    return None


def _content(literal: str) -> str | None:
    """Return what a string literal says, or None where it is not well formed."""
    if "\\" not in literal:
        return literal[1:-1]
    try:
        return str(json.loads(literal))
    except ValueError:
        return None


def _number_fault(literal: str) -> str | None:
    if len(literal) > _MAX_NUMBER_LENGTH:
        return f"be a number of at most {_MAX_NUMBER_LENGTH} characters, but it is longer"
    try:
        if literal.removeprefix("-").isdigit():
            whole = abs(int(literal)) <= LAST_DEADLINE
            return (
                None if whole else f"be a number up to {LAST_DEADLINE} either way, but it is larger"
            )
        finite = math.isfinite(float(literal))
    except ValueError:
        return None
    return None if finite else "be a finite number, but it is not"
