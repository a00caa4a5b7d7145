"""WorkUnit files: the shape they have, the schema that says it, and how they are loaded."""

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from unit_builders import REVISION, SCOPE, Unit, refusal

from idkmesh.errors import InvalidInput
from idkmesh.graph import DependencyGraph
from idkmesh.workunit_files import load_work_units
from idkmesh.workunits import work_unit_schema

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "examples" / "work-units"
SCHEMA_FILE = ROOT / "schemas" / "work-unit-v0.2.schema.json"
SCHEMA = work_unit_schema()
VALIDATOR = Draft202012Validator(SCHEMA)

LOOSE: Unit = {
    "schema_version": "0.2",
    "id": "trips/parse",
    "version": 1,
    "kind": "coding",
    "objective": "Parse.\n\tBoth feeds.",
    "inputs": [
        {
            "name": "notes",
            "description": "What was found.",
            "from_work_unit": "trips/read",
            "digest": "sha256:" + "0f" * 32,
        }
    ],
    "outputs": [{"name": "patch", "description": "The change.", "path": "src/a.py"}],
    "dependencies": [
        {"work_unit_id": "trips/read", "relationship": "requires", "condition": None},
        {"work_unit_id": "trips/plan", "relationship": "informs", "condition": "on main"},
    ],
    "requirements": {
        "capabilities": ["python"],
        "resources": [{"name": "memory", "amount": 2, "unit": "gib"}],
    },
    "constraints": {
        "allowed_paths": ["src/**"],
        "forbidden_paths": ["src/keys/**"],
        "policies": ["no-new-dependencies"],
    },
    "uncertainty": {"level": "low", "open_questions": ["Which feed first?"]},
    "security": {
        "risk_class": "low",
        "data_classification": "internal",
        "minimum_worker_trust": "registered",
        "sandbox_required": True,
    },
    "permissions": {
        "network": False,
        "filesystem_write": True,
        "secrets": False,
        "process_execution": True,
    },
    "verification_policy": {
        "strategy": "automated",
        "independent_from_worker": True,
        "minimum_independent_verifiers": 1,
    },
    "validators": [{"name": "tests", "method": "command", "expectation": "pytest exits 0."}],
    "evidence_requirements": [{"name": "log", "description": "The output.", "required": True}],
    "budget": {"wall_seconds": 60, "model_tokens": 0, "cost_usd_cents": 0},
    "provenance": {
        "created_by": "planner",
        "creator_type": "service",
        "source": "backlog",
        "source_revision": "AB" * 20,
    },
    "failure_semantics": {"retryable": True, "max_attempts": 3, "on_failure": "retry"},
    "extensions": {"free": [1, {"of": None}]},
}
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


def part_of(unit: Any, pointer: str) -> Any:
    """Return the part of a unit that a JSON pointer names."""
    for step in pointer.split("/")[1:]:
        unit = unit[int(step)] if isinstance(unit, list) else unit[step]
    return unit


def changed(pointer: str, value: object) -> Unit:
    """Return the loose unit with one part put in or replaced."""
    unit = copy.deepcopy(LOOSE)
    holder, _, name = pointer.rpartition("/")
    owner = part_of(unit, holder)
    owner[int(name) if isinstance(owner, list) else name] = value
    return unit


@pytest.fixture
def load(tmp_path: Path) -> Callable[[object], Unit]:
    """Give a function that writes a unit, or bytes, to ``unit.json`` and loads it."""

    def load(content: object) -> Unit:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        file = tmp_path / "unit.json"
        file.write_bytes(data)
        (unit,) = load_work_units(file)
        return unit

    return load


Load = Callable[[object], Unit]


def message_of(load: Load, content: object) -> str:
    """Return what is said against a file, which is always invalid input."""
    error = refusal(lambda: load(content))
    assert isinstance(error, InvalidInput)
    return error.message


# The schema and the fixtures.


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
def test_the_required_parts_are_those_of_version_0_2(pointer: str, load: Load) -> None:
    """Each part that the version names is required, by the schema and by the loader."""
    assert VALIDATOR.is_valid(LOOSE)
    for name in REQUIRED[pointer].split():
        unit = copy.deepcopy(LOOSE)
        del part_of(unit, pointer)[name]
        assert not VALIDATOR.is_valid(unit)
        assert (
            message_of(load, unit) == f"expected unit.json to have {pointer}/{name}, but it has not"
        )


@pytest.mark.parametrize("pointer", ["/extensions", "/provenance/source_revision"])
def test_extensions_and_the_source_revision_may_be_left_out(pointer: str, load: Load) -> None:
    """A unit without them is whole."""
    unit = copy.deepcopy(LOOSE)
    holder, _, name = pointer.rpartition("/")
    del part_of(unit, holder)[name]
    assert VALIDATOR.is_valid(unit)
    assert load(unit) == unit


def _objects(value: object, pointer: str = "") -> Iterator[str]:
    """Walk over the pointers of a unit's objects."""
    if isinstance(value, dict):
        yield pointer
    members = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type,var-annotated]  # a list
    for name, each in members:
        if isinstance(each, (dict, list)):
            yield from _objects(each, f"{pointer}/{name}")


@pytest.mark.parametrize("pointer", [each for each in _objects(LOOSE) if "extensions" not in each])
def test_only_extensions_are_free(pointer: str, load: Load) -> None:
    """An unknown member is refused everywhere, but in the extensions it is kept."""
    unit = changed(f"{pointer}/surprise", 1)
    assert not VALIDATOR.is_valid(unit)
    assert message_of(load, unit) == (
        f"expected unit.json to have no part of its own, but it has {pointer}/surprise"
    )
    free = changed("/extensions/surprise", {"any": ["thing"]})
    assert VALIDATOR.is_valid(free)
    assert load(free) == free


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
def test_a_trailing_newline_is_refused(pointer: str, load: Load) -> None:
    """No word, id, digest, path or line may end in a newline; prose may."""
    unit = changed(pointer, part_of(LOOSE, pointer) + "\n")
    assert not VALIDATOR.is_valid(unit)
    assert message_of(load, unit).startswith(f"expected unit.json at {pointer} to be ")


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
def test_a_word_is_one_of_those_that_the_version_names(pointer: str, load: Load) -> None:
    """Each of the words is taken, any other is refused, and the message lists them."""
    for word in WORDS[pointer]:
        assert load(changed(pointer, word)) == changed(pointer, word)
    message = message_of(load, changed(pointer, "hunter2"))
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
        ("/version", 2**62),
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
def test_a_value_out_of_bounds_is_refused_without_being_shown(
    pointer: str, value: object, load: Load
) -> None:
    """Schema and loader refuse it alike; the message names the place and never the value."""
    unit = changed(pointer, value)
    assert not VALIDATOR.is_valid(unit)
    message = message_of(load, unit)
    assert message.startswith(f"expected unit.json at {pointer} to be ")
    assert message.endswith(", but it is not")
    assert str(value) not in message.removeprefix(f"expected unit.json at {pointer}") or value == 0


@pytest.mark.parametrize("value", ["src/a..b", "..src", "src/...", "a"])
def test_dots_in_a_path_are_fine_where_they_climb_nowhere(value: str, load: Load) -> None:
    """Only a part that is exactly two dots leaves the tree."""
    assert load(changed("/constraints/allowed_paths/0", value))


ANYTHING: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 40) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
PLACES = sorted(
    {pointer for pointer in _objects(LOOSE) if pointer and "extensions" not in pointer}
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


# Loading.


def test_files_and_folders_are_loaded_in_one_call(tmp_path: Path) -> None:
    """Units come in the order of the paths; of a folder every *.json, sorted by name."""
    folder = tmp_path / "units"
    folder.mkdir()
    (folder / "deeper").mkdir()
    for place in ("b.json", "a.json", "c.txt", "deeper/d.json", "../first"):
        unit = changed("/id", "unit/" + Path(place).stem)
        (folder / place).write_text(json.dumps(unit), encoding="utf-8")
    units = load_work_units(str(tmp_path / "first"), folder)
    assert [unit["id"] for unit in units] == ["unit/first", "unit/a", "unit/b"]


def _faults() -> Iterator[tuple[bytes, str]]:
    """Give the text of a file and what is said against it after its name."""
    whole = json.dumps(LOOSE)
    twice = whole.replace('"version": 1', '"version": 1,\n  "v\\u0065rsion": 2')
    yield b"", "at line 1, column 1 to be JSON, but it is not: input data was truncated"
    yield b'{"a":\n 1,}', "at line 2, column 4 to be JSON, but it is not: trailing comma in object"
    yield b'{"a" 1}', "at line 1, column 6 to be JSON, but it is not: expected ':'"
    yield b'{"\xc3\xa4": tru}', "at line 1, column 10 to be JSON, but it is not: invalid character"
    yield b'{"a": "\x01"}', "at line 1, column 8 to be JSON, but it is not: invalid character"
    yield b"\xef\xbb\xbf{}", "at line 1, column 1 to be JSON, but it is not: invalid character"
    yield b'{}\n"\xff"', "at line 2, column 2 to be UTF-8, but it is not"
    yield b"[]", "at its top to be object, but it is array"
    yield b"7", "at its top to be object, but it is int"
    yield (
        twice.encode(),
        "at line 2, column 3 to be a key that its object has once, but version is there already",
    )
    yield (
        b'{"extensions": {"\\ud83d\\ude00\\n": 1, "\\ud83d\\ude00\\n": 1}}',
        "at line 1, column 36 to be a key that its object has once, "
        "but \N{GRINNING FACE}\\n is there already",
    )
    for number in ("NaN", "Infinity", "-Infinity", "1e400", "-1E999"):
        yield (
            f'{{"a":{number}}}'.encode(),
            "at line 1, column 6 to be a finite number, but it is not",
        )
    for number in (str(2**62), "-" + str(2**62), "9" * 64):
        yield (
            f'{{"a":{number}}}'.encode(),
            "at line 1, column 6 to be a number up to 2**62 - 1 either way, but it is larger",
        )
    for number in ("1" * 65, "0." + "1" * 100_000, "1e" + "0" * 500_000):
        yield (
            f'{{"a":{number}}}'.encode(),
            "at line 1, column 6 to be a number of at most 64 characters, but it is longer",
        )
    for text in ("\\ud800", "\\udc00\\ud800", "a\\uDBFF"):
        yield (
            f'{{"a":"{text}"}}'.encode(),
            "at line 1, column 6 to hold whole characters, but it holds a lone surrogate",
        )
    for nest in (b"[" * 65, b'{"a":' * 64 + b"[", b"[" * 1_000_000):
        place = 65 if nest.startswith(b"[") else 5 * 64 + 1
        yield nest, f"at line 1, column {place} to be at most 64 levels deep, but it is deeper"
    yield b"[" * 64, "at line 1, column 65 to be JSON, but it is not: input data was truncated"
    yield (
        b'"' + b'\\"' * 500_000,
        ("at line 1, column 1000002 to be JSON, but it is not: input data was truncated"),
    )
    yield b" " * 1_048_577, "to have at most 1048576 bytes, but it has more"


@pytest.mark.parametrize(("data", "said"), _faults(), ids=lambda each: repr(each)[:40])
def test_a_fault_is_said_with_its_place(data: bytes, said: str, load: Load) -> None:
    """The message names the file and where in it what was expected, and shows no value."""
    message = message_of(load, data)
    assert message.lower() == f"expected unit.json {said}".lower()


@pytest.mark.parametrize(
    ("pointer", "value", "said"),
    [
        ("/version", True, "at /version to be int, but it is bool"),
        ("/version", "1", "at /version to be int, but it is str"),
        ("/version", 0, "at /version to be int >= 1, but it is not"),
        ("/inputs", {}, "at /inputs to be array, but it is object"),
        ("/inputs/0", "hunter2", "at /inputs/0 to be object, but it is str"),
        ("/extensions", None, "at /extensions to be object, but it is null"),
        (
            "/dependencies/0/condition",
            5,
            "at /dependencies/0/condition to be str | null, but it is int",
        ),
        ("/security/a~b/c", 1, "to have no part of its own, but it has /security/a~0b~1c"),
        (
            "/id",
            "A",
            "at /id to be 3-128 lowercase letters, digits, '.', '_', '/' or '-', "
            "the first a letter or digit, but it is not",
        ),
    ],
)
def test_a_wrong_shape_is_said_with_its_pointer(
    pointer: str, value: object, said: str, load: Load
) -> None:
    """The message gives a JSON pointer, what belongs there, and the type that is there."""
    if "~" in pointer:
        unit = changed("/security/new", value)
        unit["security"]["a~b/c"] = unit["security"].pop("new")
    else:
        unit = changed(pointer, value)
    assert message_of(load, unit) == f"expected unit.json {said}"


def test_what_is_within_the_limits_is_loaded(load: Load) -> None:
    """The deepest nesting, the largest number and the longest file are still taken."""
    nested: object = 2**62 - 1
    for _ in range(62):
        nested = [nested]
    unit = changed("/extensions/nested", nested)
    text = json.dumps(unit).encode()
    assert load(text + b" " * (1_048_576 - len(text))) == unit


@pytest.mark.parametrize("made", ["missing", "folder", "empty", "fifo", "link", "nul"])
def test_what_is_no_file_is_refused_by_its_name(made: str, tmp_path: Path) -> None:
    """Missing paths, and what is no regular file, are refused at once and without their folder."""
    place = tmp_path / "secret" / "unit.json"
    place.parent.mkdir()
    said = "to be readable, but it is not: No such file or directory"
    asked: Path = place
    if made == "folder":
        place.mkdir()
        asked, said = place.parent, "to be a regular file, but it is not"
    elif made == "empty":
        place.mkdir()
        said = "to hold a file *.json, but it holds none"
    elif made == "fifo":
        os.mkfifo(place)
        said = "to be a regular file, but it is not"
    elif made == "link":
        place.symlink_to("nowhere")
        asked = place.parent
    elif made == "nul":
        asked = place.with_name("unit.json\0")
        said = "to be readable, but it is not: it is no path"
    error = refusal(lambda: load_work_units(asked))
    assert isinstance(error, InvalidInput)
    name = "unit.json\\x00" if made == "nul" else "unit.json"
    assert error.message == f"expected {name} {said}"
    assert error.__cause__ is None


@pytest.mark.parametrize("paths", [(), (5,), (None,), (b"x",)])
def test_paths_must_be_given(paths: tuple[Any, ...]) -> None:
    """No path, or what is no path, is invalid input."""
    assert isinstance(refusal(lambda: load_work_units(*paths)), InvalidInput)


def test_a_file_name_in_a_message_is_harmless(tmp_path: Path) -> None:
    """Escapes in a name reach no terminal."""
    message = refusal(lambda: load_work_units(tmp_path / "a\x1b[31m\nb.json")).message
    assert message.startswith("expected a\\x1b[31m\\nb.json to be readable")


@given(
    st.binary(max_size=60)
    | st.text('{}[]":,\\ \n01eE+-.aNul\ud800'.replace("\ud800", "é"), max_size=60).map(str.encode)
)
def test_no_bytes_bring_out_a_raw_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    """Whatever a file holds, it is refused with a code and a printable line."""
    file = tmp_path_factory.getbasetemp() / "bytes.json"
    file.write_bytes(data)
    error = refusal(lambda: load_work_units(file))
    assert isinstance(error, InvalidInput)
    assert error.message.startswith("expected bytes.json ")
    assert error.message.isprintable()
