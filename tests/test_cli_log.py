"""The verbs that look: they say what is in a ledger, as it is and as it was, and change nothing."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from builders import OTHER_SCOPE, Clock, actor, opened, task
from cli_runs import contested, idkmesh, put_anew
from replay_builders import edited, forge, life, rows_of, unguarded, world

from idkmesh import TaskClaimPolicy
from idkmesh.cli import lines
from idkmesh.events.catalog import EVENTS

LOG = """\
       1  2023-11-14T22:13:20Z  task.configured.v1        acme/apollo/task/T-1  \
2 slots, 4 attempts by dispatcher-1
       2  2023-11-14T22:13:20Z  claim.granted.v1          acme/apollo/task/T-1  \
slot 0 epoch 1 to worker-1, request r-1
       3  2023-11-14T22:13:20Z  claim.acknowledged.v1     acme/apollo/task/T-1  \
slot 0 epoch 1 by worker-1
       4  2023-11-14T22:13:20Z  execution.reserved.v1     acme/apollo/task/T-1  \
slot 0 epoch 1 for worker-1 by dispatcher-1
       5  2023-11-14T22:13:20Z  execution.reconciled.v1   acme/apollo/task/T-1  \
slot 0 epoch 1 is running, evidence run-1 by dispatcher-1
       6  2023-11-14T22:13:30Z  claim.granted.v1          acme/apollo/task/T-1  \
slot 1 epoch 1 to worker-2, request r-2
       7  2023-11-14T22:13:30Z  task.configured.v1        acme/apollo/task/T-2  \
1 slot, 3 attempts by dispatcher-1
       8  2023-11-14T22:13:30Z  claim.granted.v1          acme/apollo/task/T-2  \
slot 0 epoch 1 to worker-1, request q-1
       9  2023-11-14T22:13:30Z  claim.acknowledged.v1     acme/apollo/task/T-2  \
slot 0 epoch 1 by worker-1
      10  2023-11-14T22:13:30Z  claim.released.v1         acme/apollo/task/T-2  \
slot 0 epoch 1 by worker-1
"""


@pytest.fixture
def contest(path: Path, clock: Clock) -> Path:
    """Give a ledger in which one task has two claims and another has ended."""
    return contested(path, clock)


def objects(*arguments: object) -> list[dict[str, Any]]:
    """Run a verb with --json, demand that it is fine, and return its objects."""
    ran = idkmesh(*arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def sequences(*arguments: object) -> list[int]:
    """Return the numbers of the events that a log shows."""
    return [each["sequence"] for each in objects("log", *arguments)]


# The log.


def test_log_prints_an_event_a_line(contest: Path) -> None:
    """Each event is one line: its number, time, type, stream, and what it says."""
    assert idkmesh("log", contest) == (0, LOG, "")


def test_log_as_json_is_the_event_with_its_envelope(contest: Path) -> None:
    """With --json each line is one object: every column, the body, and the chain in hex."""
    row = rows_of(contest)[9]
    assert objects("log", contest)[9] == {
        "sequence": 10,
        "scope": "acme/apollo",
        "number": 10,
        "stream": "acme/apollo/task/T-2",
        "version": 4,
        "at": 1_700_000_010,
        "type": "claim.released.v1",
        "body": json.loads(row.body),
        "chain": row.chain.hex(),
    }


def test_log_begins_behind_a_position(contest: Path) -> None:
    """--after leaves out the events up to a number, that one among them."""
    assert sequences(contest, "--after", 8) == [9, 10]
    assert sequences(contest, "--after", 10) == []


def test_log_leaves_out_what_is_older(contest: Path) -> None:
    """--since keeps the events of that second and later ones, however the time is written."""
    for since in ("2023-11-14T22:13:30Z", "@1700000010", "2023-11-14T23:13:30+01:00"):
        assert sequences(contest, "--since", since) == [6, 7, 8, 9, 10]
    assert sequences(contest, "--since", "2023-11-14T22:13:31") == []


def test_a_time_without_a_zone_is_of_utc(contest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that names no zone is of UTC, wherever the operator's machine stands."""
    monkeypatch.setenv("TZ", "ELSEWHERE-11")
    time.tzset()
    try:
        assert sequences(contest, "--since", "2023-11-14T22:13:30") == [6, 7, 8, 9, 10]
        assert sequences(contest, "--since", "2023-11-15") == []
        assert objects("tasks", contest, "--at", "2023-11-14") == []
    finally:
        monkeypatch.undo()
        time.tzset()


def test_log_leaves_out_other_scopes_and_tasks(path: Path) -> None:
    """--scope and --task keep what is of that scope and of that task alone."""
    world(path)
    scopes = {(each["scope"]) for each in objects("log", path, "--scope", "acme/gemini")}
    assert scopes == {"acme/gemini"}
    for name, more in (("acme/gemini/task/T-1", ()), ("T-1", ("--scope", "acme/gemini"))):
        streams = {each["stream"] for each in objects("log", path, "--task", name, *more)}
        assert streams == {"acme/gemini/task/T-1"}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_can_be_told(event: type) -> None:
    """The log has words for every type of event that there is."""
    assert event in lines._TOLD


def test_a_log_with_every_event_is_told(path: Path) -> None:
    """A ledger that went through everything is told from its first event to its last."""
    world(path)
    ran = idkmesh("log", path)
    assert (ran.code, ran.err) == (0, "")
    told = {line.split()[2]: " ".join(line.split()[4:]) for line in ran.out.splitlines()}
    assert len(told) == len(EVENTS)
    assert told["clock.observed.v1"] == ""
    assert told["clock.repaired.v1"] == (
        "back from 2033-11-11T22:15:50Z, evidence the host's clock was ten years ahead"
    )
    assert told["prerequisite.observed.v1"] == (
        "import/parse is candidate, sequence 6, event delivery 80"
    )
    assert told["submission.recorded.v1"] == "slot 0 epoch 1 sha256:ccccccccccccccc... by ada"


def test_a_row_that_does_not_read_is_printed_and_exits_1(path: Path) -> None:
    """An event that does not read is shown as it is stored, the others all the same."""
    rows = rows_of(life(path))
    rows[4] = rows[4]._replace(type="claim.stolen.v9", body='{"type":"claim.stolen.v9"}')
    put_anew(path, rows)
    ran = idkmesh("log", path)
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 14
    assert ran.out.splitlines()[4] == (
        "       5  2023-11-14T22:13:23Z  claim.stolen.v9           acme/apollo/task/T-1"
        "  store_newer: expected an event type of this version, but it is of a later one: "
        '{"type":"claim.stolen.v9"}'
    )
    assert ran.err == "idkmesh log: events do not read; idkmesh verify says more\n"
    as_json = idkmesh("log", path, "--json")
    assert as_json.code == 1
    broken = json.loads(as_json.out.splitlines()[4])
    assert broken["body"] == '{"type":"claim.stolen.v9"}'
    assert broken["error"]["code"] == "store_newer"
    assert broken["sequence"] == 5


def test_what_stands_before_bytes_that_are_no_text_is_printed(path: Path) -> None:
    """A row that is not even text ends the log with exit 3, behind everything before it."""
    with unguarded(life(path)) as connection:
        connection.execute("UPDATE events SET body = CAST(x'7bff' AS TEXT) WHERE sequence = 5")
    ran = idkmesh("log", path)
    assert ran.code == 3
    assert [line.split()[0] for line in ran.out.splitlines()] == ["1", "2", "3", "4"]
    assert ran.err == (
        "idkmesh log: store_corrupt: expected text in UTF-8, but the file holds other bytes\n"
    )


@pytest.mark.parametrize("verb", ["show", "history"])
def test_an_event_that_does_not_fold_is_named(path: Path, verb: str) -> None:
    """Where a task's events do not fold, the first that does not is named, and the code is 3."""
    forge(life(path), edited(4, lease_until=5))
    ran = idkmesh(verb, path, "T-1")
    assert ran.code == 3
    assert ran.err.startswith(f"idkmesh {verb}: store_corrupt: event 4 does not fold: expected")
    assert ran.err.count("\n") == 1
    assert len(objects("log", path)) == 14


def test_log_refuses_a_position_of_another_log(contest: Path) -> None:
    """A log that ends before the position is not the one that the position is from."""
    ran = idkmesh("log", contest, "--after", 11)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("idkmesh log: store_corrupt: expected the log to reach the position")


# One task, and all of them.


def test_show_says_everything_about_a_task(contest: Path) -> None:
    """A task is shown with its policy, and each claim with all that is known about it."""
    ran = idkmesh("show", contest, "T-1", "--at", "2023-11-14T22:13:31Z")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "acme/apollo/task/T-1  as of 2023-11-14T22:13:31Z\n"
        "  2 slots, 2 of 4 attempts used, risk low, data public\n"
        "  acknowledge within 100 s, renew within 300 s, progress within 1,800 s,"
        " at most 86,400 s\n"
        "  competition: two designs\n"
        "\n"
        "slot 0 epoch 1  active\n"
        "  owner       worker-1 (human, https:idp)\n"
        "  request     r-1\n"
        "  granted     2023-11-14T22:13:20Z, acknowledged 2023-11-14T22:13:20Z\n"
        "  deadlines   lease 2023-11-14T22:18:20Z, progress 2023-11-14T22:43:20Z,"
        " hard 2023-11-15T22:13:20Z\n"
        "  execution   running, evidence run-1, operation"
        " sha256:9b7ddcade79339f759be7e98a0ea9450894ec95e2a0905015a695be32a5da1ff\n"
        "  submission  none\n"
        f"  works on    sha256:{'a' * 64}, source {'a' * 40}, inputs sha256:{'a' * 64}\n"
        "\n"
        "slot 1 epoch 1  active\n"
        "  owner       worker-2 (human, https:idp)\n"
        "  request     r-2\n"
        "  granted     2023-11-14T22:13:30Z, not acknowledged\n"
        "  deadlines   acknowledge by 2023-11-14T22:15:10Z, lease 2023-11-14T22:18:30Z,"
        " progress 2023-11-14T22:43:30Z, hard 2023-11-15T22:13:30Z\n"
        "  execution   none\n"
        "  submission  none\n"
        f"  works on    sha256:{'b' * 64}, source {'b' * 40}, inputs sha256:{'b' * 64}\n"
    )


def test_show_as_json_gives_the_records(contest: Path) -> None:
    """With --json a task is one object: the point, the reference, the policy, every claim."""
    (found,) = objects("show", contest, "T-1", "--at", "2")
    assert found["as_of"] == {"sequence": 2}
    assert found["task"]["resource_id"] == "T-1"
    assert found["policy"]["competition_reason"] == "two designs"
    (claim,) = found["claims"]
    assert claim["kind"] == "idkmesh-task-claim"
    assert (claim["state"], claim["acknowledged_at"]) == ("active", None)
    (timed,) = objects("show", contest, "T-1", "--at", "@1700000009")
    assert timed["as_of"] == {"time": 1_700_000_009}
    assert [each["request_id"] for each in timed["claims"]] == ["r-1"]


def states(*arguments: object) -> list[str]:
    """Return the state of each claim of a task that is shown."""
    return [claim["state"] for claim in objects("show", *arguments)[0]["claims"]]


def test_show_judges_deadlines_by_the_time_that_is_asked_for(contest: Path) -> None:
    """At a time what is past a deadline shows as expired; behind an event as it is recorded."""
    assert states(contest, "T-1", "--at", "2023-11-14T22:15:09Z") == ["active", "active"]
    assert states(contest, "T-1", "--at", "2023-11-14T22:15:10Z") == ["active", "expired"]
    assert states(contest, "T-1", "--at", "2023-11-14T22:18:20Z") == ["expired", "expired"]
    assert states(contest, "T-1", "--at", "10") == ["active", "active"]
    assert states(contest, "T-1") == ["expired", "expired"]


def test_show_never_judges_before_the_last_event(path: Path, clock: Clock) -> None:
    """While the clock is below the log's last time, now is that time."""
    clock.now = 4_000_000_000
    contested(path, clock)
    (found,) = objects("show", path, "T-1")
    assert found["as_of"] == {"time": 4_000_000_010}
    assert [claim["state"] for claim in found["claims"]] == ["active", "active"]


def test_tasks_are_a_table(contest: Path) -> None:
    """Every task is a row: slots held, attempts, owners, executions, submissions, deadline."""
    ran = idkmesh("tasks", contest, "--at", "2023-11-14T22:13:31Z")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "2 tasks  as of 2023-11-14T22:13:31Z\n"
        "Task                  Slots held  Attempts  Active owners       May be running  Submitted"
        "  Next deadline\n"
        "acme/apollo/task/T-1  2 of 2      2 of 4    worker-1, worker-2  0/1 running     0        "
        "  2023-11-14T22:15:10Z\n"
        "acme/apollo/task/T-2  0 of 1      1 of 3                                        0\n"
    )


def test_an_execution_holds_its_slot_in_the_table(contest: Path) -> None:
    """A slot is held by an execution that may be running, even when nobody owns the claim."""
    ran = idkmesh("tasks", contest)
    row = next(line for line in ran.out.splitlines() if "T-1" in line)
    assert row.split()[1:] == ["1", "of", "2", "2", "of", "4", "0/1", "running", "0"]


def test_tasks_as_of_a_point_and_of_a_scope(path: Path, clock: Clock) -> None:
    """--at shows the tasks that there were, --scope those of one scope."""
    contested(path, clock)
    stranger = actor("desk", "dispatcher", scopes=frozenset({OTHER_SCOPE}))
    with opened(path, clock) as ledger:
        ledger.configure_task(task("T-1", OTHER_SCOPE), stranger, TaskClaimPolicy())

    def names(*arguments: object) -> list[tuple[str, str]]:
        found = [each["task"] for each in objects("tasks", path, *arguments)]
        return [(each["project_id"], each["resource_id"]) for each in found]

    assert names() == [("apollo", "T-1"), ("apollo", "T-2"), ("gemini", "T-1")]
    assert names("--at", 6) == [("apollo", "T-1")]
    assert names("--at", 0) == []
    assert names("--scope", "acme/gemini") == [("gemini", "T-1")]
    assert idkmesh("tasks", path, "--at", 0) == (0, "0 tasks  as of event 0\n", "")


def test_history_says_what_each_event_changed(contest: Path) -> None:
    """Behind each event of the task stands every field that it changed."""
    ran = idkmesh("history", contest, "T-2")
    assert (ran.code, ran.err) == (0, "")
    told = ran.out.splitlines()
    assert [line for line in told if not line.startswith(" " * 8)] == LOG.splitlines()[6:]
    assert told[-4:] == [
        LOG.splitlines()[8],
        "        claim[0/1].acknowledged_at: 2023-11-14T22:13:30Z",
        LOG.splitlines()[9],
        "        claim[0/1].state: active -> released",
    ]


def test_history_as_json_is_an_object_an_event(contest: Path) -> None:
    """With --json each event has its changes beside it, the value before and behind."""
    found = objects("history", contest, "acme/apollo/task/T-2")
    assert [each["sequence"] for each in found] == [7, 8, 9, 10]
    assert found[3]["changes"] == {"claim[0/1].state": ["active", "released"]}
    assert found[2]["changes"] == {"claim[0/1].acknowledged_at": [None, 1_700_000_010]}
