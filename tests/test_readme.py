"""What the README says is so: its example runs, its commands are CI's, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_is_short() -> None:
    """The README can be read at one go: it has less than 80 lines."""
    assert len(README.splitlines()) < 80


def test_example_runs(tmp_path: Path) -> None:
    """The README's one example runs as it stands, and prints who won and why the other did not."""
    (example,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "ada holds slot 0 under epoch 1",
        "bruno: task_capacity_reserved",
    ]
    assert (tmp_path / "claims.sqlite3").is_file()


def test_links_lead_somewhere() -> None:
    """Every link of the README leads to something that is in the repository."""
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert {"docs/guarantees.md", "docs/errors.md", "docs/events.md"} <= set(targets)
    assert {"docs/decisions.md", "CHANGELOG.md", "LICENSE"} <= set(targets)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_commands_are_those_of_ci() -> None:
    """The README gives two commands: CI runs the second as it stands, and the first's parts."""
    (first, second) = (command.strip() for command in blocks("console"))
    steps = re.findall(r'^step "(.*)"$', (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)
    assert second == "pip install -e '.[dev]' && pytest"
    assert second in steps
    environment, activation, install, demo = first.split(" && ")
    assert (environment, activation) == ("python3 -m venv .venv", ". .venv/bin/activate")
    assert install.replace("pip install", "pip install --quiet") in steps
    assert any(step.startswith(demo) for step in steps)
    assert demo == "idkmesh demo"
