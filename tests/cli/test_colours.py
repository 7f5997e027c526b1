"""Colours: on a terminal, unless an option or the environment decides."""

import json

import click
import pytest
from click import testing

from app import cli
from app.cli.output import colours

ESCAPE = "\x1b["
BARE = {name: "/proc/nonexistent" for name in ("XDG_STATE_HOME", "KUBECONFIG", "HOME")}
CLEAR = {"NO_COLOR": None, "CLICOLOR_FORCE": None}
COMMANDS = (("status",), ("doctor", "run"))


@pytest.fixture(autouse=True)
def nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOLOG_SERVER_HEALTH_PORT", "9")
    monkeypatch.setenv("TOPOLOG_CLIENT_URL", "https://127.0.0.1:9")


def printed(*arguments: str, terminal: bool = False, **environ: str) -> str:
    """What is printed; ``terminal``: as on one."""
    run = testing.CliRunner().invoke(cli.topolog, arguments, env={**BARE, **CLEAR, **environ}, color=terminal)
    assert run.exit_code == 1, run.output  # Nothing is running, which is not ok.
    return run.output


@pytest.mark.parametrize("command", COMMANDS)
def test_colours_are_printed_on_a_terminal_only(command: tuple[str, ...]) -> None:
    assert ESCAPE in printed(*command, terminal=True)
    assert ESCAPE not in printed(*command)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_decides_before_the_command_or_after_it(command: tuple[str, ...]) -> None:
    assert ESCAPE in printed(*command, "--color", "always", NO_COLOR="1")
    assert ESCAPE in printed("--color", "always", *command)
    assert ESCAPE not in printed(*command, "--color", "never", terminal=True, CLICOLOR_FORCE="1")
    assert ESCAPE not in printed("--color", "never", *command, terminal=True)
    assert ESCAPE not in printed("--color", "always", *command, "--color", "never")
    assert ESCAPE not in printed("--color", "always", *command, "--color", "auto")


def test_the_environment_decides_without_an_option() -> None:
    assert ESCAPE in printed("status", CLICOLOR_FORCE="1")
    assert ESCAPE not in printed("status", terminal=True, NO_COLOR="1")
    assert ESCAPE not in printed("status", NO_COLOR="1", CLICOLOR_FORCE="1")
    assert ESCAPE not in printed("status", "--color", "auto", terminal=True, NO_COLOR="1")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"NO_COLOR": ""}, None),
        ({"NO_COLOR": "0"}, False),
        ({"CLICOLOR_FORCE": "0"}, None),
        ({"CLICOLOR_FORCE": ""}, None),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
    ],
)
def test_variables_of_the_environment(environ: dict[str, str], expected: bool | None) -> None:
    assert colours.of_environment(environ) is expected


def test_documents_have_no_colours() -> None:
    assert json.loads(printed("doctor", "run", "-o", "json", "--color", "always"))["counts"]


def test_only_colours_differ() -> None:
    def lines(*more: str) -> list[str]:
        return printed("doctor", "run", *more).splitlines()[1:]

    plain, coloured = lines(), lines("--color", "always")
    assert [click.unstyle(line) for line in coloured] == plain
