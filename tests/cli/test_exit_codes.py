"""The exit code of every command, for each way in which it may end (app.exit_codes)."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import click
import pytest

from app import cli, exit_codes
from tests.support import commands

NOWHERE = "http://127.0.0.1:9"
"""Nothing listens there."""


class Ends(NamedTuple):
    """How a command ends."""

    arguments: str = ""
    """``FILE`` is one that does not exist."""
    refused: int | None = exit_codes.SETTINGS
    """With settings that are not valid; None if it starts without."""
    alone: int | None = exit_codes.UNREACHABLE
    """Without a store, an API server and an extender; None if it waits for them."""


READS_NO_SETTINGS = (exit_codes.USAGE, exit_codes.USAGE)
PROCESS = Ends(alone=None)
CHECK = Ends(alone=exit_codes.NEGATIVE)
STORE = Ends(alone=exit_codes.STORE)
ARCHIVE = Ends(alone=exit_codes.SETTINGS)
COMMANDS = {
    "up": PROCESS,
    "demo": Ends(refused=None, alone=None),
    "record": PROCESS,
    "control": PROCESS,
    "compact": PROCESS,
    "audit": PROCESS,
    "extender": PROCESS,
    "view": PROCESS,
    "certs": Ends("FILE", *READS_NO_SETTINGS),
    "bootstrap": Ends(),
    "migrate status": STORE,
    "migrate up": STORE,
    "adopt": STORE,
    "archive export": ARCHIVE,
    "archive ls": ARCHIVE,
    "archive verify": ARCHIVE,
    "status": CHECK,
    "doctor all": CHECK,
    "doctor cluster": CHECK,
    "doctor policies": CHECK,
    "doctor run": CHECK,
    "doctor scheduler": CHECK,
    "doctor store": CHECK,
    "doctor tls": CHECK,
    "doctor users": Ends(alone=exit_codes.OK),
    "explain": Ends("shop/a"),
    "get": Ends("nodes"),
    "flags set": Ends("A true"),
    "flags unset": Ends("A"),
    "simulate": Ends("--pending"),
    "fit": Ends("shop/a"),
    "diff": Ends("1 2"),
    "replay": Ends(),
    "bisect": Ends("shop/a"),
    "shadow delete": Ends("strict"),
    "shadow set": Ends("strict --weights A=1"),
    "shadow show": Ends("strict"),
    "watch": Ends(),
    "dashboard": PROCESS,
    "bundle create": Ends("-o FILE"),
    "bundle inspect": Ends("FILE", *READS_NO_SETTINGS),
    "bundle open": Ends("FILE", *READS_NO_SETTINGS),
    "bundle pseudonymize": Ends("FILE -o FILE", *READS_NO_SETTINGS),
    "bundle translate": Ends("--names FILE", *READS_NO_SETTINGS),
    "bundle verify": Ends("FILE", *READS_NO_SETTINGS),
    "score": Ends("FILE", *READS_NO_SETTINGS),
    "settings": Ends(alone=exit_codes.OK),
    "completion": Ends("bash", exit_codes.OK, exit_codes.OK),
    "version": Ends("", exit_codes.OK, exit_codes.OK),
}


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands that do something, with those that they belong to."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


@pytest.fixture
def nowhere(tmp_path: pathlib.Path) -> dict[str, str]:
    """An environment in which nothing answers."""
    return {
        "TOPOLOG_CLIENT_URL": NOWHERE,
        "TOPOLOG_CLIENT_VIEW_URL": NOWHERE,
        "TOPOLOG_STORE_URL": "redis://127.0.0.1:9",
        "KUBECONFIG": commands.kubeconfig(tmp_path),
    }


def spelled(name: str, file: pathlib.Path) -> list[str]:
    """The words of a command."""
    return [*name.split(), *COMMANDS[name].arguments.replace("FILE", str(file)).split()]


def test_every_command_is_in_the_table() -> None:
    assert sorted(leaves(cli.topolog)) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_a_usage_error(name: str) -> None:
    assert commands.called(*name.split(), "--no-such-option").returncode == exit_codes.USAGE


@pytest.mark.parametrize("name", [name for name, ends in COMMANDS.items() if ends.refused is not None])
def test_settings_that_are_not_valid_are_refused(
    name: str, nowhere: dict[str, str], tmp_path: pathlib.Path
) -> None:
    config = tmp_path / "topolog.yaml"
    config.write_text("store: {nonsense: 1}")
    done = commands.called("--config", str(config), *spelled(name, tmp_path / "none"), **nowhere)
    assert done.returncode == COMMANDS[name].refused, done.stderr
    assert "Traceback" not in done.stderr
    assert ("store.nonsense" in done.stderr) == (done.returncode == exit_codes.SETTINGS)


@pytest.mark.parametrize("name", [name for name, ends in COMMANDS.items() if ends.alone is not None])
def test_a_command_that_is_alone_ends_with_its_code(
    name: str, nowhere: dict[str, str], tmp_path: pathlib.Path
) -> None:
    done = commands.called(*spelled(name, tmp_path / "none"), **nowhere)
    assert done.returncode == COMMANDS[name].alone, done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode in (exit_codes.STORE, exit_codes.UNREACHABLE):
        assert done.stderr.startswith("topolog: ")
        assert len(done.stderr.splitlines()) == 1


def ended(
    *arguments: str, output: int | None, errors: int | None = subprocess.PIPE, **variables: str
) -> tuple[int, str]:
    """The exit code and standard error of a command that writes to a descriptor; None: it has none.

    ``errors``: the descriptor of standard error, of which nothing is returned then.
    """
    # Python tests itself whether it has these streams, so that a shell has to close them.
    closed = f"{'>&-' * (output is None)} {'2>&-' * (errors is None)}"
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "app.cli", *arguments],
        stdout=output,
        stderr=errors,
        env=commands.environment(variables),
        timeout=60,
        check=False,
    )
    return done.returncode, (done.stderr or b"").decode()


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe that its reader has closed."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.fixture
def stuffed() -> Iterator[int]:
    """A pipe that takes no more and does not block, as another program may leave it."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(into, bytes(65536))
    yield into
    os.close(into)
    os.close(out)


@pytest.fixture
def full() -> Iterator[int]:
    """A file on a full disk."""
    with pathlib.Path("/dev/full").open("wb") as file:
        yield file.fileno()


WRITING = ("--help", "get --help", "version", "settings", "settings -o json")


@pytest.mark.parametrize("arguments", WRITING)
def test_an_output_that_its_reader_has_closed_is_no_negative_result(arguments: str, unread: int) -> None:
    """As with ``topolog get events | head -1``."""
    done = ended(*arguments.split(), output=unread)
    assert done == (exit_codes.OUTPUT_CLOSED, "")


@pytest.mark.parametrize("read", [True, False])
def test_a_note_that_cannot_be_written_is_no_negative_result(
    read: bool, unread: int, full: int, stuffed: int, tmp_path: pathlib.Path
) -> None:
    """As with ``topolog archive ls 2>&1 | true``, of an archive that has nothing but a note."""
    output = subprocess.DEVNULL if read else unread
    for errors in (unread, full, stuffed, None):
        done = ended("archive", "ls", "--directory", str(tmp_path), output=output, errors=errors)
        assert done == (exit_codes.OK, "")


def test_an_interrupted_command_needs_no_standard_error(unread: int, tmp_path: pathlib.Path) -> None:
    """As with Ctrl-C of ``topolog get nodes 2>&1 | tee FILE``, which ends tee, too."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environ = commands.environment(
            {"TOPOLOG_CLIENT_URL": url, "KUBECONFIG": commands.kubeconfig(tmp_path)}
        )
        command = [sys.executable, "-m", "app.cli", "get", "nodes"]
        with subprocess.Popen(command, env=environ, stderr=unread) as process, silent.accept()[0]:
            process.send_signal(signal.SIGINT)
            process.wait()
    assert process.returncode == exit_codes.INTERRUPTED


@pytest.mark.parametrize("arguments", WRITING)
def test_an_output_that_cannot_be_written_is_no_negative_result(arguments: str, full: int) -> None:
    """As with ``topolog settings > FILE`` on a full disk, and ``>&-``."""
    done = ended(*arguments.split(), output=full)
    message = "topolog: cannot write the output: {}\n"
    assert done == (exit_codes.OUTPUT_LOST, message.format("No space left on device"))
    done = ended(*arguments.split(), output=None)
    assert done == (exit_codes.OUTPUT_LOST, message.format("Bad file descriptor"))


FAILING = {
    "settings": exit_codes.OUTPUT_LOST,
    "no-such-command": exit_codes.USAGE,
    "--config FILE record": exit_codes.SETTINGS,
    "archive ls": exit_codes.SETTINGS,
    "migrate status": exit_codes.STORE,
    "get nodes": exit_codes.UNREACHABLE,
}


@pytest.mark.parametrize("arguments", FAILING)
def test_an_error_that_cannot_be_written_keeps_its_code(
    arguments: str, full: int, nowhere: dict[str, str], tmp_path: pathlib.Path
) -> None:
    """As with ``topolog settings > FILE 2>&1`` on a full disk."""
    config = tmp_path / "topolog.yaml"
    config.write_text("store: {nonsense: 1}")
    words = arguments.replace("FILE", str(config)).split()
    for errors in (full, None):
        assert ended(*words, output=full, errors=errors, **nowhere) == (FAILING[arguments], "")


def test_a_command_that_writes_nothing_needs_no_output() -> None:
    code, written = ended("no-such-command", output=None)
    assert (code, "No such command" in written) == (exit_codes.USAGE, True)
