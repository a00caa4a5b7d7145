"""The package as syntax trees: its modules, what each imports, and the strings in it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import idkmesh

PACKAGE: Final = Path(idkmesh.__file__).parent


class Import(NamedTuple):
    """One imported module, the name taken from it, and whether that happens at run time."""

    module: str
    name: str
    at_run_time: bool


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of every module by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def imports(module: str) -> tuple[Import, ...]:
    """Return everything that a module imports, wherever in it the import stands."""
    return tuple(_imports(trees()[module], module, at_run_time=True))


def _imports(node: ast.AST, module: str, *, at_run_time: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(name.name, name.name, at_run_time) for name in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{module} imports by a relative name"
        for name in node.names:
            inner = f"{node.module}.{name.name}"
            module_named = inner if inner in trees() else str(node.module)
            yield Import(module_named, inner, at_run_time)
    elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for each in (*node.body, *node.orelse):
            yield from _imports(each, module, at_run_time=at_run_time and each in node.orelse)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, module, at_run_time=at_run_time)


def root(module: str) -> str:
    """Return a module's top-level package."""
    return module.partition(".")[0]


def ours(module: str) -> Iterator[Import]:
    """Yield a module's imports from the package itself."""
    return (each for each in imports(module) if root(each.module) == "idkmesh")


@cache
def beneath(module: str) -> frozenset[str]:
    """Return every module of the package that one needs at run time, itself among them."""
    found: set[str] = set()
    waiting = {module}
    while waiting:
        found |= waiting
        needed = {each.module for name in waiting for each in ours(name) if each.at_run_time}
        waiting = needed - found
    return frozenset(found)


def texts(module: str) -> Iterator[str]:
    """Yield a module's strings, the docstrings left out."""
    tree = trees()[module]
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value
