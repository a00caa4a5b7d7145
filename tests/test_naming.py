"""Names in messages: what is shown of them, and what is escaped."""

from idkmesh.naming import shown


def test_a_mark_is_shown_on_a_letter_alone() -> None:
    """A mark that takes room stays on its letter, and is escaped where there is none."""
    assert shown("\u0915\u093e\u0903") == "\u0915\u093e\u0903"
    assert shown("\u093eb") == "\\u093eb"
    assert shown("a \u093e\u0903") == "a \\u093e\\u0903"
    assert shown("a\u200b\u093e") == "a\\u200b\\u093e"
