"""The repair of a clock that ran ahead, from the command line: shown, asked, then done or not."""

import signal
from pathlib import Path

import pytest
from builders import DISPATCHER, READER, RUNNING, WORKER, Clock, binding, granted, opened, task
from cli_runs import asked, idkmesh
from replay_builders import rows_of

from idkmesh import ClaimError, ClaimLedger, TaskClaimPolicy
from idkmesh.clock import SystemClock
from idkmesh.repair import Repair, plan_repair, repair_clock

AHEAD = 4_000_000_000
WEEK = 604_800
LONG = TaskClaimPolicy(
    ack_seconds=WEEK, lease_seconds=WEEK, progress_seconds=WEEK, hard_seconds=WEEK
)
EVIDENCE = ("--evidence", "ticket 7: the host's clock was ahead")


@pytest.fixture
def ahead(path: Path, clock: Clock) -> Path:
    """Give a ledger whose clock ran ahead: one claim with an execution, and one without."""
    clock.now = AHEAD
    with opened(path, clock) as ledger:
        granted(ledger, policy=LONG)
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, request_id="r-1", epoch=1)
        ledger.reconcile_execution(task(), DISPATCHER, **RUNNING)
        granted(ledger, name="T-2", request_id="q-1", policy=LONG)
    return path


def is_repaired(path: Path) -> bool:
    """Say whether the log ends with a repair, and demand that otherwise nothing was written."""
    types = [row.type for row in rows_of(path)]
    if types[-1] == "clock.repaired.v1":
        return True
    assert len(types) == 8
    return False


def test_it_says_what_it_would_end_and_refuses_without_a_terminal(ahead: Path) -> None:
    """Where nobody can be asked, the plan is shown, nothing is changed, and the code is 2."""
    ran = idkmesh("repair-clock", ahead, *EVIDENCE)
    assert ran.code == 2
    told = ran.out.splitlines()
    assert told[0] == "The ledger's time is 2096-10-02T07:06:40Z."
    assert told[1].startswith("The clock reads 20")
    assert told[2:] == [
        "The repair ends 2 active claims; executions keep their slots.",
        "Task                  Slot  Epoch  Owner     Execution  Request",
        "acme/apollo/task/T-1  0     1      worker-1  running    r-1",
        "acme/apollo/task/T-2  0     1      worker-1  none       q-1",
    ]
    assert ran.err == (
        "idkmesh repair-clock: invalid_input: "
        "expected --yes or a terminal to ask on, but there is neither; nothing changed\n"
    )
    assert not is_repaired(ahead)


def test_with_yes_it_does_not_ask(ahead: Path) -> None:
    """With --yes the repair is done: every claim ended, the evidence in the log, all verified."""
    before = SystemClock()()
    ran = idkmesh("repair-clock", ahead, *EVIDENCE, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("Z now; 2 claims ended.\n")
    rows = rows_of(ahead)
    assert [(row.type, row.at) for row in rows[8:10]] == [("claim.expired.v1", AHEAD)] * 2
    assert rows[10].type == "clock.repaired.v1"
    assert before <= rows[10].at <= SystemClock()()
    assert "ticket 7" in rows[10].body
    assert len(rows) == 11
    assert idkmesh("verify", ahead).code == 0


def test_behind_the_repair_commands_work_and_executions_hold(ahead: Path) -> None:
    """A ledger that answered clock_rollback works again; what may be running holds its slot."""
    with ClaimLedger.open(ahead) as ledger:
        with pytest.raises(ClaimError) as locked_out:
            ledger.snapshot(task(), READER)
        assert locked_out.value.code == "clock_rollback"
        assert idkmesh("repair-clock", ahead, *EVIDENCE, "--yes").code == 0
        (claim,) = ledger.snapshot(task(), READER)
        assert (claim.state, claim.occupancy) == ("expired", "running")
        with pytest.raises(ClaimError) as held:
            ledger.claim(task(), WORKER, request_id="r-2", binding=binding())
        assert held.value.code == "task_capacity_reserved"
        again, created = ledger.claim(task("T-2"), WORKER, request_id="q-2", binding=binding())
        assert (again.epoch, created) == (2, True)


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"\x04", b"yesterday\n"])
def test_at_a_terminal_anything_but_yes_changes_nothing(ahead: Path, answer: bytes) -> None:
    """Whoever is asked and does not say yes has changed nothing; exit 1."""
    code, screen = asked(answer, "repair-clock", ahead, *EVIDENCE)
    assert code == 1
    assert "acme/apollo/task/T-2" in screen
    assert "Repair the clock? [y/N]" in screen
    assert screen.rstrip().endswith("idkmesh repair-clock: not agreed to; nothing changed")
    assert "Traceback" not in screen
    assert not is_repaired(ahead)


def test_breaking_off_changes_nothing(ahead: Path) -> None:
    """Ctrl-C at the question exits 130 and has changed nothing."""
    code, screen = asked(signal.SIGINT, "repair-clock", ahead, *EVIDENCE)
    assert code == 130
    assert "Traceback" not in screen
    assert not is_repaired(ahead)


def test_at_a_terminal_yes_repairs(ahead: Path) -> None:
    """Whoever is asked and says yes gets the repair."""
    code, screen = asked(b"y\n", "repair-clock", ahead, *EVIDENCE)
    assert code == 0
    assert screen.rstrip().endswith("Z now; 2 claims ended.")
    assert is_repaired(ahead)


def test_a_claim_that_was_not_shown_is_not_ended(ahead: Path, clock: Clock) -> None:
    """Where somebody claims between the question and the answer, nothing changes; exit 1."""

    def claim() -> None:
        with opened(ahead, clock) as ledger:
            granted(ledger, name="T-3", request_id="s-1", policy=LONG)

    code, screen = asked(b"y\n", "repair-clock", ahead, *EVIDENCE, meanwhile=claim)
    assert code == 1
    assert " ".join(screen.split()).endswith(
        "idkmesh repair-clock: invalid_input: expected the ledger as it was planned, "
        "but it has moved on; nothing changed, look again"
    )
    assert rows_of(ahead)[-1].stream == "acme/apollo/task/T-3"
    assert asked(b"y\n", "repair-clock", ahead, *EVIDENCE)[0] == 0


def test_with_yes_it_ends_what_it_printed(
    ahead: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --yes, too, a claim that is not on the list is not ended."""

    def planned(target: str) -> Repair:
        plan = plan_repair(target)
        with opened(ahead, clock) as ledger:
            granted(ledger, name="T-3", request_id="s-1", policy=LONG)
        return plan

    monkeypatch.setattr("idkmesh.repair.plan_repair", planned)
    ran = idkmesh("repair-clock", ahead, *EVIDENCE, "--yes")
    assert ran.code == 1
    assert "T-3" not in ran.out
    assert ran.err.endswith("but it has moved on; nothing changed, look again\n")
    assert rows_of(ahead)[-1].stream == "acme/apollo/task/T-3"


def test_a_clock_that_is_right_needs_no_repair(path: Path, clock: Clock) -> None:
    """Where the clock is not below the log's time, the repair is refused with exit 1."""
    with opened(path, clock) as ledger:
        granted(ledger)
    ran = idkmesh("repair-clock", path, *EVIDENCE, "--yes")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "idkmesh repair-clock: invalid_input: "
        "expected a clock below the watermark, but it is not, so nothing needs repair\n"
    )
    assert len(rows_of(path)) == 3


@pytest.mark.parametrize("evidence", ["", "  ", "a\x1bb", "x" * 513])
def test_evidence_that_is_none_is_usage(ahead: Path, evidence: str) -> None:
    """Evidence that is blank, too long or holds control characters is refused first; exit 2."""
    ran = idkmesh("repair-clock", ahead, "--evidence", evidence, "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("idkmesh repair-clock: invalid_input: expected --evidence to be")
    assert not is_repaired(ahead)


def test_an_older_ledger_is_repaired_and_upgraded(path: Path) -> None:
    """A ledger of an earlier version can be repaired, and is one of today's afterwards."""
    older = (Path(__file__).parent / "fixtures" / "ledger-v1.sqlite3").read_bytes()
    path.write_bytes(older)
    plan = plan_repair(path, clock=lambda: 1_000_000_000)
    assert [claim.request_id for claim in plan.expired] == ["r-1"]
    assert path.read_bytes() == older
    done = repair_clock(path, evidence="ticket 8", clock=lambda: 1_000_000_000)
    assert done == plan
    assert idkmesh("verify", path).code == 0


def test_without_evidence_it_is_usage(ahead: Path) -> None:
    """The evidence cannot be left out."""
    assert idkmesh("repair-clock", ahead, "--yes").code == 2
    assert not is_repaired(ahead)
