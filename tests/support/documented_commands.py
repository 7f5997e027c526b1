"""The commands of ``topolog`` that pages name in code, compared with those of the program."""

import re
import shlex
from collections.abc import Iterator

import click

from app import cli

_CODE = re.compile(r"`([^`\n]+)`|^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:\w+=\S+ )*(?:kubectl )?topolog (.+)")
_ENDS = frozenset(("|", "||", "&&", ";", "&", ">", ">>", "<", "2>"))


def named(text: str) -> Iterator[list[str]]:
    """The arguments of each command of a page, of its text and its blocks of commands."""
    for code in _CODE.finditer(text):
        lines = [code[1]] if code[1] else code[2].replace("\\\n", " ").splitlines()
        for line in lines:
            if found := _COMMAND.fullmatch(line):
                words = shlex.split(found[1], comments=True)
                yield words[: next((at for at, word in enumerate(words) if word in _ENDS), len(words))]


def unknown(arguments: list[str]) -> str:
    """The command or option among them that the program lacks; empty if it has all of them.

    A page may leave out arguments, name files that do not exist, and have words in capitals for others.
    """
    # With its settings: commands keep the help option that their first context gives them.
    context = click.Context(cli.topolog, info_name="topolog", **cli.topolog.context_settings)
    command: click.Command = cli.topolog
    words = list(arguments)
    while isinstance(command, click.Group) and words:
        if (word := words[0]).startswith("-") or word.isupper():
            break
        found = command.get_command(context, word)
        if found is None:
            return word
        command, context, words = found, click.Context(found, parent=context, info_name=word), words[1:]
    try:
        command.make_parser(context).parse_args(words)
    except click.NoSuchOption as missing:
        return missing.option_name
    except click.UsageError:
        pass
    return ""
