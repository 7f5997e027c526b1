"""The page of promises: each is there, and each names tests that exist."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "promises.md").read_text()
ROWS = dict(re.findall(r"^\| (P\d+) \| (.*) \|$", PAGE, re.MULTILINE))
_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("promise", [f"P{number}" for number in range(1, 20)])
def test_a_promise_names_tests_that_exist(promise: str) -> None:
    named = _NAMED.findall(ROWS[promise])
    assert named
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text())
        functions = {part.name for part in ast.walk(tree) if isinstance(part, ast.FunctionDef)}
        assert not function or function in functions, f"{path} has no {function}"
