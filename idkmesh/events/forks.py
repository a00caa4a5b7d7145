"""Whether this process is still the one that it was: a child's copies of things are not its own.

Asking the system for the process id at every step would cost a command a tenth of its time.
"""

import os

_generation = 0


def generation() -> int:
    """Return how many forks lie between this process and the one that started Python."""
    return _generation


def _forked() -> None:
    global _generation  # noqa: PLW0603  (the one fact of this module)
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
