"""The verbs that move and mend a ledger: what they make, what they refuse, how they end."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import WORKER, Clock, granted, opened, task
from cli_runs import BUFFERED, INTERRUPTIBLE, idkmesh, on_terminal, program, spoil
from demo_runs import HANG_SECONDS
from replay_builders import edited, forge, life, rows_of
from store_checks import LOCK_FILES

from idkmesh import ClaimLedger, TaskClaimPolicy
from idkmesh.replay import seal
from idkmesh.transfer import export_lines

T1 = "acme/apollo/task/T-1"


def files_in(folder: Path) -> set[str]:
    """Return the names in a folder, without what the engine and writers put beside a ledger."""
    beside = ("-wal", "-shm", *LOCK_FILES)
    return {each.name for each in folder.iterdir() if not each.name.endswith(beside)}


# Rebuilding.


def test_rebuild_makes_the_tables_anew(path: Path) -> None:
    """Tables that are damaged or gone come back out of the log, which stays as it is."""
    before = rows_of(life(path))
    spoil(path, "DROP TABLE claims", "UPDATE tasks SET attempts = 9")
    assert idkmesh("verify", path).code == 1
    ran = idkmesh("rebuild", path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == "14 events, 1 task, 2 claims"
    assert ran.out.endswith("\nThe ledger verifies.\n")
    assert idkmesh("verify", path).code == 0
    assert rows_of(path) == before


def test_rebuild_into_a_new_file_leaves_the_old_one(path: Path) -> None:
    """With NEW the damaged ledger stays as it is, and the new one has the same seal."""
    spoil(life(path), "DROP TABLE claims")
    before = path.read_bytes()
    new = path.with_name("new.sqlite3")
    ran = idkmesh("rebuild", path, new, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert (json.loads(ran.out)["ok"], json.loads(ran.out)["seal"]) == (True, seal(path))
    assert idkmesh("verify", new, "--seal", seal(path)).code == 0
    assert path.read_bytes() == before
    assert not Path(f"{path}-lock").exists()


def test_rebuild_out_of_a_broken_log_makes_nothing(path: Path) -> None:
    """An event that breaks the log's rules is named and exits 1; no new file is left."""
    forge(life(path), edited(4, by__action="release"))
    ran = idkmesh("rebuild", path, path.with_name("new.sqlite3"))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "idkmesh rebuild: invalid_input: expected a log that verifies, but event 4 does not: "
        "the decision that allowed it was about another action\n"
    )
    assert files_in(path.parent) == {path.name}


def test_a_log_that_does_not_fold_rebuilds_nothing(path: Path) -> None:
    """In place, an event that does not fold is named and exits 3; the tables are as they were."""
    forge(life(path), edited(4, lease_until=5))
    before = path.read_bytes()
    ran = idkmesh("rebuild", path)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(
        "idkmesh rebuild: store_corrupt: event 4 does not fold: expected an event of which"
    )
    spoil(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.read_bytes() == before


def test_rebuild_upgrades_an_older_ledger(path: Path) -> None:
    """A ledger of an earlier version is one of today's afterwards."""
    older = Path(__file__).parent / "fixtures" / "ledger-v1.sqlite3"
    path.write_bytes(older.read_bytes())
    assert idkmesh("rebuild", path).code == 0
    ClaimLedger.open(path, read_only=True).close()


# Export and import.


def test_export_and_import_give_the_same_ledger(path: Path) -> None:
    """What goes out as lines comes back with the same log, verified, under the same seal."""
    lines, new = path.with_name("log.jsonl"), path.with_name("new.sqlite3")
    out = idkmesh("export", life(path), lines)
    assert out == (0, f"14 events exported to {lines}\n", "")
    assert lines.stat().st_mode & 0o777 == 0o600
    first = json.loads(lines.read_text(encoding="utf-8").splitlines()[0])
    assert (first["specversion"], first["type"], first["subject"]) == (
        "1.0",
        "task.configured.v1",
        T1,
    )
    ran = idkmesh("import", lines, new)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (f"14 events, 1 task, 2 claims\nseal {seal(path)}\nThe ledger verifies.\n")
    assert rows_of(new) == rows_of(path)


def test_a_ledger_travels_through_a_pipe(path: Path) -> None:
    """Without a file, or with -, both ends are pipes, and nothing but the lines goes through."""
    new = path.with_name("new.sqlite3")
    out = program("export", life(path))
    assert (out.code, out.err, out.out.count("\n")) == (0, "", 15)
    assert program("export", path, "-").out == out.out
    ran = program("import", "-", new, "--json", stdin=out.out.encode())
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["seal"] == seal(path)


def without_end(text: bytes) -> bytes:
    """Return an export without its last line."""
    return b"".join(text.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize(
    ("spoiled", "complaint"),
    [
        (lambda text: text[:-1], "expected line 15 to end with a newline, but the file is torn"),
        (lambda text: text[: len(text) // 2], "to end with a newline, but the file is torn"),
        (lambda text: without_end(text)[:-1], "expected line 14 to end with a newline"),
        (without_end, "expected line 15 to be the last and hold the seal, but"),
        (lambda _: b"", "expected line 1 to be the last and hold the seal, but the file is torn"),
        (lambda text: text + text, "expected line 15 to be the export's last, but more follows"),
        (lambda text: text + b"\n", "expected line 15 to be the export's last, but more follows"),
        (lambda text: text.split(b"\n", 1)[1], "expected line 1 to be the log's next"),
        (lambda text: without_end(text) + b"{}\n", "expected line 15 to be an event of an export"),
        (
            lambda text: without_end(text) + b"[" * 60_000 + b"\n",
            "expected line 15 at line 1, column 65 to be",
        ),
        (
            lambda text: without_end(text) + b"x" * 70_000,
            "expected line 15 to be at most 65536 bytes",
        ),
        (
            lambda text: without_end(text) + b"\xff\x00\n",
            "expected line 15 to be an event of an export",
        ),
        (
            lambda text: text.replace(b'"number":"3"', b'"number":"3","number":"3"'),
            "expected line 3",
        ),
        (lambda text: text.replace(b'"epoch":1', b'"epoch":2'), "expected a log that verifies"),
    ],
)
def test_a_bad_export_is_named_by_its_line(
    path: Path, spoiled: Callable[[bytes], bytes], complaint: str
) -> None:
    """A torn or forged export exits 1 with the line that is wrong, and leaves no new file."""
    lines = path.with_name("log.jsonl")
    assert idkmesh("export", life(path), lines).code == 0
    lines.write_bytes(spoiled(lines.read_bytes()))
    ran = idkmesh("import", lines, path.with_name("new.sqlite3"))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("idkmesh import: invalid_input: expected ")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1
    assert {each.name for each in path.parent.iterdir()} <= {
        path.name,
        f"{path.name}-wal",
        f"{path.name}-shm",
        lines.name,
    }


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_an_import_that_is_ended_leaves_no_ledger(path: Path, clock: Clock, how: str) -> None:
    """Ended in its middle an import says no word, and there is no file of the new ledger's name.

    After Ctrl-C, which exits 130, there is not even a hidden one.
    """
    with opened(path, clock) as ledger:
        granted(ledger, policy=TaskClaimPolicy(hard_seconds=600_000))
        for _ in range(300):
            clock.now += 1
            ledger.renew(task(), WORKER, request_id="r-1", epoch=1)
    lines = program("export", path).out.encode()
    assert len(lines) > 200_000
    fifo, new = path.with_name("fifo"), path.with_name("new.sqlite3")
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*INTERRUPTIBLE, "import", str(fifo), str(new)],
        env=BUFFERED,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        with fifo.open("wb") as feed:
            feed.write(lines)  # more than a pipe holds, so most of it was taken
            feed.flush()
            assert len(list(path.parent.glob(".new.sqlite3.*.making"))) == 1
            process.send_signal(signal.Signals[how])
            assert process.communicate(timeout=HANG_SECONDS) == (b"", b"")
    finally:
        process.kill()
        process.communicate()
    assert process.returncode != 0
    assert list(path.parent.glob("new*")) == []
    if how == "SIGINT":
        assert process.returncode == 130
        assert list(path.parent.glob(".*")) == []


def test_an_export_is_not_poured_over_a_terminal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Onto a terminal nothing is exported, since its bytes are the log's own; exit 2."""
    ran = on_terminal(monkeypatch, "export", life(path))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("expected a FILE or a pipe, but the output is a terminal\n")


def test_an_export_that_fails_leaves_no_file(path: Path) -> None:
    """Where the log cannot be read, the file that was begun is removed again."""
    path.write_bytes(b"no ledger")
    out = path.with_name("log.jsonl")
    assert idkmesh("export", path, out).code == 3
    assert files_in(path.parent) == {path.name}


def test_an_export_has_its_name_once_it_is_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While lines are written there is no file of the export's name, so a dead one has none."""
    out = path.with_name("log.jsonl")
    seen = []

    def looking(target: str, **options: Any) -> Iterator[bytes]:
        for line in export_lines(target, **options):
            seen.append(out.exists())
            yield line

    monkeypatch.setattr("idkmesh.transfer.export_lines", looking)
    assert idkmesh("export", life(path), out).code == 0
    assert set(seen) == {False}
    assert files_in(path.parent) == {path.name, out.name}


# Backups.


def test_a_live_ledger_is_backed_up(path: Path, clock: Clock) -> None:
    """A ledger that is in use is copied whole, what is only in its WAL too, and verified."""
    copy = path.with_name("copy.sqlite3")
    with opened(path, clock) as ledger:
        granted(ledger)
        assert Path(f"{path}-wal").stat().st_size > 0
        ran = idkmesh("backup", path, copy, "--json")
        assert (ran.code, ran.err) == (0, "")
        assert json.loads(ran.out)["events"] == 3
        ledger.release(task(), WORKER, request_id="r-1", epoch=1)
    assert idkmesh("verify", copy, "--seal", json.loads(ran.out)["seal"]).code == 0
    assert idkmesh("verify", path, "--seal", json.loads(ran.out)["seal"]).code == 0
    assert len(rows_of(copy)) == 3


def test_a_backup_of_a_damaged_ledger_is_kept_and_exits_1(path: Path) -> None:
    """The copy of a ledger with problems is there, and its problems are told."""
    spoil(life(path), "DELETE FROM claims WHERE epoch = 1")
    copy = path.with_name("copy.sqlite3")
    ran = idkmesh("backup", path, copy)
    assert ran.code == 1
    assert f"claims {T1}/0/1: the row is missing" in ran.out
    assert copy.exists()


# What no verb does.

MAKERS: list[tuple[str, ...]] = [
    ("rebuild", "LEDGER", "NEW"),
    ("export", "LEDGER", "NEW"),
    ("import", "LINES", "NEW"),
    ("backup", "LEDGER", "NEW"),
]


def placed(path: Path, words: tuple[str, ...]) -> list[str]:
    """Put the names of files in the place of what stands for them."""
    names = {
        "LEDGER": str(path),
        "NEW": str(path.with_name("new")),
        "LINES": str(path.with_name("log.jsonl")),
    }
    return [names.get(word, word) for word in words]


@pytest.mark.parametrize("words", MAKERS, ids=lambda words: words[0])
def test_a_file_that_is_there_is_never_overwritten(path: Path, words: tuple[str, ...]) -> None:
    """A verb that makes a file refuses one that is there, a dangling link too; exit 2."""
    assert idkmesh("export", life(path), path.with_name("log.jsonl")).code == 0
    new = path.with_name("new")
    new.write_bytes(b"mine")
    ran = idkmesh(*placed(path, words))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"idkmesh {words[0]}: invalid_input: expected a new file, but {new} is there\n"
    )
    assert new.read_bytes() == b"mine"
    new.unlink()
    new.symlink_to("elsewhere")
    assert idkmesh(*placed(path, words)).code == 2
    assert not path.with_name("elsewhere").exists()


@pytest.mark.parametrize("words", MAKERS, ids=lambda words: words[0])
def test_what_stands_beside_a_new_file_is_never_removed(path: Path, words: tuple[str, ...]) -> None:
    """A verb that makes a file refuses one beside which something of its name stands; exit 2."""
    assert idkmesh("export", life(path), path.with_name("log.jsonl")).code == 0
    beside = path.with_name("new-wal")
    beside.write_bytes(b"mine")
    ran = idkmesh(*placed(path, words))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"idkmesh {words[0]}: invalid_input: expected a new file, but {beside} is there\n"
    )
    assert beside.read_bytes() == b"mine"
    assert not path.with_name("new").exists()


@pytest.mark.parametrize("words", [*MAKERS, ("rebuild", "LEDGER")], ids=" ".join)
def test_no_verb_ends_a_claim(path: Path, clock: Clock, words: tuple[str, ...]) -> None:
    """A claim that is past every deadline is recorded as active still, whatever verb has run."""
    with opened(path, clock) as ledger:
        granted(ledger)
    before = rows_of(path)
    assert idkmesh("export", path, path.with_name("log.jsonl")).code == 0
    assert idkmesh(*placed(path, words)).code == 0
    assert rows_of(path) == before
    assert [row.type for row in before] == [
        "task.configured.v1",
        "claim.granted.v1",
        "claim.acknowledged.v1",
    ]
    new = path.with_name("new")
    if new.exists() and words[0] != "export":
        assert rows_of(new) == before


@pytest.mark.parametrize("verb", ["rebuild", "import", "backup"])
def test_no_ledger_goes_through_a_pipe(path: Path, verb: str) -> None:
    """A ledger is a file: - in its place is usage, and no file of that name is made."""
    ran = idkmesh(verb, life(path), "-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("expected a new file, but a ledger does not go through a pipe\n")


@pytest.mark.parametrize(
    "words",
    [
        *MAKERS,
        ("rebuild", "LEDGER"),
        ("repair-clock", "LEDGER", "--evidence", "x", "--yes"),
    ],
    ids=" ".join,
)
def test_nothing_is_made_out_of_nothing(path: Path, words: tuple[str, ...]) -> None:
    """Where the file to read is not there, a verb exits 3 and makes none, not even an empty one."""
    ran = idkmesh(*placed(path, words))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"idkmesh {words[0]}: ")
    assert ran.err.count("\n") == 1
    assert list(path.parent.iterdir()) == []
