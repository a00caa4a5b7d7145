"""Named statements out of ``.sql`` files, where a person can read and run them."""

import os
import re

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def statements(beside: str, name: str) -> dict[str, str]:
    """Return the named statements of an SQL file.

    Args:
        beside: The ``__file__`` of the module that the SQL file stands beside.
        name: The SQL file's name.
    """
    # os and not pathlib, which would be a tenth of the package's import time.
    path = os.path.join(os.path.dirname(beside), name)  # noqa: PTH118, PTH120  (as above)
    with open(path, encoding="utf-8") as file:  # noqa: PTH123  (as above)
        parts = _NAME.split(file.read())
    return {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}
