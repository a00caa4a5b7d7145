"""Who and what the random runs are about: identities, tasks, policies and approvals by name.

Names, not objects, are what Hypothesis draws and prints, so a failing run reads as a story.
"""

from typing import Final

from builders import OTHER_SCOPE, SCOPE, START, actor, task

from idkmesh import ActorContext, ScopedResourceRef, TaskClaimPolicy

_BOTH: Final = frozenset({SCOPE, OTHER_SCOPE})

_PEOPLE: Final = (
    # Workers who may do everything that a worker does, in both scopes.
    actor("worker-1", "worker", scopes=_BOTH),
    actor("worker-2", "worker", scopes=_BOTH),
    actor("node-1", "node_operator", actor_type="node", scopes=_BOTH),
    # Somebody else under worker-1's name: two of an owner's three parts are the same.
    actor("worker-1", "worker", scopes=_BOTH, issuer="https:other-idp"),
    actor("worker-1", "worker", scopes=_BOTH, actor_type="service"),
    # Works, and may approve others' work.
    actor("founder-1", "worker", "admin", scopes=_BOTH),
    # Works until the identity expires.
    actor("temp-1", "worker", "dispatcher", "admin", scopes=_BOTH, expires_at_epoch=START + 30),
    # May claim, but not execute.
    actor("lead-1", "dispatcher", scopes=_BOTH),
    actor("dispatcher-1", "dispatcher", actor_type="service", scopes=_BOTH),
    actor("admin-1", "admin", scopes=_BOTH),
    actor("admin-2", "admin", scopes=_BOTH),
    actor("auditor-1", "auditor", scopes=_BOTH),
    # Sees no more than internal data.
    actor("junior-1", "worker", "dispatcher", "admin", scopes=_BOTH, data_clearance="internal"),
    # Outsiders, each for one reason.
    actor("stranger-1", "worker", "dispatcher", "admin", scopes=frozenset({OTHER_SCOPE})),
    actor("revoked-1", "worker", "dispatcher", "admin", scopes=_BOTH, revoked=True),
    actor("ghost-1", "worker", "dispatcher", "admin", scopes=_BOTH, authenticated=False),
    actor("late-1", "worker", "dispatcher", "admin", scopes=_BOTH, expires_at_epoch=START),
    actor("robot-1", "worker", "dispatcher", "admin", scopes=_BOTH, actor_type="provider"),
)


def _name(person: ActorContext) -> str:
    kind = "" if person.actor_type == "human" else f" ({person.actor_type})"
    return f"{person.principal_id}{kind} of {person.issuer}"


CAST: Final[dict[str, ActorContext]] = {_name(person): person for person in _PEOPLE}
(
    WORKER_1,
    WORKER_2,
    NODE_1,
    NAMESAKE,
    HOMONYM,
    FOUNDER,
    TEMP,
    LEAD,
    DISPATCHER,
    ADMIN_1,
    ADMIN_2,
    AUDITOR,
    JUNIOR,
) = tuple(CAST)[:13]
OUTSIDERS: Final = tuple(CAST)[13:]
WORKERS: Final = (WORKER_1, WORKER_2, FOUNDER, NODE_1, TEMP)
RIVALS: Final = (WORKER_1, WORKER_2, NAMESAKE, HOMONYM, NODE_1)

TASKS: Final[dict[str, ScopedResourceRef]] = {
    "first": task("T-1"),
    "second": task("T-2"),
    "twin": task("T-1", OTHER_SCOPE),
    "never configured": task("T-9"),
    "no task": ScopedResourceRef(SCOPE, "project", "T-1"),
}

CONFIGURED: Final = ("first", "second", "twin")

POLICIES: Final[dict[str, TaskClaimPolicy]] = {
    "sprint": TaskClaimPolicy(
        ack_seconds=5, lease_seconds=20, progress_seconds=10, hard_seconds=40
    ),
    "clamped": TaskClaimPolicy(
        max_attempts=2, ack_seconds=40, lease_seconds=30, progress_seconds=20, hard_seconds=15
    ),
    "pair": TaskClaimPolicy(
        concurrent_slots=2,
        max_attempts=4,
        ack_seconds=30,
        lease_seconds=8,
        progress_seconds=5,
        hard_seconds=25,
        competition_reason="two designs",
        data_classification="internal",
    ),
    "contest": TaskClaimPolicy(
        concurrent_slots=3,
        max_attempts=5,
        ack_seconds=8,
        lease_seconds=12,
        progress_seconds=12,
        hard_seconds=30,
        competition_reason="three designs",
        risk="high",
        data_classification="confidential",
    ),
    "vault": TaskClaimPolicy(
        concurrent_slots=2,
        max_attempts=2,
        ack_seconds=6,
        lease_seconds=9,
        progress_seconds=40,
        hard_seconds=40,
        competition_reason="four eyes",
        risk="critical",
        data_classification="restricted",
    ),
    # 256 events: 240 and then 16 for endings, or 192 and then 64.
    "thrifty": TaskClaimPolicy(
        max_attempts=1, lease_seconds=20, progress_seconds=30, hard_seconds=4_000, max_events=256
    ),
    "frugal": TaskClaimPolicy(
        concurrent_slots=2,
        max_attempts=4,
        ack_seconds=30,
        lease_seconds=20,
        progress_seconds=30,
        hard_seconds=4_000,
        competition_reason="two designs",
        max_events=256,
    ),
}
SHORT_BUDGETS: Final = ("frugal", "thrifty")

# The owner of a claim, the caller of a command, and anybody of the cast by name.
APPROVALS: Final[dict[str, tuple[str | None, object]]] = {
    "given": (ADMIN_1, "CHG-7"),
    "none": (None, None),
    "by another": (ADMIN_2, "CHG-8"),
    "by the caller": ("caller", "CHG-7"),
    "by the owner": ("owner", "CHG-7"),
    "by a role that may not": (AUDITOR, "CHG-7"),
    "without reference": (ADMIN_1, None),
    "without approver": (None, "CHG-7"),
    "with a bad reference": (ADMIN_1, "CHG 7"),
    **{f"by {person}": (person, "CHG-7") for person in (JUNIOR, *OUTSIDERS)},
}
