"""The demo's own checks: of each promise, that a story which breaks it is found out."""

from collections.abc import Callable
from typing import Any

import pytest
from demo_runs import perform
from msgspec.structs import replace

from idkmesh.cli.promises import check
from idkmesh.cli.story import Moment, Rebuilt, Story
from idkmesh.records import OwnerIdentity

RESEARCH = "trip-import/research-timestamps"


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


RESEARCH_TASK = "trip-import.research-timestamps"
CODE_TASK = "trip-import.code-timestamps"
REVIEW_TASK = "trip-import.review-timestamps"
TEST_TASK = "trip-import.test-timestamps"

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
        lambda story: spoil_moments(
            story, "granted", lambda moment: replace(moment, slot=0), RESEARCH
        ),
    ),
    "one wins both slots": (
        {"race"},
        lambda story: spoil_moments(
            story, "granted", lambda moment: replace(moment, who="ada"), RESEARCH
        ),
    ),
    "the others are refused for another reason": (
        {"race"},
        lambda story: spoil_moments(
            story, "claim_refused", lambda moment: replace(moment, code="role_denied"), RESEARCH
        ),
    ),
    "a winner hands in nothing": (
        {"race"},
        lambda story: spoil_claims(story, RESEARCH_TASK, 1, submission_digest=None),
    ),
    "an epoch is left out": (
        {"race", "takeover", "late"},
        lambda story: spoil_claims(
            spoil_claims(story, REVIEW_TASK, 2, epoch=3), CODE_TASK, 2, epoch=3
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
        lambda story: spoil_moments(
            story, "killed", lambda moment: replace(moment, state="expired")
        ),
    ),
    "the dead claim is released": (
        {"killed"},
        lambda story: spoil_claims(story, CODE_TASK, 1, state="released"),
    ),
    "the dead hand in": (
        {"killed"},
        lambda story: spoil_claims(story, CODE_TASK, 1, submission_digest="sha256:" + "a" * 64),
    ),
    "the dead never consented": (
        {"killed"},
        lambda story: spoil_claims(story, CODE_TASK, 1, acknowledged_at=None),
    ),
    "the dead take over from themselves": (
        {"takeover"},
        lambda story: spoil_claims(story, CODE_TASK, 2, owner=owner(story, CODE_TASK)),
    ),
    "the takeover is early": (
        {"takeover"},
        lambda story: spoil_claims(story, CODE_TASK, 2, created_at=0),
    ),
    "the late one is not late": (
        {"late"},
        lambda story: spoil_moments(story, "submission_refused", lambda _: None),
    ),
    "the late one is refused for another reason": (
        {"late"},
        lambda story: spoil_moments(
            story, "submission_refused", lambda moment: replace(moment, code="claim_owner_denied")
        ),
    ),
    "the late one gave up before": (
        {"late"},
        lambda story: spoil_claims(story, REVIEW_TASK, 1, state="released"),
    ),
    "the late result is kept": (
        {"late"},
        lambda story: spoil_claims(story, REVIEW_TASK, 1, submission_digest="sha256:" + "a" * 64),
    ),
    "the newer owner's result is lost": (
        {"late"},
        lambda story: spoil_claims(story, REVIEW_TASK, 2, submission_digest=None),
    ),
    "nothing holds the slot": (
        {"held"},
        lambda story: spoil_moments(story, "claim_refused", without_execution),
    ),
    "no execution is reserved": (
        {"held"},
        lambda story: spoil_moments(
            story, "reserved", lambda moment: replace(moment, occupancy="none")
        ),
    ),
    "the first execution is not allowed": (
        {"held"},
        lambda story: spoil_moments(
            story, "reserved", lambda moment: replace(moment, created=False)
        ),
    ),
    "a second execution is allowed": (
        {"held"},
        lambda story: spoil_moments(
            story, "reservation_repeated", lambda moment: replace(moment, created=True)
        ),
    ),
    "the evidence says that it runs": (
        {"freed"},
        lambda story: spoil_moments(
            story, "reconciled", lambda moment: replace(moment, occupancy="running")
        ),
    ),
    "the slot is free before the evidence": ({"freed"}, swap_evidence),
    "the owner stays": (
        {"freed"},
        lambda story: spoil_claims(story, TEST_TASK, 1, state="active"),
    ),
    "the owner follows itself": (
        {"freed"},
        lambda story: spoil_claims(story, TEST_TASK, 2, owner=owner(story, TEST_TASK)),
    ),
    "the follower hands in nothing": (
        {"freed"},
        lambda story: spoil_claims(story, TEST_TASK, 2, submission_digest=None),
    ),
    "the slot stays held": (
        {"freed", "race"},
        lambda story: spoil_claims(story, TEST_TASK, 2, slot=1),
    ),
    "the tables differ": (
        {"rebuilt"},
        lambda story: replace(story, rebuilt=Rebuilt(events=40, tasks=4, claims=8, equal=False)),
    ),
    "a task is lost": (
        {"rebuilt"},
        lambda story: replace(story, rebuilt=Rebuilt(events=40, tasks=3, claims=8, equal=True)),
    ),
    "a claim is lost": (
        {"rebuilt"},
        lambda story: replace(story, rebuilt=Rebuilt(events=40, tasks=4, claims=7, equal=True)),
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
