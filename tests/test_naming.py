"""Names in messages: what is shown of them, and what is escaped."""

import pytest

from idkmesh.naming import escaped, shown


def test_a_mark_is_shown_on_a_letter_alone() -> None:
    """A mark that takes room stays on its letter, and is escaped where there is none."""
    assert shown("\u0915\u093e\u0903") == "\u0915\u093e\u0903"
    assert shown("\u093eb") == "\\u093eb"
    assert shown("a \u093e\u0903") == "a \\u093e\\u0903"
    assert shown("a\u200b\u093e") == "a\\u200b\\u093e"


@pytest.mark.parametrize(
    "text",
    ["\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e17\u0e35\u0e48", "\u05e9\u05b8\u05c1\u05dc"],
    ids=["Devanagari", "Thai", "Hebrew"],
)
def test_marks_that_a_script_needs_are_shown(text: str) -> None:
    """A word stays readable where its script writes with marks on its letters."""
    assert escaped(text) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("e\u0301", "e\\u0301"),  # not composed
        ("x\u0332", "x\\u0332"),  # another script's mark
        ("\u0e17\u0e35\u0e48\u0e48", "\u0e17\u0e35\u0e48\\u0e48"),  # too many
        ("\u094d\u0924", "\\u094d\u0924"),  # on nothing
        ("\u2764\ufe0f", "\u2764\\ufe0f"),  # takes no room
    ],
)
def test_any_other_mark_is_escaped(text: str, told: str) -> None:
    """A mark that could hide, pile up or look like another text is told by its number."""
    assert escaped(text) == told
