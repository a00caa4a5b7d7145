"""Hostile WorkUnits: whatever a caller hands in, the answer is a graph or a code, and soon."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit_builders import REVISION, SCOPE, Unit, build, refusal, unit

from idkmesh.errors import ClaimError, ErrorCode
from idkmesh.graph import DependencyGraph


def _nested(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


def _swollen() -> object:
    value: object = "x"
    for _ in range(60):
        value = [value, value]
    return value


def _circular() -> object:
    value: list[object] = []
    value.append(value)
    return value


def _circular_dict() -> object:
    value: dict[str, object] = {}
    value["self"] = {"other": value}
    return value


class _Liar(dict[str, object]):
    """A dict that gives a raw error to whoever reads it."""

    def items(self) -> Any:
        raise OSError

    keys = values = items

    def __iter__(self) -> Iterator[str]:
        raise OSError


HOSTILE: dict[str, object] = {
    "65 levels": _nested(65),
    "a million levels": _nested(1_000_000),
    "swollen": _swollen(),
    "swollen keys": [{"k" * 100_000: 0}] * 1_000,
    "swollen text": ["x" * 100_000] * 1_000,
    "swollen whole numbers": [10**4_000] * 1_000,
    "circular": _circular(),
    "circular dict": _circular_dict(),
    "too wide": [0] * 2_000_000,
    "lone surrogate": "\ud800",
    "lone surrogate in a key": {"\udfff": 1},
    "number without end": float("inf"),
    "no number": float("nan"),
    "decoded 1e400": json.loads("1e400"),
    "huge number": 10**5_000,
    "huge negative number": -(10**100_000),
    "bytes": b"x",
    "set": {1},
    "object": object(),
    "class": dict,
    "int keys": {1: 1},
    "mixed keys": {1: 1, "a": 1},
    "tuple keys": {("a",): 1},
    "None key": {None: 1},
    "complex": 1j,
    "generator": (each for each in "a"),
    "error code": ErrorCode.INVALID_INPUT,
    "ordered dict": OrderedDict(a=1),
    "liar": _Liar(a=1),
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_json_cannot_carry_is_invalid_input(value: object) -> None:
    """Hostile content is refused with a code, before it costs time or stack."""
    call = lambda: DependencyGraph(SCOPE, [unit("a", note=value)], {"a": REVISION})  # noqa: E731
    error = refusal(call)
    assert error.code == "invalid_input"
    assert error.message.startswith("expected work_units[0] to ")


@pytest.mark.parametrize("part", ["version", "security", "dependencies", "provenance"])
def test_a_number_that_decoders_disagree_about_is_invalid_input(part: str) -> None:
    """The longest number that can be written but not read back is refused with a code."""
    call = lambda: build(unit("a", **{part: {"x": [-(10**4_299)]}}))  # noqa: E731
    assert refusal(call).code == "invalid_input"


@pytest.mark.parametrize("value", [_nested(63), "x" * 900_000, 10**4_000, -0.0, 5e-324, {"": {}}])
def test_what_json_can_carry_is_bound(value: object) -> None:
    """Unusual content that is JSON all the same is part of the digest."""
    assert build(unit("a", note=value)).digest != build(unit("a")).digest


JSON_LIKE: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary(max_size=3)
    | st.text(st.characters(categories=None), max_size=6)
    | st.sampled_from(["0.2", "requires", "low", "a", REVISION, "work_unit_id"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3)
            | st.sampled_from(["work_unit_id", "relationship", "condition", "risk_class"])
            | st.integers(),
            inner,
            max_size=3,
        )
        | st.tuples(inner)
    ),
    max_leaves=8,
)
PARTS = ["schema_version", "id", "version", "security", "dependencies", "provenance", "note"]


@given(st.dictionaries(st.sampled_from(PARTS), JSON_LIKE, max_size=3), JSON_LIKE)
def test_no_unit_brings_out_a_raw_error(parts: Unit, revision: Any) -> None:
    """Whatever the parts hold, a graph is built or refused with a code."""
    for revisions in ({"a": REVISION}, {"a": revision}, revision):
        with suppress(ClaimError):
            graph = DependencyGraph(SCOPE, [unit("a", **parts)], revisions)
            assert list(graph.bindings) == [parts.get("id", "a")]


@given(JSON_LIKE)
def test_no_list_of_units_brings_out_a_raw_error(work_units: Any) -> None:
    """Whatever is handed in as the units, the answer is a code."""
    assert refusal(lambda: DependencyGraph(SCOPE, work_units, {})).code == "invalid_input"
