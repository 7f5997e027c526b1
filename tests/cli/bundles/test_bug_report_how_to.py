"""docs/how-to/bug-report.md, tried as it is written."""

import pathlib
import re
import shlex
import tarfile

import click
import pytest

from app import cli
from app.store.bundles import layout, reading
from tests.support import how_to_pages
from tests.support.extender import terminals

PAGE = "bug-report.md"
TEXT = how_to_pages.page(PAGE)


def lines() -> list[list[str]]:
    """The words of every command on the page."""
    return [
        shlex.split(part)
        for block in how_to_pages.blocks(PAGE, "")
        for line in block.splitlines()
        for part in re.split(r"[|;]", line)
    ]


def test_the_commands_of_the_page_make_and_check_a_bundle(
    terminal: terminals.Terminal, url: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tried = []
    for program, *words in lines():
        if program == "topolog" and words[0] == "bundle" and words[1] != "open":
            server = ["--server", url] if words[1] == "create" else []
            done = terminal.run(*words, *server)
            assert done.code == 0, done.err
            tried.append(words[1])
        elif program == "tar":
            options, file, member = words
            with tarfile.open(file) as tar:
                assert (options, member in tar.getnames()) == ("xOf", True)
            tried.append("tar")
    assert tried == ["create", "inspect", "tar", "tar", "verify"]


def test_every_command_of_the_page_is_understood() -> None:
    for program, *words in lines():
        if program == "topolog":
            # In the context of its group, as the command line does: click keeps the help option of the first
            # context that a command was parsed in.
            command: click.Command = cli.topolog
            context = command.make_context("topolog", list(words), resilient_parsing=True)
            while isinstance(command, click.Group):
                name = words.pop(0)
                found = command.get_command(context, name)
                assert found is not None, name
                command, context = found, found.make_context(name, list(words), parent=context)


def test_the_members_and_bounds_of_the_page_are_those_of_a_bundle() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \|", TEXT, re.MULTILINE)
    assert listed == [*layout.MEMBERS, layout.MANIFEST]
    assert f"{layout.MOST_EVENTS:,} events" in TEXT
    assert f"{layout.MOST_DECISIONS:,} decisions" in TEXT
    assert f"({layout.MOST_BYTES >> 20} MiB, {reading.MOST_EXPANDED >> 30} GiB expanded)" in TEXT
