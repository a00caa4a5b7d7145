"""Damaged files and every way to read them: an answer or an error with a code, and an end."""

import random
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import pytest
from builders import DISPATCHER, READER, START, WORKER, Clock, binding, task
from replay_builders import EYE, T1, untyped, world
from store_checks import store_refused
from unit_builders import observation

from idkmesh import (
    AuthorizationPolicy,
    ClaimError,
    ClaimLedger,
    StoreError,
    TaskClaimPolicy,
    TenantScope,
)
from idkmesh.repair import plan_repair
from idkmesh.replay import follow, follow_rows, history, rebuild, seal, state_at, verify
from idkmesh.transfer import export_lines

PAGE = 4096
MOST = 200  # more events than any of these files has


def never() -> bool:
    """End a follower where nothing is new."""
    return False


def asked(path: Path, question: Callable[[ClaimLedger], object]) -> object:
    """Ask a ledger that is opened for reading."""
    policy = AuthorizationPolicy.enterprise_baseline()
    clock = Clock(START + 10**9)
    with ClaimLedger.open(path, authorization_policy=policy, clock=clock, read_only=True) as ledger:
        return question(ledger)


def done(path: Path, command: Callable[[ClaimLedger], object]) -> object:
    """Run a command on a ledger that is opened for writing."""
    policy = AuthorizationPolicy.enterprise_baseline()
    clock = Clock(START + 10**9)
    with ClaimLedger.open(path, authorization_policy=policy, clock=clock) as ledger:
        return command(ledger)


def observe(ledger: ClaimLedger) -> object:
    """Hand in another observation of the unit that the ledger knows."""
    seen = observation(scope=task().scope, sequence=9, event_id="e-9")
    return ledger.transactor.observe(seen)


READERS: dict[str, Callable[[Path], object]] = {
    "verify": verify,
    "seal": seal,
    "follow": lambda path: list(islice(follow(path, wait=never), MOST)),
    "state_at": state_at,
    "state_at a time": lambda path: state_at(path, time=START + 30),
    "history": lambda path: list(history(path, task())),
    "export": lambda path: list(export_lines(path)),
    "plan_repair": lambda path: plan_repair(path, clock=lambda: START),
    "rebuild": rebuild,
    "peek": lambda path: asked(path, lambda ledger: ledger.peek(task(), READER)),
    "configure": lambda path: done(
        path, lambda ledger: ledger.configure_task(task("T-9"), DISPATCHER, TaskClaimPolicy())
    ),
    "claim": lambda path: done(
        path, lambda ledger: ledger.claim(task(), WORKER, request_id="r-9", binding=binding())
    ),
    "snapshot": lambda path: done(path, lambda ledger: ledger.snapshot(task(), READER)),
    "observe": lambda path: done(path, observe),
    "survey": lambda path: asked(
        path, lambda ledger: list(ledger.survey(TenantScope("acme", "apollo"), EYE))
    ),
}


def ends_well(path: Path, content: bytes) -> list[str]:
    """Put the bytes there for each reader anew; return what went wrong in any of them."""
    wrong = []
    for name, read in READERS.items():
        for each in path.parent.iterdir():
            each.unlink()
        path.write_bytes(content)
        try:
            read(path)
        except (ClaimError, StoreError):
            continue
        except Exception as error:  # noqa: BLE001  (this is what the test looks for)
            wrong.append(f"{name}: {error!r}")
    return wrong


def damages(content: bytes, chance: random.Random) -> bytes:
    """Cut a file, lay one of its pages over another, or change some of its bytes."""
    made = bytearray(content)
    pages = len(made) // PAGE
    kind = chance.randrange(3)
    if kind == 0:
        return bytes(made[: chance.randrange(PAGE, len(made))])
    if kind == 1:
        here, there = (chance.randrange(1, pages) * PAGE for _ in range(2))
        made[here : here + PAGE] = content[there : there + PAGE]
        return bytes(made)
    start = chance.randrange(PAGE, len(made) - 8)
    made[start : start + chance.randrange(1, 8)] = chance.randbytes(4)
    return bytes(made[: len(content)].ljust(len(content), b"\0"))


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_makes_a_reader_fail_otherwise_than_with_a_code(path: Path, seed: int) -> None:
    """Cut files, pages over pages and changed bytes: no raw error leaves, and nothing hangs."""
    content = world(path).read_bytes()
    chance = random.Random(seed)  # noqa: S311  (damage to repeat, not a secret)
    for _ in range(5):
        assert ends_well(path, damages(content, chance)) == []


@pytest.mark.parametrize("filling", [b"\0", b"\xff"])
def test_a_page_of_nothing_is_reported_and_not_raised(path: Path, filling: bytes) -> None:
    """Whichever page but the first is overwritten, verification says what is wrong, and ends."""
    content = world(path).read_bytes()
    for page in range(1, len(content) // PAGE):
        end = (page + 1) * PAGE
        path.write_bytes(content[: page * PAGE] + filling * PAGE + content[end:])
        assert verify(path).problems


@pytest.mark.parametrize("read", [verify, seal, rebuild, plan_repair])
def test_memory_is_no_ledger_to_read(read: Callable[[str], object]) -> None:
    """Where there is no file, nothing is read and nothing is made."""
    with store_refused("store_readonly"):
        read(":memory:")


def test_a_log_page_over_another_does_not_turn_a_follower_in_circles(path: Path) -> None:
    """Whichever page lies over whichever, a follower ends, and gives no event twice."""
    content = world(path).read_bytes()
    for here in range(1, len(content) // PAGE):
        for there in range(1, len(content) // PAGE):
            made = bytearray(content)
            made[here * PAGE : here * PAGE + PAGE] = content[there * PAGE : there * PAGE + PAGE]
            path.write_bytes(bytes(made))
            stored: list[int] = []
            with suppress(StoreError):
                stored.extend(each.sequence for each in islice(follow_rows(path, wait=never), MOST))
            assert stored == sorted(set(stored))
            assert len(stored) < MOST
            decoded: list[int] = []
            with suppress(StoreError):
                decoded.extend(each.sequence for each in islice(follow(path, wait=never), MOST))
            assert decoded == list(range(1, len(decoded) + 1))


COLUMNS: dict[str, tuple[str, ...]] = {
    "events": ("scope", "number", "stream", "version", "at", "type", "body", "chain"),
    "tasks": ("stream", "policy", "epoch_0", "data_classification"),
    "claims": (
        "stream",
        "slot",
        "epoch",
        "request_id",
        "work_unit_digest",
        "source_revision",
        "state",
        "created_at",
        "acknowledged_at",
        "hard_until",
        "occupancy",
        "operation_id",
    ),
}
COLUMNS["observations"] = ("sequence", "event_id", "work_unit_version", "state", "inputs_digest")
VALUES: tuple[Any, ...] = (
    None,
    7,
    -7,
    -(2**60),
    1.5,
    float("inf"),
    2**62,
    b"\xff\x00",
    "x",
    f"{T1}/y",
    "",
)


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table, names in COLUMNS.items() for column in names]
)
def test_no_value_in_any_column_makes_a_reader_fail_otherwise(
    path: Path, table: str, column: str
) -> None:
    """Whatever a column holds, of whatever type: no raw error leaves, and nothing hangs."""
    # The log's last row is of another scope, so the second looks are met as well as the first.
    where = " WHERE scope = 'acme/apollo'" if table == "events" else ""
    for value in VALUES:
        with untyped(world(path), table) as connection, suppress(apsw.ConstraintError):
            connection.execute(f"UPDATE {table} SET {column} = ?{where}", (value,))  # noqa: S608  (constants)
        assert ends_well(path, path.read_bytes()) == []
