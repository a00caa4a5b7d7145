"""Any sequence of commands: the ledger answers as the model does, and its file agrees.

The default run is the same each time, so that it can gate a change; ``tools/soak.py`` runs
the same machine for longer, from a seed of its own choosing.
"""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from machine_cast import DISPATCHER, SHORT_BUDGETS, WORKERS
from machine_moves import (
    Move,
    Tick,
    claim_replays,
    claims,
    commands,
    configurations,
    mostly,
    owner_moves,
    owner_moves_by_name,
    questions,
    reconciliations,
    reservations,
    snapshots,
    submissions,
    surveys,
    ticks,
)
from machine_pair import Answer, Pair

QUICK = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,  # the file's speed is the machine's affair
    derandomize=True,  # the same sequences each time; the soak draws new ones
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],  # as deadline
)
NO_TIME = (None, True, -1, 2**62, 1.5, "1700000000")
openings = st.fixed_dictionaries(
    {
        "first": st.sampled_from(("sprint", "clamped", "pair")),
        "second": st.sampled_from(("contest", "vault", "pair")),
        "twin": st.sampled_from(SHORT_BUDGETS),
    }
)
some_tasks = st.sampled_from(("first", "second", "twin"))


def configure(pair: Pair, policies: dict[str, str]) -> None:
    """Configure the tasks of a run."""
    for task, policy in policies.items():
        answer = pair.play(
            Move("configure_task", task=task, who=DISPATCHER, extra=(("policy", policy),))
        )
        assert answer == Answer(value=True)


def take(pair: Pair, task: str, worker: str, *, reserved: bool) -> None:
    """Claim a task, acknowledge, and perhaps reserve: whatever of that is still allowed."""
    pair.play(Move("claim", task, worker, "fresh", extra=(("binding", "a"),)))
    pair.play(Move("acknowledge", task))
    if reserved:
        pair.play(Move("reserve_dispatch", task, DISPATCHER, extra=(("owner", "owner"),)))


class LedgerMachine(RuleBasedStateMachine):
    """Random calls on a ledger's real file and on the model, compared after each."""

    @initialize(policies=openings, resolution=mostly(1, rarely=(7,), odds=3))
    def begin(self, policies: dict[str, str], resolution: int) -> None:
        """Open a new file, and configure three tasks in two scopes."""
        self.folder = tempfile.TemporaryDirectory()
        self.pair = Pair(Path(self.folder.name), resolution)
        self.behind = 0
        self.calls_behind = 0
        configure(self.pair, policies)

    def teardown(self) -> None:
        """Close the file and remove it."""
        if hasattr(self, "pair"):
            self.pair.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    # Calls.

    def _play(self, move: Move) -> None:
        self.pair.play(move)
        if self.calls_behind:
            self.calls_behind -= 1
            if not self.calls_behind:
                self.pair.clock.now += self.behind

    @rule(move=configurations)
    def configures(self, move: Move) -> None:
        """A dispatcher configures a task, mostly as it is."""
        self._play(move)

    @rule(move=claims | claim_replays)
    def claims(self, move: Move) -> None:
        """A worker claims, or repeats a claim."""
        self._play(move)

    @rule(task=some_tasks, worker=st.sampled_from(WORKERS), reserved=st.booleans())
    def takes(self, task: str, worker: str, reserved: bool) -> None:  # noqa: FBT001 - Hypothesis passes it by name
        """A worker begins in the usual way."""
        take(self.pair, task, worker, reserved=reserved)

    @rule(move=owner_moves)
    def owner_acts(self, move: Move) -> None:
        """An owner, or somebody in the owner's place, acts on a claim."""
        self._play(move)

    @rule(move=owner_moves_by_name)
    def owner_acts_by_name(self, move: Move) -> None:
        """The same through ``update_owner``."""
        self._play(move)

    @rule(move=reservations)
    def reserves(self, move: Move) -> None:
        """A dispatcher reserves an execution."""
        self._play(move)

    @rule(move=reconciliations)
    def reconciles(self, move: Move) -> None:
        """A dispatcher brings evidence."""
        self._play(move)

    @rule(move=submissions)
    def submits(self, move: Move) -> None:
        """An owner submits."""
        self._play(move)

    @rule(move=snapshots)
    def records_expiry(self, move: Move) -> None:
        """A reader asks for a snapshot."""
        self._play(move)

    @rule(move=questions | surveys)
    def asks(self, move: Move) -> None:
        """A reader looks, and writes nothing."""
        self._play(move)

    # The event budget.

    @precondition(lambda self: self.pair.claim_at("twin", 0) is not None)
    @rule(rounds=st.sampled_from((90, 119, 120)), place=st.sampled_from((0, 1)))
    def heart_beats(self, rounds: int, place: int) -> None:
        """An owner renews and reports progress every second, for minutes."""
        for _ in range(rounds):
            self.pair.pass_time(Tick(1))
            renewed = self.pair.play(Move("renew", "twin", place=place), look=False)
            progressed = self.pair.play(Move("progress", "twin", place=place), look=False)
            if renewed.refusal and progressed.refusal:
                break
        self.pair.look()

    @precondition(lambda self: self.pair.claim_at("twin", 0) is not None)
    @rule(rounds=st.sampled_from((12, 100, 190, 240)), place=st.sampled_from((0, 1)))
    def adapter_flaps(self, rounds: int, place: int) -> None:
        """An adapter brings new evidence again and again."""
        for number in range(rounds):
            extra = (("status", "running"), ("evidence_reference", f"run/{number % 2}"))
            move = Move("reconcile_execution", "twin", DISPATCHER, place=place, extra=extra)
            if self.pair.play(move, look=False).refusal:
                break
        self.pair.look()

    # Time.

    @precondition(lambda self: not self.calls_behind)
    @rule(tick=ticks)
    def time_passes(self, tick: Tick) -> None:
        """The clock goes on, often to a deadline or to a second beside one."""
        self.pair.pass_time(tick)

    @precondition(lambda self: not self.calls_behind)
    @rule(seconds=st.sampled_from((1, 2, 30, 100_000)), calls=st.integers(1, 4))
    def time_is_set_back(self, seconds: int, calls: int) -> None:
        """The clock is set back for some calls."""
        self.behind, self.calls_behind = seconds, calls
        self.pair.clock.now -= seconds

    @rule(now=st.sampled_from(NO_TIME), move=commands | questions | surveys)
    def clock_is_broken(self, now: Any, move: Move) -> None:
        """The clock gives something that is no time, for one call."""
        held, self.pair.clock.now = self.pair.clock.now, now
        self.pair.play(move)
        self.pair.clock.now = held

    # The file.

    @rule()
    def restarts(self) -> None:
        """The coordinator ends and starts again."""
        self.pair.restart()

    @rule()
    def second_comes_or_goes(self) -> None:
        """A second ledger object is put on the file, or closed."""
        self.pair.open_second()

    @rule(second=st.booleans())
    def rebuilds(self, second: bool) -> None:  # noqa: FBT001 - Hypothesis passes it by name
        """The tables are dropped and refolded."""
        self.pair.rebuild(second=second)


def test_any_sequence_of_calls_is_answered_as_the_model_answers_it() -> None:
    """Whatever is called in whatever order: answers, log and tables are the model's."""
    run_state_machine_as_test(LedgerMachine, settings=QUICK)


def repeated(move: Move, first: Answer) -> Answer:
    """Return what a command must answer that is repeated in the same second."""
    if first.refusal is not None:
        return first
    if move.call == "configure_task":
        return Answer(value=False)
    if move.call in ("claim", "reserve_dispatch"):
        return Answer(value=(first.value[0], False))
    operation = dict(move.extra).get("operation", move.call)
    if operation == "release":
        return Answer(refusal="stale_claim")
    return first


@settings(QUICK, max_examples=40)
@given(
    policies=openings,
    script=st.lists(
        commands | ticks | st.tuples(some_tasks, st.sampled_from(WORKERS)), max_size=30
    ),
)
def test_a_command_repeated_at_once_changes_nothing(
    policies: dict[str, str], script: list[Any]
) -> None:
    """The second of two equal commands writes nothing and answers as the first, but for release."""
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder))
        configure(pair, policies)
        for step in script:
            if isinstance(step, Tick):
                pair.pass_time(step)
            elif isinstance(step, Move):
                _twice(pair, step)
            else:
                task, worker = step
                take(pair, task, worker, reserved=True)
        pair.close()


def _twice(pair: Pair, move: Move) -> None:
    call = pair.prepare(move)
    first = pair.make(call)
    image = pair.image
    assert pair.make(call) == repeated(move, first)
    assert pair.image == image
