"""Play random calls against the model for as long as one likes: the state machine's long form.

Every round has a seed of its own, counted up from the first, and is played as the tests
play theirs, with longer sequences. A round that fails is shrunk, printed as the shortest
story that fails, and followed by the line that plays it again.
"""

import secrets
import sys
from pathlib import Path
from typing import Final

import click
from hypothesis import settings
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from machine_rules import QUICK, run_machine, run_twice

LARGEST_SEED: Final = 2**32


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=click.IntRange(0), help="The first round's; by default any.")
@click.option(
    "--calls", type=click.IntRange(1), default=100_000, show_default=True, help="At least."
)
@click.option("--length", type=click.IntRange(1), default=60, show_default=True, help="In steps.")
def main(seed: int | None, calls: int, length: int) -> None:
    """Play random calls on a ledger's file and on the model, compared after each."""
    console = Console(highlight=False)
    number = secrets.randbelow(LARGEST_SEED) if seed is None else seed
    console.print(f"from seed {number}")
    profile = settings(QUICK, stateful_step_count=length, print_blob=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("calls", total=calls)
        rounds = 0
        while not progress.finished:
            try:
                run_machine(number, profile, lambda made: progress.advance(bar, made))
                run_twice(number, profile, lambda made: progress.advance(bar, made))
            except Exception:
                progress.stop()
                again = f"python tools/soak.py --seed {number} --calls 1 --length {length}"
                console.print(f"the round of seed {number} did not hold; again:\n{again}")
                raise
            number += 1
            rounds += 1
    console.print(f"{rounds} rounds, {progress.tasks[bar].completed:.0f} calls: all as the model")


if __name__ == "__main__":
    main()
