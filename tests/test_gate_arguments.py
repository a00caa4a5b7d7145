"""The gate's arguments: wrong types, wrong values, hostile ones, each with its answer."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from builders import (
    APPROVER,
    DISPATCHER,
    OTHER_SCOPE,
    READER,
    SCOPE,
    WORKER,
    Clock,
    adds,
    digest,
    opened,
    refused,
    task,
)
from gate_builders import PARSE, READ, admitted, configured, gate_on, integrate, seen
from hypothesis import given
from hypothesis import strategies as st
from unit_builders import REVISION, unit

from idkmesh import (
    ClaimError,
    ClaimLedger,
    DependencyGraph,
    ErrorCode,
    ExecutorAdmission,
    InvalidInput,
    PrerequisiteObservation,
    ScopedResourceRef,
    WorkUnitSourceBinding,
)


@pytest.fixture
def gate(memory_ledger: ClaimLedger) -> ExecutorAdmission:
    """Give a gate with an acknowledged claim r-1 of T-1 on a unit that is ready."""
    configured(memory_ledger)
    gate = gate_on(memory_ledger)
    integrate(gate, READ)
    admitted(gate, memory_ledger)
    return gate


ADMIT: dict[str, Any] = {"node": PARSE, "task": task(), "worker": WORKER, "request_id": "r-1"}
APPROVED: dict[str, Any] = {"approver": APPROVER, "approval_reference": "change-1"}
RESERVE: dict[str, Any] = {
    "node": PARSE,
    "task": task(),
    "dispatcher": DISPATCHER,
    "owner": WORKER,
    "request_id": "r-1",
    "epoch": 1,
    **APPROVED,
}
SUBMIT: dict[str, Any] = {
    "node": PARSE,
    "task": task(),
    "owner": WORKER,
    "request_id": "r-1",
    "epoch": 1,
    "artifact_digest": digest("e"),
    **APPROVED,
}
PHASES = {"admit": ADMIT, "reserve_execution": RESERVE, "submit": SUBMIT}


def call(gate: ExecutorAdmission, phase: str, **changes: Any) -> Any:
    """Call a phase in the usual way, but for the arguments given."""
    return getattr(gate, phase)(**{**PHASES[phase], **changes})


def each_phase(*arguments: str) -> list[tuple[str, str]]:
    """Pair each of the arguments with every phase that has it."""
    return [(phase, name) for name in arguments for phase in PHASES if name in PHASES[phase]]


# Objects of another type.


@pytest.mark.parametrize(
    ("phase", "argument"), each_phase("task", "worker", "dispatcher", "owner", "approver")
)
@pytest.mark.parametrize("wrong", [None, "T-1", {"principal_id": "worker-1"}, SCOPE, WORKER, 7])
def test_another_object_is_a_type_error(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission, phase: str, argument: str, wrong: Any
) -> None:
    """What is no task reference or no actor is a TypeError that names the argument."""
    if argument == "approver" and wrong is None:
        with refused("invalid_input"):  # it comes with its reference or not at all
            call(gate, phase, approver=None)
        return
    wrong = task() if wrong is WORKER and argument != "task" else wrong
    with adds(memory_ledger), pytest.raises(TypeError, match=f"expected {argument} to be a"):
        call(gate, phase, **{argument: wrong})


def test_a_gate_stands_on_a_graph_and_a_ledger(memory_ledger: ClaimLedger) -> None:
    """Anything else in their place is a TypeError, and the gate offers its graph."""
    graph = gate_on(memory_ledger).graph
    assert ExecutorAdmission(graph, memory_ledger).graph is graph
    made: list[tuple[Any, Any, str]] = [
        (memory_ledger, graph, "graph"),
        (None, memory_ledger, "graph"),
        ({"feeds/read": {}}, memory_ledger, "graph"),
        (graph, "claims.sqlite3", "ledger"),
        (graph, memory_ledger._store, "ledger"),
    ]
    for wrong_graph, wrong_ledger, argument in made:
        with pytest.raises(TypeError, match=f"expected {argument} to be a"):
            ExecutorAdmission(wrong_graph, wrong_ledger)


# Scalars that may not be.

WRONG: dict[str, list[Any]] = {
    "node": [None, 7, b"feeds/parse", ["feeds/parse"], {"feeds/parse"}, True, 1.5, ...],
    "request_id": [None, 7, b"r-1", "", " \u2003", "r\n", "r\x00", "\x85", "\ud800", "x" * 513],
    "artifact_digest": [
        None,
        digest("e").encode(),
        digest("E"),
        digest("e") + "\n",
        " " + digest("e"),
        "e" * 64,
        "md5:" + "e" * 64,
        "sha256:" + "e" * 63,
        "sha256:" + "٣" * 64,
        2**256,
    ],
    "approval_reference": [None, 7, "", "two words", "/first", "x" * 257, "change\n", ["c"]],
}


@pytest.mark.parametrize(
    ("phase", "argument", "wrong"),
    [(phase, name, wrong) for phase, name in each_phase(*WRONG) for wrong in WRONG[name]],
    ids=repr,
)
def test_a_wrong_scalar_is_invalid_input(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission, phase: str, argument: str, wrong: Any
) -> None:
    """Each scalar is checked before the lock, under its name, and nothing is written."""
    with adds(memory_ledger), pytest.raises(InvalidInput) as caught:
        call(gate, phase, **{argument: wrong})
    assert caught.value.code == "invalid_input"
    assert "expected approver and approval_reference" in caught.value.message or (
        caught.value.message.startswith(f"expected {argument} to be")
    )


@pytest.mark.parametrize("reader", ["readiness", "observations"])
@pytest.mark.parametrize("wrong", WRONG["node"], ids=repr)
def test_readers_ask_for_a_node_by_its_id(
    gate: ExecutorAdmission, reader: str, wrong: object
) -> None:
    """What is no text is invalid input, and any other text than a unit's id is unknown."""
    ask: Callable[[object], object] = getattr(gate, reader)
    with refused("invalid_input"):
        ask(wrong)
    for unknown in ("", "feeds", "FEEDS/READ", "feeds/read\n", "feeds/read ", "\ud800", "x" * 999):
        with refused("unknown_work_unit"):
            ask(unknown)


@pytest.mark.parametrize("phase", ["reserve_execution", "submit"])
@pytest.mark.parametrize("wrong", [True, 1.0, "1", None, b"1", [1], 2, 0, -1, 2**80, ...])
def test_an_epoch_that_is_not_the_claims_is_stale(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission, phase: str, wrong: Any
) -> None:
    """Another number and another type than ``int`` alike are ``stale_claim``."""
    with adds(memory_ledger), refused("stale_claim"):
        call(gate, phase, epoch=wrong)


@pytest.mark.parametrize("phase", PHASES)
def test_a_task_must_be_one_of_the_graphs_scope(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission, phase: str
) -> None:
    """A resource of another type is invalid input, a task of elsewhere ``scope_mismatch``."""
    project = ScopedResourceRef(SCOPE, "project", "T-1")
    with adds(memory_ledger):
        with refused("invalid_input"):
            call(gate, phase, task=project)
        with refused("scope_mismatch"):
            call(gate, phase, task=task("T-1", OTHER_SCOPE))


class Sly(str):
    """Text that is equal to nothing and has a hash and a face of its own."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 7

    def __str__(self) -> str:
        return "another"


def test_text_of_any_kind_is_taken_as_plain_text(
    memory_ledger: ClaimLedger, gate: ExecutorAdmission
) -> None:
    """A subclass of ``str`` stands for its characters, in the ledger and in the records."""
    record = call(gate, "admit", node=Sly(PARSE), request_id=Sly("r-1")).record
    assert (type(record.work_unit_id), record.work_unit_id) == (str, "feeds/parse")
    assert (type(record.claim.request_id), record.claim.request_id) == (str, "r-1")
    assert memory_ledger.lookup(task(), READER, request_id="r-1") == record.claim
    submitted = call(gate, "submit", request_id=Sly("r-1"), artifact_digest=Sly(digest("e")))
    assert submitted.claim.submission_digest == digest("e")


def test_readers_take_text_of_any_kind(gate: ExecutorAdmission) -> None:
    """A node may be asked for by a subclass of ``str``."""
    assert len(gate.observations(Sly(READ))) == 1
    assert gate.readiness(Sly(PARSE)) == gate.readiness(PARSE)


# Anything at all.

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(1, 3).map(lambda power: 10 ** (power * 2_000))
    | st.floats()
    | st.binary(max_size=3)
    | st.text(st.characters(categories=None), max_size=6)
    | st.sampled_from(
        [PARSE, READ, "r-1", digest("e"), "change-1", task(), WORKER, DISPATCHER, SCOPE, object]
    )
    | st.sampled_from([*ErrorCode]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)


def answer(ask: Callable[[], Any]) -> Any:
    """Return what is answered, or the error that answers."""
    try:
        return ask()
    except (ClaimError, TypeError) as error:
        return error


@given(data=st.data())
def test_no_argument_brings_out_a_raw_error(data: st.DataObject) -> None:
    """Whatever a phase is given, the answer is a claim, a code, or a TypeError of its own."""
    phase = data.draw(st.sampled_from(sorted(PHASES)))
    names = st.sampled_from(sorted(PHASES[phase]))
    changes = data.draw(st.dictionaries(names, ANYTHING, min_size=1, max_size=3))
    with opened(":memory:", Clock()) as ledger:
        gate = gate_on(ledger)
        configured(ledger)
        integrate(gate, READ)
        admitted(gate, ledger)
        found = answer(lambda: call(gate, phase, **changes))
        if isinstance(found, ClaimError):
            assert pickle.loads(pickle.dumps(found)).code is found.code  # noqa: S301 - own data
        elif isinstance(found, TypeError):
            assert str(found).startswith("expected ")
        else:
            assert found.claim.request_id == "r-1"


REFUSALS = {
    "invalid_input",
    "scope_mismatch",
    "unknown_work_unit",
    "integration_evidence_required",
}


@given(
    changes=st.dictionaries(
        st.sampled_from(sorted(PrerequisiteObservation.__struct_fields__)), ANYTHING, max_size=3
    ),
    bound=st.dictionaries(
        st.sampled_from(sorted(WorkUnitSourceBinding.__struct_fields__)), ANYTHING, max_size=2
    ),
)
def test_no_observation_brings_out_a_raw_error(
    changes: dict[str, Any], bound: dict[str, Any]
) -> None:
    """Whatever an observation is made of, it is refused at once or retained as it is."""
    with opened(":memory:", Clock()) as ledger:
        gate = gate_on(ledger)
        known = gate.graph.bindings[READ]

        def observe() -> PrerequisiteObservation:
            binding = WorkUnitSourceBinding(**{**known.to_dict(), **bound})
            made = seen(gate, READ, **{"binding": binding, **changes})
            assert gate.observe(made) is True
            return made

        found = answer(observe)
        if isinstance(found, ClaimError):
            assert found.code in REFUSALS
        elif isinstance(found, TypeError):
            assert str(found).startswith("expected ")
        else:
            assert gate.observations(READ) == (found,)


# Units with names that are hard to bear.

NAMES = {
    "slashes": "a/b//c/../..",
    "like a key": "acme/apollo/task/T-1",
    "like a stream": "acme/apollo/observations",
    "sql": "x'); DROP TABLE observations; --",
    "wildcards": "%_*?[a-z]",
    "quotes": '"`\\',
    "colon": "prerequisite_missing:feeds/read",
    "bidi": "\u202efeeds\u2066",
    "zero width": "feeds\u200b/read",
    "combining": "e\u0301",
    "composed": "\u00e9",
    "astral": "\U0001f6b2" * 512,
    "long": "x" * 512,
    "dash": "--help",
    "private": "\ue000",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_unit_may_have_any_name(memory_ledger: ClaimLedger, name: str) -> None:
    """Such a unit is observed, blocks under its own name, is shown harmlessly, and is claimed."""
    units = [
        unit(name),
        unit("last", name),
        *(unit(each) for each in NAMES.values() if each != name),
    ]
    graph = DependencyGraph(SCOPE, units, {each["id"]: REVISION for each in units})
    gate = ExecutorAdmission(graph, memory_ledger)
    configured(memory_ledger)
    with pytest.raises(ClaimError) as caught:
        gate.admit("last", task(), WORKER, request_id="r-1")
    assert caught.value.blockers == (f"prerequisite_missing:{name}",)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 600
    made = seen(gate, name, event_id=name, verification_reference=name, integration_reference=name)
    assert gate.observe(made) is True
    assert gate.observations(name) == (made,)
    assert name not in gate.ready_units()
    claim, record = gate.admit("last", task(), WORKER, request_id=name)
    assert (claim.request_id, record.created) == (name, True)
    memory_ledger.rebuild()
    assert gate.observations(name) == (made,)


def test_a_unit_may_require_very_many(memory_ledger: ClaimLedger) -> None:
    """A thousand blockers are all on the error; a chain of a thousand needs no stack."""
    names = [f"{number:04}" for number in range(1_000)]
    chain = [unit(names[0]), *(unit(name, names[int(name) - 1]) for name in names[1:])]
    units = [*chain, unit("last", *names)]
    graph = DependencyGraph(SCOPE, units, {each["id"]: REVISION for each in units})
    gate = ExecutorAdmission(graph, memory_ledger)
    configured(memory_ledger)
    with pytest.raises(ClaimError) as caught:
        gate.admit("last", task(), WORKER, request_id="r-1")
    assert caught.value.code == "task_not_ready"
    assert caught.value.blockers == tuple(f"prerequisite_missing:{name}" for name in names)
    integrate(gate, names[0])
    assert gate.readiness(names[1]).ready
    assert gate.readiness(names[999]).blockers == ("prerequisite_missing:0998",)
