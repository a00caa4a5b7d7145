"""How a verb ends: its exit codes, and every error as one line on the error output."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn

import click

from idkmesh.cli.screen import safe
from idkmesh.errors import ClaimError, ErrorCode, StoreError

FINE: Final = 0
PROBLEMS: Final = 1
USAGE: Final = 2
UNREADABLE: Final = 3
INTERRUPTED: Final = 130
READER_GONE: Final = 141

CODES: Final = (
    "Exit codes: 0 fine, 1 problems found or refused, 2 usage, 3 a file cannot be read or"
    " written, 130 interrupted, 141 the reader of the output has gone."
)


class Verbs(click.Group):
    """A group whose usage errors show nothing that a terminal obeys."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:  # noqa: ANN401  (click's)
        """Read the group's own arguments."""
        with _harmless():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  (click's)
        """Read a verb's arguments and run it."""
        with _harmless():
            return super().invoke(ctx)


@contextmanager
def told(verb: str) -> Iterator[None]:
    """Run a verb, flush what it printed, and turn whatever ends it early into its exit code."""
    try:
        try:
            yield
        except KeyboardInterrupt:
            raise  # a reader that has stopped would let a flush wait
        except BaseException:
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        sys.exit(READER_GONE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except StoreError as error:
        fail(verb, error, UNREADABLE)
    except ClaimError as error:
        fail(verb, error, USAGE if error.code is ErrorCode.INVALID_INPUT else PROBLEMS)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "OSError")
        fail(verb, f"{name}: {error.strerror or 'the system refused'}", UNREADABLE)


def fail(verb: str, message: object, code: int) -> NoReturn:
    """Say in one line on the error output what is wrong, and exit."""
    click.echo(f"idkmesh {verb}: {safe(message)}", err=True)
    sys.exit(code)


@contextmanager
def _harmless() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise click.UsageError(safe(error.format_message()), error.ctx) from error


def _forget_output() -> None:
    """Send what is still unwritten nowhere, or the interpreter would complain at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
