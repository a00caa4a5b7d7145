"""How an id or a name is shown in a message: short, on one line, and harmless."""

from typing import Final

MAX_SHOWN: Final = 64
_HEAD: Final = 40
_TAIL: Final = 20

_MARKS: Final = 2  # of those that stand on one letter
# Letters, marks and signs that print nothing, or take no room of their own: Hangul's fillers,
# vowels and finals, selectors of variants, the blanks of Braille, of music and of hieroglyphs.
_UNSEEN: Final = frozenset(
    map(chr, (*range(0x115F, 0x1200), *range(0x180B, 0x1810), *range(0xD7B0, 0xD800)))
).union("\u034f\u17b4\u17b5\u2800\u3164\uffa0\U00013441\U00013442\U0001d159")


def shown(name: str) -> str:
    """Return ``name`` as a message may show it: escaped, and a long one without its middle."""
    if len(name) > MAX_SHOWN:
        name = f"{name[:_HEAD]}...{name[-_TAIL:]}"
    return escaped(name)


def escaped(text: str) -> str:
    """Return a text on one line, with nothing in it that a terminal obeys or that nobody sees.

    Escaped is what does not print (control characters, lone surrogates, what changes the
    direction of text), and what prints but takes no room of its own or shows nothing, so
    that two names which differ never look the same for that. A mark is shown where its
    script needs it: at most two on a letter of the same script, in a text that is composed.
    """
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category, is_normalized  # noqa: PLC0415  (large tables, rarely needed)

    composed = is_normalized("NFC", text)
    told = []
    letter, marks = "", 0
    for each in text:
        mark = category(each)[0] == "M"
        marks = marks + 1 if mark else 0
        seen = each.isprintable() and each not in _UNSEEN
        if mark:
            seen = seen and composed and marks <= _MARKS and _script(each) == _script(letter)
        else:
            letter = each if seen and category(each)[0] == "L" else ""
        told.append(each if seen else each.encode("unicode_escape").decode())
    return "".join(told)


def _script(character: str) -> str:
    """Return the first word of a character's name, which is its script's, or nothing."""
    from unicodedata import name  # noqa: PLC0415  (as above)

    return name(character, "").partition(" ")[0] if character else ""
