"""The demo's story as data: what was seen, moment by moment, and what it amounts to."""

from typing import Any, Final, Literal

from msgspec import Struct, field, structs

from idkmesh.cli.crew import Holder, Said
from idkmesh.cli.plans import SCOPE, Plan
from idkmesh.records import TaskClaim
from idkmesh.scalars import ClaimState, Occupancy

What = (
    Said
    | Literal[
        "offered",
        "killed",
        "gone",
        "blocked",
        "integrated",
        "reserved",
        "reservation_repeated",
        "reconciled",
    ]
)

COORDINATOR: Final = "coordinator"


class Moment(Struct, frozen=True, kw_only=True):
    """One thing that was seen to happen.

    Attributes:
        elapsed_ms: Milliseconds since the story's start.
        who: Whose doing it is.
        what: What happened.
        unit: The WorkUnit that it happened to, if any.
        request_id: The claim's request, if it is about one.
        slot: The claim's slot.
        epoch: The claim's fencing number.
        inputs: The inputs that the claim was granted on.
        code: Why the ledger refused.
        blockers: What the unit waited for.
        claims: How many claims the unit's task had then.
        ready: What could be handed out then: each unit with its inputs.
        holder: What held the slot when the worker asked for it.
        state: The claim's state, where the coordinator looked.
        occupancy: Its occupancy, where the coordinator looked.
        created: Whether this very call reserved the execution.
        digest: What was submitted, or integrated.
        refusals: How often the unit was asked for in vain since its last grant.
        pid: The process that it happened to.
    """

    elapsed_ms: int
    who: str
    what: What
    unit: str | None = None
    request_id: str | None = None
    slot: int | None = None
    epoch: int | None = None
    inputs: str | None = None
    code: str | None = None
    blockers: tuple[str, ...] | None = None
    claims: int | None = None
    ready: dict[str, str] | None = None
    holder: Holder | None = None
    state: ClaimState | None = None
    occupancy: Occupancy | None = None
    created: bool | None = None
    digest: str | None = None
    refusals: int | None = None
    pid: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the moment's JSON record, without what it does not say."""
        return {name: value for name, value in structs.asdict(self).items() if value is not None}


class Member(Struct, frozen=True, kw_only=True):
    """A worker process: its name, its process id, and how it ended (minus the signal)."""

    name: str
    pid: int
    exit_code: int | None


class Rebuilt(Struct, frozen=True, kw_only=True):
    """What the log folded to, beside the live tables."""

    events: int
    tasks: int
    claims: int
    observations: int
    equal: bool


class Promise(Struct, frozen=True, kw_only=True):
    """Something that the demo promises to show, and whether it was seen."""

    name: str
    text: str
    kept: bool


class Story(Struct, kw_only=True):
    """All of one run.

    Attributes:
        plans: The WorkUnits and their acts.
        ledger: The ledger's file where it is kept, or None.
        coordinator_pid: The coordinator's process id.
        crew: The worker processes.
        moments: What was seen, in order.
        claims: Every claim at the end.
        rebuilt: What the rebuilding gave, once it was done.
        broken: Why the story stopped short, if it did.
        promises: What was promised, checked.
    """

    plans: tuple[Plan, ...]
    ledger: str | None
    coordinator_pid: int
    crew: tuple[Member, ...] = ()
    moments: list[Moment] = field(default_factory=list)
    claims: tuple[TaskClaim, ...] = ()
    rebuilt: Rebuilt | None = None
    broken: str | None = None
    promises: tuple[Promise, ...] = ()

    @property
    def missing(self) -> tuple[Promise, ...]:
        """What was promised and not seen."""
        return tuple(promise for promise in self.promises if not promise.kept)

    @property
    def complete(self) -> bool:
        """Whether the story came to its end with every promise kept."""
        return bool(self.promises) and not self.missing and self.broken is None

    def seen(self, what: What, unit: str | None = None) -> list[Moment]:
        """Return the moments of a kind, of one unit or of all."""
        return [
            moment
            for moment in self.moments
            if moment.what == what and (unit is None or unit == moment.unit)
        ]

    def before(self, moment: Moment, *whats: What) -> list[Moment]:
        """Return the moments of some kinds that came before another moment."""
        earlier = self.moments[: self.moments.index(moment)]
        return [each for each in earlier if each.what in whats]

    def plan(self, unit: str | None) -> Plan:
        """Return a unit's plan."""
        return next(plan for plan in self.plans if plan.unit == unit)

    def claim(self, moment: Moment) -> TaskClaim | None:
        """Return the claim, as it stood at the end, that a moment is about."""
        for claim in self.claims:
            if claim.request_id == moment.request_id and claim.task == self.plan(moment.unit).task:
                return claim
        return None

    def successor(self, claim: TaskClaim) -> TaskClaim | None:
        """Return the claim that was admitted into the same slot next."""
        place = (claim.task, claim.slot, claim.epoch + 1)
        for other in self.claims:
            if (other.task, other.slot, other.epoch) == place:
                return other
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the story's JSON record."""
        return {
            "kind": "idkmesh-demo",
            "schema_version": "0.1",
            "complete": self.complete,
            "promises": [structs.asdict(promise) for promise in self.promises],
            "broken": self.broken,
            "ledger": self.ledger,
            "scope": {"tenant_id": SCOPE.tenant_id, "project_id": SCOPE.project_id},
            "coordinator": {"name": COORDINATOR, "pid": self.coordinator_pid},
            "workers": [structs.asdict(member) for member in self.crew],
            "tasks": [
                {
                    "work_unit_id": plan.unit,
                    "task_id": plan.task.resource_id,
                    "kind": plan.content["kind"],
                    "requires": list(plan.requires),
                    "act": plan.act,
                    "concurrent_slots": plan.policy.concurrent_slots,
                    "lease_seconds": plan.policy.lease_seconds,
                }
                for plan in self.plans
            ],
            "moments": [moment.to_dict() for moment in self.moments],
            "claims": [claim.to_dict() for claim in self.claims],
            "rebuilt": None if self.rebuilt is None else structs.asdict(self.rebuilt),
        }
