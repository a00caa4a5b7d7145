"""Loading WorkUnits: files and folders in one call, and errors that name file and place."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit_builders import WHOLE, changed, complaint, loaded, refusal

from idkmesh.errors import InvalidInput
from idkmesh.workunit_files import load_work_units


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
    whole = json.dumps(WHOLE)
    twice = whole.replace('"version": 1', '"version": 1,\n  "v\\u0065rsion": 2')
    yield b"", "at line 1, column 1 to be JSON, but it is not: input data was truncated"
    yield b'{"a":\n 1,}', "at line 2, column 4 to be JSON, but it is not: trailing comma in object"
    yield b'{"a" 1}', "at line 1, column 6 to be JSON, but it is not: expected ':'"
    yield b'{"\xc3\xa4": x}', "at line 1, column 7 to be JSON, but it is not: invalid character"
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
        b'{"\\u00e4\\n": 1, "\\u00e4\\n": 1}',
        "at line 1, column 17 to be a key that its object has once, but \xe4\\n is there already",
    )
    for number in ("NaN", "Infinity", "-Infinity", "1e400", "-1E999"):
        yield (
            f'{{"a":{number}}}'.encode(),
            "at line 1, column 6 to be a finite number, but it is not",
        )
    for number in ("4611686018427992704", "-4611686018427992704", "9" * 64):
        yield (
            f'{{"a":{number}}}'.encode(),
            (
                "at line 1, column 6 to be a number up to 4611686018427992703 either way, "
                "but it is larger"
            ),
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


@pytest.mark.parametrize(("data", "said"), list(_faults()), ids=lambda each: repr(each)[:40])
def test_a_fault_is_said_with_its_place(data: bytes, said: str, tmp_path: Path) -> None:
    """The message names the file and where in it what was expected, and shows no value."""
    message = complaint(tmp_path, data)
    assert message.lower() == f"expected unit.json {said}".lower()


LABEL = (
    "1-64 lowercase letters, digits, '.', '_' or '-', the first a letter or digit, but it is not"
)


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
        ("/requirements/resources/0/unit", "A", f"at /requirements/resources/0/unit to be {LABEL}"),
    ],
)
def test_a_wrong_shape_is_said_with_its_pointer(
    pointer: str, value: object, said: str, tmp_path: Path
) -> None:
    """The message gives a JSON pointer, what belongs there, and the type that is there."""
    if "~" in pointer:
        unit = changed("/security/new", value)
        unit["security"]["a~b/c"] = unit["security"].pop("new")
    else:
        unit = changed(pointer, value)
    assert complaint(tmp_path, unit) == f"expected unit.json {said}"


def test_what_is_within_the_limits_is_loaded(tmp_path: Path) -> None:
    """The deepest nesting, the largest number and the longest file are still taken."""
    nested: object = 2**62 + 604_799
    for _ in range(62):
        nested = [nested]
    unit = changed("/extensions/nested", nested)
    text = json.dumps(unit).encode()
    assert loaded(tmp_path, text + b" " * (1_048_576 - len(text))) == unit


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


JSON_SCRAPS: st.SearchStrategy[bytes] = st.text('{}[]":,\\ \n01eE+-.aNul\xe9', max_size=60).map(
    str.encode
)


@given(st.binary(max_size=60) | JSON_SCRAPS)
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
