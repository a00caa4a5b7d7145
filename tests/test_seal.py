"""The seal: a short text, kept elsewhere, that proves that a log has only grown since."""

from pathlib import Path

import pytest
from builders import OTHER_SCOPE, START, Clock, binding, opened, task
from replay_builders import (
    ADA,
    DESK,
    SHORT,
    Change,
    both,
    edited,
    forge,
    life,
    ordered,
    problems,
    rows_of,
    told,
    world,
)
from store_checks import store_refused
from unit_builders import refusal

from idkmesh.digests import canonical_digest
from idkmesh.replay import rebuild, seal, verify
from idkmesh.seal import Seal

SEALED = 14
REWRITTEN = (
    "the first 14 events are not those that were sealed: the log was rewritten or swapped, or it"
    " is a copy that went its own way"
)
EMPTY = "idkmesh-seal-v1:0:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


def cut(left: int) -> str:
    """Say that a log is shorter than it was when it was sealed."""
    return (
        f"the seal was taken over 14 events, but the log has {left}: it was cut off, or an old"
        " copy was put back"
    )


def refolded(path: Path, change: Change) -> None:
    """Forge a log and refold the tables, so that nothing inside the file betrays it."""
    forge(path, change)
    rebuild(path)
    assert problems(path) == []


def grown(path: Path, clock: Clock, name: str) -> None:
    """Let one more task be claimed."""
    clock.now = START + 40
    with opened(path, clock) as ledger:
        ledger.configure_task(task(name), DESK, SHORT)
        ledger.claim(task(name), ADA, request_id="r-1", binding=binding())


# What a seal is.


def test_a_seal_is_one_short_line(path: Path) -> None:
    """A seal names its version, the number of events, and a digest of 64 hex digits."""
    text = seal(life(path))
    kind, events, digest = text.split(":")
    assert (kind, events, len(digest)) == ("idkmesh-seal-v1", "14", 64)
    assert text.isascii()
    assert text.isprintable()


def test_a_seal_commits_to_every_scopes_number_and_chain(path: Path) -> None:
    """The digest is that of each scope's last number and chain value, sorted by scope."""
    heads = {row.scope: [row.scope, row.number, row.chain.hex()] for row in rows_of(world(path))}
    made = canonical_digest([heads["acme/apollo"], heads["acme/gemini"]])
    assert seal(path) == f"idkmesh-seal-v1:49:{made.removeprefix('sha256:')}"
    assert seal(path) == verify(path).seal


def test_an_empty_log_has_a_seal(path: Path, clock: Clock) -> None:
    """The seal of nothing is fixed, and every log has grown from there."""
    opened(path, clock).close()
    assert seal(path) == EMPTY
    assert problems(path, EMPTY) == []
    assert problems(life(path), EMPTY) == []


def test_another_digest_over_nothing_is_no_past_of_any_log(path: Path) -> None:
    """A count of no events with a digest that is not nothing's fits no log."""
    (problem,) = problems(life(path), f"idkmesh-seal-v1:0:{'0' * 64}")
    assert problem[3] == REWRITTEN.replace("14", "0")


def test_a_seal_of_a_file_that_is_no_ledger_is_refused(path: Path) -> None:
    """Where there is no ledger there is nothing to seal, and none is made."""
    with store_refused("store_readonly"):
        seal(path)
    assert not path.exists()


# Where the log only grew.


def test_a_log_that_only_grew_fits_its_seal(path: Path, clock: Clock) -> None:
    """Events of old and new scopes behind the sealed ones are no problem, nor is none."""
    kept = seal(life(path))
    assert problems(path, kept) == []
    grown(path, clock, "T-2")
    assert problems(path, kept) == []
    with opened(path, clock) as ledger:
        ledger.configure_task(task("T-1", OTHER_SCOPE), DESK, SHORT)
    assert problems(path, kept) == []


def test_every_point_of_a_log_fits_the_seal_that_it_had(path: Path) -> None:
    """The seal of each beginning of a log is found in the whole, repaired clock and all."""
    rows = rows_of(world(path))
    for events in (1, 9, 14, 21, 22, 46, 47, 49):
        heads = {row.scope: (row.scope, row.number, row.chain) for row in rows[:events]}
        kept = str(Seal.of(events, heads.values()))
        assert [each for each in problems(path, kept) if each[0] == "seal"] == []


# Where it did anything else. Inside, each of these files is sound.


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (ordered(*range(1, 14)), 13),
        (ordered(*range(1, 10)), 9),
        (ordered(1), 1),
        (ordered(), 0),
    ],
)
def test_a_cut_log_is_found(path: Path, change: Change, left: int) -> None:
    """A log without its tail, or without any event, is shorter than what was sealed."""
    kept = seal(life(path))
    refolded(path, change)
    assert problems(path, kept) == [("seal", None, None, cut(left))]


REWRITES: dict[str, Change] = {
    "other words": edited(10, evidence_reference="run-1:exit-1"),
    "another time": both(told(13, at=21), edited(13, due_at=START + 20)),
    "another order": both(told(14, at=6), ordered(*range(1, 9), 14, *range(9, 14))),
    "an event removed, one added": lambda rows: [
        *rows[:8],
        *rows[9:],
        rows[8]._replace(at=START + 50),
    ],
    "a task removed": lambda rows: [
        rows[13]._replace(at=START),
        *(rows[8]._replace(at=START + second) for second in range(1, SEALED)),
    ],
    "a scope renamed": lambda rows: [
        rows[13]._replace(scope="acme/other", stream="acme/other/observations", at=START),
        *(
            rows[8]._replace(scope="acme/other", stream="acme/other/clock", at=START + second)
            for second in range(1, SEALED)
        ),
    ],
}


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewritten_log_is_found(path: Path, name: str) -> None:
    """A log of as many events that is chained anew over other ones is not the one sealed."""
    kept = seal(life(path))
    refolded(path, REWRITES[name])
    assert problems(path, kept) == [("seal", None, None, REWRITTEN)]


def test_a_removed_scope_is_found(path: Path) -> None:
    """A log without one of its scopes is another log, although it was chained anew."""
    kept = seal(world(path))
    refolded(path, lambda rows: [row for row in rows if row.scope == "acme/apollo"])
    (problem,) = problems(path, kept)
    assert problem[:3] == ("seal", None, None)
    assert problem[3].startswith("the seal was taken over 49 events, but the log has 26:")


def test_a_removed_scope_is_found_in_a_log_that_grew(path: Path, clock: Clock) -> None:
    """A scope that was taken out of the past is missed, however much was added since."""
    with opened(life(path), clock) as ledger:
        clock.now = START + 30
        ledger.configure_task(task("T-1", OTHER_SCOPE), DESK, SHORT)
    kept = seal(path)
    refolded(path, lambda rows: [row for row in rows if row.scope == "acme/apollo"])
    for name in ("T-2", "T-3"):
        grown(path, clock, name)
    assert problems(path, kept) == [("seal", None, None, REWRITTEN.replace("14", "15"))]


def test_a_swapped_ledger_is_found(path: Path, clock: Clock) -> None:
    """Another sound ledger in the place of the sealed one is not the one sealed."""
    kept = seal(life(path))
    other = path.with_name("other.sqlite3")
    for number in range(7):
        grown(other, clock, f"T-{number}")
    assert problems(other, kept) == [("seal", None, None, REWRITTEN)]


def test_a_restored_old_copy_is_found(path: Path, clock: Clock) -> None:
    """The ledger of yesterday lacks what was sealed today; once it has grown, it is another."""
    copy = life(path.with_name("copy.sqlite3"))
    grown(life(path), clock, "T-2")
    kept = seal(path)
    (problem,) = problems(copy, kept)
    assert problem[3] == cut(14).replace("over 14", "over 16")
    clock.now += 1
    grown(copy, clock, "T-3")
    assert problems(copy, kept) == [("seal", None, None, REWRITTEN.replace("14", "16"))]


def test_a_clone_that_went_its_own_way_is_found(path: Path, clock: Clock) -> None:
    """Of two copies that both went on, each fails the other's seal, and fits the common one."""
    clone = life(path.with_name("clone.sqlite3"))
    common = seal(life(path))
    grown(path, clock, "T-2")
    grown(clone, clock, "T-3")
    for one, other in ((path, clone), (clone, path)):
        assert problems(one, common) == []
        assert problems(one, seal(one)) == []
        meaning = REWRITTEN.replace("14", "16")
        assert problems(one, seal(other)) == [("seal", None, None, meaning)]


# What is no seal.


@pytest.mark.parametrize(
    "text",
    [
        "",
        "idkmesh-seal-v1",
        "idkmesh-seal-v2:14:" + "0" * 64,
        "idkmesh-seal-v1:14:" + "0" * 63,
        "idkmesh-seal-v1:14:" + "0" * 65,
        "idkmesh-seal-v1:14:" + "A" * 64,
        "idkmesh-seal-v1:-1:" + "0" * 64,
        "idkmesh-seal-v1:014:" + "0" * 64,
        "idkmesh-seal-v1:٣:" + "0" * 64,
        "idkmesh-seal-v1:" + "9" * 20 + ":" + "0" * 64,
        "idkmesh-seal-v1:14:" + "0" * 64 + " and more",
        14,
        b"idkmesh-seal-v1:14:" + b"0" * 64,
    ],
)
def test_what_is_no_seal_is_refused(path: Path, text: object) -> None:
    """A seal that does not read is invalid_input, before the file is looked at."""
    error = refusal(lambda: verify(path, seal=text))  # type: ignore[arg-type]  # any object
    assert error.code == "invalid_input"
    assert not path.exists()


def test_blanks_around_a_seal_do_not_matter(path: Path) -> None:
    """A seal out of a file is read with the newline at its end."""
    kept = seal(life(path))
    assert problems(path, f"  {kept}\n") == []
    assert Seal.read(f"{kept}\n") == Seal.read(kept)
