"""How a verb ends: its exit codes, and every error as one line on the error output."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any, Final, NoReturn

import click

from idkmesh.cli import program
from idkmesh.cli.program import PROBLEMS, UNREADABLE, USAGE
from idkmesh.cli.screen import safe
from idkmesh.errors import ClaimError, ErrorCode, StoreError

CODES: Final = (
    "Exit codes: 0 fine, 1 problems found or refused, 2 usage, 3 a file cannot be read or"
    " written, 130 interrupted, 141 the reader of the output has gone."
)


class Verbs(click.Group):
    """A group that ends as its exit codes say, and whose usage errors steer no terminal."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:  # noqa: ANN401  (click's)
        """Read the group's own arguments."""
        with _ending():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  (click's)
        """Read a verb's arguments and run it."""
        with _ending():
            return super().invoke(ctx)


@contextmanager
def told(verb: str) -> Iterator[None]:
    """Run a verb, and turn whatever ends it early into its exit code."""
    with program.ending(f"idkmesh {verb}"):
        try:
            yield
        except StoreError as error:
            fail(verb, error, UNREADABLE)
        except ClaimError as error:
            fail(verb, error, USAGE if error.code is ErrorCode.INVALID_INPUT else PROBLEMS)


def fail(verb: str, message: object, code: int) -> NoReturn:
    """Say in one line on the error output what is wrong, behind all that was printed, and exit."""
    sys.stdout.flush()
    program.fail(f"idkmesh {verb}: {safe(message)}", code)


@contextmanager
def _ending() -> Iterator[None]:
    with program.ending("idkmesh"):
        try:
            yield
        except click.UsageError as error:
            lines = StringIO()
            ours = isinstance(error, click.exceptions.NoArgsIsHelpError)  # it is the help
            harmless = error if ours else click.UsageError(safe(error.format_message()), error.ctx)
            harmless.show(lines)
            program.fail(lines.getvalue().rstrip("\n"), USAGE)
