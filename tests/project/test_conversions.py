"""Types are examined by msgspec before a process has threads: see app/converters.py."""

import ast
import pathlib
import re
from collections.abc import Iterator

from tests.project import reference_pages

CONVERTERS = reference_pages.ROOT / "app" / "converters.py"
BUILTINS = {"dict", "list", "str", "int", "object", "Any"}
"""What msgspec examines again at each use."""


def late(source: str) -> Iterator[str]:
    """The calls that may be the first use of a type, wherever they run, each with its line."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    within = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        types = [ast.unparse(one.value) for one in node.keywords if one.arg == "type"]
        typed = any(set(re.findall(r"\w+", one)) - BUILTINS for one in types)
        decodes = called.endswith(".decode") and called.startswith("msgspec.") and typed
        made = called.startswith("msgspec.") and called.endswith("Decoder") and id(node) in within
        if called == "msgspec.convert" or decodes or made:
            yield f"{node.lineno}: {called}"


def test_no_type_is_examined_by_the_thread_that_uses_it_first() -> None:
    early = "a = msgspec.json.Decoder(A)\ndef f(x):\n    return msgspec.json.decode(x, type=dict[str, Any])"
    assert list(late(early)) == []
    for body in ("msgspec.convert(x, A)", "msgspec.json.decode(x, type=list[A])", "msgspec.json.Decoder(A)"):
        assert list(late(f"def f(x):\n    return {body}")) == [f"2: {body.partition('(')[0]}"]
    folders = ("app", "workers", "migrations")
    modules = [path for one in folders for path in (reference_pages.ROOT / one).rglob("*.py")]
    assert CONVERTERS in modules
    found = {_name(path): list(late(path.read_text())) for path in modules if path != CONVERTERS}
    assert {name: calls for name, calls in found.items() if calls} == {}


def _name(path: pathlib.Path) -> str:
    return path.relative_to(reference_pages.ROOT).as_posix()
