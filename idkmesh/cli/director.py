"""The coordinator of the demo: offers tasks, arranges the misfortunes, writes down what it sees.

Who wins what is left to the workers and the ledger. The coordinator kills one worker, keeps
one waiting until its lease is long over, and reserves one execution of which nobody hears.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

from idkmesh import ClaimBinding, ClaimLedger, canonical_digest
from idkmesh.cli.crew import Offer, Proceed, Report, Withdraw
from idkmesh.cli.plans import APPROVAL, WORKERS, Act, Plan, approver, dispatcher, worker
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
            "killed": self._kill,
            "late": self._let_oversleep,
            "unknown": self._lose_sight,
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
                    elapsed_ms=self._elapsed_ms(), who=COORDINATOR, what="offered", unit=plan.unit
                )
            )
            self._refusals = 0
            self._asking = {*self._stage.present}
            offer = Offer(plan.unit, plan.task, self._binding(plan), plan.act)
            self._stage.say(offer, self._asking)
            acts[plan.act](plan)
            self._close(plan)

    # The acts.

    def _race(self, plan: Plan) -> None:
        self._until_submitted(plan, plan.policy.concurrent_slots)

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

    def _lose_sight(self, plan: Plan) -> None:
        self._until("a worker to win", lambda: bool(self._story.seen("acknowledged", plan.unit)))
        winner = self._story.seen("acknowledged", plan.unit)[0]
        calls: tuple[What, ...] = ("reserved", "reservation_repeated")
        for what in calls:
            answer = self._ledger.reserve_dispatch(
                plan.task,
                self._me,
                worker(winner.who),
                request_id=winner.request_id or "",
                epoch=winner.epoch or 0,
                approver=self._approver,
                approval_reference=APPROVAL,
            )
            self._look(plan, winner, what, created=answer.created)
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
                code=report.code,
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

    def _binding(self, plan: Plan) -> ClaimBinding:
        """Bind the work to its unit and to what its prerequisites have handed in."""
        handed_in = {
            need: sorted(moment.digest or "" for moment in self._story.seen("submitted", need))
            for need in plan.requires
        }
        return ClaimBinding(
            work_unit_digest=plan.binding.work_unit_digest,
            source_revision=plan.binding.source_revision,
            inputs_digest=canonical_digest(handed_in),
        )
