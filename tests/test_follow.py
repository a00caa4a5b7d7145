"""Following a log: every event once and in order, whichever process commits it."""

import threading
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from builders import START, Clock, opened, task
from replay_builders import (
    DESK,
    SHORT,
    forge,
    life,
    rows_of,
    unguarded,
    writers,
)
from store_checks import store_refused
from unit_builders import refusal

from idkmesh.replay import follow, follow_rows, logged


def never() -> bool:
    """End an iteration where nothing is new."""
    return False


def test_following_gives_the_log_once_and_in_order(path: Path) -> None:
    """A follower from the beginning sees every event, with its envelope, then waits."""
    seen = list(follow(life(path), wait=never))
    assert seen == [logged(row) for row in rows_of(path)]
    assert [each.sequence for each in seen] == list(range(1, 15))


@pytest.mark.parametrize("after", [0, 1, 13, 14])
def test_following_goes_on_behind_a_position(path: Path, after: int) -> None:
    """The position is the last sequence that was taken; nothing is repeated or left out."""
    taken = [each.sequence for each in follow(life(path), after=after, wait=never)]
    assert taken == list(range(after + 1, 15))


def test_a_follower_asks_whether_to_wait_only_where_nothing_is_new(
    path: Path, clock: Clock
) -> None:
    """New events come after each wait; the iteration ends where the wait says so."""
    clock.now = START + 30
    with opened(life(path), clock) as ledger:
        waits = []

        def wait() -> bool:
            waits.append(len(seen))
            if len(waits) < 3:
                ledger.configure_task(task(f"W-{len(waits)}"), DESK, SHORT)
            return len(waits) < 4

        seen: list[int] = []
        for each in follow(path, after=12, wait=wait):
            seen.append(each.sequence)  # noqa: PERF401  (wait looks at it meanwhile)
    assert seen == [13, 14, 15, 16]
    assert waits == [2, 3, 4, 4]


def test_many_pages_come_in_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of many pages is followed without a seam."""
    monkeypatch.setattr("idkmesh.replay._PAGE", 3)
    assert [each.sequence for each in follow(life(path), wait=never)] == list(range(1, 15))


def test_a_follower_sees_every_event_of_other_processes_once(path: Path, clock: Clock) -> None:
    """While two processes commit, each event comes exactly once and in order, over a resumption."""
    opened(path, clock).close()
    patience = iter(range(3_000))

    def wait() -> bool:
        threading.Event().wait(0.01)
        return next(patience, None) is not None

    with writers(path, "a", "b", tasks=20):
        first = [each.sequence for each in islice(follow(path, wait=wait), 50)]
        rest = [each.sequence for each in islice(follow(path, after=first[-1], wait=wait), 70)]
    assert first + rest == list(range(1, 121))
    assert [each.sequence for each in follow(path, wait=never)] == list(range(1, 121))


def test_without_a_wait_of_its_own_a_follower_rests_between_looks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default wait takes a fifth of a second and never ends the iteration."""
    rests: list[float] = []

    class Rest:
        def wait(self, seconds: float) -> None:
            rests.append(seconds)
            if len(rests) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr("idkmesh.replay.threading.Event", Rest)
    with pytest.raises(KeyboardInterrupt):
        list(follow(life(path)))
    assert rests == [0.2, 0.2, 0.2]


def test_a_position_that_the_log_does_not_reach_is_refused(path: Path) -> None:
    """A log that ends before the position is not the one that the position is from."""
    with store_refused("store_corrupt"):
        next(follow(life(path), after=15, wait=never))


@pytest.mark.parametrize("after", [-1, True, "1", 2**62])
def test_a_position_is_a_whole_number(path: Path, after: Any) -> None:
    """Anything but a whole number in range is invalid_input, before the file is looked at."""
    assert refusal(lambda: list(follow(path, after=after, wait=never))).code == "invalid_input"


def test_an_event_that_does_not_read_stops_the_follower_there(path: Path) -> None:
    """Everything before it comes first; as it is stored, it comes itself and the rest, too."""
    forge(life(path), lambda rows: [*rows[:5], rows[5]._replace(body="{}"), *rows[6:]])
    events = follow(path, wait=never)
    assert [next(events).sequence for _ in range(5)] == [1, 2, 3, 4, 5]
    with store_refused("store_corrupt"):
        next(events)
    assert [row.sequence for row in follow_rows(path, wait=never)] == list(range(1, 15))


def test_rows_before_one_that_is_no_text_come_first(path: Path) -> None:
    """A row of bytes that are no text stops even who takes events as they are stored."""
    with unguarded(life(path)) as connection:
        connection.execute("UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE sequence = 4")
    rows = follow_rows(path, wait=never)
    assert [next(rows).sequence for _ in range(3)] == [1, 2, 3]
    with store_refused("store_corrupt"):
        next(rows)


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_a_file_that_is_another_by_now_stops_the_follower(path: Path, how: str) -> None:
    """Where the file lost its name or another took it, waiting on for its events would be vain."""
    other = life(path.with_name("other"))

    def losing() -> bool:
        path.unlink() if how == "deleted" else other.replace(path)
        return True

    events = follow(life(path), wait=losing)
    assert [next(events).sequence for _ in range(14)] == list(range(1, 15))
    with store_refused("store_unsafe"):
        next(events)


def test_a_missing_event_stops_the_follower(path: Path) -> None:
    """A log with a gap is not given as if it were whole; its rows can still be looked at."""
    with unguarded(life(path)) as connection:
        connection.execute("DELETE FROM events WHERE sequence = 5")
    events = follow(path, wait=never)
    assert [next(events).sequence for _ in range(4)] == [1, 2, 3, 4]
    with store_refused("store_corrupt"):
        next(events)
    assert [row.sequence for row in follow_rows(path, after=4, wait=never)] == list(range(6, 15))
