"""Input types are exact: a subclass could compare unequal to what it stands for."""

from pathlib import Path
from typing import Any

import pytest
from builders import DISPATCHER, START, WORKER, Clock, binding, digest, granted, opened, task

from idkmesh import (
    AuthorizationPolicy,
    ClaimBinding,
    ClaimLedger,
    InvalidInput,
    TaskClaimPolicy,
    TenantScope,
)
from idkmesh.authorization import AuthorizationRequest
from idkmesh.identity import ScopedResourceRef
from idkmesh.repair import repair_clock
from idkmesh.transfer import export_lines, import_lines
from idkmesh.verification import verify


class OwnPolicy(TaskClaimPolicy, frozen=True):
    """A policy of a caller's own type."""


class OwnBinding(ClaimBinding, frozen=True):
    """A binding of a caller's own type."""


class OwnScope(TenantScope, frozen=True):
    """A scope of a caller's own type."""


def test_a_subclass_of_an_input_type_is_a_type_error(memory_ledger: ClaimLedger) -> None:
    """A policy, a binding and a scope must be of the very types, and nothing is written else."""
    with pytest.raises(TypeError, match="policy"):
        memory_ledger.configure_task(task(), DISPATCHER, OwnPolicy())
    granted(memory_ledger)
    own = OwnBinding(digest("b"), "b" * 40, digest("b"))
    with pytest.raises(TypeError, match="binding"):
        memory_ledger.claim(task(), WORKER, request_id="r-2", binding=own)
    with pytest.raises(TypeError, match="scope"):
        ScopedResourceRef(OwnScope("acme", "apollo"), "task", "T-1")
    assert memory_ledger.claim(task(), WORKER, request_id="r-1", binding=binding()).created is False


@pytest.mark.parametrize("store", [None, "claims.sqlite3", 3])
def test_a_store_that_is_none_is_a_type_error(store: Any) -> None:
    """A ledger over something that is no store is refused at once."""
    with pytest.raises(TypeError, match="store"):
        ClaimLedger(store, AuthorizationPolicy.enterprise_baseline())


@pytest.mark.parametrize(
    "change", [{"risk": "bogus"}, {"data_classification": ""}, {"action": "fly"}, {"now": "x"}]
)
def test_a_question_to_the_kernel_is_checked(change: dict[str, Any]) -> None:
    """The kernel is asked nothing that its tables do not hold."""
    asked: dict[str, Any] = {
        "scope": task().scope,
        "resource": task(),
        "action": "claim",
        "actor": WORKER,
        "risk": "low",
        "data_classification": "public",
        "now": START,
    }
    with pytest.raises(InvalidInput):
        AuthorizationRequest(**{**asked, **change})


def test_a_ledger_of_the_last_seconds_travels(path: Path, tmp_path: Path) -> None:
    """Deadlines beyond the clock's last second go out and come back in."""
    with opened(path, Clock(2**62 - 86_400)) as ledger:
        granted(ledger, acknowledged=False)
    before = verify(path)
    assert before.ok
    assert import_lines(export_lines(path), tmp_path / "copy.sqlite3").seal == before.seal


@pytest.mark.parametrize("lines", [b"{}\n", ["{}\n"]])
def test_lines_that_are_no_bytes_are_a_type_error(tmp_path: Path, lines: Any) -> None:
    """An import takes lines of bytes, and leaves nothing behind where it gets others."""
    with pytest.raises(TypeError, match="expected lines to be bytes"):
        import_lines(lines, tmp_path / "copy.sqlite3")
    assert list(tmp_path.iterdir()) == []


def test_a_repair_by_no_clock_is_a_type_error(path: Path) -> None:
    """A clock that cannot be called is refused before the ledger is locked."""
    with opened(path, Clock()) as ledger:
        granted(ledger)
    clock: Any = 3
    with pytest.raises(TypeError, match="clock"):
        repair_clock(path, evidence="seen", clock=clock)
