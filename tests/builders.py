"""Builders of the inputs that tests need: short names for believable values."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from idkmesh import (
    ActorContext,
    ClaimBinding,
    ClaimError,
    ClaimLedger,
    ScopedResourceRef,
    TaskClaimPolicy,
    TenantScope,
)
from idkmesh.events.port import Row

SCOPE = TenantScope("acme", "apollo")
OTHER_SCOPE = TenantScope("acme", "gemini")
START = 1_700_000_000


def task(name: str = "T-1", scope: TenantScope = SCOPE) -> ScopedResourceRef:
    """Name a task."""
    return ScopedResourceRef(scope, "task", name)


def actor(name: str, *roles: str, **fields: Any) -> ActorContext:
    """Make an identity that is in order, but for the fields given."""
    settled: dict[str, Any] = {
        "principal_id": name,
        "actor_type": "human",
        "issuer": "https:idp",
        "roles": frozenset(roles),
        "scopes": frozenset({SCOPE}),
        "data_clearance": "restricted",
        "identity_revision": "rev-1",
    }
    return ActorContext(**{**settled, **fields})


WORKER = actor("worker-1", "worker")
RIVAL = actor("worker-2", "worker")
DISPATCHER = actor("dispatcher-1", "dispatcher", actor_type="service")
APPROVER = actor("admin-1", "admin")
READER = actor("auditor-1", "auditor")


GRANT: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
RUNNING: dict[str, Any] = {**GRANT, "status": "running", "evidence_reference": "run-1"}
ENDED: dict[str, Any] = {**GRANT, "status": "terminal", "evidence_reference": "run-1:exit-0"}


def digest(letter: str) -> str:
    """Make a well-formed digest out of one hex digit."""
    return "sha256:" + letter * 64


def binding(letter: str = "a") -> ClaimBinding:
    """Make a binding out of one hex digit."""
    return ClaimBinding(digest(letter), letter * 40, digest(letter))


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: int = START) -> None:
        self.now: Any = now

    def __call__(self) -> int:
        """Return what the test has set, of whatever type."""
        return self.now  # type: ignore[no-any-return]


def opened(path: Path | str, clock: Callable[[], int], **options: Any) -> ClaimLedger:
    """Open a ledger on a test's clock."""
    return ClaimLedger.open(path, clock=clock, **options)


def granted(
    ledger: ClaimLedger,
    *,
    acknowledged: bool = True,
    request_id: str = "r-1",
    policy: TaskClaimPolicy | None = None,
    name: str = "T-1",
) -> int:
    """Configure a task, claim it for WORKER, acknowledge it, and return the claim's epoch."""
    ledger.configure_task(task(name), DISPATCHER, policy or TaskClaimPolicy())
    claim, _ = ledger.claim(task(name), WORKER, request_id=request_id, binding=binding())
    if acknowledged:
        ledger.acknowledge(task(name), WORKER, request_id=request_id, epoch=claim.epoch)
    return claim.epoch


def log(ledger: ClaimLedger) -> list[Row]:
    """Read every row of the log, through the ledger's own store so that no lock is dropped."""
    with ledger._store.read() as session:
        return list(session.log())


@contextmanager
def adds(ledger: ClaimLedger, *types: str) -> Iterator[list[Row]]:
    """Check that the block adds just the events of these types, in order; give their rows."""
    before = len(log(ledger))
    rows: list[Row] = []
    yield rows
    rows += log(ledger)[before:]
    assert [row.type for row in rows] == list(types)


@contextmanager
def refused(code: str) -> Iterator[None]:
    """Check that the block is refused with this code."""
    with pytest.raises(ClaimError) as caught:
        yield
    assert caught.value.code == code
