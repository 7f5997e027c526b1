"""docs/promises.md has every entry, and each names tests that exist."""

import ast
import pathlib
import re

import pytest

from tests.bench import cases

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "promises.md").read_text()
SECTIONS = dict(re.findall(r"^## (P\d+)\. ([^#]*)", PAGE, re.MULTILINE))
_NAMED = re.compile(r"\[[^]]+\]\(\.\./(tests/[\w/]+\.py)\), `\1(?:::(\w+))?`")
_COMMAND = re.compile(r"at large: `make (campaign TARGET=tests/|e2e TARGET=\"-k |bench TARGET=)([\w/-]+)")


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
    for command, name in at_large:
        assert has_target(command, name), f"make {command}{name} runs nothing"


def has_target(command: str, name: str) -> bool:
    """Whether the command of the Makefile has tests, or a case of the benchmark, of that name."""
    match command.split()[0]:
        case "campaign":
            return (ROOT / "tests" / f"{name}.py").is_file()
        case "e2e":
            return any((ROOT / "tests" / "e2e").glob(f"*/{name}.py"))
        case _:
            return name in cases.CASES


@pytest.mark.parametrize(
    ("text", "exists"),
    [
        ("at large: `make campaign TARGET=tests/campaigns/test_kills.py`", True),
        ("at large: `make campaign TARGET=tests/campaigns/test_kill.py`", False),
        ('at large: `make e2e TARGET="-k test_outages"`', True),
        ('at large: `make e2e TARGET="-k test_kills"`', False),
        ("at large: `make bench TARGET=cold-start`", True),
        ("at large: `make bench TARGET=cold`", False),
    ],
)
def test_a_command_without_a_target_is_noticed(text: str, exists: bool) -> None:
    ((command, name),) = _COMMAND.findall(text)
    assert has_target(command, name) is exists
