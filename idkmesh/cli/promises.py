"""What the demo promises to show, each checked against what was seen and what is recorded."""

import signal
from collections.abc import Callable
from typing import Final

from idkmesh.cli.plans import Act
from idkmesh.cli.story import Moment, Promise, Story
from idkmesh.errors import ErrorCode


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
    slots = story.plan(unit).policy.concurrent_slots
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


def _blocked(story: Story) -> bool:
    """Say whether what waits for another's result was asked for too early, in vain."""
    blocked = story.seen("blocked")
    return {*_units(story, "overtaken")} <= {moment.unit for moment in blocked} and all(
        _was_blocked(story, moment) for moment in blocked
    )


def _was_blocked(story: Story, blocked: Moment) -> bool:
    """Say whether each who asked heard what it waits for, and no claim had come of it."""
    done = {moment.unit for moment in story.before(blocked, "integrated")}
    waits_for = tuple(
        f"prerequisite_missing:{need}"
        for need in story.plan(blocked.unit).requires
        if need not in done
    )
    refused = [
        moment
        for moment in story.before(blocked, "claim_refused")
        if moment.unit == blocked.unit and moment.code == ErrorCode.TASK_NOT_READY
    ]
    return (
        len({moment.who for moment in refused}) > 1
        and {moment.blockers for moment in refused} == {blocked.blockers} == {waits_for}
        and blocked.claims == 0
    )


def _admitted(story: Story) -> bool:
    """Say whether each claim was granted on the inputs that its unit was last seen to have."""
    grants = story.seen("granted")
    return bool(grants) and all(_on_its_inputs(story, granted) for granted in grants)


def _on_its_inputs(story: Story, granted: Moment) -> bool:
    claim = story.claim(granted)
    ready = story.before(granted, "offered", "integrated")[-1].ready or {}
    inputs = ready.get(granted.unit or "")
    return claim is not None and claim.binding.inputs_digest == granted.inputs == inputs


def _overtaken(story: Story) -> bool:
    refused = _refused_submissions(story, ErrorCode.INPUTS_CHANGED)
    return _each(story, "overtaken", refused, _was_overtaken)


def _was_overtaken(story: Story, refused: Moment) -> bool:
    """Say whether the claim was for other inputs than its successor's, whose result counts."""
    claim = story.claim(refused)
    if claim is None or (successor := story.successor(claim)) is None:
        return False
    requires = story.plan(refused.unit).requires
    turns = [
        moment
        for moment in story.before(refused, "integrated", "granted")
        if moment.unit == refused.unit or moment.unit in requires
    ]
    integrated = [moment.digest for moment in turns if moment.what == "integrated"]
    return (
        [moment.what for moment in turns][-2:] == ["granted", "integrated"]
        and len(set(integrated)) == len(integrated)
        and claim.submission_digest is None
        and successor.binding.inputs_digest != claim.binding.inputs_digest
        and successor.submission_digest is not None
    )


def _killed(story: Story) -> bool:
    """Say whether a worker was killed at work, and its claim lived on until a deadline."""
    return _each(story, "killed", story.seen("killed"), _was_killed)


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
    return _each(story, "killed", story.seen("killed"), _taken_over)


def _taken_over(story: Story, moment: Moment) -> bool:
    """Say whether another owner got the slot's next epoch, at the lease's end or later."""
    claim = story.claim(moment)
    if claim is None or (successor := story.successor(claim)) is None:
        return False
    return (
        successor.owner != claim.owner
        and successor.created_at >= claim.lease_until
        and successor.submission_digest is not None
    )


def _late(story: Story) -> bool:
    refused = _refused_submissions(story, ErrorCode.STALE_CLAIM)
    return _each(story, "late", refused, _came_late)


def _came_late(story: Story, late: Moment) -> bool:
    claim = story.claim(late)
    return (
        claim is not None
        and claim.state == "expired"
        and claim.submission_digest is None
        and _taken_over(story, late)
    )


def _held(story: Story) -> bool:
    """Say whether an execution that nobody had word of kept others out of the slot."""
    return _each(story, "overtaken", story.seen("reserved"), _was_held)


def _was_held(story: Story, reserved: Moment) -> bool:
    repeated = story.seen("reservation_repeated", reserved.unit)
    return (
        reserved.occupancy == "unknown"
        and reserved.created is True
        and [moment.created for moment in repeated] == [False]
        and bool(_refusals(story, reserved.unit, "an execution"))
    )


def _freed(story: Story) -> bool:
    return _each(story, "overtaken", story.seen("reconciled"), _was_freed)


def _was_freed(story: Story, reconciled: Moment) -> bool:
    """Say whether the next epoch was admitted, and only behind the terminal evidence."""
    claim = story.claim(reconciled)
    if claim is None or (successor := story.successor(claim)) is None:
        return False
    granted = [
        moment.epoch
        for moment in story.before(reconciled, "granted")
        if moment.unit == reconciled.unit
    ]
    return (
        reconciled.occupancy == "terminal"
        and claim.state == "released"
        and successor.owner != claim.owner
        and successor.submission_digest is not None
        and granted == [claim.epoch]
    )


def _ready(story: Story) -> bool:
    """Say whether all was integrated as handed in, and nothing but the end left nothing ready."""
    integrated = story.seen("integrated")
    roots = {plan.unit for plan in story.plans if not plan.requires}
    return (
        {moment.unit for moment in integrated} == {plan.unit for plan in story.plans}
        and {moment.digest for moment in integrated}
        <= {claim.submission_digest for claim in story.claims}
        and {*(story.seen("offered")[0].ready or {})} == roots
        and [bool(moment.ready) for moment in integrated]
        == [True] * (len(integrated) - 1) + [False]
    )


def _rebuilt(story: Story) -> bool:
    rebuilt = story.rebuilt
    return (
        rebuilt is not None
        and rebuilt.equal
        and rebuilt.tasks == len(story.plans)
        and rebuilt.claims == len(story.claims) > 0
        and rebuilt.observations == len(story.seen("integrated"))
    )


def _units(story: Story, act: Act) -> list[str]:
    return [plan.unit for plan in story.plans if plan.act == act]


def _each(
    story: Story, act: Act, moments: list[Moment], kept: Callable[[Story, Moment], bool]
) -> bool:
    """Say whether every unit of an act, and no other, has a moment, and all of them hold."""
    units = {*_units(story, act)}
    return {moment.unit for moment in moments} == units != set() and all(
        kept(story, moment) for moment in moments
    )


def _refusals(story: Story, unit: str | None, holder: str) -> list[Moment]:
    return [
        moment
        for moment in story.seen("claim_refused", unit)
        if moment.code == ErrorCode.TASK_CAPACITY_RESERVED and moment.holder == holder
    ]


def _refused_submissions(story: Story, code: ErrorCode) -> list[Moment]:
    return [moment for moment in story.seen("submission_refused") if moment.code == code]


def _submitted(story: Story, winner: Moment) -> bool:
    claim = story.claim(winner)
    return claim is not None and claim.submission_digest is not None


_PROMISES: Final[tuple[tuple[str, str, Callable[[Story], bool]], ...]] = (
    ("processes", "several processes worked, each with the ledger opened for itself", _processes),
    ("race", "one worker won each slot, and the others were refused", _race),
    ("blocked", "what waits for another result was refused, and no claim was written", _blocked),
    ("admitted", "each claim was granted on exactly the inputs that its unit had", _admitted),
    ("overtaken", "a result on changed inputs was refused, and one on the new counts", _overtaken),
    ("held", "an execution that nobody had word of held its slot without an owner", _held),
    ("freed", "terminal evidence freed that slot, and nothing before it did", _freed),
    ("killed", "a worker was killed at work, and its claim lived on until a deadline", _killed),
    ("takeover", "another took over when the lease had run out, under the next epoch", _takeover),
    ("late", "a late result was refused as stale_claim, and the newer owner's counts", _late),
    ("ready", "all was integrated in the end, and only then was nothing left to hand out", _ready),
    ("rebuilt", "the log, folded anew, gave the live tables row for row", _rebuilt),
)
