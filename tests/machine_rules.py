"""Random calls on a ledger's real file and on the model: the machine, and how it is run.

``test_state_machine.py`` runs it shortly on fixed seeds, ``tools/soak.py`` for as long as
one likes on seeds of its own.
"""

import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from machine_cast import AUDITOR, DISPATCHER, SHORT_BUDGETS, WORKER_1, WORKER_2
from machine_moves import (
    Move,
    Take,
    Tick,
    claim_replays,
    claims,
    commands,
    mostly,
    outsiders_moves,
    owner_moves,
    owner_moves_by_name,
    questions,
    readings,
    reconciliations,
    reservations,
    snapshots,
    some_tasks,
    submissions,
    surveys,
    takes,
    ticks,
)
from machine_pair import Answer, Pair

QUICK = settings(
    max_examples=10,  # beyond its first ten, Hypothesis varies sequences that it has had
    stateful_step_count=40,
    deadline=None,  # the file's speed is the machine's affair
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],  # explaining costs minutes here
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


def configure(pair: Pair, policies: dict[str, str]) -> None:
    """Configure the tasks of a run."""
    for task, policy in policies.items():
        answer = pair.play(
            Move("configure_task", task=task, who=DISPATCHER, extra=(("policy", policy),))
        )
        assert answer == Answer(value=True)


def play(pair: Pair, step: Move | Tick | Take | None) -> None:
    """Make a step of a run."""
    match step:
        case Move():
            pair.play(step)
        case Tick():
            pair.pass_time(step)
        case Take(task, worker, steps):
            usual = (
                _claim(task, worker),
                Move("acknowledge", task),
                Move("reserve_dispatch", task, DISPATCHER, extra=(("owner", "owner"),)),
            )
            for move in usual[:steps]:
                pair.play(move)


def _claim(task: str, worker: str) -> Move:
    return Move("claim", task, worker, "fresh", extra=(("binding", "a"),))


def _evidence(status: str, reference: str) -> Move:
    extra = (("status", status), ("evidence_reference", reference))
    return Move("reconcile_execution", "twin", DISPATCHER, among="reserved", extra=extra)


def _beat(call: str) -> Move:
    return Move(call, "twin", among="active")


burnings = st.sampled_from(
    (
        (_beat("renew"), _beat("progress")),
        (_beat("progress"), _beat("renew")),
        (_evidence("running", "run/1"), _evidence("running", "run/2")),
    )
)
scripts = st.lists(commands | commands | ticks | takes, min_size=20, max_size=40)
befores = st.none() | ticks | ticks | takes


class LedgerMachine(RuleBasedStateMachine):
    """Random calls on a ledger's real file and on the model, compared after each.

    Hypothesis leaves some rules out of each run; so each call, whoever makes it, may come
    after some time or behind the usual beginning of work, which every run needs.
    """

    @initialize(
        policies=openings,
        resolution=mostly(1, rarely=(7,), odds=3),
        begun=st.lists(takes, max_size=3),
        spending=st.sampled_from((False, False, True)),
    )
    def begin(
        self, policies: dict[str, str], resolution: int, begun: list[Take], *, spending: bool
    ) -> None:
        """Open a new file, configure three tasks in two scopes, and let some work begin."""
        self.folder = tempfile.TemporaryDirectory()
        self.pair = Pair(Path(self.folder.name), resolution)
        self.behind = 0
        self.calls_behind = 0
        self.spending = spending
        configure(self.pair, policies)
        for take in begun:
            play(self.pair, take)

    def teardown(self) -> None:
        """Close the file and remove it."""
        if hasattr(self, "pair"):
            self.pair.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def _call(self, before: Tick | Take | None, move: Move) -> None:
        """Let time pass or work begin, or neither, and make a call."""
        if not (self.calls_behind and isinstance(before, Tick)):
            play(self.pair, before)
        self.pair.play(move)
        if self.calls_behind:
            self.calls_behind -= 1
            if not self.calls_behind:
                self.pair.clock.now += self.behind

    @rule(before=befores, move=commands)
    def somebody_commands(self, before: Tick | Take | None, move: Move) -> None:
        """Anybody commands anything."""
        self._call(before, move)

    @rule(before=befores, move=claims | claims | claim_replays)
    def worker_claims(self, before: Tick | Take | None, move: Move) -> None:
        """A worker claims, or repeats a claim."""
        self._call(before, move)

    @rule(before=befores, move=owner_moves | owner_moves_by_name | submissions)
    def owner_acts(self, before: Tick | Take | None, move: Move) -> None:
        """An owner, or somebody in the owner's place, acts on a claim."""
        self._call(before, move)

    @rule(before=befores, move=reservations | reconciliations | reconciliations)
    def dispatcher_acts(self, before: Tick | Take | None, move: Move) -> None:
        """A dispatcher, or somebody in that place, reserves or brings evidence."""
        self._call(before, move)

    @rule(before=befores, move=outsiders_moves)
    def outsider_calls(self, before: Tick | Take | None, move: Move) -> None:
        """Somebody calls whose identity or scope does not hold."""
        self._call(before, move)

    @rule(before=befores, move=snapshots | questions | surveys)
    def reader_asks(self, before: Tick | Take | None, move: Move) -> None:
        """A reader asks."""
        self._call(before, move)

    @precondition(lambda self: self.spending)
    @rule(how=burnings, rounds=st.sampled_from((240, 186, 230)))
    def budget_is_spent(self, how: tuple[Move, Move], rounds: int) -> None:
        """Two work; a heart beats every second, or an adapter flaps, until it is refused."""
        self.spending = False
        play(self.pair, Take("twin", WORKER_1))
        play(self.pair, Take("twin", WORKER_2))
        for number in range(rounds):
            self.pair.pass_time(Tick(number % 2))
            if self.pair.play(how[number % 2], look=False).refusal:
                break
            self.pair.play(how[number % 2], look=False)  # which has nothing to change any more
        self.pair.look()
        for move in (*how, _claim("twin", WORKER_1), _evidence("terminal", "run/9")):
            self.pair.pass_time(Tick(1))
            self.pair.play(move)

    # The clock and the file.

    @precondition(lambda self: not self.calls_behind)
    @rule(
        tick=ticks,
        other=some_tasks,
        seconds=st.sampled_from((1, 2, 30, 100_000)),
        calls=st.integers(0, 3),
        move=readings,
    )
    def clock_is_set_back(
        self, tick: Tick, other: str, seconds: int, calls: int, move: Move
    ) -> None:
        """A task is asked about at some time, and then the clock is set back for some calls."""
        self.pair.pass_time(tick)
        self.pair.play(Move("snapshot", other, AUDITOR, among="any"))
        self.behind, self.calls_behind = seconds, calls + 1
        self.pair.clock.now -= seconds
        self._call(None, replace(move, task=tick.task))

    @rule(
        event=st.sampled_from(("restart", "second", "rebuild", "no time")),
        second=st.booleans(),
        now=st.sampled_from(NO_TIME),
        move=commands | readings,
    )
    def something_else_happens(self, event: str, second: bool, now: Any, move: Move) -> None:  # noqa: FBT001 - Hypothesis passes it by name
        """A coordinator restarts, another comes or goes, tables are refolded, a clock breaks."""
        match event:
            case "restart":
                self.pair.restart()
            case "second":
                self.pair.open_second()
            case "rebuild":
                self.pair.rebuild(second=second)
            case "no time":
                held, self.pair.clock.now = self.pair.clock.now, now
                self.pair.play(move)
                self.pair.clock.now = held


def _untold(calls: int) -> None:
    """Take no notice of how far a sequence got."""


def run_machine(number: int, settings: settings, done: Callable[[int], None] = _untold) -> None:
    """Run the machine's sequences of one seed.

    Args:
        number: The seed.
        settings: How many sequences, and how long.
        done: Is told after each sequence how many calls it made.
    """

    class Seeded(LedgerMachine):
        """The machine with a seed of its own."""

        def teardown(self) -> None:
            """Tell how far the sequence got."""
            if hasattr(self, "pair"):
                done(self.pair.calls)
            super().teardown()

    run_state_machine_as_test(seed(number)(Seeded), settings=settings)


def run_twice(number: int, settings: settings, done: Callable[[int], None] = _untold) -> None:
    """Run sequences of one seed in which every command is made twice; as ``run_machine``."""

    def play_twice(policies: dict[str, str], script: list[Move | Tick | Take]) -> None:
        with tempfile.TemporaryDirectory() as folder, closing(Pair(Path(folder))) as pair:
            configure(pair, policies)
            for step in script:
                if isinstance(step, Move):
                    make_twice(pair, step)
                else:
                    play(pair, step)
            done(pair.calls)

    seed(number)(settings(given(openings, scripts)(play_twice)))()


def make_twice(pair: Pair, move: Move) -> None:
    """Make a move, and the same again in the same second, which writes nothing."""
    call = pair.prepare(move)
    first = pair.make(call)
    image = pair.image
    assert pair.make(call) == repeated(move, first)
    assert pair.image == image


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
