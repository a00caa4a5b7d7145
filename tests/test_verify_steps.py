"""What no command could have emitted: each such event is named, alone and with its sequence.

Every log here is numbered and chained as an honest one, so that only its content betrays it.
Sequences are those of the story in ``replay_builders.LIFE``, or where an event was moved to.
"""

from pathlib import Path
from typing import Any

import pytest
from builders import START, binding, digest, task
from msgspec.structs import replace
from replay_builders import (
    ADA,
    BOB,
    LIFE,
    SEEN,
    SHORT,
    T1,
    Change,
    both,
    edited,
    forge,
    life,
    numbered,
    ordered,
    problems,
    told,
)

from idkmesh import TaskClaimPolicy
from idkmesh.commands.claim import request_digest
from idkmesh.events.port import Row
from idkmesh.records import OwnerIdentity

ALL = range(1, 15)
CLOCK = "acme/apollo/clock"
APPROVAL = {
    "principal_id": "chief",
    "issuer": "https:idp",
    "actor_type": "human",
    "identity_revision": "rev-1",
    "reference": "CHG-7",
}


def lacking(*sequences: int) -> Change:
    """Leave events out."""
    return ordered(*(each for each in ALL if each not in sequences))


def again(sequence: int, behind: int) -> Change:
    """Let an event come a second time, behind another and at its time."""
    return lambda rows: [
        *rows[:behind],
        rows[sequence - 1]._replace(at=rows[behind - 1].at),
        *rows[behind:],
    ]


def approved(*names: str, **changes: Any) -> Change:
    """Let the decisions of the reservation name an approval, with members changed."""
    members: dict[str, Any] = {}
    for name in names:
        members[f"{name}__code"] = "authorized_with_distinct_approval"
        members[f"{name}__approval"] = {**APPROVAL, **changes}
    return edited(6, **members)


def under(policy: TaskClaimPolicy) -> Change:
    """Freeze the task under another policy, to which the requests' digests fit."""

    def change(rows: list[Row]) -> list[Row]:
        digests = {
            sequence: request_digest(
                task(),
                OwnerIdentity(worker.principal_id, worker.issuer, worker.actor_type),
                binding(letter),
                policy,
            )
            for sequence, worker, letter in ((2, ADA, "a"), (12, BOB, "b"))
        }
        frozen = {f"policy__{field}": getattr(policy, field) for field in policy.__struct_fields__}
        rows = edited(1, **frozen)(rows)
        for sequence, made in digests.items():
            rows = edited(sequence, request_digest=made)(rows)
        return rows

    return change


# Change, the sequence where it shows, and what the event is expected to be.
UNFOLDED: dict[str, tuple[Change, int, str]] = {
    "configured twice": (again(1, behind=8), 9, "it is the task's first"),
    "never configured": (lacking(1), 1, "its task is configured"),
    "no attempt left": (under(replace(SHORT, max_attempts=1)), 12, "an attempt is left"),
    "a request twice": (edited(12, request_id="r-1"), 12, "its request is new"),
    "a slot too many": (edited(12, slot=1), 12, "its slot is the lowest free one"),
    "an owned slot": (lacking(11), 11, "its slot is the lowest free one"),
    "an occupied slot": (lacking(10), 11, "its slot is the lowest free one"),
    "an epoch left out": (edited(12, epoch=3), 12, "its epoch is the slot's next"),
    "an epoch again": (edited(12, epoch=1), 12, "its epoch is the slot's next"),
    "a longer ack_by": (edited(2, ack_by=START + 11), 2, "its deadlines follow from the policy"),
    "a longer lease": (
        edited(2, lease_until=START + 21),
        2,
        "its deadlines follow from the policy",
    ),
    "a longer progress": (
        edited(2, progress_by=START + 31),
        2,
        "its deadlines follow from the policy",
    ),
    "a later end": (edited(2, hard_until=START + 61), 2, "its deadlines follow from the policy"),
    "acknowledged twice": (again(3, behind=4), 5, "it is the first acknowledgement"),
    "acknowledged by another": (
        edited(3, by__actor__principal_id="bob"),
        3,
        "its actor is the claim's owner",
    ),
    "by another issuer": (
        edited(4, by__actor__issuer="https:other"),
        4,
        "its actor is the claim's owner",
    ),
    "by another type": (
        edited(5, by__actor__actor_type="service"),
        5,
        "its actor is the claim's owner",
    ),
    "of no claim": (edited(3, epoch=2), 3, "its claim was granted"),
    "of no slot": (edited(3, slot=1), 3, "its claim was granted"),
    "after the release": (again(3, behind=11), 12, "its claim is active"),
    "renewed before consent": (lacking(3), 3, "its claim is acknowledged"),
    "a longer renewal": (edited(4, lease_until=START + 23), 4, "its lease follows from the policy"),
    "a renewal of nothing": (again(4, behind=4), 5, "it moves the lease"),
    "progress before consent": (lacking(3, 4), 3, "its claim is acknowledged"),
    "a longer window": (edited(5, progress_by=START + 34), 5, "its window follows from the policy"),
    "progress of nothing": (again(5, behind=5), 6, "it moves the window"),
    "released twice": (again(11, behind=11), 12, "its claim is active"),
    "expired too early": (told(13, at=19), 13, "that deadline has passed"),
    "expired by another deadline": (
        edited(13, deadline="lease_until", due_at=START + 30),
        13,
        "that deadline has passed",
    ),
    "a deadline elsewhere": (edited(13, due_at=START + 19), 13, "that deadline has passed"),
    "expired twice": (again(13, behind=13), 14, "that deadline has passed"),
    "reserved twice": (again(6, behind=6), 7, "it is the first reservation"),
    "reserved for another": (
        edited(6, owner_by__actor__principal_id="bob"),
        6,
        "its owner is the claim's",
    ),
    "reserved before consent": (lacking(3, 4, 5), 3, "its claim is acknowledged"),
    "reserved after the release": (
        both(told(6, at=9), told(9, at=10), ordered(1, 2, 3, 4, 5, 11, 6, 9, 14)),
        7,
        "its claim is active",
    ),
    "reconciled before its intent": (lacking(6), 6, "its execution is open"),
    "reconciled after its end": (again(7, behind=10), 11, "its execution is open"),
    "reconciled to the same": (again(7, behind=7), 8, "it changes something"),
    "counted against the reserve": (
        edited(7, from_reserve=True),
        7,
        "it is counted as it should be",
    ),
    "submitted twice": (again(8, behind=8), 9, "it is the first submission"),
    "submitted before consent": (lacking(3, 4, 5, 6, 7), 3, "its claim is acknowledged"),
}


@pytest.mark.parametrize("name", UNFOLDED)
def test_an_event_that_does_not_fold_is_named(path: Path, name: str) -> None:
    """What the fold refuses is one problem, at that event, and says what it should have been."""
    change, sequence, what = UNFOLDED[name]
    forge(life(path), change)
    meaning = f"expected an event of which {what}, but it is not so"
    assert problems(path) == [("events", sequence, T1, meaning)]


ACTION = "the decision that allowed it was about another action"
DISAGREE = "the decision that allowed it and the approval that it names do not agree"
PARTY = "the approver is one of the parties that act"
APART = "the two decisions that allowed it were not made together"

UNFOUNDED: dict[str, tuple[Change, int, str]] = {
    **{
        f"event {sequence} as {action}": (edited(sequence, by__action=action), sequence, ACTION)
        for sequence, action in (
            (1, "claim"),
            (2, "release"),
            (3, "execute"),
            (4, "release"),
            (5, "dispatch"),
            (6, "execute"),
            (7, "claim"),
            (8, "claim"),
            (11, "claim"),
        )
    },
    "the owner's decision": (edited(6, owner_by__action="dispatch"), 6, ACTION),
    "approval without approver": (
        edited(2, by__code="authorized_with_distinct_approval"),
        2,
        DISAGREE,
    ),
    "approver without approval": (edited(1, by__approval=APPROVAL), 1, DISAGREE),
    **{
        f"an approved {LIFE[event - 1]}": (
            edited(event, by__approval=APPROVAL, by__code="authorized_with_distinct_approval"),
            event,
            "the command takes no approver, and one is named",
        )
        for event in (2, 3, 4, 5, 11)
    },
    "approved by itself": (approved("by", principal_id="desk"), 6, PARTY),
    "approved by the owner": (approved("by", principal_id="ada"), 6, PARTY),
    "the owner approved by the desk": (approved("owner_by", principal_id="desk"), 6, PARTY),
    "two approvals": (both(approved("by"), approved("owner_by", reference="CHG-8")), 6, APART),
    "two policies": (edited(6, owner_by__policy_id="another"), 6, APART),
    "two revisions": (edited(6, by__policy_revision="0.2"), 6, APART),
}


@pytest.mark.parametrize("name", UNFOUNDED)
def test_a_decision_that_no_kernel_made_is_named(path: Path, name: str) -> None:
    """An event's decision is about its own action, and its approval is a distinct one."""
    change, sequence, meaning = UNFOUNDED[name]
    forge(life(path), change)
    assert problems(path) == [("events", sequence, T1, meaning)]


@pytest.mark.parametrize("names", [("by",), ("owner_by",), ("by", "owner_by")])
def test_an_approval_of_either_part_is_lawful(path: Path, names: tuple[str, ...]) -> None:
    """A third person's approval, of one decision or the same of both, is no problem."""
    forge(life(path), approved(*names))
    assert problems(path) == []


def test_a_request_digest_is_recomputed(path: Path) -> None:
    """A digest that is not the request's is named, and the table that repeats it is right."""
    forge(life(path), edited(12, request_digest=digest("0")))
    assert problems(path)[0] == (
        "events",
        12,
        T1,
        "request_digest is not the digest of the request",
    )


@pytest.mark.parametrize(
    "change",
    [
        edited(12, binding__source_revision="c" * 40),
        edited(12, by__actor__principal_id="eve"),
    ],
)
def test_a_request_digest_commits_to_owner_and_binding(path: Path, change: Change) -> None:
    """Where owner or binding were exchanged, the digest of the request betrays it."""
    forge(life(path), change)
    assert problems(path)[0][1:] == (12, T1, "request_digest is not the digest of the request")


def test_a_request_digest_commits_to_the_policy(path: Path) -> None:
    """Where the policy was exchanged, every grant's digest betrays it."""
    forge(life(path), edited(1, policy__risk="high"))
    events = [each for each in problems(path) if each[0] == "events"]
    assert events == [
        ("events", 2, T1, "request_digest is not the digest of the request"),
        ("events", 12, T1, "request_digest is not the digest of the request"),
    ]


def test_an_operation_id_is_recomputed(path: Path) -> None:
    """An execution's identity that is not the claim's own is named."""
    forge(life(path), edited(6, operation_id=digest("0")))
    assert problems(path)[0] == (
        "events",
        6,
        T1,
        "operation_id is not the identity of the execution",
    )


def test_an_expiry_that_was_not_recorded_is_named(path: Path) -> None:
    """Evidence recorded past the lease, which a command would have recorded as over first."""
    forge(life(path), both(told(10, at=22), ordered(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)))
    (first, *rest) = problems(path)
    meaning = "a claim of the task was past a deadline, and that was not recorded first"
    assert first == ("events", 10, T1, meaning)
    assert {place for place, _, _, _ in rest} == {"claims", "tasks", "observations"}


def test_a_second_before_the_deadline_nothing_is_due(path: Path) -> None:
    """The same evidence one second earlier is lawful."""
    forge(life(path), both(told(10, at=21), ordered(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)))
    assert [each for each in problems(path) if each[0] == "events"] == []


# Observations.


@pytest.mark.parametrize(
    "change", [edited(15, event_id="delivery 82"), edited(15, sequence=8)], ids=["place", "id"]
)
def test_an_observation_has_an_id_and_a_place_of_its_own(path: Path, change: Change) -> None:
    """A second observation under an event id, or at a unit's sequence, is named."""
    forge(life(path), lambda rows: change(numbered([*rows, rows[13]])))
    meaning = "expected an observation with an event id and place of its own, but one is taken"
    assert problems(path) == [("events", 15, SEEN, meaning)]


@pytest.mark.parametrize(
    "field",
    [
        "integrated_revision",
        "artifacts_digest",
        "verification_reference",
        "integration_reference",
    ],
)
def test_an_integrated_observation_carries_its_evidence(path: Path, field: str) -> None:
    """An integration that lacks any of its four pieces of evidence is named."""
    forge(life(path), edited(14, **{field: None}))
    assert problems(path)[0] == (
        "events",
        14,
        SEEN,
        f"expected an integrated observation to have {field}, but it has none",
    )


# Policies, names and streams.


def test_a_policy_that_no_task_may_have_is_named(path: Path) -> None:
    """A policy whose members contradict each other is named where it was frozen."""
    forge(life(path), edited(1, policy__concurrent_slots=2))
    meaning = "expected a competition_reason for more than one slot, but there is none"
    assert problems(path) == [("events", 1, T1, meaning)]


ELSEWHERE = "expected an event in a stream of its kind and scope, but it is in another"

MISPLACED: dict[str, tuple[Change, int, str, str]] = {
    "the clock in a task": (told(9, stream=T1), 9, T1, ELSEWHERE),
    "the clock among observations": (told(9, stream=SEEN), 9, SEEN, ELSEWHERE),
    "the clock of another scope": (told(9, scope="acme/gemini"), 9, CLOCK, ELSEWHERE),
    "a task in the clock": (told(1, stream=CLOCK), 1, CLOCK, ELSEWHERE),
    "an observation in the clock": (told(14, stream=CLOCK), 14, CLOCK, ELSEWHERE),
    "a task of another scope": (told(1, scope="acme/gemini"), 1, T1, ELSEWHERE),
    "a task in another scope later": (told(3, scope="acme/gemini"), 3, T1, ELSEWHERE),
    "a task in another tenant's last": (told(13, scope="evil/x"), 13, T1, ELSEWHERE),
    "a task without a name": (
        told(1, stream="acme/apollo/task/"),
        1,
        "acme/apollo/task/",
        ELSEWHERE,
    ),
    "a task of two parts": (told(1, stream="T-1/task"), 1, "T-1/task", ELSEWHERE),
    "another kind of thing": (
        told(1, stream="acme/apollo/job/T-1"),
        1,
        "acme/apollo/job/T-1",
        ELSEWHERE,
    ),
    "a scope of one part": (
        told(9, scope="acme", stream="acme/clock"),
        9,
        "acme/clock",
        "scope is no tenant's project",
    ),
    "a scope with blanks": (
        told(9, scope="ac me/apollo", stream="ac me/apollo/clock"),
        9,
        "ac me/apollo/clock",
        "scope is no tenant's project",
    ),
}


@pytest.mark.parametrize("name", MISPLACED)
def test_an_event_stands_in_a_stream_of_its_kind_and_scope(path: Path, name: str) -> None:
    """An event in a stream of another kind, scope or shape of name is named with the stream."""
    change, sequence, stream, meaning = MISPLACED[name]
    forge(life(path), change)
    assert ("events", sequence, stream, meaning) in problems(path)


def test_names_out_of_the_file_are_shown_escaped(path: Path) -> None:
    """A stream's name that would break a line or turn text around is escaped in a problem."""
    forge(life(path), told(9, stream="acme/\x1b[2J\n\u202eapollo"))
    assert ("events", 9, "acme/\\x1b[2J\\n\\u202eapollo", ELSEWHERE) in problems(path)
