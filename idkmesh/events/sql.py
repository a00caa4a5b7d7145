"""Named statements out of ``.sql`` files, where a person can read and run them."""

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def statements(beside: str, name: str) -> dict[str, str]:
    """Return the named statements of an SQL file.

    Args:
        beside: The ``__file__`` of the module that the SQL file stands beside.
        name: The SQL file's name.
    """
    parts = _NAME.split(Path(beside).with_name(name).read_text(encoding="utf-8"))
    return {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}
