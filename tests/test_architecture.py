"""The shape of the package: who may import whom, and what has one home only.

All of it is read from the syntax tree, so a new module is judged as soon as it is there:
one that no layer names is a plain concept, which may rest on other concepts alone.
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from typing import Any, Final

import msgspec
import pytest
from package_tree import PACKAGE, beneath, imports, ours, root, texts, trees

import idkmesh
from idkmesh.events import catalog

LONGEST: Final = 400

# From the top down. A module imports from its own layer and from those below, never up.
LAYERS: Final = (
    ("the command line", r"cli(\..+)?"),
    ("the public names", r""),
    ("the gate", r"admission"),
    ("the facade and the reports", r"ledger|replay|transfer|repair|schemas"),
    ("the verification", r"verification"),
    ("the facade's parts, and what verification knows", r"questions|ownership|legality|comparison"),
    ("the transaction loop", r"transact"),
    ("the commands", r"commands(\..+)?"),
    ("the projections", r"projections(\..+)?"),
    ("the events and their stores", r"events(\..+)?"),
    ("the concepts", r".+"),
)
FACADES: Final = ("idkmesh.ledger", "idkmesh.admission")

# A decision sees read-only state: no clock, no store, no table.
IMPURE: Final = re.compile(
    r"idkmesh\.(clock|transact|projections\.tables"
    r"|events\.(port|sql|sqlite_store|sessions|engine|files|turnstile))"
)
PLAIN_LIBRARIES: Final = frozenset(
    ["abc", "collections", "enum", "functools", "itertools", "msgspec", "operator", "typing"]
)

TIMES: Final = frozenset(["time", "datetime", "calendar", "sched"])
CHANCES: Final = frozenset(["random", "secrets", "uuid", "numpy"])
MONOTONIC_HOMES: Final = frozenset(
    ["idkmesh.events.turnstile", "idkmesh.events.sqlite_store", "idkmesh.events.sessions"]
)

STATEMENT: Final = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|ATTACH|DETACH|PRAGMA|VACUUM)\b"
)
TRANSACTION: Final = re.compile(r"\b(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b")


def layer(module: str) -> int:
    """Return the number of a module's layer, 0 at the top."""
    name = module.removeprefix("idkmesh").removeprefix(".")
    return next(at for at, (_, names) in enumerate(LAYERS) if re.fullmatch(names, name))


# Who imports whom. Each test lists what breaks its rule, and the list must be empty.


def test_imports_point_down() -> None:
    """No module imports from a layer above its own."""
    upward = [
        f"{module} ({LAYERS[layer(module)][0]}) imports {each.module} ({LAYERS[up][0]})"
        for module in trees()
        for each in ours(module)
        if (up := layer(each.module)) < layer(module)
    ]
    assert upward == []


def test_imports_never_close_a_circle() -> None:
    """No module needs itself at run time, by whatever way round."""
    circles = [
        f"{module} and {each.module}"
        for module in trees()
        for each in ours(module)
        if each.at_run_time and module in beneath(each.module)
    ]
    assert circles == []


def test_nothing_imports_the_facades() -> None:
    """Only the public names, the command line and the gate, a facade itself, rest on a facade."""
    resting = [
        f"{module} imports {each.module}"
        for module in trees()
        for each in ours(module)
        if each.at_run_time
        and module not in ("idkmesh", *FACADES)
        and not module.startswith("idkmesh.cli")
        and (each.module in (*FACADES, "idkmesh") or each.module.startswith("idkmesh.cli"))
    ]
    assert resting == []


def test_the_engine_is_spoken_to_by_the_store_alone() -> None:
    """Only modules of the events import apsw, and nothing imports the standard sqlite3."""
    importers = {
        (module, root(each.module))
        for module in trees()
        for each in imports(module)
        if root(each.module) in ("apsw", "sqlite3")
    }
    assert importers
    assert {each for each in importers if not each[0].startswith("idkmesh.events.")} == set()
    assert {library for _, library in importers} == {"apsw"}


# What has one home.


def test_time_is_read_in_its_homes() -> None:
    """The clock reads the time, a lock's deadline is monotonic, the command line may wait."""
    readers = [
        f"{module} imports {each.name}"
        for module in trees()
        for each in imports(module)
        if root(each.module) in TIMES
        and module != "idkmesh.clock"
        and not module.startswith("idkmesh.cli")
        and not (module in MONOTONIC_HOMES and each.name == "time.monotonic")
        and (module, root(each.module)) != ("idkmesh.transfer", "datetime")  # it writes times
    ]
    assert readers == []


def test_nothing_is_left_to_chance() -> None:
    """No module imports a source of random values, and none asks the system for them."""
    importers = [
        f"{module} imports {each.name}"
        for module in trees()
        for each in imports(module)
        if root(each.module) in CHANCES
    ]
    callers = [
        f"{module} names {node.attr}"
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("urandom", "getrandom")
    ]
    assert importers + callers == []


def test_statements_live_in_sql_files() -> None:
    """SQL stands in ``.sql`` files, but for the engine's own."""
    found = [
        (module, text)
        for module in trees()
        if module != "idkmesh.events.engine"
        for text in texts(module)
        if STATEMENT.search(text)
    ]
    assert found == []


def test_transactions_are_the_stores_affair() -> None:
    """Nothing but the events' own modules begins, commits or undoes a transaction."""
    speakers = {module for module in trees() for text in texts(module) if TRANSACTION.search(text)}
    assert speakers
    assert {module for module in speakers if not module.startswith("idkmesh.events.")} == set()


def test_every_statement_has_a_name() -> None:
    """Each statement in a ``.sql`` file stands under a name that no other one there has."""
    files = sorted(PACKAGE.rglob("*.sql"))
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8")
        names = re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)
        assert len(set(names)) == len(names) > 0, path.name
        before = text.partition("-- name:")[0]
        assert not STATEMENT.search(before), f"{path.name} begins with a statement without a name"


# Decisions and events.


def command_modules() -> list[str]:
    """Return the modules that must hold a decision."""
    shared = ("idkmesh.commands", "idkmesh.commands.rules")
    return [name for name in trees() if name.startswith("idkmesh.commands") and name not in shared]


@pytest.mark.parametrize("name", command_modules())
def test_every_command_module_has_one_decision(name: str) -> None:
    """A module of commands decides one thing, and the task's state is the last argument."""
    module = importlib.import_module(name)
    decisions: list[Any] = [
        vars(value)["decide"]
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == name and "decide" in vars(value)
    ] or [
        value
        for key, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == name
        and list(inspect.signature(value).parameters)[-1:] == ["state"]
        and not key.startswith("_")
    ]
    assert len(decisions) == 1
    assert list(inspect.signature(decisions[0]).parameters)[-1] == "state"


@pytest.mark.parametrize("name", [*command_modules(), "idkmesh.projections.task"])
def test_decisions_and_folds_are_pure(name: str) -> None:
    """What decides or folds reaches no clock, no store and no table, however indirectly."""
    assert [each for each in sorted(beneath(name)) if IMPURE.fullmatch(each)] == []
    outside = {root(each.module) for each in imports(name)} - {"idkmesh"}
    assert outside <= PLAIN_LIBRARIES


def appliers() -> dict[type, Any]:
    """Return every applier of every projection by its event's class."""
    found: dict[type, Any] = {}
    for name in trees():
        if name.startswith("idkmesh.projections."):
            own = getattr(importlib.import_module(name), "APPLIERS", {})
            assert found.keys().isdisjoint(own), f"{name} applies an event that another applies"
            found |= own
    return found


def test_every_event_of_a_task_has_an_applier() -> None:
    """Each event that a task's stream may hold is folded, and nothing else is by that fold."""
    task = importlib.import_module("idkmesh.projections.task")
    assert set(task.APPLIERS) == set(catalog.TASK_EVENTS)


def test_every_event_has_one_applier() -> None:
    """Each event of the catalog is applied by exactly one fold, and no fold applies another."""
    assert set(appliers()) == set(catalog.EVENTS)


def structs(kind: Any) -> set[type[msgspec.Struct]]:
    """Return every class that a stored event is made of."""
    found: set[type[msgspec.Struct]] = set()
    waiting = [msgspec.inspect.type_info(kind)]
    while waiting:
        info = waiting.pop()
        assert not isinstance(
            info,
            msgspec.inspect.FloatType
            | msgspec.inspect.ListType
            | msgspec.inspect.DictType
            | msgspec.inspect.AnyType,
        ), f"{info} is stored"
        if isinstance(info, msgspec.inspect.IntType):
            assert info.ge is not None or info.gt is not None
            assert info.le is not None or info.lt is not None
        if isinstance(info, msgspec.inspect.StructType) and info.cls not in found:
            found.add(info.cls)
            waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, msgspec.inspect.VarTupleType):
            waiting.append(info.item_type)
    return found


@pytest.mark.parametrize("event", catalog.EVENTS, ids=lambda event: event.__name__)
def test_events_are_facts_without_defaults(event: type[msgspec.Struct]) -> None:
    """No class of an event's has a default, all are frozen, refuse the unknown, bound numbers."""
    for part in structs(event):
        assert part.__struct_defaults__ == (), f"{part.__name__} has a default"
        assert part.__struct_config__.frozen, part.__name__
        assert part.__struct_config__.forbid_unknown_fields, part.__name__
        assert not part.__struct_config__.array_like, part.__name__
    assert event.__struct_config__.tag_field == "type"


def test_tags_are_versioned_and_name_one_event_each() -> None:
    """Every event class is stored under a tag of its own that ends in a version."""
    tags = [str(event.__struct_config__.tag) for event in catalog.EVENTS]
    assert len(set(tags)) == len(tags)
    assert list(catalog.TAGS) == tags
    assert all(re.fullmatch(r"[a-z]+\.[a-z]+\.v[1-9][0-9]*", tag) for tag in tags)


def test_the_catalog_holds_every_event_class() -> None:
    """A class that is tagged like an event is in the catalog, so that it can be read back."""
    types = importlib.import_module("idkmesh.events.types")
    tagged = {
        value
        for name, value in vars(types).items()
        if inspect.isclass(value)
        and issubclass(value, msgspec.Struct)
        and value.__struct_config__.tag is not None
        and not name.startswith("_")
    }
    assert tagged == set(catalog.EVENTS)


# The package as a whole.


def test_the_public_names_are_sorted_and_nothing_else() -> None:
    """``__init__`` imports its public names, lists them in order, and does nothing more."""
    docstring, *body = trees()["idkmesh"].body
    assert isinstance(docstring, ast.Expr)
    *froms, listing = body
    assert isinstance(listing, ast.Assign)
    assert ast.unparse(listing.targets[0]) == "__all__"
    assert all(isinstance(node, ast.ImportFrom) for node in froms)
    imported = [
        name.asname or name.name
        for node in froms
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]
    assert list(idkmesh.__all__) == sorted(imported)
    assert list(idkmesh.__all__) == sorted(set(idkmesh.__all__))


def test_importing_idkmesh_loads_no_optional_dependency() -> None:
    """``import idkmesh`` needs msgspec and apsw, and nothing that an extra installs."""
    program = "import sys, idkmesh; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    loaded = set(done.stdout.split())
    optional = {"click", "rich", "jsonschema", "hypothesis", "pytest", "_pytest", "attr", "sqlite3"}
    assert {"idkmesh", "msgspec", "apsw"} <= loaded
    assert loaded.isdisjoint(optional)


def test_every_file_can_be_read_in_one_sitting() -> None:
    """No file of the package is longer than 400 lines."""
    files = [path for kind in ("*.py", "*.sql") for path in PACKAGE.rglob(kind)]
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}
