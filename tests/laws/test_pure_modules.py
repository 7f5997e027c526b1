"""The pure packages keep no state in modules: what is computed once belongs to a snapshot or a node set."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

import app
from app import domain, framework, plugins

_ROOT = pathlib.Path(app.__file__).parent
PACKAGES = (domain, framework, plugins)
CACHES = {"cache", "lru_cache", "cached_property", "singledispatch", "Memo", "WeakKeyDictionary"}
"""Decorators and constructors that make a cache of the module or of a class."""
MUTATORS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"),
    *("remove", "setdefault", "update", "sort", "reverse", "get_or_set"),
}


def problems(text: str) -> list[str]:
    """What keeps state in the module of this text: global statements, caches, changed module variables."""
    tree = ast.parse(text)
    names = set(_assigned(tree))
    found = [
        f"line {node.lineno}: {problem}"
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
        if isinstance(node, ast.stmt | ast.expr) and (problem := _changed(node, names))
    ]
    found += [
        f"line {node.lineno}: cache {_name(node)}"
        for statement in ast.walk(tree)
        for node in _run_at_import(tree, statement)
        if _name(node) in CACHES
    ]
    return sorted(set(found))


def _assigned(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from (one.id for one in statement.targets if isinstance(one, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.ClassDef):
            yield statement.name


def _changed(node: ast.AST, names: set[str]) -> str:
    """How the node changes one of the module's variables; empty if it does not."""
    if isinstance(node, ast.Global):
        return f"global {', '.join(node.names)}"
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        return f"{_root(node)} is changed" if _root(node) in names else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        called, owner = node.func.attr, node.func.value
        if called in MUTATORS and isinstance(owner, ast.Name) and owner.id in names:
            return f"{owner.id}.{called}()"
    return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _run_at_import(tree: ast.Module, statement: ast.AST) -> Iterator[ast.expr]:
    """Decorators anywhere, and the calls by which module variables get their values."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from statement.decorator_list
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement in tree.body and statement.value:
        yield from (node for node in ast.walk(statement.value) if isinstance(node, ast.Call))


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def modules() -> list[pathlib.Path]:
    return sorted(path for package in PACKAGES for path in pathlib.Path(package.__path__[0]).rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(_ROOT)))
def test_no_module_of_the_pure_packages_keeps_state(path: pathlib.Path) -> None:
    assert problems(path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "@lru_cache(32)\ndef f(x): return x",
        "@functools.cache\ndef f(x): return x",
        "class A:\n    @functools.lru_cache\n    def f(self): return 1",
        "_latest = {}\ndef f(x):\n    _latest[x] = 1",
        "_latest: dict[str, int] = {}\ndef f(x):\n    if x: _latest.clear()",
        "_latest = {}\ndef f(x):\n    del _latest[x]",
        "_seen = set()\nf = lambda x: _seen.add(x)",
        "_count = 0\ndef f():\n    global _count\n    _count += 1",
        "MEMO = memos.Memo(3)",
        "class A:\n    held = None\ndef f(x):\n    A.held = x",
        "_by = {'a': []}\ndef f(x):\n    _by['a'][0] = x",
    ],
)
def test_state_planted_in_a_module_is_found(planted: str) -> None:
    assert problems(planted) != []


def test_constants_and_locals_are_not_state() -> None:
    text = "TABLE = {'a': 1}\ndef f(x):\n    found = dict(TABLE)\n    found[x] = 2\n    return found"
    assert problems(text) == []
