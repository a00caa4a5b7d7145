"""The verbs that prove: what a verification finds and says, and what an earlier seal proves."""

import json
from pathlib import Path

import pytest
from cli_runs import idkmesh, spoil
from replay_builders import edited, forge, life, put_log, rows_of

from idkmesh.replay import seal

T1 = "acme/apollo/task/T-1"


def test_a_sound_ledger_verifies(path: Path) -> None:
    """Of a sound ledger it is said how much there is, its seal, and that it verifies; exit 0."""
    kept = seal(life(path))
    assert kept.startswith("idkmesh-seal-v1:14:")
    assert idkmesh("verify", path) == (
        0,
        f"14 events, 1 task, 2 claims\nseal {kept}\nThe ledger verifies.\n",
        "",
    )
    assert idkmesh("seal", path) == (0, f"{kept}\n", "")


def test_every_problem_is_a_line_and_exits_1(path: Path) -> None:
    """Each problem is named with its place; the count stands at the end, and the code is 1."""
    spoil(
        life(path),
        "DELETE FROM claims WHERE epoch = 1",
        "UPDATE claims SET state = 'released' WHERE epoch = 2",
    )
    ran = idkmesh("verify", path)
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.splitlines()[2:] == [
        f"claims {T1}/0/2: the row differs from what the log folds to",
        f"claims {T1}/0/1: the row is missing",
        "The ledger does not verify: 2 problems.",
    ]


def test_verification_as_json_is_one_object(path: Path) -> None:
    """With --json the result is one object, with each problem's place, event and meaning."""
    kept = seal(forge(life(path), edited(4, by__action="release")))
    ran = idkmesh("verify", path, "--json")
    assert (ran.code, ran.err) == (1, "")
    assert json.loads(ran.out) == {
        "ok": False,
        "events": 14,
        "tasks": 1,
        "claims": 2,
        "seal": kept,
        "problems": [
            {
                "place": "events",
                "sequence": 4,
                "stream": T1,
                "meaning": "the decision that allowed it was about another action",
            }
        ],
    }


def test_an_earlier_seal_proves_that_the_log_only_grew(path: Path, tmp_path: Path) -> None:
    """Against a seal, as text or in a file, a log that has grown verifies."""
    whole = rows_of(life(path))
    put_log(path, whole[:9])
    kept = idkmesh("seal", path).out
    file = tmp_path / "monday.seal"
    file.write_text(kept, encoding="ascii")
    life(path)
    for given in (kept.strip(), f"@{file}"):
        ran = idkmesh("verify", path, "--seal", given)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.endswith("\nThe ledger verifies, and has only grown since the seal.\n")


def test_a_log_that_was_cut_fails_its_seal(path: Path) -> None:
    """A log that is shorter than its seal is a problem of the seal, and exits 1."""
    kept = seal(life(path))
    put_log(path, rows_of(path)[:13])
    ran = idkmesh("verify", path, "--seal", kept)
    assert ran.code == 1
    assert (
        "\nseal: the seal was taken over 14 events, but the log has 13: "
        "it was cut off, or an old copy was put back\n"
    ) in ran.out


@pytest.mark.parametrize("content", [b"", b"idkmesh-seal-v1:14:abc", bytes(5000), b"\xff\x1b[31m"])
def test_what_is_no_seal_is_usage(path: Path, tmp_path: Path, content: bytes) -> None:
    """A file or a text that holds no seal exits 2 in one line."""
    life(path)
    file = tmp_path / "seal"
    file.write_bytes(content)
    ran = idkmesh("verify", path, "--seal", f"@{file}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("idkmesh verify: invalid_input: expected seal to be")
    assert idkmesh("verify", path, "--seal", "monday").code == 2


def test_a_seal_that_cannot_be_read_exits_3(path: Path, tmp_path: Path) -> None:
    """A seal's file that is not there exits 3 in one line."""
    ran = idkmesh("verify", life(path), "--seal", f"@{tmp_path / 'none'}")
    assert ran == (3, "", "idkmesh verify: ENOENT: No such file or directory\n")
