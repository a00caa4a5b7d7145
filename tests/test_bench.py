"""The benchmark's own promises: what it counts, what it prints, when it fails. No speed."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import msgspec
import pytest
from builders import START, WORKER

TOOLS = Path(__file__).parent.parent / "tools"

SMALLEST = (
    *("--tasks", "12", "--events", "1200", "--samples", "6", "--batch", "3", "--imports", "1"),
    *("--processes", "2", "--rounds", "1", "--seconds", "0.2"),
)
KINDS = [
    "configure_task",
    "claim",
    "acknowledge",
    "renew",
    "progress",
    "reserve_dispatch",
    "reconcile_execution",
    "record_submission",
    "release",
    "snapshot: an expiry",
    "snapshot: clock alone",
]
TWICE_A_LIFE = {"claim", "acknowledge", "reconcile_execution"}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that imports one of the benchmark's modules."""
    monkeypatch.syspath_prepend(TOOLS)

    def load(name: str) -> ModuleType:
        return import_module(name)

    return load


def result(tool: Any, measured: float) -> Any:
    """Make a line whose bound is at most 1.6, with a goal of 1.4."""
    measure = tool("bench_measure")
    bound = measure.Bound(limit=1.6, at_most=True, unit="x floor", goal=1.4)
    return measure.Result(
        row="commands", heading="All", case="renew", bound=bound, measured=measured, word="pages"
    )


def test_the_whole_benchmark(tmp_path: Path) -> None:
    """One command measures every row, prints a table, writes JSON, and leaves nothing else."""
    figures = tmp_path / "out.json"
    command = [sys.executable, str(TOOLS / "bench.py"), "--quick", *SMALLEST, "--seed", "7"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path), "--json", str(figures)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]

    document = json.loads(figures.read_text(encoding="utf-8"))
    assert document["kind"] == "idkmesh-bench"
    assert set(document["versions"]) == {"python", "sqlite", "apsw", "msgspec", "idkmesh"}
    assert {"kernel", "processors", "processor", "memory_mib"} <= set(document["machine"])
    assert document["settings"]["seed"] == 7
    assert document["settings"]["quick"] is True

    found = {(each["row"], each["case"]): each for each in document["results"]}
    assert list(found) == [
        *[("commands", kind) for kind in KINDS],
        *[("large", kind) for kind in KINDS],
        ("gate", "1,000 units"),
        ("gate", "build 1,000 units"),
        ("processes", "throughput"),
        ("processes", "slowest process"),
        ("processes", "slowest command"),
        ("processes", "errors"),
        ("peek", "peek"),
        ("peek", "beside a writer"),
        ("import", "import idkmesh"),
        ("import", "optional packages"),
        ("replay", "1,200 events"),
        ("replay", "memory at its peak"),
    ]
    for (row, case), each in found.items():
        assert case in done.stdout
        assert each["ok"] == (each["word"] is None)
        if row in {"commands", "large"}:
            samples = 12 if case in TWICE_A_LIFE else 6
            assert each["latency"]["count"] == samples
            assert each["figures"]["compared_with"]["count"] == samples
    # Nine tasks with a hundred events (six samples, three to warm up), and three with one.
    assert found["large", "renew"]["figures"]["small_events"] == 903
    assert found["large", "renew"]["figures"]["large_events"] == 1200
    assert found["processes", "errors"]["measured"] == 0
    assert found["peek", "beside a writer"]["measured"] == 0
    assert found["import", "optional packages"]["measured"] == 0
    counts = found["processes", "slowest process"]["figures"]["commands_by_process"]
    assert [len(each) for each in counts] == [2]


def test_rows_are_chosen_by_name(tmp_path: Path) -> None:
    """``--rows`` measures those rows and no other, and an unknown name is a usage error."""
    figures = tmp_path / "out.json"
    command = [
        sys.executable,
        str(TOOLS / "bench.py"),
        "--quick",
        *SMALLEST,
        "--json",
        str(figures),
    ]
    subprocess.run([*command, "--rows", "import"], capture_output=True, check=True)
    document = json.loads(figures.read_text(encoding="utf-8"))
    assert {each["row"] for each in document["results"]} == {"import"}
    done = subprocess.run(
        [*command, "--rows", "speed"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "commands, large, gate, processes, peek, import, replay" in done.stderr


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (1.4, "ok"),
        (1.41, "ok, above 1.4"),
        (1.6, "ok, above 1.4"),
        (1.601, "missed: pages"),
    ],
)
def test_verdicts(tool: Any, measured: float, verdict: str) -> None:
    """A line keeps its bound up to the limit itself, says if it misses its goal, and why."""
    line = result(tool, measured)
    assert line.verdict == verdict
    assert line.to_dict()["ok"] is not verdict.startswith("missed")
    assert line.to_dict()["word"] == ("pages" if verdict == "missed: pages" else None)


def test_a_bound_from_below(tool: Any) -> None:
    """A bound that more is better for holds from its limit upwards."""
    bound = tool("bench_measure").Bound(limit=0.8, at_most=False, unit="x the fastest")
    assert [bound.holds(each) for each in (0.79, 0.8, 0.81)] == [False, True, True]
    assert str(bound) == "≥ 0.8 x the fastest"


def test_summaries(tool: Any) -> None:
    """Durations come to their median, 99th percentile and maximum, in microseconds."""
    summary = tool("bench_measure").summary([1_000 * each for each in range(200, 0, -1)])
    assert msgspec.to_builtins(summary) == {
        "count": 200,
        "median_us": 100.5,
        "p99_us": 198.0,
        "maximum_us": 200.0,
    }


def test_only_the_full_form_fails(tool: Any) -> None:
    """A missed bound ends the full form with 1 and never the short one."""
    bench = tool("bench")
    missed, kept = [result(tool, 1.7)], [result(tool, 1.5)]
    assert bench.exit_status(missed, bench.FULL) == 1
    assert bench.exit_status(kept, bench.FULL) == 0
    assert bench.exit_status(missed, bench.QUICK) == 0


def test_a_command_that_writes_nothing_is_no_measurement(tool: Any, tmp_path: Path) -> None:
    """What is timed must have written one event of its type for each call, or the run stops."""
    ledgers = tool("bench_ledgers")
    task = ledgers.task_named("T-1")
    with ledgers.Subject("one", tmp_path / "one.sqlite3") as subject:
        assert subject.clock() == START
        subject.ledger.configure_task(task, ledgers.DISPATCHER, ledgers.POLICY)
        subject.require_written(0, "task.configured.v1", 1)
        for tag, commands in (("task.configured.v1", 2), ("claim.renewed.v1", 1)):
            with pytest.raises(RuntimeError, match="expected"):
                subject.require_written(0, tag, commands)
        before = subject.written()
        subject.ledger.peek(task, WORKER)
        with pytest.raises(RuntimeError, match="expected"):
            subject.require_written(before, "claim.renewed.v1", 1)


def test_numbers_that_do_not_go_together(tool: Any) -> None:
    """Fewer tasks or events than the samples need is a usage error that names the least."""
    bench = tool("bench")
    with pytest.raises(click.UsageError, match="1,010 for so many samples"):
        bench.settled(quick=False, given={"tasks": 1_009})
    with pytest.raises(click.UsageError, match="101,000 for so many samples"):
        bench.settled(quick=False, given={"events": 100_999})
    assert bench.settled(quick=False, given={"tasks": 1_010, "events": 101_000}).batch == 10
