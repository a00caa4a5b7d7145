"""The ledger's own arguments: what every method refuses before it looks at anything else."""

from collections.abc import Iterator
from typing import Any

import pytest
from bad_inputs import (
    ANY,
    DIGEST,
    MARK,
    PRINCIPAL,
    bad_text,
    breaks,
    not_a_bool,
    not_text,
    other_than,
)
from builders import (
    APPROVER,
    DISPATCHER,
    ENDED,
    GRANT,
    READER,
    SCOPE,
    WORKER,
    Clock,
    binding,
    digest,
    granted,
    opened,
    refused,
    task,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from idkmesh import ClaimError, ClaimLedger, InvalidInput, TaskClaimPolicy

APPROVAL: dict[str, Any] = {"approver": APPROVER, "approval_reference": "change-7"}

# A call of every method that would be answered, by keyword alone.
CALLS: dict[str, dict[str, Any]] = {
    "configure_task": {"actor": DISPATCHER, "policy": TaskClaimPolicy(), **APPROVAL},
    "claim": {"actor": WORKER, "request_id": "r-1", "binding": binding()},
    "acknowledge": {"actor": WORKER, **GRANT},
    "renew": {"actor": WORKER, **GRANT},
    "progress": {"actor": WORKER, **GRANT},
    "release": {"actor": WORKER, **GRANT},
    "update_owner": {"actor": WORKER, **GRANT, "operation": "renew"},
    "reserve_dispatch": {"dispatcher": DISPATCHER, "owner": WORKER, **GRANT, **APPROVAL},
    "reconcile_execution": {"dispatcher": DISPATCHER, **ENDED, **APPROVAL},
    "record_submission": {
        "actor": WORKER,
        **GRANT,
        "artifact_digest": digest("c"),
        **APPROVAL,
    },
    "snapshot": {"actor": READER},
    "peek": {"actor": READER},
    "policy": {"actor": READER},
    "lookup": {"actor": READER, "request_id": "r-1"},
    "survey": {"scope": SCOPE, "actor": READER},
}
OBJECTS = ("task", "scope", "actor", "dispatcher", "owner", "approver", "policy", "binding")
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "request_id": bad_text,
    "evidence_reference": bad_text,
    "approval_reference": breaks(PRINCIPAL),
    "artifact_digest": breaks(DIGEST),
    "status": other_than("running", "terminal"),
    "operation": other_than("acknowledge", "renew", "progress", "release"),
}
# Survey's filters are no filter where they are None.
FILTERS: dict[str, st.SearchStrategy[Any]] = {
    "state": other_than("active", "released", "expired"),
    "occupancy": other_than("none", "unknown", "running", "terminal"),
    "overdue": not_a_bool,
    "owner": breaks(PRINCIPAL),
}


def arguments(method: str) -> dict[str, Any]:
    """Return the good arguments of a method, the task among them."""
    return CALLS[method] if method == "survey" else {"task": task(), **CALLS[method]}


def pairs(names: Any) -> list[tuple[str, str]]:
    """Pair every method with those of its arguments that are named."""
    return [(method, name) for method in CALLS for name in arguments(method) if name in names]


@pytest.fixture(scope="module")
def desk() -> Iterator[ClaimLedger]:
    """Give one ledger to many generated calls, none of which may change it."""
    with opened(":memory:", Clock()) as ledger:
        granted(ledger)
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **GRANT)
        yield ledger


def call(ledger: ClaimLedger, method: str, **changes: Any) -> Any:
    """Call a method with its good arguments, but for the changes."""
    return getattr(ledger, method)(**{**arguments(method), **changes})


def events(ledger: ClaimLedger) -> int:
    """Count the file's events."""
    with ledger._store.read() as session:
        return session.head().sequence


def expect_invalid(desk: ClaimLedger, method: str, **changes: Any) -> None:
    """Check that the call is refused as invalid input, shows no value, and writes nothing."""
    before = events(desk)
    with pytest.raises(InvalidInput) as caught:
        call(desk, method, **changes)
    assert caught.value.code == "invalid_input"
    assert isinstance(caught.value, ClaimError)
    assert isinstance(caught.value, ValueError)
    assert MARK not in str(caught.value) + repr(caught.value)
    assert events(desk) == before


@pytest.mark.parametrize(("method", "name"), pairs(SCALARS))
@settings(max_examples=15)
@given(data=st.data())
def test_a_wrong_scalar_is_invalid_input(
    desk: ClaimLedger, data: st.DataObject, method: str, name: str
) -> None:
    """Hostile text, a wrong word or another type is refused by name, and nothing is written."""
    expect_invalid(desk, method, **{name: data.draw(SCALARS[name])})


@pytest.mark.parametrize("name", FILTERS)
@settings(max_examples=15)
@given(data=st.data())
def test_a_wrong_filter_is_refused_at_the_call(
    desk: ClaimLedger, data: st.DataObject, name: str
) -> None:
    """A survey that asks for what cannot be is refused before it is iterated over."""
    bad = data.draw(FILTERS[name].filter(lambda value: value is not None))
    expect_invalid(desk, "survey", **{name: bad})


@pytest.mark.parametrize(("method", "name"), pairs(OBJECTS))
@settings(max_examples=15)
@given(
    bad=st.one_of(
        not_text,
        st.text(max_size=5),
        st.sampled_from([(), ("acme", "apollo"), {"tenant_id": "acme"}, TaskClaimPolicy, object()]),
    ).filter(lambda value: value is not None)
)
def test_a_wrong_object_is_a_type_error(
    desk: ClaimLedger, bad: Any, method: str, name: str
) -> None:
    """Where an object belongs, a dict, text or anything else is a TypeError and no refusal."""
    before = events(desk)
    with pytest.raises(TypeError):
        call(desk, method, **{name: bad})
    assert events(desk) == before


@pytest.mark.parametrize(("method", "name"), pairs(OBJECTS))
def test_an_object_of_another_kind_is_a_type_error(
    desk: ClaimLedger, method: str, name: str
) -> None:
    """One of the ledger's own objects in another's place, or a claim's record, is no better."""
    own = (task(), SCOPE, WORKER, TaskClaimPolicy(), binding(), desk.peek(task(), READER)[0])
    right = type(arguments(method)[name])
    for bad in own:
        if not isinstance(bad, right):
            with pytest.raises(TypeError):
                call(desk, method, **{name: bad})


@pytest.mark.parametrize(("method", "name"), [*pairs(OBJECTS), *pairs(SCALARS)])
def test_nothing_is_no_argument(desk: ClaimLedger, method: str, name: str) -> None:
    """None stands in for no argument; of the approval's two halves it makes a lone other."""
    before = events(desk)
    kinds = InvalidInput if name in SCALARS or name == "approver" else TypeError
    with pytest.raises(kinds):
        call(desk, method, **{name: None})
    assert events(desk) == before


@pytest.mark.parametrize(("method", "name"), pairs(["epoch"]))
@settings(max_examples=15)
@given(
    epoch=st.one_of(not_text, st.text(max_size=3), st.integers(2), st.just(10**9_999)).filter(
        lambda epoch: type(epoch) is not int or epoch != 1
    )
)
def test_a_wrong_epoch_is_stale(desk: ClaimLedger, epoch: Any, method: str, name: str) -> None:
    """Whatever stands in an epoch's place, of any type or size, is answered stale_claim."""
    before = events(desk)
    with refused("stale_claim"):
        call(desk, method, **{name: epoch})
    assert events(desk) == before


@settings(max_examples=30)
@given(text=st.text(ANY, min_size=1, max_size=512).filter(str.strip))
def test_good_text_comes_back_to_the_letter(text: str) -> None:
    """A request id and an evidence reference in any script are stored and read unchanged."""
    with opened(":memory:", Clock()) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
        ask: dict[str, Any] = {"request_id": text, "epoch": 1}
        ledger.claim(task(), WORKER, request_id=text, binding=binding())
        ledger.acknowledge(task(), WORKER, **ask)
        ledger.reserve_dispatch(task(), DISPATCHER, WORKER, **ask)
        evidence: dict[str, Any] = {"status": "running", "evidence_reference": text}
        ledger.reconcile_execution(task(), DISPATCHER, **ask, **evidence)
        got = ledger.lookup(task(), READER, request_id=text)
        assert (got.request_id, got.execution_reference) == (text, text)
        ledger.rebuild()
        assert ledger.lookup(task(), READER, request_id=text) == got


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀", '"', "\\", "\u202e", "\u200b"])
def test_the_longest_text_fits(memory_ledger: ClaimLedger, letter: str) -> None:
    """512 characters of any width, quoting or direction are stored, and 513 are refused."""
    memory_ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
    longest = letter * 512
    memory_ledger.claim(task(), WORKER, request_id=longest, binding=binding())
    assert memory_ledger.lookup(task(), READER, request_id=longest).epoch == 1
    with refused("invalid_input"):
        memory_ledger.lookup(task(), READER, request_id=longest + letter)


def test_two_spellings_are_two_requests(memory_ledger: ClaimLedger) -> None:
    """Text that looks alike in another normal form, case or padding is another request."""
    policy = TaskClaimPolicy(max_attempts=5)
    memory_ledger.configure_task(task(), DISPATCHER, policy)
    for number, text in enumerate(["é", "e\u0301", "É", " é", "é "], start=1):
        answer = memory_ledger.claim(task(), WORKER, request_id=text, binding=binding())
        assert (answer.created, answer.claim.epoch) == (True, number)
        memory_ledger.release(task(), WORKER, request_id=text, epoch=number)
