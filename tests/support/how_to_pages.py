"""The how-to pages: their code blocks, and the command that each shows with its output."""

import pathlib
import re

import app
from tests.support import commands

_FOLDER = pathlib.Path(app.__file__).parent.parent / "docs" / "how-to"


def page(name: str) -> str:
    """The text of a page."""
    return (_FOLDER / name).read_text()


def blocks(name: str, language: str) -> list[str]:
    """The code blocks of a language, such as "json", in their order; without one: those of a terminal."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)
    return [code for named, code in found if named == language]


def scored(named: str, old: str, new: str, folder: pathlib.Path) -> list[str]:
    """The output of the page's first command for its cluster with one text replaced, by line."""
    (cluster,), plain = blocks(named, "json"), blocks(named, "")
    assert old in cluster
    setting, program, command, name = plain[0].split()
    assert program == "topolog"
    variable, _, value = setting.partition("=")
    file = folder / name
    file.write_text(cluster.replace(old, new))
    done = commands.called(command, str(file), **{variable: value})
    return [line.rstrip() for line in done.stdout.splitlines()]
