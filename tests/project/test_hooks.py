"""What runs before a commit: programs of the environment, which find the flaws that they are there for."""

import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
}


def run(hook: str, path: pathlib.Path) -> int:
    """The exit code of a hook for one file."""
    program, *arguments = HOOKS[hook]["entry"].split()
    command = [pathlib.Path(sys.executable).with_name(pathlib.Path(program).name), *arguments, path]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode


@pytest.mark.parametrize("hook", list(HOOKS))
def test_a_hook_runs_a_program_of_the_environment(hook: str) -> None:
    program = pathlib.PurePosixPath(HOOKS[hook]["entry"].split()[0])
    assert program.parts[:2] == (".venv", "bin")
    assert pathlib.Path(sys.executable).with_name(program.name).exists()


@pytest.mark.parametrize(
    ("hook", "path", "flaw"),
    [
        ("yamllint", "deploy/base/kustomization.yaml", "\nkind: Kustomization\n"),
        ("hadolint", "deploy/Dockerfile", "\nUSER root\n"),
    ],
)
def test_a_file_passes_and_a_flaw_in_it_is_found(
    tmp_path: pathlib.Path, hook: str, path: str, flaw: str
) -> None:
    assert re.search(HOOKS[hook]["files"], path)
    assert run(hook, ROOT / path) == 0
    flawed = tmp_path / pathlib.PurePosixPath(path).name
    flawed.write_text((ROOT / path).read_text() + flaw)
    assert run(hook, flawed) != 0
