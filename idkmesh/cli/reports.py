"""What is told about tasks, verifications and repairs: for people, and as JSON content."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from idkmesh.cli.asking import Point
from idkmesh.cli.screen import SHOWN, Parts, Screen, count, moment, safe
from idkmesh.cli.words import OVER, PLAIN, REFUSED, UNSURE, WON
from idkmesh.records import TaskClaim
from idkmesh.repair import Repair
from idkmesh.replay import TaskAsOf
from idkmesh.verification import Verification

_STATES: Final = {"active": WON, "released": OVER, "expired": REFUSED}
_MAY_RUN: Final = ("running", "unknown")
_HEADINGS: Final = (
    "Task",
    "Slots held",
    "Attempts",
    "Active owners",
    "May be running",
    "Submitted",
    "Next deadline",
)
_CLAIM_HEADINGS: Final = ("Task", "Slot", "Epoch", "Owner", "Execution", "Request")


def task_object(task: TaskAsOf, point: Point) -> dict[str, Any]:
    """Return the JSON object of a task with its claims."""
    return {
        "as_of": point.to_dict(),
        "task": task.task.to_dict(),
        "policy": msgspec.to_builtins(task.policy),
        "claims": [claim.to_dict() for claim in task.claims],
    }


def task(screen: Screen, found: TaskAsOf, point: Point) -> None:
    """Show one task: its policy, and every claim with all that is known about it."""
    policy = found.policy
    screen.line((safe(found.task.key), "bold"), (f"  as of {_point(point)}", OVER))
    screen.line(
        f"  {count(policy.concurrent_slots, 'slot')}, {len(found.claims)} of {policy.max_attempts}"
        f" attempts used, risk {policy.risk}, data {policy.data_classification}"
    )
    screen.line(
        f"  acknowledge within {_span(policy.ack_seconds)}, renew within"
        f" {_span(policy.lease_seconds)}, progress within {_span(policy.progress_seconds)},"
        f" at most {_span(policy.hard_seconds)}"
    )
    if policy.competition_reason is not None:
        screen.line(f"  competition: {safe(policy.competition_reason)}")
    for claim in found.claims:
        screen.line()
        _claim(screen, claim)
    if not found.claims:
        screen.line("  no claim yet")


def tasks(screen: Screen, found: Sequence[TaskAsOf], point: Point) -> None:
    """Show an overview of tasks, a row each."""
    screen.line((count(len(found), "task"), "bold"), (f"  as of {_point(point)}", OVER))
    if found:
        screen.table(_HEADINGS, [_overview(each) for each in found])


def verification(screen: Screen, found: Verification, sealed: str | None = None) -> None:
    """Show what a verification found, every problem on a line."""
    tasks, claims = count(found.tasks, "task"), count(found.claims, "claim")
    screen.line(f"{count(found.events, 'event')}, {tasks}, {claims}")
    screen.line(f"seal {found.seal}")
    for problem in found.problems:
        event = "" if problem.sequence is None else f" event {problem.sequence}"
        stream = "" if problem.stream is None else f" {safe(problem.stream)}"
        screen.line((f"{safe(problem.place)}{event}{stream}: ", REFUSED), safe(problem.meaning))
    if found.problems:
        problems = count(len(found.problems), "problem")
        screen.line((f"The ledger does not verify: {problems}.", REFUSED))
    elif sealed is not None:
        screen.line(("The ledger verifies, and has only grown since the seal.", WON))
    else:
        screen.line(("The ledger verifies.", WON))


def verification_object(found: Verification) -> dict[str, Any]:
    """Return the JSON object of a verification."""
    return {"ok": found.ok, **msgspec.to_builtins(found)}


def planned(screen: Screen, plan: Repair) -> None:
    """Show what a repair of the clock would do."""
    ahead = timedelta(seconds=plan.old_watermark - plan.now)
    screen.line(f"The ledger's time is {moment(plan.old_watermark)}.")
    screen.line(f"The clock reads {moment(plan.now)}, which is {ahead} less.")
    active = count(len(plan.expired), "active claim")
    screen.line(f"The repair ends {active}; executions keep their slots.")
    if plan.expired:
        screen.table(_CLAIM_HEADINGS, [_ended(claim) for claim in plan.expired])


def repaired(screen: Screen, done: Repair) -> None:
    """Show what a repair of the clock did."""
    ended = count(len(done.expired), "claim")
    screen.line((f"The ledger's time is {moment(done.now)} now; {ended} ended.", WON))


def _point(point: Point) -> str:
    return moment(point.time) if point.sequence is None else f"event {point.sequence}"


def _span(seconds: int) -> str:
    return f"{seconds:,} s"


def _claim(screen: Screen, claim: TaskClaim) -> None:
    owner = claim.owner
    screen.line(
        (f"slot {claim.slot} epoch {claim.epoch}  ", "bold"),
        (claim.state, _STATES[claim.state]),
    )
    acknowledged = claim.acknowledged_at
    consent = "not acknowledged" if acknowledged is None else f"acknowledged {moment(acknowledged)}"
    window = f"acknowledge by {moment(claim.ack_by)}, " if acknowledged is None else ""
    deadlines = (
        f"lease {moment(claim.lease_until)}, progress {moment(claim.progress_by)},"
        f" hard {moment(claim.hard_until)}"
    )
    execution: str = claim.occupancy
    if claim.operation_id is not None:
        evidence = claim.execution_reference
        told = "no evidence" if evidence is None else f"evidence {safe(evidence)}"
        execution = f"{claim.occupancy}, {told}, operation {claim.operation_id}"
    binding = claim.binding
    worked_on = (
        f"{binding.work_unit_digest}, source {binding.source_revision},"
        f" inputs {binding.inputs_digest}"
    )
    for name, value, style in (
        ("owner", f"{safe(owner.principal_id)} ({owner.actor_type}, {safe(owner.issuer)})", PLAIN),
        ("request", safe(claim.request_id), PLAIN),
        ("granted", f"{moment(claim.created_at)}, {consent}", PLAIN),
        (
            "deadlines",
            f"{window}{deadlines}",
            PLAIN,
        ),
        ("execution", execution, UNSURE if claim.occupancy in _MAY_RUN else PLAIN),
        ("submission", claim.submission_digest or "none", PLAIN),
        (
            "works on",
            worked_on,
            PLAIN,
        ),
    ):
        screen.line((f"  {name:12}", OVER), (value, style))


def _overview(found: TaskAsOf) -> Parts:
    active = [claim for claim in found.claims if claim.state == "active"]
    running = [claim for claim in found.claims if claim.occupancy in _MAY_RUN]
    held = {claim.slot for claim in (*active, *running)}
    submitted = sum(claim.submission_digest is not None for claim in found.claims)
    owners = ", ".join(safe(claim.owner.principal_id, SHOWN) for claim in active)
    following = min((_next_deadline(claim) for claim in active), default=None)
    return [
        (safe(found.task.key), "bold"),
        (f"{len(held)} of {found.policy.concurrent_slots}", PLAIN),
        (f"{len(found.claims)} of {found.policy.max_attempts}", PLAIN),
        (owners, WON),
        (", ".join(f"{claim.slot}/{claim.epoch} {claim.occupancy}" for claim in running), UNSURE),
        (str(submitted), PLAIN),
        ("" if following is None else moment(following), PLAIN),
    ]


def _next_deadline(claim: TaskClaim) -> int:
    following = min(claim.lease_until, claim.progress_by, claim.hard_until)
    return following if claim.acknowledged_at is not None else min(following, claim.ack_by)


def _ended(claim: TaskClaim) -> Parts:
    return [
        (safe(claim.task.key), "bold"),
        (str(claim.slot), PLAIN),
        (str(claim.epoch), PLAIN),
        (safe(claim.owner.principal_id, SHOWN), PLAIN),
        (claim.occupancy, UNSURE if claim.occupancy in _MAY_RUN else PLAIN),
        (safe(claim.request_id, SHOWN), PLAIN),
    ]
