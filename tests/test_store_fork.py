"""Forks: a child leaves its parent's ledgers alone and says so; what was closed it may open."""

from pathlib import Path

from programs import answer
from store_checks import require_whole

BUSY = {"write": "busy", "exclusive": "busy"}


def test_an_inherited_ledger_is_closed_in_the_child(path: Path) -> None:
    """In the child every use is store_closed and close does nothing; the parent goes on."""
    assert answer("process_fork.py", "inherited", path) == {
        "child": ["store_closed", "store_closed", "store_closed", "store_closed"],
        "parent": True,
    }
    assert [row.type for row in require_whole(path)] == ["task.configured.v1", "claim.granted.v1"]


def test_a_file_that_the_parent_has_open_cannot_be_opened_in_the_child(path: Path) -> None:
    """Opening it anew is store_unsafe in words that say why; the parent goes on."""
    assert answer("process_fork.py", "anew", path) == {
        "child": "store_unsafe: expected a file that no parent process had open at the fork,"
        " but one had",
        "parent": 1,
    }


def test_a_file_that_the_parent_has_closed_opens_in_the_child(path: Path) -> None:
    """A ledger closed before the fork is like any other, in both processes."""
    assert answer("process_fork.py", "closed", path) == {"child": True, "parent": False}


def test_another_file_opens_in_the_child(path: Path) -> None:
    """A parent's open ledger keeps the child from no other."""
    assert answer("process_fork.py", "other", path) == {"child": 1}


def test_a_child_keeps_no_turn_and_takes_none(path: Path) -> None:
    """A child closes the lock files at once, and its end frees neither the turn nor the lock."""
    assert answer("process_fork.py", "turn", path) == {
        "child": [],
        "held": {"turn": True, "locks": BUSY},
        "parent": 1,
    }


def test_a_fork_inside_a_command_shuts_the_child_out(path: Path) -> None:
    """A child made in the middle of a command can begin none; the parent's command goes through."""
    assert answer("process_fork.py", "inside", path) == {"parent": True, "child": "store_closed"}
    assert [row.type for row in require_whole(path)] == ["task.configured.v1", "claim.granted.v1"]


def test_a_command_carried_into_the_child_is_answered_once(path: Path) -> None:
    """A child made in the middle of a command gets no answer from it but store_closed."""
    assert answer("process_fork.py", "returning", path) == {"child": "store_closed", "parent": True}
    assert [row.type for row in require_whole(path)] == ["task.configured.v1", "claim.granted.v1"]


def test_a_child_that_leaves_inside_a_command_undoes_nothing(path: Path) -> None:
    """A child's exit out of its parent's session neither rolls back nor unlocks anything."""
    assert answer("process_fork.py", "leaving", path) == {
        "child": 0,
        "held": {"turn": True, "locks": BUSY},
        "parent": 1,
    }
    assert [row.type for row in require_whole(path)] == ["task.configured.v1", "claim.granted.v1"]


def test_idle_connections_of_other_threads_stay_open_in_the_child(path: Path) -> None:
    """The threads are gone in the child, but SQLite closes none of their connections there."""
    found = answer("process_fork.py", "threads", path)
    assert found["parent"].count("") == 4
    kept = [name for name in found["parent"] if name not in {"-lock", "-queue"}]
    assert found["child"] == kept
