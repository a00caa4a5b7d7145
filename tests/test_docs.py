"""The documents say what is there: every code, every event and column, and no stale name."""

import json
import re
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from builders import Clock, opened

from idkmesh import ErrorCode
from idkmesh.events import types as facts
from idkmesh.events.catalog import TAGS
from idkmesh.events.legacy import UPCASTS
from idkmesh.policy import ClaimBinding
from idkmesh.prerequisites import WorkUnitSourceBinding
from idkmesh.records import OwnerIdentity
from idkmesh.transfer import Line

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LEGACY = {str(event.__struct_config__.tag): event for event in UPCASTS}
SHARED = {
    "Authority": facts.Authority,
    "Approval": facts.Approval,
    "OwnerIdentity": OwnerIdentity,
    "ClaimBinding": ClaimBinding,
    "WorkUnitSourceBinding": WorkUnitSourceBinding,
    "PolicyRecord": facts.PolicyRecord,
}


def read(name: str) -> str:
    """Read a document."""
    return (DOCS / name).read_text(encoding="utf-8")


def sections(text: str, level: str) -> dict[str, str]:
    """Split a document at its headings of one level."""
    parts = re.split(rf"^{level} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table's rows, headers left out."""
    found = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    heads = {index - 1 for index, cells in enumerate(found) if set(cells[0]) <= set("-|")}
    return [
        cells for index, cells in enumerate(found) if index not in heads and index - 1 not in heads
    ]


def names(text: str) -> list[str]:
    """Return the first cell of every row, which is a name in code style, and demand the rest."""
    found = []
    for cells in rows(text):
        match = re.fullmatch(r"`([a-z0-9_]+)`", cells[0])
        assert match, cells
        assert all(re.search(r"\w", cell) for cell in cells), cells
        found.append(match[1])
    return found


def fields(shape: Any) -> list[str]:
    """Return the members that a shape has in a body, its tag aside."""
    return [field.encode_name for field in msgspec.structs.fields(shape)]


# Error codes.


def test_every_error_code_is_documented_with_both_parts_and_no_other() -> None:
    """The tables hold each code once, in order, with when it is raised and what to do next."""
    assert names(read("errors.md")) == [code.value for code in ErrorCode]
    for cells in rows(read("errors.md")):
        assert len(cells) == 3
        for part in cells[1:]:
            assert len(part.split()) >= 3, cells
            assert part.endswith("."), cells


def test_a_code_in_a_document_is_one_that_exists() -> None:
    """Whatever a document calls a store's or a clock's code is one."""
    known = {code.value for code in ErrorCode}
    kind = re.compile(
        r"`((?:store|clock|actor|approver|task|claim|event)_\w+|stale_\w+|\w+_(?:conflict|denied"
        r"|exhausted|required|unknown|forbidden))`"
    )
    named = {
        (path.name, name) for path in DOCS.glob("*.md") for name in kind.findall(read(path.name))
    }
    other = {"actor_type", "task_id", "claims_live", "clock_repair", "event_id"}
    assert {each for each in named if each[1] not in known | other} == set()
    assert ("decisions.md", "store_full") in named


# Events.


def test_every_event_type_is_documented_with_its_members() -> None:
    """Each event type, old ones too, has a section with its members in the order they have."""
    found = sections(read("events.md"), "###")
    assert [name.strip("`") for name in found] == [*TAGS, *LEGACY, *SHARED]
    for name, shape in {**TAGS, **LEGACY, **SHARED}.items():
        own = found[f"`{name}`"].split("\n## ")[0]
        assert names(own) == fields(shape), name


def test_every_column_is_documented(path: Path, clock: Clock) -> None:
    """The columns of the log and of all tables are named, in the order they have."""
    opened(path, clock).close()
    connection = apsw.Connection(str(path))
    columns = {
        table: [
            row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        ]
        for table in ("events", "tasks", "claims", "observations")
    }
    connection.close()
    found = sections(read("events.md"), "##")
    assert names(found["The row"]) == columns["events"]
    tables = columns["tasks"] + columns["claims"] + columns["observations"]
    assert names(found["The tables"]) == tables


def test_every_attribute_of_an_export_is_documented() -> None:
    """The attributes of an exported line are named, in the order they have."""
    assert names(sections(read("events.md"), "##")["The export"]) == fields(Line)


def test_the_documented_chain_rule_verifies_the_golden_log() -> None:
    """The rule's program, taken from the document, computes each chain value of the golden log."""
    program = re.findall(r"```python\n(.*?)```", read("events.md"), re.DOTALL)
    assert len(program) == 1
    defined: dict[str, Any] = {}
    exec(program[0], defined)  # noqa: S102  (the document's own program)
    lines = (ROOT / "schemas" / "golden-log.jsonl").read_text(encoding="utf-8").splitlines()
    chains: dict[str, bytes] = {}
    for row in map(json.loads, lines):
        chain = defined["link"](chains.get(row["scope"], bytes(32)), row)
        assert chain.hex() == row["chain"]
        chains[row["scope"]] = chain
    assert len(lines) >= len(TAGS)


# Guarantees and decisions.


def test_every_promise_names_tests_that_exist() -> None:
    """Each promise has at least one test file beside it, and each file that is named exists."""
    promises = rows(sections(read("guarantees.md"), "##")["What is promised"])
    assert len(promises) >= 15
    for cells in promises:
        shown = re.findall(r"`(tests/\w+\.py)`", cells[-1])
        assert shown, cells
        for name in shown:
            assert (ROOT / name).is_file(), name


def test_the_decisions_are_numbered_and_say_what_was_refused() -> None:
    """Decisions are numbered from 1 without a gap, and each names the alternatives refused."""
    found = sections(read("decisions.md"), "##")
    numbers = [int(title.split(".")[0]) for title in found]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 32
    for title, text in found.items():
        assert text.count("\nRefused: ") == 1, title


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_every_path_that_a_document_names_exists(path: Path) -> None:
    """A file of the project that a document names or links to is there."""
    text = path.read_text(encoding="utf-8")
    roots = "idkmesh|tests|schemas|tools|docs|examples"
    named = re.findall(rf"`((?:{roots})/[\w./-]+)`", text)
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [each for each in named if not (ROOT / each).exists()] == []
    assert [each for each in linked if not (path.parent / each).exists()] == []
