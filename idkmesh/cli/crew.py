"""A worker of the demo: a process of its own that asks the ledger for work and does it."""

import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from time import sleep
from typing import Final, Literal, NamedTuple

from idkmesh import (
    ClaimError,
    ClaimLedger,
    ErrorCode,
    ExecutorAdmission,
    ScopedResourceRef,
    StoreError,
    TaskClaim,
    canonical_digest,
)
from idkmesh.cli.plans import APPROVAL, Act, Plan, approver, graph_of, worker

Said = Literal[
    "ready",
    "granted",
    "claim_refused",
    "acknowledged",
    "renewed",
    "stalled",
    "submitted",
    "submission_refused",
    "released",
    "lost",
    "stood_down",
    "failed",
]
Holder = Literal["an owner", "an execution"]

KNOCK_SECONDS: Final = 0.12
STEP_SECONDS: Final = 0.22
_STEPS: Final = 2
_STEPS_UNTIL_KILLED: Final = 60
_PATIENCE_SECONDS: Final = 30


class Offer(NamedTuple):
    """The coordinator's word that a task may be asked for.

    The first to win it acts as ``act`` says; whoever follows works steadily.
    """

    unit: str
    task: ScopedResourceRef
    act: Act


class Withdraw(NamedTuple):
    """The coordinator's word that nobody need ask for the task any more."""

    unit: str


class Proceed(NamedTuple):
    """The coordinator's word to a worker that waits in the middle of its act."""

    unit: str


class Stop(NamedTuple):
    """The coordinator's word that the work is over."""


Message = Offer | Withdraw | Proceed | Stop


class Report(NamedTuple):
    """What a worker says of itself, once the ledger has answered it."""

    said: Said
    unit: str | None = None
    request_id: str | None = None
    slot: int | None = None
    epoch: int | None = None
    inputs: str | None = None
    code: str | None = None
    blockers: tuple[str, ...] | None = None
    holder: Holder | None = None
    digest: str | None = None


def run(name: str, target: str, plans: tuple[Plan, ...], line: Connection) -> None:
    """Be one worker until told to stop, or until the coordinator is gone.

    Args:
        name: The worker's name.
        target: The ledger's file, which the worker opens itself.
        plans: The WorkUnits, whose graph the worker makes itself.
        line: Both ways to the coordinator.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator ends its workers
    try:
        with ClaimLedger.open(target) as ledger:
            _Worker(name, ledger, plans, line).work()
    except StoreError as error:
        with suppress(ConnectionError):
            line.send(Report("failed", code=error.code))
    except (EOFError, ConnectionError):
        return  # nobody is left to work for


class _Worker:
    def __init__(
        self, name: str, ledger: ClaimLedger, plans: tuple[Plan, ...], line: Connection
    ) -> None:
        self._name = name
        self._self = worker(name)
        self._ledger = ledger
        self._gate = ExecutorAdmission(graph_of(plans), ledger)
        self._line = line
        self._attempts = 0

    def work(self) -> None:
        """Follow every offer, one after the other."""
        self._say(Report("ready"))
        while not isinstance(message := self._line.recv(), Stop):
            if isinstance(message, Offer):
                self._pursue(message)

    def _pursue(self, offer: Offer) -> None:
        """Ask until the claim is granted or the offer withdrawn, then work on it."""
        self._attempts += 1
        request_id = f"{self._name}/{self._attempts}"
        while (claim := self._knock(offer, request_id)) is None:
            if self._line.poll(KNOCK_SECONDS):
                self._line.recv()
                self._say(Report("stood_down", offer.unit))
                return
        self._tell("granted", offer, claim, inputs=claim.binding.inputs_digest)
        conduct: dict[Act, Callable[[Offer, TaskClaim], None]] = {
            "race": self._steady,
            "overtaken": self._overtaken,
            "killed": self._until_killed,
            "late": self._late,
        }
        try:
            self._call("acknowledge", offer, claim)
            self._tell("acknowledged", offer, claim)
            (conduct[offer.act] if claim.epoch == 1 else self._steady)(offer, claim)
        except ClaimError as refusal:
            self._tell("lost", offer, claim, code=refusal.code)

    def _knock(self, offer: Offer, request_id: str) -> TaskClaim | None:
        # The look comes before the question: only the coordinator could free a slot that an
        # execution alone held then, so it still held it when the claim was refused.
        claims = self._ledger.peek(offer.task, self._self)
        owned = any(claim.state == "active" for claim in claims)
        running = any(claim.occupancy in {"unknown", "running"} for claim in claims)
        try:
            claim, _ = self._gate.admit(offer.unit, offer.task, self._self, request_id=request_id)
        except ClaimError as refusal:
            holder: Holder | None = None
            if refusal.code == ErrorCode.TASK_CAPACITY_RESERVED:
                holder = "an execution" if running and not owned else "an owner"
            blockers = refusal.blockers or None
            self._say(
                Report(
                    "claim_refused",
                    offer.unit,
                    code=refusal.code,
                    blockers=blockers,
                    holder=holder,
                )
            )
            return None
        return claim

    def _steady(self, offer: Offer, claim: TaskClaim) -> None:
        self._steps(offer, claim, _STEPS)
        self._submit(offer, claim)
        self._wait()
        self._leave(offer, claim)

    def _overtaken(self, offer: Offer, claim: TaskClaim) -> None:
        self._wait()
        self._try_to_submit(offer, claim)
        self._leave(offer, claim)

    def _until_killed(self, offer: Offer, claim: TaskClaim) -> None:
        self._steps(offer, claim, _STEPS_UNTIL_KILLED)

    def _late(self, offer: Offer, claim: TaskClaim) -> None:
        self._tell("stalled", offer, claim)
        self._wait()
        self._try_to_submit(offer, claim)

    def _leave(self, offer: Offer, claim: TaskClaim) -> None:
        self._call("release", offer, claim)
        self._tell("released", offer, claim)

    def _steps(self, offer: Offer, claim: TaskClaim, count: int) -> None:
        """Work, which here is waiting, and show that the work goes on."""
        for _ in range(count):
            sleep(STEP_SECONDS)
            self._call("renew", offer, claim)
            self._call("progress", offer, claim)
            self._tell("renewed", offer, claim)

    def _try_to_submit(self, offer: Offer, claim: TaskClaim) -> None:
        try:
            self._submit(offer, claim)
        except ClaimError as refusal:
            self._tell("submission_refused", offer, claim, code=refusal.code)

    def _submit(self, offer: Offer, claim: TaskClaim) -> None:
        content = {"unit": offer.unit, "by": self._name, "inputs": claim.binding.inputs_digest}
        digest = canonical_digest(content)
        self._gate.submit(
            offer.unit,
            offer.task,
            self._self,
            request_id=claim.request_id,
            epoch=claim.epoch,
            artifact_digest=digest,
            approver=approver(),  # needed where the unit's risk is high
            approval_reference=APPROVAL,
        )
        self._tell("submitted", offer, claim, digest=digest)

    def _call(self, operation: str, offer: Offer, claim: TaskClaim) -> None:
        self._ledger.update_owner(
            offer.task,
            self._self,
            request_id=claim.request_id,
            epoch=claim.epoch,
            operation=operation,
        )

    def _wait(self) -> None:
        if self._line.poll(_PATIENCE_SECONDS):
            self._line.recv()

    def _tell(
        self,
        said: Said,
        offer: Offer,
        claim: TaskClaim,
        *,
        inputs: str | None = None,
        code: ErrorCode | None = None,
        digest: str | None = None,
    ) -> None:
        self._say(
            Report(
                said,
                offer.unit,
                claim.request_id,
                claim.slot,
                claim.epoch,
                inputs=inputs,
                code=code,
                digest=digest,
            )
        )

    def _say(self, report: Report) -> None:
        self._line.send(report)
