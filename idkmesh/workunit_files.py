"""WorkUnits out of files: one call, whose errors name the file and the place in it."""

import os
import re
import stat
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from idkmesh.errors import InvalidInput
from idkmesh.naming import shown
from idkmesh.strict_json import place_in, screen
from idkmesh.workunits import WorkUnit, work_unit_schema

MAX_FILE_BYTES: Final = 1_048_576

# A FIFO would block the opening itself; the type is looked at after it, on what was opened.
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_shape: Final = msgspec.json.Decoder(WorkUnit)
_PLACED: Final = r"(?P<fault>[\s\S]*?)(?: - at `\$(?P<path>[^`]*)`)?\Z"
_FIELD: Final = r"Object (?P<what>missing required|contains unknown) field `(?P<name>[\s\S]*)`\Z"
_TYPES: Final = r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)`\Z"
_AT_BYTE: Final = r"(?P<fault>.*) \(byte (?P<byte>\d+)\)\Z"

_content: Final = msgspec.json.Decoder()


def load_work_units(*paths: str | os.PathLike[str]) -> tuple[dict[str, Any], ...]:
    """Return the WorkUnits that files and folders hold, ready for ``DependencyGraph``.

    Each file holds one WorkUnit, version 0.2, as a JSON object in UTF-8
    (``work-unit-v0.2.schema.json``). The answer is in the order of ``paths``. Whether the units
    fit each other is for the graph to say (admission contract, WorkUnits and the graph).

    Args:
        paths: Files of any name, and folders, of which every ``*.json`` is read in the
            order of the names; not the folders in them.

    Raises:
        InvalidInput: No path is given; one is not there, cannot be read, is no regular file
            or is larger than 1 MiB; a folder has no ``*.json``; the text is not UTF-8 or not
            JSON, nests deeper than 64 levels, has a key twice, a number out of bounds or a
            lone surrogate; or it is not of a WorkUnit's shape. The message names the file,
            without its folder, and the line and column or the JSON pointer
            (``invalid_input``).
    """
    if not paths:
        message = "expected at least one path, but there is none"
        raise InvalidInput(message)
    return tuple(_load(file) for path in paths for file in _files(path))


def _files(path: str | os.PathLike[str]) -> Iterator[str]:
    try:
        given: object = os.fspath(path)
    except TypeError:
        given = None
    if not isinstance(given, str):
        message = f"expected paths to be str or PathLike, but one is a {type(path).__name__}"
        raise InvalidInput(message)
    try:
        if not os.path.isdir(given):
            yield given
            return
        names = sorted(name for name in os.listdir(given) if os.path.splitext(name)[1] == ".json")
    except (OSError, ValueError) as error:
        raise _unreadable(_source(given), error) from None
    if not names:
        message = f"expected {_source(given)} to hold a file *.json, but it holds none"
        raise InvalidInput(message)
    yield from (os.path.join(given, name) for name in names)


def _load(file: str) -> dict[str, Any]:
    source = _source(file)
    data = _read(file, source)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        message = f"expected {source} at {place_in(before, len(before))} to be UTF-8, but it is not"
        raise InvalidInput(message) from None
    screen(text, source)
    try:
        content = _content.decode(data)  # all of it, so that broken text is said to be broken
        _shape.decode(data)
    except msgspec.ValidationError as error:
        raise InvalidInput(_shape_fault(str(error), source)) from None
    except msgspec.DecodeError as error:
        raise InvalidInput(_syntax_fault(str(error), source, data)) from None
    return cast("dict[str, Any]", content)


def _read(file: str, source: str) -> bytes:
    try:
        data = _read_regular(file)
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from None
    if data is None:
        message = f"expected {source} to be a regular file, but it is not"
        raise InvalidInput(message)
    if len(data) > MAX_FILE_BYTES:
        message = f"expected {source} to have at most {MAX_FILE_BYTES} bytes, but it has more"
        raise InvalidInput(message)
    return data


def _read_regular(file: str) -> bytes | None:
    """Return a little more than the bytes allowed, or None where it is no regular file."""
    descriptor = os.open(file, _OPEN_FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(MAX_FILE_BYTES + 1)


def _source(path: str) -> str:
    """Return what a message calls a path: its last part, since the rest could be private."""
    return shown(os.path.basename(path.rstrip(os.sep)) or path)


def _unreadable(source: str, error: OSError | ValueError) -> InvalidInput:
    # An OSError's own text holds the whole path; a ValueError is about a NUL in it.
    detail = error.strerror if isinstance(error, OSError) else "it is no path"
    return InvalidInput(f"expected {source} to be readable, but it is not: {detail}")


def _syntax_fault(fault: str, source: str, data: bytes) -> str:
    found = re.match(_AT_BYTE, fault)
    detail = (found["fault"] if found else fault).removeprefix("JSON is malformed: ")
    before = data[: int(found["byte"]) if found else len(data)].decode(errors="ignore")
    place = place_in(before, len(before))
    return f"expected {source} at {place} to be JSON, but it is not: {detail}"


def _shape_fault(error: str, source: str) -> str:
    """Say what the decoder said, with a JSON pointer and without any value."""
    placed = re.match(_PLACED, error)
    fault, path = (placed["fault"], placed["path"] or "") if placed else (error, "")
    pointer = re.sub(r"\[(\d+)\]", r"/\1", path).replace(".", "/")
    if field := re.match(_FIELD, fault):
        name = shown(field["name"]).replace("~", "~0").replace("/", "~1")
        if field["what"] == "missing required":
            return f"expected {source} to have {pointer}/{name}, but it has not"
        return f"expected {source} to have no part of its own, but it has {pointer}/{name}"
    place = pointer or "its top"
    if types := re.match(_TYPES, fault):
        return f"expected {source} at {place} to be {types['expected']}, but it is {types['found']}"
    return f"expected {source} at {place} to be {_rule_at(pointer, fault)}, but it is not"


def _rule_at(pointer: str, fault: str) -> str:
    """Return what the schema says in words about a place, or else what the decoder said."""
    schema = work_unit_schema()
    rule = schema
    for part in pointer.split("/")[1:]:
        if "$ref" in rule:
            rule = schema["$defs"][rule["$ref"].rpartition("/")[2]]
        rule = rule["items"] if part.isdigit() else rule["properties"][part]
    rule = rule.get("anyOf", [rule])[0]
    if "enum" in rule:
        return f"one of {', '.join(rule['enum'])}"
    said = fault.removeprefix("Expected ").replace("`", "")
    return str(rule.get("description", said))
