"""Opening and closing a ledger: what the options may hold, and what is there by default."""

import time
from pathlib import Path
from typing import Any

import pytest
from builders import (
    DISPATCHER,
    READER,
    WORKER,
    Clock,
    actor,
    binding,
    granted,
    opened,
    refused,
    task,
)

from idkmesh import (
    AuthorizationPolicy,
    ClaimLedger,
    InvalidInput,
    StoreError,
    TaskClaimPolicy,
)

STRAY: Any = "no such thing"


def test_opening_makes_the_file_and_its_folders(tmp_path: Path) -> None:
    """A ledger is made where there is none, folders included, and found there again."""
    path = tmp_path / "new" / "folders" / "claims.sqlite3"
    with ClaimLedger.open(path) as ledger:
        assert ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy()) is True
    with ClaimLedger.open(str(path)) as ledger:
        assert ledger.policy(task(), READER) == TaskClaimPolicy()


def test_closing_twice_is_closing(ledger: ClaimLedger) -> None:
    """A second close does nothing, and every later call is answered store_closed."""
    ledger.close()
    ledger.close()
    for call in (ledger.snapshot, ledger.peek, ledger.policy):
        with pytest.raises(StoreError) as caught:
            call(task(), READER)
        assert caught.value.code == "store_closed"


def test_leaving_the_context_closes_even_after_an_error(path: Path) -> None:
    """A ledger used as a context manager is closed at its end, whatever ended it."""
    with pytest.raises(ZeroDivisionError), ClaimLedger.open(path) as ledger:
        raise ZeroDivisionError
    with pytest.raises(StoreError) as caught:
        ledger.peek(task(), READER)
    assert caught.value.code == "store_closed"


def test_the_baseline_rules_unless_others_are_given(path: Path) -> None:
    """Without a policy the enterprise baseline decides; a given one decides instead."""
    with ClaimLedger.open(path) as ledger:
        with refused("role_denied"):
            ledger.configure_task(task(), actor("w-1", "worker"), TaskClaimPolicy())
        assert ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy()) is True
    with (
        ClaimLedger.open(path, AuthorizationPolicy("nothing", "1", ())) as ledger,
        refused("no_policy_rule"),
    ):
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())


def test_time_is_the_systems_unless_a_clock_is_given(path: Path) -> None:
    """Without a clock a claim is created at the wall clock's whole second."""
    with ClaimLedger.open(path) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
        before = int(time.time())
        got = ledger.claim(task(), WORKER, request_id="r-1", binding=binding()).claim
        assert before <= got.created_at <= int(time.time())


def test_a_ledger_opened_for_reading_answers_questions_alone(path: Path, clock: Clock) -> None:
    """With read_only the questions are answered and every command is store_readonly."""
    with opened(path, clock) as ledger:
        granted(ledger)
        shown = ledger.peek(task(), READER)
    with opened(path, clock, read_only=True) as ledger:
        assert ledger.peek(task(), READER) == shown
        assert ledger.policy(task(), READER) == TaskClaimPolicy()
        with pytest.raises(StoreError) as caught:
            ledger.snapshot(task(), READER)
        assert caught.value.code == "store_readonly"


@pytest.mark.parametrize(
    "option",
    [
        {"busy_timeout_seconds": -1},
        {"busy_timeout_seconds": "30"},
        {"busy_timeout_seconds": float("nan")},
        {"busy_timeout_seconds": float("inf")},
        {"read_only": 1},
        {"allow_network": None},
        {"file_mode": 0o400},
        {"file_mode": True},
        {"clock_resolution_seconds": 0},
        {"clock_resolution_seconds": 1.5},
    ],
    ids=str,
)
def test_an_option_out_of_range_is_refused(path: Path, option: dict[str, Any]) -> None:
    """An option of the wrong type or value is invalid_input, names itself, and makes no file."""
    with pytest.raises(InvalidInput, match=next(iter(option))):
        ClaimLedger.open(path, **option)
    assert not path.exists()


@pytest.mark.parametrize("target", ["", "a\x00b"])
def test_a_target_that_is_no_path_is_refused(target: str) -> None:
    """An empty path and one that holds NUL are invalid_input."""
    with refused("invalid_input"):
        ClaimLedger.open(target)


@pytest.mark.parametrize("target", [7, None, b"claims.sqlite3", STRAY.split()])
def test_a_target_of_another_type_is_a_type_error(target: Any) -> None:
    """What is neither text nor a path object cannot be opened."""
    with pytest.raises(TypeError):
        ClaimLedger.open(target)


@pytest.mark.parametrize("clock", [0, 1_700_000_000, STRAY])
def test_a_clock_that_cannot_be_called_is_a_type_error(path: Path, clock: Any) -> None:
    """A time in place of a clock is refused at once, and no other clock stands in for it."""
    with pytest.raises(TypeError):
        ClaimLedger.open(path, clock=clock)


def test_rules_of_another_type_are_a_type_error(path: Path) -> None:
    """Only an AuthorizationPolicy can be the authorization policy."""
    with pytest.raises(TypeError):
        ClaimLedger.open(path, STRAY)
    assert not path.exists()
