"""The command line's verbs. None grants, changes or ends a claim of a ledger that was there before.

The one exception is ``repair-clock``, which is the owner's; the demo plays on its own new file.
"""

import os
import sys
import tempfile
from contextlib import closing
from io import TextIOWrapper
from pathlib import Path

import click

from idkmesh import ClaimError, StoreError
from idkmesh.cli import keeping, looking, outcome, plans, show
from idkmesh.cli.asking import read_ledger
from idkmesh.cli.demo import play
from idkmesh.cli.director import Audience
from idkmesh.cli.outcome import Verbs
from idkmesh.cli.program import PROBLEMS, USAGE
from idkmesh.cli.story import Story


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, epilog=outcome.CODES
)
@click.version_option(package_name="idkmesh", prog_name="idkmesh")
def idkmesh() -> None:
    """Who owns this task right now, and may their result still count?"""


for verb in (
    looking.log,
    looking.show,
    looking.tasks,
    looking.history_,
    keeping.verify,
    keeping.seal,
    keeping.rebuild,
    keeping.export,
    keeping.import_,
    keeping.backup,
    keeping.repair_clock,
):
    idkmesh.add_command(verb)


@idkmesh.command()
@click.option(
    "--work-units",
    "folder",
    type=click.Path(path_type=Path),
    help="A folder of WorkUnits, one a *.json file; the examples by default.",
)
@click.option(
    "--ledger",
    callback=read_ledger,
    help="Keep the ledger in this new file; by default it is thrown away.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def demo(folder: Path | None, ledger: str | None, *, as_json: bool) -> None:
    """Watch real worker processes race for tasks.

    The gate refuses what is not ready and what was made on inputs that moved. One worker is
    killed at work, one hands in too late, and one leaves an execution behind of which nobody
    knows whether it runs. Exits 0 when everything that was promised was seen to
    happen, else 1.
    """
    try:
        parts = plans.make_plans(folder)
    except ClaimError as error:
        outcome.fail("demo", error.message, USAGE)
    file = None if ledger is None else Path(ledger)
    if file is not None:
        _make(file)
    out = sys.stdout
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="backslashreplace")  # a WorkUnit's text may hold any character
    try:
        with closing(show.Document(out) if as_json else show.Teller(out)) as audience:
            story = _play(file, parts, audience)
    except (ClaimError, StoreError) as error:
        outcome.fail("demo", str(error), PROBLEMS)
    if not story.complete:
        unseen = [promise.name for promise in story.missing]
        outcome.fail("demo", story.broken or f"not seen: {', '.join(unseen)}", PROBLEMS)


def _play(ledger: Path | None, parts: tuple[plans.Plan, ...], audience: Audience) -> Story:
    if ledger is not None:
        return play(ledger, parts, audience, kept=True)
    with tempfile.TemporaryDirectory(prefix="idkmesh-demo-") as scratch:
        return play(Path(scratch) / "claims.sqlite3", parts, audience, kept=False)


def _make(file: Path) -> None:
    """Make an empty file, and refuse one that is there: no demo runs on somebody's ledger."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        outcome.fail(
            "demo", f"expected --ledger to name a new file, but {show.path(file)} is there", USAGE
        )
    except OSError as error:
        fault = f"it cannot be made: {error.strerror}"
        outcome.fail("demo", f"expected --ledger to name a new file, but {fault}", USAGE)
