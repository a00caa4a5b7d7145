"""Random calls on gates over a ledger's real file and on their model: the machine, and its runs.

It is run as that of ``machine_rules.py`` is, on seeds.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from machine_gate import GatePair
from machine_gate_moves import Step, Trouble, budgets, steps
from machine_moves import Move, Tick, mostly
from machine_rules import QUICK as LEDGERS_QUICK
from machine_rules import configure

QUICK = settings(LEDGERS_QUICK, max_examples=7, stateful_step_count=25)


class GateMachine(RuleBasedStateMachine):
    """Random calls on gates over two graphs and on their model, compared after each."""

    @initialize(
        policies=st.fixed_dictionaries(
            {
                "first": st.sampled_from(("sprint", "pair", "contest")),
                "second": st.sampled_from(("sprint", "vault", "pair")),
                "twin": st.just("sprint"),
            }
        ),
        resolution=mostly(1, rarely=(7,), odds=3),
        most=budgets,
    )
    def begin(self, policies: dict[str, str], resolution: int, most: int) -> None:
        """Open a new file with a gate for each of two graphs, and configure three tasks."""
        self.folder = tempfile.TemporaryDirectory()
        self.pair = GatePair(Path(self.folder.name), resolution, most)
        configure(self.pair, policies)

    def teardown(self) -> None:
        """Close the file and remove it."""
        if hasattr(self, "pair"):
            self.pair.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule(step=steps)
    def something_happens(self, step: Step) -> None:
        """An adapter observes, a worker works, somebody asks, time passes, a clock breaks.

        It is one rule, since of several Hypothesis leaves some out of each run.
        """
        match step:
            case Tick():
                self.pair.pass_time(step)
            case Move():
                self.pair.play(step)
            case Trouble():
                self._meet(step)
            case _:
                self.pair.take(step)

    def _meet(self, trouble: Trouble) -> None:
        now = self.pair.clock.now
        match trouble.event:
            case "restart":
                self.pair.restart_with(trouble.most)
            case "second":
                self.pair.open_second()
            case "rebuild":
                self.pair.rebuild(second=True)
            case "behind":
                self.pair.clock.now -= trouble.seconds
            case "no time":
                self.pair.clock.now = trouble.now
        self.pair.take(trouble.step)
        if trouble.event in ("behind", "no time"):
            self.pair.clock.now = now


def run_gate_machine(number: int, settings: settings, done: Callable[[int], None]) -> None:
    """Run the machine's sequences of one seed.

    Args:
        number: The seed.
        settings: How many sequences, and how long.
        done: Is told after each sequence how many calls it made.
    """

    class Seeded(GateMachine):
        """The machine with a seed of its own."""

        def teardown(self) -> None:
            """Tell how far the sequence got."""
            if hasattr(self, "pair"):
                done(self.pair.calls)
            super().teardown()

    run_state_machine_as_test(seed(number)(Seeded), settings=settings)
