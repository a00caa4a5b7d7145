"""The demo's own checks: of each promise, that a story which breaks it is found out."""

from collections.abc import Callable
from typing import Any

import pytest
from demo_runs import CODE, RESEARCH, REVIEW, TEST, perform
from msgspec.structs import replace

from idkmesh import ClaimBinding
from idkmesh.cli.promises import check
from idkmesh.cli.story import Moment, Story
from idkmesh.records import OwnerIdentity


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Give a story that really happened."""
    return perform(tmp_path_factory.getbasetemp()).story


def spoil_moments(
    story: Story, what: str, change: Callable[[Moment], Moment | None], unit: str | None = None
) -> Story:
    """Change the moments of a kind, or leave them out."""
    moments = []
    for moment in story.moments:
        hit = moment.what == what and unit in {None, moment.unit}
        changed = change(moment) if hit else moment
        if changed is not None:
            moments.append(changed)
    return replace(story, moments=moments)


def spoil_claims(story: Story, task_id: str, at: int, **changes: Any) -> Story:
    """Change one claim's record."""
    claims = tuple(
        replace(claim, **changes)
        if (claim.task.resource_id, claim.epoch) == (task_id, at)
        else claim
        for claim in story.claims
    )
    return replace(story, claims=claims)


def alter(story: Story, what: str, unit: str | None, **changes: Any) -> Story:
    """Change the moments of a kind, all alike."""
    return spoil_moments(story, what, lambda moment: replace(moment, **changes), unit)


def alter_early_refusals(story: Story, **changes: Any) -> Story:
    """Change the refusals of those who asked for what was not ready."""

    def altered(moment: Moment) -> Moment:
        return replace(moment, **changes) if moment.code == "task_not_ready" else moment

    return spoil_moments(story, "claim_refused", altered)


def move(story: Story, nth: int, behind: str) -> Story:
    """Tell one of the research's integrations elsewhere: behind the first moment of a kind."""
    moved = story.seen("integrated", RESEARCH)[nth]
    moments = [moment for moment in story.moments if moment is not moved]
    at = next(index for index, moment in enumerate(moments) if moment.what == behind)
    return replace(story, moments=[*moments[: at + 1], moved, *moments[at + 1 :]])


def spoil_rebuilt(story: Story, **changes: Any) -> Story:
    """Change what the rebuilding gave."""
    assert story.rebuilt is not None
    return replace(story, rebuilt=replace(story.rebuilt, **changes))


def first_binding(story: Story) -> ClaimBinding:
    """Return what the overtaken claim was bound to."""
    return next(claim.binding for claim in story.claims if claim.task.resource_id == OVERTAKEN_TASK)


def without_blockers(moment: Moment) -> Moment | None:
    """Leave out a refusal of what was not ready."""
    return None if moment.blockers else moment


def without_execution(moment: Moment) -> Moment | None:
    """Leave out a refusal behind an execution."""
    return None if moment.holder == "an execution" else moment


def swap_evidence(story: Story) -> Story:
    """Tell the evidence after the grant that it allowed."""
    moments = [moment for moment in story.moments if moment.what != "reconciled"]
    return replace(story, moments=[*moments, *story.seen("reconciled")])


def merge_survivors(story: Story) -> Story:
    """Give the workers that were not killed one process id."""
    pid = next(each.pid for each in story.crew if each.exit_code == 0)
    crew = (replace(each, pid=pid) if each.exit_code == 0 else each for each in story.crew)
    return replace(story, crew=tuple(crew))


def owner(story: Story, task_id: str) -> OwnerIdentity:
    """Return the owner of a task's first claim."""
    return next(claim.owner for claim in story.claims if claim.task.resource_id == task_id)


RACED_TASK = "trip-import.research-timestamps"
OVERTAKEN_TASK = "trip-import.code-timestamps"
KILLED_TASK = "trip-import.review-timestamps"
LATE_TASK = "trip-import.test-timestamps"
DIGEST = "sha256:" + "a" * 64
OTHER = f"prerequisite_missing:{TEST}"

SPOILED: dict[str, tuple[set[str], Callable[[Story], Story]]] = {
    "a worker is the coordinator": (
        {"processes"},
        lambda story: replace(story, coordinator_pid=story.crew[0].pid),
    ),
    "two workers are one process": ({"processes"}, merge_survivors),
    "there is one worker": (
        {"processes"},
        lambda story: replace(
            story, crew=tuple(each for each in story.crew if each.exit_code != 0)
        ),
    ),
    "a worker is lost": (
        {"processes"},
        lambda story: replace(
            story, moments=[*story.moments, Moment(elapsed_ms=0, who="ada", what="gone")]
        ),
    ),
    "nobody is refused": (
        {"race"},
        lambda story: spoil_moments(story, "claim_refused", lambda _: None, RESEARCH),
    ),
    "two win one slot": (
        {"race"},
        lambda story: alter(story, "granted", RESEARCH, slot=0),
    ),
    "one wins both slots": (
        {"race"},
        lambda story: alter(story, "granted", RESEARCH, who="ada"),
    ),
    "the others are refused for another reason": (
        {"race"},
        lambda story: alter(story, "claim_refused", RESEARCH, code="role_denied"),
    ),
    "a winner hands in nothing": (
        {"race", "ready"},
        lambda story: spoil_claims(story, RACED_TASK, 1, submission_digest=None),
    ),
    "an epoch is left out": (
        {"race", "takeover", "late"},
        lambda story: spoil_claims(
            spoil_claims(story, LATE_TASK, 2, epoch=3), KILLED_TASK, 2, epoch=3
        ),
    ),
    "nobody looks at what is blocked": (
        {"blocked"},
        lambda story: spoil_moments(story, "blocked", lambda _: None),
    ),
    "nobody asks for what is blocked": (
        {"blocked"},
        lambda story: spoil_moments(story, "claim_refused", without_blockers),
    ),
    "one alone asks for what is blocked": (
        {"blocked"},
        lambda story: alter_early_refusals(story, who="ada"),
    ),
    "who asks too early is refused for another reason": (
        {"blocked"},
        lambda story: alter_early_refusals(story, code="role_denied"),
    ),
    "who asks too early does not hear why": (
        {"blocked"},
        lambda story: alter_early_refusals(story, blockers=None),
    ),
    "another blocker is named": (
        {"blocked"},
        lambda story: alter(
            alter_early_refusals(story, blockers=(OTHER,)), "blocked", None, blockers=(OTHER,)
        ),
    ),
    "the refused get a claim": (
        {"blocked"},
        lambda story: alter(story, "blocked", CODE, claims=1),
    ),
    "nothing is granted": (
        {"race", "admitted", "overtaken", "freed"},
        lambda story: spoil_moments(story, "granted", lambda _: None),
    ),
    "a grant tells of other inputs": (
        {"admitted"},
        lambda story: alter(story, "granted", CODE, inputs=DIGEST),
    ),
    "a claim is bound to other inputs": (
        {"admitted"},
        lambda story: spoil_claims(
            story, OVERTAKEN_TASK, 1, binding=replace(first_binding(story), inputs_digest=DIGEST)
        ),
    ),
    "the unit had other inputs": (
        {"admitted"},
        lambda story: alter(story, "integrated", RESEARCH, ready={CODE: DIGEST}),
    ),
    "a unit is granted before its inputs are there": (
        {"admitted", "overtaken"},
        lambda story: move(story, 0, "reserved"),
    ),
    "the inputs change too late": (
        {"overtaken"},
        lambda story: move(story, 1, "submission_refused"),
    ),
    "the inputs change before the claim": (
        {"admitted", "overtaken"},
        lambda story: move(story, 1, "blocked"),
    ),
    "nothing is overtaken": (
        {"overtaken"},
        lambda story: spoil_moments(story, "submission_refused", lambda _: None, CODE),
    ),
    "the overtaken is refused for another reason": (
        {"overtaken"},
        lambda story: alter(story, "submission_refused", CODE, code="claim_owner_denied"),
    ),
    "the overtaken result is kept": (
        {"overtaken"},
        lambda story: spoil_claims(story, OVERTAKEN_TASK, 1, submission_digest=DIGEST),
    ),
    "the same result is integrated again": (
        {"overtaken"},
        lambda story: alter(
            story, "integrated", RESEARCH, digest=story.seen("integrated", RESEARCH)[0].digest
        ),
    ),
    "the new attempt is on the old inputs": (
        {"admitted", "overtaken"},
        lambda story: spoil_claims(story, OVERTAKEN_TASK, 2, binding=first_binding(story)),
    ),
    "a result is not integrated": (
        {"ready", "rebuilt"},
        lambda story: spoil_moments(story, "integrated", lambda _: None, REVIEW),
    ),
    "what nobody handed in is integrated": (
        {"ready"},
        lambda story: alter(story, "integrated", TEST, digest=DIGEST),
    ),
    "something is left at the end": (
        {"ready"},
        lambda story: alter(story, "integrated", TEST, ready={CODE: DIGEST}),
    ),
    "nothing is left before the end": (
        {"ready"},
        lambda story: alter(story, "integrated", REVIEW, ready={}),
    ),
    "what waits is ready at first": (
        {"ready"},
        lambda story: spoil_moments(
            story,
            "offered",
            lambda moment: replace(moment, ready={**(moment.ready or {}), CODE: DIGEST}),
            RESEARCH,
        ),
    ),
    "nobody is killed": (
        {"killed", "takeover"},
        lambda story: spoil_moments(story, "killed", lambda _: None),
    ),
    "it ends by itself": (
        {"killed"},
        lambda story: replace(story, crew=tuple(replace(each, exit_code=0) for each in story.crew)),
    ),
    "its claim dies with it": (
        {"killed"},
        lambda story: alter(story, "killed", None, state="expired"),
    ),
    "the dead claim is released": (
        {"killed"},
        lambda story: spoil_claims(story, KILLED_TASK, 1, state="released"),
    ),
    "the dead hand in": (
        {"killed"},
        lambda story: spoil_claims(story, KILLED_TASK, 1, submission_digest=DIGEST),
    ),
    "the dead never consented": (
        {"killed"},
        lambda story: spoil_claims(story, KILLED_TASK, 1, acknowledged_at=None),
    ),
    "the dead take over from themselves": (
        {"takeover"},
        lambda story: spoil_claims(story, KILLED_TASK, 2, owner=owner(story, KILLED_TASK)),
    ),
    "the takeover is early": (
        {"takeover"},
        lambda story: spoil_claims(story, KILLED_TASK, 2, created_at=0),
    ),
    "the late one is not late": (
        {"late"},
        lambda story: spoil_moments(story, "submission_refused", lambda _: None, TEST),
    ),
    "the late one is refused for another reason": (
        {"late"},
        lambda story: alter(story, "submission_refused", TEST, code="claim_owner_denied"),
    ),
    "the late one gave up before": (
        {"late"},
        lambda story: spoil_claims(story, LATE_TASK, 1, state="released"),
    ),
    "the late result is kept": (
        {"late"},
        lambda story: spoil_claims(story, LATE_TASK, 1, submission_digest=DIGEST),
    ),
    "the newer owner's result is lost": (
        {"late", "ready"},
        lambda story: spoil_claims(story, LATE_TASK, 2, submission_digest=None),
    ),
    "nothing holds the slot": (
        {"held"},
        lambda story: spoil_moments(story, "claim_refused", without_execution),
    ),
    "no execution is reserved": (
        {"held"},
        lambda story: alter(story, "reserved", None, occupancy="none"),
    ),
    "the first execution is not allowed": (
        {"held"},
        lambda story: alter(story, "reserved", None, created=False),
    ),
    "a second execution is allowed": (
        {"held"},
        lambda story: alter(story, "reservation_repeated", None, created=True),
    ),
    "the evidence says that it runs": (
        {"freed"},
        lambda story: alter(story, "reconciled", None, occupancy="running"),
    ),
    "the slot is free before the evidence": ({"freed"}, swap_evidence),
    "the owner stays": (
        {"freed"},
        lambda story: spoil_claims(story, OVERTAKEN_TASK, 1, state="active"),
    ),
    "the owner follows itself": (
        {"freed"},
        lambda story: spoil_claims(story, OVERTAKEN_TASK, 2, owner=owner(story, OVERTAKEN_TASK)),
    ),
    "the follower hands in nothing": (
        {"overtaken", "freed", "ready"},
        lambda story: spoil_claims(story, OVERTAKEN_TASK, 2, submission_digest=None),
    ),
    "the slot stays held": (
        {"overtaken", "freed", "race"},
        lambda story: spoil_claims(story, OVERTAKEN_TASK, 2, slot=1),
    ),
    "the tables differ": (
        {"rebuilt"},
        lambda story: spoil_rebuilt(story, equal=False),
    ),
    "a task is lost": (
        {"rebuilt"},
        lambda story: spoil_rebuilt(story, tasks=3),
    ),
    "a claim is lost": (
        {"rebuilt"},
        lambda story: spoil_rebuilt(story, claims=7),
    ),
    "an observation is lost": (
        {"rebuilt"},
        lambda story: spoil_rebuilt(story, observations=4),
    ),
    "nothing is rebuilt": ({"rebuilt"}, lambda story: replace(story, rebuilt=None)),
}


@pytest.mark.parametrize("case", SPOILED)
def test_notices_what_is_missing(story: Story, case: str) -> None:
    """A story in which something promised did not happen breaks that promise, and no other."""
    assert [promise.name for promise in check(story) if not promise.kept] == []
    broken, spoil = SPOILED[case]
    spoiled = spoil(story)
    assert {promise.name for promise in check(spoiled) if not promise.kept} == broken


def test_judges_a_story_cut_short(story: Story) -> None:
    """A story that stops anywhere is judged all the same, and never found complete."""
    for length in range(len(story.moments)):
        judged = check(replace(story, moments=story.moments[:length]))
        assert [promise.name for promise in judged if not promise.kept] != []
