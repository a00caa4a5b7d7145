"""The coordinator of the demo: offers tasks, arranges the misfortunes, writes down what it sees.

Who wins what is left to the workers and the gate. The coordinator says what is integrated (in
truth nothing is merged), reserves one execution and puts other inputs under it, kills one
worker, and keeps one waiting until its lease is long over.
"""

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final, Protocol

from idkmesh import ClaimLedger, ExecutorAdmission, PrerequisiteObservation
from idkmesh.cli.crew import Offer, Proceed, Report, Withdraw
from idkmesh.cli.plans import (
    APPROVAL,
    SCOPE,
    WORKERS,
    Act,
    Plan,
    approver,
    dispatcher,
    graph_of,
    worker,
)
from idkmesh.cli.stage import Stage
from idkmesh.cli.story import COORDINATOR, Moment, Story, What

_TICK_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 15
_RENEWALS_BEFORE_THE_KILL: Final = 2
_REFUSALS_TO_SEE: Final = 10
_EVIDENCE: Final = "demo: the provider reports that the run has ended"


class Audience(Protocol):
    """Whoever follows the story while it happens."""

    def begins(self, story: Story) -> None:
        """Hear that it begins."""

    def sees(self, story: Story, moment: Moment) -> None:
        """See one moment, the story's last."""

    def waits(self, what: str, refusals: int) -> None:
        """Hear what the story waits for, and how often a claim was refused meanwhile."""

    def ends(self, story: Story) -> None:
        """See all of it, checked."""


class StoppedShort(Exception):  # noqa: N818  (no fault of the program: the story ended early)
    """What was due next did not happen in time."""


class Director:
    """Plays every act, one after the other.

    Args:
        story: Where the moments go.
        ledger: The coordinator's own ledger.
        stage: The worker processes.
        audience: Who follows.
    """

    def __init__(self, story: Story, ledger: ClaimLedger, stage: Stage, audience: Audience) -> None:
        self._story = story
        self._ledger = ledger
        self._gate = ExecutorAdmission(graph_of(story.plans), ledger)
        self._stage = stage
        self._audience = audience
        self._began = monotonic()
        self._me = dispatcher()
        self._approver = approver()
        self._asking: set[str] = set()
        self._refusals = 0  # since the last grant
        self._behind_execution = 0  # with no owner left, but an execution
        self._told: set[tuple[object, ...]] = set()

    def direct(self) -> None:
        """Play the story.

        Raises:
            StoppedShort: A worker did not do in time what its act needs.
        """
        acts: dict[Act, Callable[[Plan], None]] = {
            "race": self._race,
            "overtaken": self._overtake,
            "killed": self._kill,
            "late": self._let_oversleep,
        }
        for plan in self._story.plans:
            self._ledger.configure_task(
                plan.task,
                self._me,
                plan.policy,
                approver=self._approver,
                approval_reference=APPROVAL,
            )
        self._until(
            "the worker processes to start",
            lambda: len(self._story.seen("ready")) == len(WORKERS),
        )
        for plan in self._story.plans:
            self._note(
                Moment(
                    elapsed_ms=self._elapsed_ms(),
                    who=COORDINATOR,
                    what="offered",
                    unit=plan.unit,
                    ready=self._ready(),
                )
            )
            self._refusals = 0
            self._asking = {*self._stage.present}
            self._stage.say(Offer(plan.unit, plan.task, plan.act), self._asking)
            self._unblock(plan)
            acts[plan.act](plan)
            self._close(plan)
        self._settle(plan.unit for plan in self._story.plans)

    # What is ready.

    def _unblock(self, plan: Plan) -> None:
        """Have everybody ask in vain for what is not ready, then integrate what it requires."""
        readiness = self._gate.readiness(plan.unit)
        if readiness.ready:
            return
        self._until(
            "everybody to be refused",
            lambda: (
                self._asking
                <= {moment.who for moment in self._story.seen("claim_refused", plan.unit)}
            ),
        )
        self._note(
            Moment(
                elapsed_ms=self._elapsed_ms(),
                who=COORDINATOR,
                what="blocked",
                unit=plan.unit,
                blockers=readiness.blockers,
                claims=len(self._ledger.peek(plan.task, self._me)),
            )
        )
        self._settle(plan.requires)

    def _settle(self, units: Iterable[str]) -> None:
        """Integrate the first result of every unit that has none integrated."""
        for unit in units:
            if not self._gate.readiness(unit).satisfied:
                self._integrate(self._story.seen("submitted", unit)[0])

    def _integrate(self, result: Moment) -> None:
        """Say, as a trusted adapter would, that this result is the one that is integrated."""
        plan = self._story.plan(result.unit)
        claim = self._ledger.lookup(plan.task, self._me, request_id=result.request_id or "")
        number = len(self._story.seen("integrated")) + 1
        self._gate.observe(
            PrerequisiteObservation(
                scope=SCOPE,
                event_id=f"demo/{number}",
                sequence=number,
                binding=self._gate.graph.bindings[plan.unit],
                state="integrated",
                inputs_digest=claim.binding.inputs_digest,
                integrated_revision=f"{number:040x}",
                artifacts_digest=result.digest,
                verification_reference="demo: nothing is verified",
                integration_reference="demo: nothing is merged",
            )
        )
        self._note(
            Moment(
                elapsed_ms=self._elapsed_ms(),
                who=COORDINATOR,
                what="integrated",
                unit=plan.unit,
                ready=self._ready(),
                digest=result.digest,
            )
        )

    def _ready(self) -> dict[str, str]:
        """Return what can be handed out now, each unit with the inputs that it has."""
        units = self._gate.ready_units()
        return {unit: self._gate.readiness(unit).inputs_digest or "" for unit in units}

    # The acts.

    def _race(self, plan: Plan) -> None:
        self._until_submitted(plan, plan.policy.concurrent_slots)

    def _overtake(self, plan: Plan) -> None:
        self._until("a worker to win", lambda: bool(self._story.seen("acknowledged", plan.unit)))
        winner = self._story.seen("acknowledged", plan.unit)[0]
        calls: tuple[What, ...] = ("reserved", "reservation_repeated")
        for what in calls:
            _, record = self._gate.reserve_execution(
                plan.unit,
                plan.task,
                self._me,
                worker(winner.who),
                request_id=winner.request_id or "",
                epoch=winner.epoch or 0,
                approver=self._approver,
                approval_reference=APPROVAL,
            )
            self._look(plan, winner, what, created=record.created)
        self._integrate(self._story.seen("submitted", plan.requires[0])[1])
        self._stage.say(Proceed(plan.unit), (winner.who,))
        self._until(f"{winner.who} to leave", lambda: bool(self._story.seen("released", plan.unit)))
        self._until(
            "word of the execution, which nobody has",
            lambda: self._behind_execution >= _REFUSALS_TO_SEE,
        )
        self._ledger.reconcile_execution(
            plan.task,
            self._me,
            request_id=winner.request_id or "",
            epoch=winner.epoch or 0,
            status="terminal",
            evidence_reference=_EVIDENCE,
            approver=self._approver,
            approval_reference=APPROVAL,
        )
        self._look(plan, winner, "reconciled")
        self._until_submitted(plan, 1)

    def _kill(self, plan: Plan) -> None:
        self._until(
            "a worker to be in the middle of its work",
            lambda: len(self._story.seen("renewed", plan.unit)) >= _RENEWALS_BEFORE_THE_KILL,
        )
        at_work = self._story.seen("renewed", plan.unit)[-1]
        self._stage.kill(at_work.who)
        self._look(plan, at_work, "killed")
        self._until(
            f"the lease of {at_work.who}, who is dead, to run out",
            lambda: len(self._story.seen("granted", plan.unit)) > 1,
        )
        self._until_submitted(plan, 1)

    def _let_oversleep(self, plan: Plan) -> None:
        self._until("a worker to fall asleep", lambda: bool(self._story.seen("stalled", plan.unit)))
        asleep = self._story.seen("stalled", plan.unit)[0]
        self._until(
            f"the lease of {asleep.who}, who is asleep, to run out",
            lambda: len(self._story.seen("granted", plan.unit)) > 1,
        )
        self._stage.say(Proceed(plan.unit), (asleep.who,))
        self._until(
            f"{asleep.who} to wake up and submit",
            lambda: any(
                moment.who == asleep.who
                for moment in (
                    *self._story.seen("submission_refused", plan.unit),
                    *self._story.seen("submitted", plan.unit),
                )
            ),
        )
        self._until_submitted(plan, 1)

    # Watching.

    def _close(self, plan: Plan) -> None:
        """Have everybody stop asking, and then those who have handed in let go."""
        self._stage.say(Withdraw(plan.unit), self._asking)
        self._until("the others to stop asking", lambda: not self._asking)
        done = {moment.who for moment in self._story.seen("submitted", plan.unit)}
        self._stage.say(Proceed(plan.unit), done)
        self._until(
            "the claims to be released",
            lambda: done <= {moment.who for moment in self._story.seen("released", plan.unit)},
        )

    def _until_submitted(self, plan: Plan, count: int) -> None:
        self._until(
            "the work to be done",
            lambda: len(self._story.seen("submitted", plan.unit)) >= count,
        )

    def _until(self, what: str, happened: Callable[[], bool]) -> None:
        """Hear the workers until something has happened.

        Raises:
            StoppedShort: It did not in time.
        """
        deadline = monotonic() + _PATIENCE_SECONDS
        while not happened():
            if monotonic() > deadline:
                message = f"waited {_PATIENCE_SECONDS} seconds for {what}, in vain"
                raise StoppedShort(message)
            self._audience.waits(what, self._refusals)
            for who, report in self._stage.hear(_TICK_SECONDS):
                self._hear(who, report)

    def _hear(self, who: str, report: Report | None) -> None:
        if report is None:
            self._asking.discard(who)
            if who not in {moment.who for moment in self._story.seen("killed")}:
                self._note(Moment(elapsed_ms=self._elapsed_ms(), who=who, what="gone"))
            return
        refusals = None
        if report.said == "claim_refused":
            self._refusals += 1
            self._behind_execution += report.holder == "an execution"
            # Everybody asks several times a second; only what is new is worth a moment.
            refusal = (who, report.unit, report.code, report.holder)
            if refusal in self._told:
                return
            self._told.add(refusal)
        elif report.said == "granted":
            self._asking.discard(who)
            refusals, self._refusals = self._refusals, 0
        elif report.said == "stood_down":
            self._asking.discard(who)
            return
        self._note(
            Moment(
                elapsed_ms=self._elapsed_ms(),
                who=who,
                what=report.said,
                unit=report.unit,
                request_id=report.request_id,
                slot=report.slot,
                epoch=report.epoch,
                inputs=report.inputs,
                code=report.code,
                blockers=report.blockers,
                holder=report.holder,
                digest=report.digest,
                refusals=refusals,
                pid=self._stage.pids[who] if report.said == "ready" else None,
            )
        )

    def _look(self, plan: Plan, at: Moment, what: What, *, created: bool | None = None) -> None:
        """Note what the coordinator did to a claim, and how the claim looks behind it."""
        claim = self._ledger.lookup(plan.task, self._me, request_id=at.request_id or "")
        killed = what == "killed"
        self._note(
            Moment(
                elapsed_ms=self._elapsed_ms(),
                who=at.who if killed else COORDINATOR,
                what=what,
                unit=plan.unit,
                request_id=claim.request_id,
                slot=claim.slot,
                epoch=claim.epoch,
                state=claim.state,
                occupancy=claim.occupancy,
                created=created,
                pid=self._stage.pids[at.who] if killed else None,
            )
        )

    def _note(self, moment: Moment) -> None:
        self._story.moments.append(moment)
        self._audience.sees(self._story, moment)

    def _elapsed_ms(self) -> int:
        return round((monotonic() - self._began) * 1000)
