"""How an id or a name is shown in a message: short, on one line, and harmless."""

from typing import Final

MAX_SHOWN: Final = 64
_HEAD: Final = 40
_TAIL: Final = 20

# Marks that stand on what is before them.
_WITHOUT_ROOM: Final = frozenset({"Mn", "Me"})
# Letters and signs that print nothing, or take no room of their own: Hangul's fillers, vowels and
# finals, the blanks of Braille, of music and of hieroglyphs.
_UNSEEN: Final = frozenset(map(chr, (*range(0x115F, 0x1200), *range(0xD7B0, 0xD800)))).union(
    "\u2800\u3164\uffa0\U00013441\U00013442\U0001d159"
)


def shown(name: str) -> str:
    """Return ``name`` as a message may show it: escaped, and a long one without its middle."""
    if len(name) > MAX_SHOWN:
        name = f"{name[:_HEAD]}...{name[-_TAIL:]}"
    return escaped(name)


def escaped(text: str) -> str:
    """Return a text on one line, with nothing in it that a terminal obeys or that nobody sees.

    Escaped is what does not print (control characters, lone surrogates, what changes the
    direction of text), and what prints but takes no room of its own or shows nothing, so
    that two names which differ never look the same for that. A spacing mark is escaped
    where it has no letter to stand on.
    """
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category  # noqa: PLC0415  (a large table, for rare names alone)

    told = []
    on_letter = False
    for each in text:
        kind = category(each)
        seen = (
            each.isprintable()
            and kind not in _WITHOUT_ROOM
            and each not in _UNSEEN
            and (on_letter or kind != "Mc")
        )
        told.append(each if seen else each.encode("unicode_escape").decode())
        on_letter = seen and kind[0] in "LM"
    return "".join(told)
