"""Every verb is documented where people look for it: in the help, the README and the manual."""

import re
from pathlib import Path

import click
import pytest
from cli_runs import NAMES, idkmesh

from idkmesh.cli import outcome, program, verbs

ROOT = Path(__file__).resolve().parent.parent
MANUAL = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODES = [0, 1, 2, 3, 130, 141]


def sections() -> dict[str, str]:
    """Return the manual's section of each verb."""
    parts = re.split(r"^### `([a-z-]+)`$", MANUAL, flags=re.MULTILINE)
    return {
        name: text.split("\n## ")[0] for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_the_verbs_are_those_that_are_tested() -> None:
    """The command line has these verbs and the demo, and the manual a section for each."""
    assert sorted(verbs.idkmesh.commands) == sorted([*NAMES, "demo"])
    assert sorted(sections()) == sorted(NAMES)


def test_the_help_names_every_verb_in_whole_words() -> None:
    """The help has a line for each verb, which is not cut short, and the exit codes."""
    ran = idkmesh("--help")
    assert (ran.code, ran.err) == (0, "")
    for name in NAMES:
        assert re.search(rf"^  {name} +[A-Z].*\w\.$", ran.out, re.MULTILINE), name
    assert "..." not in ran.out.partition("Commands:")[2]


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_verb_ends_with_the_exit_codes(name: str) -> None:
    """Each verb says what it does, what its options are, and which exit codes there are."""
    ran = idkmesh(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    words = " ".join(ran.out.split())
    assert words.endswith(outcome.CODES)
    assert [int(each) for each in re.findall(r"[:,] (\d+) [a-z]", words)[-6:]] == CODES
    for parameter in verbs.idkmesh.commands[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize("name", NAMES)
def test_the_manual_says_everything_about_a_verb(name: str) -> None:
    """The section of a verb shows how it is called and names each of its options."""
    section = sections()[name]
    arguments = ""
    for parameter in verbs.idkmesh.commands[name].params:
        if isinstance(parameter, click.Option):
            assert f"`{parameter.opts[0]}" in section or f" {parameter.opts[0]} " in section
        elif parameter.required:
            arguments += f" {str(parameter.name).upper()}"
        else:
            assert str(parameter.name).upper() in section
    assert f"`idkmesh {name}{arguments}" in section


def test_the_manual_has_every_exit_code() -> None:
    """The table of exit codes has each of them once, in order."""
    assert [int(each) for each in re.findall(r"^\| (\d+) \|", MANUAL, re.MULTILINE)] == CODES
    assert CODES == [
        program.FINE,
        program.PROBLEMS,
        program.USAGE,
        program.UNREADABLE,
        program.INTERRUPTED,
        program.READER_GONE,
    ]


def test_the_readme_names_every_verb() -> None:
    """The README names each verb and leads to the manual."""
    for name in NAMES:
        assert re.search(rf"`(idkmesh )?{name}`", README), name
    assert "](docs/operating.md)" in README


def test_no_verb_is_usage(tmp_path: Path) -> None:
    """An unknown verb, a missing argument and an unknown option exit 2 and say so in one line."""
    for arguments in (["grant"], ["log"], ["log", str(tmp_path), "--force"], ["log", "a", "b"]):
        ran = idkmesh(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines()[-1].startswith("Error: ")
