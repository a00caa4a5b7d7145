"""How a program of ours begins and ends, whatever it shows with: no extra is needed for this."""

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, TextIO

FINE: Final = 0
PROBLEMS: Final = 1
USAGE: Final = 2
UNREADABLE: Final = 3
INTERRUPTED: Final = 130
READER_GONE: Final = 141

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def fill_descriptors() -> None:
    """Open on nothing each of the standard streams that is closed.

    To be called first: whichever file is opened next would else take a stream's descriptor,
    and what is meant for the stream would be written into it.
    """
    for descriptor, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            os.set_inheritable(descriptor, True)  # noqa: FBT003  (the system's)
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  (it stays open)
            setattr(sys, name, stream)


@contextmanager
def ending(name: str) -> Iterator[None]:
    """Flush what a program printed, and turn what ends it early into its exit code.

    Args:
        name: What an error of the system is said of.
    """
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
        _forget(sys.stdout)
        sys.exit(READER_GONE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        _forget(sys.stdout)
        code = errno.errorcode.get(error.errno or 0, "OSError")
        fail(f"{name}: {code}: {error.strerror or 'the system refused'}", UNREADABLE)
    finally:
        _say("")  # what somebody else could not say


def json_line(content: object) -> str:
    """Return JSON on one line and in ASCII, so that no text in it can steer a terminal."""
    return json.dumps(builtin(content), ensure_ascii=True, allow_nan=False)


def builtin(value: object) -> Any:  # noqa: ANN401  (a column of a damaged row holds whatever it does)
    """Return a value as JSON has it; what it has not, and what no column of ours is, as text."""
    if isinstance(value, dict):
        return {name: builtin(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [builtin(each) for each in value]
    return value if value is None or isinstance(value, int | str) else str(value)


def fail(message: str, code: int) -> NoReturn:
    """Say in one line on the error output what is wrong, if that is still to be had, and exit."""
    _say(f"{message}\n")
    sys.exit(code)


def _say(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    """Send what is still unwritten nowhere, or the interpreter would complain at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
