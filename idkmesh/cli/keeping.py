"""The verbs that check, move and mend: they prove a ledger, copy it, and make it whole again."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click

from idkmesh import repair as repairs
from idkmesh import replay, scalars, transfer
from idkmesh.cli import outcome, reports
from idkmesh.cli.asking import PIPE, read_file
from idkmesh.cli.looking import json_option, ledger_argument
from idkmesh.cli.outcome import told
from idkmesh.cli.program import PROBLEMS
from idkmesh.cli.screen import Screen, count, safe
from idkmesh.cli.steps import Steps
from idkmesh.errors import ClaimError, InvalidInput
from idkmesh.events import files
from idkmesh.events.making import in_the_way, making
from idkmesh.verification import Verification

_MOST_OF_A_SEAL: Final = 1_000
_VERIFYING: Final = ("verifying the log", "checking the pages")
_FILLING: Final = ("checking the log", "making the tables", *_VERIFYING)


@click.command(epilog=outcome.CODES)
@ledger_argument
@click.option(
    "--seal", metavar="TEXT|@FILE", help="An earlier seal: prove that the log only grew since."
)
@json_option
def verify(ledger: str, *, seal: str | None, as_json: bool) -> None:
    """Check a ledger, and that it only grew.

    Everything is looked at: the engine's pages, every event, the chain, what the log folds to,
    and every row of the tables. With an earlier seal it is proved that the log has only grown
    since. Every problem is named with its place; the exit code is 1 where there is one.
    """
    with told("verify"):
        kept = None if seal is None else _seal_text(seal)
        with Steps(*_VERIFYING) as steps:
            found = replay.verify(ledger, seal=kept, progress=steps)
        _report(found, as_json=as_json, sealed=kept)


@click.command(epilog=outcome.CODES)
@ledger_argument
def seal(ledger: str) -> None:
    """Print the seal of the log, to be kept elsewhere.

    A seal is one short text. Verify the ledger before you trust a seal of it.
    """
    with told("seal"):
        Screen(sys.stdout).line(replay.seal(ledger))


@click.command(epilog=outcome.CODES)
@ledger_argument
@click.argument("new", required=False, callback=read_file)
@json_option
def rebuild(ledger: str, new: str | None, *, as_json: bool) -> None:
    """Make the tables anew out of the log.

    In the same file, or in a NEW one with the same log. No claim is changed. The result is
    verified.
    """
    with told("rebuild"):
        if new is None:
            with Steps("making the tables", *_VERIFYING) as steps:
                replay.rebuild(ledger, progress=steps)
                found = replay.verify(ledger, progress=steps)
        else:
            _require_new(new)
            with Steps("reading the log", *_FILLING) as steps, _content("rebuild"):
                found = transfer.rebuild_into(ledger, new, progress=steps)
        _report(found, as_json=as_json)


@click.command(epilog=outcome.CODES)
@ledger_argument
@click.argument("file", default=PIPE, callback=read_file)
def export(ledger: str, file: str) -> None:
    """Write the log as JSON Lines.

    Each line is a CloudEvent; the last one holds the log's seal. FILE is a new file; without it,
    or with -, the output is a pipe.
    """
    with told("export"):
        if file == PIPE and sys.stdout.isatty():
            raise InvalidInput("expected a FILE or a pipe, but the output is a terminal")
        with Steps("writing the log") as steps, _output(file) as out:
            written = -1  # the last line is no event
            for line in transfer.export_lines(ledger, progress=steps):
                out.write(line)
                written += 1
        if file != PIPE:
            Screen(sys.stdout).line(f"{count(written, 'event')} exported to {safe(file)}")


@click.command("import", epilog=outcome.CODES)
@click.argument("file", callback=read_file)
@click.argument("new", callback=read_file)
@json_option
def import_(file: str, new: str, *, as_json: bool) -> None:
    """Make a NEW ledger out of an export.

    FILE is a whole export, - a pipe. The log of the new ledger has the same seal. A line that is
    not as an export writes it is named, and nothing is left of the new ledger then.
    """
    with told("import"):
        _require_new(new)
        with Steps("reading the lines", *_FILLING) as steps, _input(file) as source:
            size = 0 if file == PIPE else os.fstat(source.fileno()).st_size
            lines = steps.lines(source, size, transfer.MAX_LINE_BYTES)
            with _content("import"):
                found = transfer.import_lines(lines, new, progress=steps)
        _report(found, as_json=as_json)


@click.command(epilog=outcome.CODES)
@ledger_argument
@click.argument("file", callback=read_file)
@json_option
def backup(ledger: str, file: str, *, as_json: bool) -> None:
    """Copy a live ledger into a new FILE.

    The ledger may be in use. The copy is verified.
    """
    with told("backup"):
        _require_new(file)
        with Steps("copying", *_VERIFYING) as steps:
            found = transfer.backup(ledger, file, progress=steps)
        _report(found, as_json=as_json)


@click.command("repair-clock", epilog=outcome.CODES)
@ledger_argument
@click.option("--evidence", metavar="TEXT", required=True, help="Why the time is known as wrong.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def repair_clock(ledger: str, *, evidence: str, yes: bool) -> None:
    """Set the time back after a clock ran ahead.

    Every active claim ends; executions keep their slots. What would end is shown first. The
    evidence is written into the log; keep secrets out of it.
    """
    with told("repair-clock"):
        evidence = scalars.free_text(evidence, "--evidence")
        screen = Screen(sys.stdout)
        with _content("repair-clock"):
            plan = repairs.plan_repair(ledger)
            reports.planned(screen, plan)
        if not yes:
            _ask(screen)
        with _content("repair-clock", "; nothing changed, look again"):
            done = repairs.repair_clock(ledger, evidence=evidence, plan=plan)
            reports.repaired(screen, done)


def _report(found: Verification, *, as_json: bool, sealed: str | None = None) -> None:
    """Show a verification, and exit with what it means."""
    screen = Screen(sys.stdout)
    if as_json:
        screen.json(reports.verification_object(found))
    else:
        reports.verification(screen, found, sealed)
    screen.flush()
    if not found.ok:
        sys.exit(PROBLEMS)


def _ask(screen: Screen) -> None:
    """Go on only if somebody at a terminal agrees."""
    screen.flush()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        message = "expected --yes or a terminal to ask on, but there is neither; nothing changed"
        raise InvalidInput(message)
    sys.stdout.write("Repair the clock? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        outcome.fail("repair-clock", "not agreed to; nothing changed", PROBLEMS)


@contextmanager
def _content(verb: str, advice: str = "") -> Iterator[None]:
    """Tell what is wrong with content from what is wrong with an argument."""
    try:
        yield
    except ClaimError as error:
        outcome.fail(verb, f"{error}{advice}", PROBLEMS)


def _seal_text(given: str) -> str:
    """Return a seal that was given as it is, or as the name of its file."""
    if not given.startswith("@"):
        return given
    with Path(given[1:]).open("rb") as file:
        return file.read(_MOST_OF_A_SEAL).decode("ascii", "replace")


def _require_new(file: str) -> None:
    """Refuse a file that is there, or that no ledger could be in."""
    if file == PIPE:
        raise InvalidInput("expected a new file, but a ledger does not go through a pipe")
    _require_free(file)


def _require_free(file: str) -> None:
    suffix = in_the_way(files.resolve(file))
    if suffix is not None:
        message = f"expected a new file, but {safe(file + suffix)} is there"
        raise InvalidInput(message)


@contextmanager
def _input(file: str) -> Iterator[BinaryIO]:
    if file == PIPE:
        yield sys.stdin.buffer
    else:
        with Path(file).open("rb") as source:
            yield source


@contextmanager
def _output(file: str) -> Iterator[BinaryIO]:
    """Give a pipe, or a new file that gets its name once all of it is on the disk."""
    if file == PIPE:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    _require_free(file)
    with making(file) as path, Path(path).open("wb") as out:
        yield out
