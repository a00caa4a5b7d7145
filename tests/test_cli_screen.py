"""What is shown is harmless, whatever a log holds; and how far work has come."""

import io
import json
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders import DISPATCHER, READER, RIVAL, WORKER, Clock, binding, opened, task
from cli_runs import COLOUR, Terminal, contested, idkmesh, on_terminal, put_anew, steers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from replay_builders import life, rows_of, untyped

from idkmesh import TaskClaimPolicy
from idkmesh.cli.outcome import fail
from idkmesh.cli.program import json_line
from idkmesh.cli.screen import Screen, moment, safe
from idkmesh.cli.steps import Steps
from idkmesh.events.port import Row
from idkmesh.naming import shown

STEERING = {
    "\x00": "\\x00",
    "\x07": "\\x07",
    "\n": "\\n",
    "\r": "\\r",
    "\x1b": "\\x1b",
    "\x7f": "\\x7f",
    "\x9b": "\\x9b",  # what begins a control sequence in one character
    "\u00ad": "\\xad",
    "\u0301": "\\u0301",  # an accent on whatever stands before
    "\u034f": "\\u034f",
    "\u061c": "\\u061c",
    "\u115f": "\\u115f",
    "\u1160": "\\u1160",
    "\u11a8": "\\u11a8",
    "\u200b": "\\u200b",
    "\u200d": "\\u200d",
    "\u200f": "\\u200f",
    "\u2028": "\\u2028",
    "\u202e": "\\u202e",
    "\u2060": "\\u2060",
    "\u2067": "\\u2067",
    "\u2800": "\\u2800",
    "\u3164": "\\u3164",
    "\ufe0f": "\\ufe0f",
    "\ufeff": "\\ufeff",
    "\uffa0": "\\uffa0",
    "\U00013441": "\\U00013441",
    "\U0001d159": "\\U0001d159",
    "\U000e0041": "\\U000e0041",
    "\ud800": "\\ud800",
}
# What a text of an event may hold: no control characters, but all else.
TEXT = "".join(each for each in STEERING if unicodedata.category(each) not in {"Cc", "Cs"})
FILLING = "checking the log, making the tables, verifying the log, checking the pages"
MARKUP = "[red]x[/red] [blink] [/] :smile: [link=http://x]y[/link]"


@pytest.mark.parametrize("character", STEERING, ids=ascii)
def test_what_steers_or_takes_no_room_is_escaped(character: str) -> None:
    """Controls, directions, and what nobody sees are shown by their numbers, by the library too."""
    assert safe(f"a{character}b") == shown(f"a{character}b") == f"a{STEERING[character]}b"


@pytest.mark.parametrize("text", ["T-1", "a b", "Größe", "任务", "🙂", "\\u202e", MARKUP])
def test_what_can_be_seen_is_shown_as_it_is(text: str) -> None:
    """Whatever prints and takes room is left alone, markup of this library's own tools too."""
    assert safe(text) == text


@given(st.text())
@example("\x7f")
def test_any_text_is_shown_on_one_line_without_controls(text: str) -> None:
    """No text whatever leaves a character that does not print, or one on top of another."""
    told = safe(text)
    assert told.isprintable()
    assert {unicodedata.category(each) for each in told}.isdisjoint({"Mn", "Me", "Cf", "Cc"})
    assert safe(told) == told
    line = json_line({text: text})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {text: text}


def test_a_long_text_loses_its_middle() -> None:
    """No more of a text is shown than asked for, escapes aside; one that fits keeps everything."""
    assert safe("abcdefghijklmnopqrstuvwxyz", 26) == "abcdefghijklmnopqrstuvwxyz"
    assert safe("abcdefghijklmnopqrstuvwxyz", 16) == "abcdefgh...vwxyz"
    assert safe("abcdefgh\n" + "x" * 600 + "\u202evwxyz", 16) == "abcdefgh...vwxyz"


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
        (253_402_300_800, "@253402300800"),
        (-1, "@-1"),
        ("\x1b[2J", "@\\x1b[2J"),
        (None, "@None"),
    ],
)
def test_any_time_can_be_told(at: object, told: str) -> None:
    """A time is told as ISO 8601 while there is such a date, and else by its seconds."""
    assert moment(at) == told


def test_an_error_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a message holds, it is one line on the error output, and the code is as said."""
    with pytest.raises(SystemExit) as ended:
        fail("log", "a\x1b[2J\u3164\nb", 3)
    assert ended.value.code == 3
    assert capsys.readouterr() == ("", "idkmesh log: a\\x1b[2J\\u3164\\nb\n")


# A hostile log.


def hostile(path: Path, clock: Clock) -> Path:
    """Make a ledger whose every free text, and two rows whose every column, means harm."""
    harm = f"{TEXT}{MARKUP}"
    policy = TaskClaimPolicy(concurrent_slots=2, competition_reason=harm)
    with opened(path, clock) as ledger:
        ledger.configure_task(task(), DISPATCHER, policy)
        ledger.claim(task(), WORKER, request_id=harm, binding=binding())
        ledger.acknowledge(task(), WORKER, request_id=harm, epoch=1)
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, request_id=harm, epoch=1)
        ledger.reconcile_execution(
            task(),
            DISPATCHER,
            request_id=harm,
            epoch=1,
            status="running",
            evidence_reference=harm,
        )
        ledger.claim(task(), RIVAL, request_id=f"{harm}2", binding=binding())
    return path


def harmful_rows(rows: list[Row]) -> list[Row]:
    """Add rows that no command wrote, with every steering character that text can hold."""
    harm = "".join(each for each in STEERING if each not in "\x00\ud800") + MARKUP
    body = json.dumps({"type": harm, "more": harm}, ensure_ascii=False)
    made = rows[-1]._replace(type=harm, body=json.dumps({"type": harm}), scope=harm, stream=harm)
    other = made._replace(
        type="x", body=body.replace(json.dumps(harm, ensure_ascii=False), '"x"', 1)
    )
    forged = rows[0]._replace(scope=harm, stream=f"acme/apollo/task/{harm}")
    return [*rows, made, other._replace(stream=f"acme/gemini/task/{harm}"), forged]


VERBS: list[tuple[str, ...]] = [
    ("log",),
    ("log", "--json"),
    ("show", "acme/apollo/task/T-1"),
    ("show", "acme/apollo/task/T-1", "--json"),
    ("show", "T-1\x1b[2J\u202e"),
    ("tasks",),
    ("tasks", "--json"),
    ("tasks", "--scope", "a\x1b[2J/\u202e"),
    ("tasks", "--at", "\x1b[2J\u202e"),
    ("tasks", "--\x1b[2J\u202e"),
    ("tasks", "\x1b[2J\u202e"),
    ("history", "acme/apollo/task/T-1"),
    ("history", "acme/apollo/task/T-1", "--json"),
    ("verify",),
    ("verify", "--json"),
    ("verify", "--seal", "\x1b[2J\u202e"),
    ("rebuild",),
    ("rebuild", "new\x1b[2J\u202e"),
    ("backup", "copy\x1b[2J\u202e"),
    ("export", "lines\x1b[2J\u202e"),
    ("repair-clock", "--evidence", "x"),
    ("\x1b[2J\u202e",),
]


@pytest.mark.parametrize("rows", [lambda rows: rows, harmful_rows], ids=["texts", "rows"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: ascii(" ".join(verb)))
def test_no_name_steers_a_terminal_or_a_pipe(
    path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    verb: tuple[str, ...],
    rows: Callable[[list[Row]], list[Row]],
) -> None:
    """Whatever a log and arguments hold, a pipe gets plain lines, a terminal only our colours."""
    monkeypatch.chdir(path.parent)
    clock.now = 4_000_000_000  # so that a repair has something to show
    hostile(path, clock)
    put_anew(path, rows(rows_of(path)))
    for ran in (
        idkmesh(verb[0], path, *verb[1:]),
        on_terminal(monkeypatch, verb[0], path, *[f"{each}2" for each in verb[1:2]], *verb[2:])
        if verb[0] in {"rebuild", "backup", "export"}
        else on_terminal(monkeypatch, verb[0], path, *verb[1:]),
    ):
        plain = COLOUR.sub("", ran.out + ran.err)
        assert plain
        assert steers(plain) == set()
        unseen = {each for each in plain if safe(each) != each and each != "\n"}
        assert unseen == set()
        assert "Traceback" not in plain
        assert "\U0001f604" not in plain  # what :smile: would become


def test_texts_are_shown_escaped_and_markup_as_it_is(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text's own words are all there on a terminal, none of them obeyed."""
    hostile(path, clock)
    told = f"{safe(TEXT)}{MARKUP}"
    for verb in (("show", "T-1"), ("history", "T-1")):
        plain = COLOUR.sub("", on_terminal(monkeypatch, verb[0], path, *verb[1:]).out)
        assert f" {told}" in plain
        assert f" {told}2" in plain


@settings(max_examples=25)
@given(
    harm=st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=60
    )
)
def test_generated_names_steer_nothing(tmp_path_factory: pytest.TempPathFactory, harm: str) -> None:
    """Whatever a forged row is called, every line of the log is one line and harmless."""
    path = tmp_path_factory.mktemp("named") / "claims.sqlite3"
    rows = rows_of(life(path))
    body = json.dumps({"type": "x", "more": harm}, ensure_ascii=False)
    forged = rows[-1]._replace(scope=harm, stream=f"acme/apollo/task/{harm}", type="x", body=body)
    put_anew(path, [*rows, forged])
    for verb in ("log", "tasks", "verify"):
        ran = idkmesh(verb, path)
        assert steers(ran.out + ran.err) == set()
    assert len(idkmesh("log", path).out.splitlines()) == 15


@pytest.mark.parametrize("verb", ["log", "tasks", "show", "history", "verify"])
def test_json_is_json_whatever_a_row_holds(path: Path, verb: str) -> None:
    """A number that JSON does not have is shown as text, never as a bare word."""
    with untyped(life(path), "events") as connection:
        connection.execute("UPDATE events SET at = 9e999, number = -9e999 WHERE sequence = 2")
    ran = idkmesh(verb, path, *["T-1"] * (verb in {"show", "history"}), "--json")
    assert "Traceback" not in ran.err
    for line in ran.out.splitlines():
        json.loads(line, parse_constant=pytest.fail)
    if verb == "log":
        assert '"number": "-inf"' in ran.out
        assert '"at": "inf"' in ran.out


# Outputs.


def test_a_terminal_gets_colours_and_a_pipe_does_not(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal a grant is green and an expiry red; in a pipe the same is plain text."""
    contested(path, clock)
    with opened(path, clock) as ledger:
        clock.now += 10_000
        ledger.snapshot(task(), READER)
    monkeypatch.setenv("FORCE_COLOR", "1")  # which must not put codes into a pipe
    plain = idkmesh("log", path).out
    assert "\x1b" not in plain
    coloured = on_terminal(monkeypatch, "log", path).out
    assert "\x1b[32mclaim.granted.v1 " in coloured
    assert "\x1b[31mclaim.expired.v1 " in coloured
    assert COLOUR.sub("", coloured) == plain
    table = on_terminal(monkeypatch, "tasks", path, "--at", 7).out
    assert "\x1b[32mworker-1, worker-2" in table
    assert "\x1b[33m0/1 running" in table


def test_other_encodings_get_escapes() -> None:
    """Where the output's encoding lacks a character, its number is shown instead."""
    raw = io.BytesIO()
    screen = Screen(io.TextIOWrapper(raw, encoding="ascii"))
    screen.line("Größe ", ("任务", "bold"))
    screen.table(["Task"], [[("Größe", "")]])
    screen.flush()
    assert raw.getvalue() == b"Gr\\xf6\\xdfe \\u4efb\\u52a1\nTask\nGr\\xf6\\xdfe\n"


# Progress.


def told_steps(monkeypatch: pytest.MonkeyPatch, err: io.StringIO) -> str:
    """Work in three steps, a thousand events a second; return what was drawn."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.stderr", err)
    seconds = [0.0]
    with Steps("copying", "checking", "verifying", clock=lambda: seconds[0]) as steps:
        steps.draw()
        steps(0, 0)
        steps(0, 0)
        steps(0, 4000)
        for second in (1, 2, 3):
            seconds[0] = second
            steps(second * 1000, 4000)
    return COLOUR.sub("", err.getvalue())


def test_a_bar_shows_step_pace_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the bar names the step and says how far, how fast, and how long."""
    drawn = told_steps(monkeypatch, Terminal())
    assert "verifying " in drawn
    assert " 75%  1,000 events/s, 0:00:01 left" in drawn


def test_no_bar_goes_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the error output is no terminal, nothing is drawn."""
    assert told_steps(monkeypatch, io.StringIO()) == ""


def test_quick_work_shows_no_bar(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done before the bar is due leaves nothing on the terminal."""
    monkeypatch.setattr("idkmesh.cli.keeping.Steps", partial(Steps, shown_after_seconds=3600))
    ran = on_terminal(monkeypatch, "verify", life(path))
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ("verify L", "verifying the log, checking the pages"),
        ("rebuild L", "making the tables, verifying the log, checking the pages"),
        ("rebuild L N", f"reading the log, {FILLING}"),
        ("export L N", "writing the log"),
        ("import X N", f"reading the lines, {FILLING}"),
        ("backup L N", "copying, verifying the log, checking the pages"),
        ("tasks L", "folding the log"),
    ],
)
def test_every_step_of_a_verb_has_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch, words: str, labels: str
) -> None:
    """A verb that may take long says of each of its steps what it is, and of most how long."""
    names = {"L": life(path), "N": path.with_name("new"), "X": path.with_name("lines")}
    assert idkmesh("export", path, names["X"]).code == 0
    begun: list[tuple[str, int]] = []

    class Told(Steps):
        def _advance(self, done: int, total: int, unit: str) -> None:
            super()._advance(done, total, unit)
            if done == 0:
                (shown,) = self._bar.tasks
                begun.append((shown.description, total))

    for module in ("keeping", "looking"):
        monkeypatch.setattr(f"idkmesh.cli.{module}.Steps", Told)
    assert idkmesh(*(names.get(word, word) for word in words.split())).code == 0
    assert ", ".join(label for label, _ in begun) == labels
    unknown = {label for label, total in begun if total == 0}
    assert unknown <= {"copying", "checking the pages"}


def test_lines_are_counted_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a file is read, the bar says how much of it, and no line is longer than allowed."""
    err = Terminal()
    monkeypatch.setattr("sys.stderr", err)
    content = b"abcd\n" * 600 + b"x" * 30
    with Steps("reading", shown_after_seconds=3600) as steps:
        told: list[Any] = []
        monkeypatch.setattr(steps, "_advance", lambda *arguments: told.append(arguments))
        lines = list(steps.lines(io.BytesIO(content), len(content), 10))
    assert lines[:600] == [b"abcd\n"] * 600
    assert [len(each) for each in lines[600:]] == [11, 11, 8]
    assert told == [(0, 3030, "bytes"), (1280, 3030, "bytes"), (2560, 3030, "bytes")]
