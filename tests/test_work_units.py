"""The WorkUnit's shape: what version 0.2 requires, said alike by types, schema and loader."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from unit_builders import REVISION, SCOPE, WHOLE, changed, complaint, loaded, part_of, refusal

from idkmesh.graph import DependencyGraph
from idkmesh.workunit_files import load_work_units
from idkmesh.workunits import work_unit_schema

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "examples" / "work-units"
SCHEMA_FILE = ROOT / "schemas" / "work-unit-v0.2.schema.json"
SCHEMA = work_unit_schema()
VALIDATOR = Draft202012Validator(SCHEMA)

REQUIRED = {
    "": "schema_version id version kind objective inputs outputs dependencies requirements "
    "constraints uncertainty security permissions verification_policy validators "
    "evidence_requirements budget provenance failure_semantics",
    "/requirements": "capabilities resources",
    "/constraints": "allowed_paths forbidden_paths policies",
    "/security": "risk_class data_classification minimum_worker_trust sandbox_required",
    "/permissions": "network filesystem_write secrets process_execution",
    "/verification_policy": "strategy independent_from_worker minimum_independent_verifiers",
    "/provenance": "created_by creator_type source",
    "/failure_semantics": "retryable max_attempts on_failure",
}
KINDS = [
    "coding",
    "testing",
    "review",
    "benchmarking",
    "documentation",
    "research",
    "integration",
    "governance",
    "other",
]


def test_the_schema_on_disk_is_what_the_types_say() -> None:
    """The published schema is the one that the types give, to the byte."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == json.dumps(SCHEMA, indent=2) + "\n"
    Draft202012Validator.check_schema(SCHEMA)


def test_the_fixtures_fit_the_schema_and_each_other() -> None:
    """The fixtures satisfy the schema, and research leads to coding, testing and review."""
    units = load_work_units(FIXTURES)
    for unit in units:
        VALIDATOR.validate(unit)
    graph = DependencyGraph(SCOPE, units, {unit["id"]: REVISION for unit in units})
    assert [unit["kind"] for unit in units] == ["research", "coding", "testing", "review"]
    assert dict(graph.requires) == {
        "trip-import/research-timestamps": (),
        "trip-import/code-timestamps": ("trip-import/research-timestamps",),
        "trip-import/test-timestamps": ("trip-import/code-timestamps",),
        "trip-import/review-timestamps": ("trip-import/code-timestamps",),
    }


@pytest.mark.parametrize("pointer", REQUIRED)
def test_the_required_parts_are_those_of_version_0_2(pointer: str, tmp_path: Path) -> None:
    """Each part that the version names is required, by the schema and by the loader."""
    assert VALIDATOR.is_valid(WHOLE)
    for name in REQUIRED[pointer].split():
        unit = copy.deepcopy(WHOLE)
        del part_of(unit, pointer)[name]
        assert not VALIDATOR.is_valid(unit)
        said = f"expected unit.json to have {pointer}/{name}, but it has not"
        assert complaint(tmp_path, unit) == said


@pytest.mark.parametrize("pointer", ["/extensions", "/provenance/source_revision"])
def test_extensions_and_the_source_revision_may_be_left_out(pointer: str, tmp_path: Path) -> None:
    """A unit without them is whole."""
    unit = copy.deepcopy(WHOLE)
    holder, _, name = pointer.rpartition("/")
    del part_of(unit, holder)[name]
    assert VALIDATOR.is_valid(unit)
    assert loaded(tmp_path, unit) == unit


def _objects(value: Any, pointer: str = "") -> Iterator[str]:
    """Walk over the pointers of a unit's objects."""
    if isinstance(value, dict):
        yield pointer
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for name, each in members:
        if isinstance(each, (dict, list)):
            yield from _objects(each, f"{pointer}/{name}")


@pytest.mark.parametrize("pointer", [each for each in _objects(WHOLE) if "extensions" not in each])
def test_only_extensions_are_free(pointer: str, tmp_path: Path) -> None:
    """An unknown member is refused everywhere, but in the extensions it is kept."""
    unit = changed(f"{pointer}/surprise", 1)
    assert not VALIDATOR.is_valid(unit)
    assert complaint(tmp_path, unit) == (
        f"expected unit.json to have no part of its own, but it has {pointer}/surprise"
    )
    free = changed("/extensions/surprise", {"any": ["thing"]})
    assert VALIDATOR.is_valid(free)
    assert loaded(tmp_path, free) == free


PATTERNED = [
    "/schema_version",
    "/id",
    "/kind",
    "/objective",
    "/inputs/0/name",
    "/inputs/0/from_work_unit",
    "/inputs/0/digest",
    "/outputs/0/path",
    "/dependencies/0/work_unit_id",
    "/dependencies/0/relationship",
    "/dependencies/1/condition",
    "/requirements/capabilities/0",
    "/requirements/resources/0/unit",
    "/constraints/allowed_paths/0",
    "/constraints/policies/0",
    "/security/risk_class",
    "/security/data_classification",
    "/provenance/created_by",
    "/provenance/creator_type",
    "/provenance/source",
    "/provenance/source_revision",
    "/failure_semantics/on_failure",
]


@pytest.mark.parametrize("pointer", [each for each in PATTERNED if each != "/objective"])
def test_a_trailing_newline_is_refused(pointer: str, tmp_path: Path) -> None:
    """No word, id, digest, path or line may end in a newline; prose may."""
    unit = changed(pointer, part_of(WHOLE, pointer) + "\n")
    assert not VALIDATOR.is_valid(unit)
    assert complaint(tmp_path, unit).startswith(f"expected unit.json at {pointer} to be ")


WORDS = {
    "/kind": KINDS,
    "/security/risk_class": ["low", "medium", "high", "critical"],
    "/security/data_classification": ["public", "internal", "confidential", "restricted"],
    "/dependencies/0/relationship": [
        "requires",
        "blocks",
        "informs",
        "validates",
        "derived_from",
    ],
}


@pytest.mark.parametrize("pointer", WORDS)
def test_a_word_is_one_of_those_that_the_version_names(pointer: str, tmp_path: Path) -> None:
    """Each of the words is taken, any other is refused, and the message lists them."""
    for word in WORDS[pointer]:
        assert loaded(tmp_path, changed(pointer, word)) == changed(pointer, word)
    message = complaint(tmp_path, changed(pointer, "hunter2"))
    assert message == (
        f"expected unit.json at {pointer} to be one of {', '.join(sorted(WORDS[pointer]))}, "
        "but it is not"
    )


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/id", "ab"),
        ("/id", "a" * 129),
        ("/id", "-ab"),
        ("/id", "Trips"),
        ("/version", 0),
        ("/objective", " \n"),
        ("/objective", "a\x1b[31m"),
        ("/objective", "a" * 4097),
        ("/constraints/allowed_paths/0", "/etc"),
        ("/constraints/allowed_paths/0", "src/../../etc"),
        ("/constraints/allowed_paths/0", ".."),
        ("/constraints/allowed_paths/0", "src\\keys"),
        ("/verification_policy/minimum_independent_verifiers", -1),
        ("/failure_semantics/max_attempts", 33),
        ("/budget/wall_seconds", 0),
        ("/provenance/source_revision", "main"),
        ("/dependencies/1/condition", " "),
    ],
)
def test_a_value_out_of_bounds_is_refused(pointer: str, value: object, tmp_path: Path) -> None:
    """Schema and loader refuse it alike; the message names the place."""
    unit = changed(pointer, value)
    assert not VALIDATOR.is_valid(unit)
    message = complaint(tmp_path, unit)
    assert message.startswith(f"expected unit.json at {pointer} to be ")
    assert message.endswith(", but it is not")


@pytest.mark.parametrize("pointer", PATTERNED)
def test_a_refused_text_is_not_shown(pointer: str, tmp_path: Path) -> None:
    """A secret that got into the wrong place stays out of the message."""
    message = complaint(tmp_path, changed(pointer, "hunter2\x07"))
    assert message.startswith(f"expected unit.json at {pointer} to be ")
    assert "hunter2" not in message


@pytest.mark.parametrize("value", ["src/a..b", "..src", "src/...", "a"])
def test_dots_in_a_path_are_fine_where_they_climb_nowhere(value: str, tmp_path: Path) -> None:
    """Only a part that is exactly two dots leaves the tree."""
    assert loaded(tmp_path, changed("/constraints/allowed_paths/0", value))


ANYTHING: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 40) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
PLACES = sorted(
    {pointer for pointer in _objects(WHOLE) if pointer and "extensions" not in pointer}
    | {f"{each}/{name}" for each, names in REQUIRED.items() for name in names.split()}
    | set(PATTERNED)
)


@given(st.sampled_from(PLACES), ANYTHING | st.sampled_from([*PATTERNED, *KINDS, "low", "0.2"]))
def test_schema_and_loader_agree(
    tmp_path_factory: pytest.TempPathFactory, pointer: str, value: object
) -> None:
    """Whatever stands in one place, the loader takes the unit exactly if the schema does."""
    unit = changed(pointer, value)
    file = tmp_path_factory.getbasetemp() / "agree.json"
    file.write_text(json.dumps(unit), encoding="utf-8")
    if VALIDATOR.is_valid(unit):
        assert load_work_units(file) == (unit,)
    else:
        message = refusal(lambda: load_work_units(file)).message
        assert message.startswith(("expected agree.json at /", "expected agree.json to have "))
        assert message.isprintable()
