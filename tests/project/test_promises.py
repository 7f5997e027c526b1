"""docs/promises.md has every entry, and each names tests that exist."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "promises.md").read_text()
SECTIONS = dict(re.findall(r"^## (P\d+)\. ([^#]*)", PAGE, re.MULTILINE))
_NAMED = re.compile(r"\[[^]]+\]\(\.\./(tests/[\w/]+\.py)\), `\1(?:::(\w+))?`")
_COMMAND = re.compile(r"at large: `make (?:campaign TARGET=tests/|e2e TARGET=\"-k )([\w/]+)")


@pytest.mark.parametrize("guarantee", [f"P{number}" for number in range(1, 21)])
def test_every_guarantee_names_tests_that_exist(guarantee: str) -> None:
    named = _NAMED.findall(SECTIONS[guarantee])
    assert named
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text())
        functions = {part.name for part in ast.walk(tree) if isinstance(part, ast.FunctionDef)}
        assert not function or function in functions, f"{path} has no {function}"
    commands = SECTIONS[guarantee].count("at large")
    at_large = _COMMAND.findall(SECTIONS[guarantee])
    assert len(at_large) == commands
    for name in at_large:
        assert any((ROOT / "tests" / folder / f"{name}.py").is_file() for folder in ("", "e2e")), name
