"""Strategies for what a scalar argument must not hold, kind by kind."""

import re
from typing import Any

from hypothesis import strategies as st

MARK = "s3cret"
ANY = st.characters(exclude_categories=["Cc", "Cs"])

# What is no text, no int and no bool, beside what is one of them and still wrong.
not_text: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=70),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just(MARK.encode()),
    st.builds(object),
)


def around(middle: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Put something into the middle, the front or the end of a text that would be fine."""
    fine = st.text(ANY, max_size=20)
    return st.tuples(st.just(MARK) | fine, middle, st.just(MARK) | fine | st.just("")).map("".join)


too_long = st.one_of(
    st.integers(513, 600).map("x".__mul__), st.just(MARK * 100), st.just("é" * 1_000_000)
)
bad_text: st.SearchStrategy[Any] = st.one_of(
    not_text,
    around(st.characters(categories=["Cc"])),
    around(st.characters(categories=["Cs"])),
    st.sampled_from(
        ["", " ", "\u2003 ", "\u00a0", "\u3000\u2028", "a\x00", "a\x7f", "a\x85", "\n"]
    ),
    too_long,
)


def breaks(pattern: str) -> st.SearchStrategy[Any]:
    """Make anything but a whole text of this pattern, with near misses among it."""
    near = st.from_regex(pattern, fullmatch=True)
    spoilers = st.sampled_from(["\n", " ", "/", "\x00", "é", "\u202e", "\ud800", "'; --", "٣"])
    return st.one_of(
        not_text,
        st.text(max_size=140),
        st.tuples(near, spoilers).map("".join),
        st.tuples(spoilers, near).map("".join),
        near.map(lambda text: text * 260),
        around(spoilers),
    ).filter(lambda value: not (isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII)))


def other_than(*words: str) -> st.SearchStrategy[Any]:
    """Make anything but one of these words, with their near misses among it."""
    near = st.sampled_from(words).flatmap(
        lambda word: st.sampled_from([word.upper(), word + " ", word + "\n", " " + word, word[:-1]])
    )
    return st.one_of(not_text, near, st.text(max_size=20), st.just(MARK)).filter(
        lambda value: not (isinstance(value, str) and value in words)
    )


def not_between(low: int, high: int) -> st.SearchStrategy[Any]:
    """Make anything but an int of this range: beyond it, huge, a bool, a float, text."""
    return st.one_of(
        st.integers(max_value=low - 1),
        st.integers(min_value=high + 1),
        st.integers(1, 3).map(lambda power: 10 ** (power * 2_000)),
        st.booleans(),
        st.floats(),
        st.integers(low, high).map(float),
        st.integers(low, min(high, 1_000)).map(str),
        st.none(),
        st.binary(max_size=3),
    )


not_a_bool: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.integers(0, 1), st.text(max_size=5), st.floats(), st.just([True])
)
SCOPE_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
RESOURCE_TYPE = r"[a-z][a-z0-9._-]{0,63}"
PRINCIPAL = r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,255}"
REVISION = r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}"
DIGEST = r"sha256:[0-9a-f]{64}"
SOURCE = r"[0-9a-f]{40}|[0-9a-f]{64}"
