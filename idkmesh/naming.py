"""How an id or a name is shown in a message: short, on one line, and harmless."""

from typing import Final

MAX_SHOWN: Final = 64
_HEAD: Final = 40
_TAIL: Final = 20


def shown(name: str) -> str:
    """Return ``name`` as a message may show it.

    A long one loses its middle. What does not print is escaped: control characters, lone
    surrogates, and those that change the direction of text or take no room.
    """
    if len(name) > MAX_SHOWN:
        name = f"{name[:_HEAD]}...{name[-_TAIL:]}"
    if name.isprintable():
        return name
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in name
    )
