"""Puts options of the command line into refusals of the server, which name the fields of its documents."""

import re
from collections.abc import Sequence
from typing import Final

import click
from click.core import ParameterSource

_REFUSAL: Final = re.compile(r"(?P<path>[A-Za-z]\w*(?:\[\d+\]|\.\w+)*): (?P<text>.*)", re.DOTALL)
_OVERRIDE: Final = re.compile(r"overrides\[(?P<number>\d+)\]\.?(?P<rest>.*)")
_SITUATIONS: Final = ("situation.", "to.", "configuration.")
"""Parts of documents that are made of the options of one command."""
_OPTIONS: Final = {"verbs": "--verb", "enabled": "--enable"}
"""Field -> option, if it is not called like the field."""
_OVERRIDES: Final = f"{__name__}.overrides"


def set_overrides(options: Sequence[str]) -> None:
    """Keep the options whose values the overrides of a question are, in order; empty for a file."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_OVERRIDES] = tuple(options)


def prepend_overrides(options: Sequence[str]) -> None:
    """Keep the options of further overrides, which come before those that were set."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_OVERRIDES] = (*options, *context.meta.get(_OVERRIDES, ()))


def spelled(message: str) -> str:
    """The message with the given option in place of the field that it became; else as it is."""
    context, match = click.get_current_context(silent=True), _REFUSAL.fullmatch(message)
    if context is None or match is None:
        return message
    path = match["path"]
    for part in _SITUATIONS:
        path = path.removeprefix(part)
    override = _OVERRIDE.fullmatch(path)
    if override is not None:
        options: Sequence[str] = context.meta.get(_OVERRIDES, ())
        number = int(override["number"])
        option = options[number] if number < len(options) else ""
        rest = f"{override['rest']}: " if override["rest"] and option not in _WHOLE else ""
        return f"{option}: {rest}{match['text']}" if option else message
    field = re.split(r"[.\[]", path, maxsplit=1)[0]
    found = _given(context, _OPTIONS.get(field, f"--{field}"))
    return f"{found}: {match['text']}" if found else message


_WHOLE: Final = ("--cordon", "--uncordon", "--remove-node", "--add-nodes", "--delete-pod")
"""Options whose text names what is wrong, without the field of the override."""


def _given(context: click.Context, option: str) -> str:
    """The option, if the user gave it to the command."""
    for one in context.command.params:
        if option in one.opts and isinstance(one, click.Option):
            source = context.get_parameter_source(one.name or "")
            return option if source is ParameterSource.COMMANDLINE else ""
    return ""
