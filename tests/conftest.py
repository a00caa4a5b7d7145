"""Fixtures that most tests share: a clock, a path, a ledger on both."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, opened
from hypothesis import HealthCheck, settings

from idkmesh import ClaimLedger

# How long an example takes, or takes to make, says nothing about whether it is right.
settings.register_profile("idkmesh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("idkmesh")


@pytest.fixture
def clock() -> Clock:
    """Give a clock that the test sets."""
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of a ledger that does not exist yet."""
    return tmp_path / "claims.sqlite3"


@pytest.fixture
def ledger(path: Path, clock: Clock) -> Iterator[ClaimLedger]:
    """Give a ledger on a real file."""
    with opened(path, clock) as ledger:
        yield ledger


@pytest.fixture
def memory_ledger(clock: Clock) -> Iterator[ClaimLedger]:
    """Give a ledger without a file, for tables of many rows that no disk needs to see."""
    with opened(":memory:", clock) as ledger:
        yield ledger
