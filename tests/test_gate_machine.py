"""Any sequence of calls at the gate: it answers as the model does, and its file agrees.

The default run is the same each time, so that it can gate a change.
"""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from machine_cast import DISPATCHER
from machine_gate import GatePair
from machine_gate_moves import Step, Trouble, budgets, steps
from machine_moves import Move, Tick, mostly
from machine_pair import Answer

QUICK = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,  # the file's speed is the machine's affair
    derandomize=True,  # the same sequences each time
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],  # explaining costs minutes here
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],  # as deadline
)


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
        for task, policy in policies.items():
            move = Move("configure_task", task, DISPATCHER, extra=(("policy", policy),))
            assert self.pair.play(move) == Answer(value=True)

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


def test_any_sequence_of_calls_at_the_gate_is_answered_as_the_model_answers_it() -> None:
    """Whatever is seen and asked in whatever order: answers, log and tables are the model's."""
    run_state_machine_as_test(GateMachine, settings=QUICK)
