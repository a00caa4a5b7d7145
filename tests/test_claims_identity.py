"""The identity of a task: ids that cannot be confused, and keys that never meet."""

from itertools import combinations
from typing import Any

import pytest
from bad_inputs import SCOPE_ID
from builders import (
    DISPATCHER,
    ENDED,
    GRANT,
    READER,
    SCOPE,
    WORKER,
    Clock,
    adds,
    binding,
    digest,
    granted,
    opened,
    refused,
    task,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from idkmesh import (
    ClaimLedger,
    InvalidInput,
    ScopedResourceRef,
    TaskClaimPolicy,
    TenantScope,
)

# Parts out of few letters, so that equal ones and wrong joins meet often.
part = st.text("ab", min_size=1, max_size=2)
parts = st.tuples(part, part, part, part)


def reference(tenant: str, project: str, kind: str, name: str) -> ScopedResourceRef | None:
    """Make a reference of four parts, or None where a part is refused."""
    try:
        return ScopedResourceRef(TenantScope(tenant, project), kind, name)
    except InvalidInput:
        return None


@settings(max_examples=200)
@given(one=parts, other=parts)
def test_no_two_references_share_a_key(one: Any, other: Any) -> None:
    """Whatever the ids, two keys are the same only where all four parts are."""
    first = ScopedResourceRef(TenantScope(*one[:2]), *one[2:])
    second = ScopedResourceRef(TenantScope(*other[:2]), *other[2:])
    assert (first.key == second.key) == (first == second) == (one == other)
    assert (first.scope.key == second.scope.key) == (one[:2] == other[:2])


@given(pieces=st.lists(st.text("ab", min_size=1, max_size=2), min_size=4, max_size=7))
def test_one_text_cut_in_two_ways_is_never_two_tasks(pieces: list[str]) -> None:
    """Of all ways to cut one text at its slashes into four ids at most one is a reference."""
    found = []
    for a, b, c in combinations(range(1, len(pieces)), 3):
        cut = ("/".join(part) for part in (pieces[:a], pieces[a:b], pieces[b:c], pieces[c:]))
        made = reference(*cut)
        if made is not None:
            found.append(made.key)
    assert found == (["/".join(pieces)] if len(pieces) == 4 else [])


@settings(max_examples=100)
@given(name=st.from_regex(SCOPE_ID, fullmatch=True), place=st.integers(0, 130))
def test_no_id_holds_a_slash(name: str, place: int) -> None:
    """An id with a slash anywhere in it is refused, in a scope and in a resource."""
    spoilt = name[:place] + "/" + name[place:]
    assert reference("t", "p", "task", spoilt) is None
    assert reference("t", spoilt, "task", "T-1") is None
    assert reference(spoilt, "p", "task", "T-1") is None


@pytest.mark.parametrize("name", [".", "..", "-rf", "_x", "", "a\n", "T 1", "é", "T-1/../T-2"])
def test_a_path_is_no_id(name: str) -> None:
    """An id starts with a letter or a digit and is nothing that a path or a shell could read."""
    assert reference("t", "p", "task", name) is None


def test_a_key_is_the_four_parts_joined() -> None:
    """A task's storage key, the name of its stream, is tenant, project, task and id."""
    assert task().key == "acme/apollo/task/T-1"


@pytest.mark.parametrize("project", ["task", "clock", "observations"])
def test_a_project_may_be_called_like_a_stream(project: str) -> None:
    """A project whose name the ledger uses for itself is a project like any other."""
    scope = TenantScope("acme", project)
    there = {"scopes": frozenset({scope})}
    clock = Clock()
    with opened(":memory:", clock) as ledger:
        for name in ("task", "clock"):
            where = task(name, scope)
            ledger.configure_task(where, replace(DISPATCHER, **there), TaskClaimPolicy())
            clock.now += 1
            with adds(ledger, "clock.observed.v1"):
                assert ledger.snapshot(where, replace(READER, **there)) == ()
        ledger.rebuild()
        assert ledger.policy(task("task", scope), replace(READER, **there)) == TaskClaimPolicy()


@pytest.mark.parametrize("kind", ["project", "tasks", "task.x"])
def test_only_a_task_can_be_claimed(memory_ledger: ClaimLedger, kind: str) -> None:
    """A reference to another type of resource is invalid_input for every method."""
    granted(memory_ledger)
    other = ScopedResourceRef(SCOPE, kind, "T-1")
    asked: dict[str, dict[str, Any]] = {
        "configure_task": {"policy": TaskClaimPolicy()},
        "claim": {"request_id": "r-1", "binding": binding()},
        "release": GRANT,
        "reserve_dispatch": {"owner": WORKER, **GRANT},
        "reconcile_execution": ENDED,
        "record_submission": {**GRANT, "artifact_digest": digest("c")},
        "snapshot": {},
        "peek": {},
        "policy": {},
        "lookup": {"request_id": "r-1"},
    }
    for method, arguments in asked.items():
        with adds(memory_ledger), refused("invalid_input"):
            getattr(memory_ledger, method)(other, DISPATCHER, **arguments)
