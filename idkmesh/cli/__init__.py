"""The command line ``idkmesh``. What it shows with comes as an extra, and may be missing."""

import sys
from typing import Final

from idkmesh.cli import program

_FROM_THE_EXTRA: Final = frozenset({"click", "rich"})


def main() -> None:
    """Run the command line, or say in one line which extra it lacks and exit 2."""
    program.fill_descriptors()
    try:
        # Only here: a worker process imports this package and needs neither of the two.
        from idkmesh.cli.verbs import idkmesh  # noqa: PLC0415  (see above)
    except KeyboardInterrupt:
        sys.exit(program.INTERRUPTED)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _FROM_THE_EXTRA:
            raise
        message = "idkmesh: the command line needs an extra: pip install 'idkmesh[cli]'"
        program.fail(message, program.USAGE)
    idkmesh()
