"""What the demo promises to show, each checked against what was seen and what is recorded."""

import signal
from collections.abc import Callable
from typing import Final

from idkmesh.cli.plans import Act
from idkmesh.cli.story import Moment, Promise, Story
from idkmesh.errors import ErrorCode
from idkmesh.records import TaskClaim


def check(story: Story) -> tuple[Promise, ...]:
    """Say of every promise whether the story kept it."""
    return tuple(Promise(name=name, text=text, kept=kept(story)) for name, text, kept in _PROMISES)


def _processes(story: Story) -> bool:
    pids = {member.pid for member in story.crew}
    apart = len(pids) == len(story.crew) and story.coordinator_pid not in pids
    return len(pids) > 1 and apart and not story.seen("gone")


def _race(story: Story) -> bool:
    return all(_raced(story, unit) for unit in _units(story, "race")) and _in_turn(story)


def _raced(story: Story, unit: str) -> bool:
    """Say whether each slot was won by one, and somebody else refused while all were held."""
    slots = next(plan.policy.concurrent_slots for plan in story.plans if plan.unit == unit)
    winners = [moment for moment in story.seen("granted", unit) if moment.epoch == 1]
    refused = {moment.who for moment in _refusals(story, unit, "an owner")}
    return (
        {moment.slot for moment in winners} == set(range(slots))
        and len(winners) == len({moment.who for moment in winners}) == slots
        and bool(refused - {moment.who for moment in winners})
        and all(_submitted(story, moment) for moment in winners)
    )


def _in_turn(story: Story) -> bool:
    """Say whether every slot's epochs are 1, 2, 3… in the order of admission."""
    epochs: dict[tuple[object, int], list[int]] = {}
    for claim in story.claims:
        epochs.setdefault((claim.task, claim.slot), []).append(claim.epoch)
    return all(each == list(range(1, len(each) + 1)) for each in epochs.values())


def _killed(story: Story) -> bool:
    """Say whether a worker was killed at work, and its claim lived on until a deadline."""
    return _each(story, "killed", "killed", lambda killed: _was_killed(story, killed))


def _was_killed(story: Story, killed: Moment) -> bool:
    claim = story.claim(killed)
    ends = {member.pid: member.exit_code for member in story.crew}
    return (
        ends.get(killed.pid or 0) == -signal.SIGKILL
        and killed.state == "active"
        and claim is not None
        and claim.acknowledged_at is not None
        and claim.state == "expired"
        and claim.submission_digest is None
    )


def _takeover(story: Story) -> bool:
    return _each(story, "killed", "killed", lambda killed: _taken_over(story, story.claim(killed)))


def _taken_over(story: Story, claim: TaskClaim | None) -> bool:
    """Say whether another owner got the slot's next epoch, at the lease's end or later."""
    if claim is None or (successor := story.successor(claim)) is None:
        return False
    return (
        successor.owner != claim.owner
        and successor.created_at >= claim.lease_until
        and successor.submission_digest is not None
    )


def _late(story: Story) -> bool:
    return _each(story, "late", "submission_refused", lambda late: _came_late(story, late))


def _came_late(story: Story, late: Moment) -> bool:
    claim = story.claim(late)
    return (
        late.code == ErrorCode.STALE_CLAIM
        and claim is not None
        and claim.state == "expired"
        and claim.submission_digest is None
        and _taken_over(story, claim)
    )


def _held(story: Story) -> bool:
    """Say whether an execution that nobody had word of kept others out of the slot."""
    return _each(story, "unknown", "reserved", lambda reserved: _was_held(story, reserved))


def _was_held(story: Story, reserved: Moment) -> bool:
    repeated = story.seen("reservation_repeated", reserved.unit)
    return (
        reserved.occupancy == "unknown"
        and reserved.created is True
        and [moment.created for moment in repeated] == [False]
        and bool(_refusals(story, reserved.unit, "an execution"))
    )


def _freed(story: Story) -> bool:
    return _each(story, "unknown", "reconciled", lambda moment: _was_freed(story, moment))


def _was_freed(story: Story, reconciled: Moment) -> bool:
    """Say whether the next epoch was admitted, and only behind the terminal evidence."""
    claim = story.claim(reconciled)
    if claim is None or (successor := story.successor(claim)) is None:
        return False
    moments = story.moments
    granted = [each for each in story.seen("granted", reconciled.unit) if each.epoch != 1]
    return (
        reconciled.occupancy == "terminal"
        and claim.state == "released"
        and successor.owner != claim.owner
        and successor.submission_digest is not None
        and all(moments.index(each) > moments.index(reconciled) for each in granted)
    )


def _rebuilt(story: Story) -> bool:
    rebuilt = story.rebuilt
    return (
        rebuilt is not None
        and rebuilt.equal
        and rebuilt.tasks == len(story.plans)
        and rebuilt.claims == len(story.claims) > 0
    )


def _units(story: Story, act: Act) -> list[str]:
    return [plan.unit for plan in story.plans if plan.act == act]


def _each(story: Story, act: Act, what: str, kept: Callable[[Moment], bool]) -> bool:
    """Say whether every unit of an act has a moment of a kind, and all of them hold."""
    units = _units(story, act)
    moments = [moment for moment in story.moments if moment.what == what]
    return {moment.unit for moment in moments} == set(units) != set() and all(map(kept, moments))


def _refusals(story: Story, unit: str | None, holder: str) -> list[Moment]:
    return [
        moment
        for moment in story.seen("claim_refused", unit)
        if moment.code == ErrorCode.TASK_CAPACITY_RESERVED and moment.holder == holder
    ]


def _submitted(story: Story, winner: Moment) -> bool:
    claim = story.claim(winner)
    return claim is not None and claim.submission_digest is not None


_PROMISES: Final[tuple[tuple[str, str, Callable[[Story], bool]], ...]] = (
    ("processes", "several processes worked, each with the ledger opened for itself", _processes),
    ("race", "one worker won each slot, and the others were refused", _race),
    ("killed", "a worker was killed at work, and its claim lived on until a deadline", _killed),
    ("takeover", "another took over when the lease had run out, under the next epoch", _takeover),
    ("late", "a late result was refused as stale_claim, and the newer owner's counts", _late),
    ("held", "an execution that nobody had word of held its slot without an owner", _held),
    ("freed", "terminal evidence freed that slot, and nothing before it did", _freed),
    ("rebuilt", "the log, folded anew, gave the live tables row for row", _rebuilt),
)
