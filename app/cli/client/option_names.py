"""Puts options of the command line into refusals of the server, which name the fields of its documents."""

import re
from collections.abc import Sequence
from typing import Final

import click
from click.core import ParameterSource

_REFUSAL: Final = re.compile(r"(?P<path>[A-Za-z]\w*(?:\[\d+\]|\.[-\w./]+)*): (?P<text>.*)", re.DOTALL)
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
        context.meta[_OVERRIDES] = (*options, *_options())


def option_of(number: int) -> str:
    """The option whose value the override is; empty for one of a file with a situation."""
    options = _options()
    return options[number] if number < len(options) else ""


def override(number: int) -> str:
    """The override as it was given: its option, counted if it is given several times; else its number."""
    option = option_of(number)
    if not option:
        return f"override {number + 1}"
    options = _options()
    at = options[: number + 1].count(option)
    return option if options.count(option) == 1 else f"{option} (number {at})"


def _options() -> Sequence[str]:
    context = click.get_current_context(silent=True)
    options: Sequence[str] = context.meta.get(_OVERRIDES, ()) if context is not None else ()
    return options


def spelled(message: str) -> str:
    """The message with the given option in place of the field that it became; else as it is."""
    context, match = click.get_current_context(silent=True), _REFUSAL.fullmatch(message)
    if context is None or match is None:
        return message
    path = match["path"]
    for part in _SITUATIONS:
        path = path.removeprefix(part)
    found = _OVERRIDE.fullmatch(path)
    if found is not None:
        option = option_of(int(found["number"]))
        rest = f"{found['rest']}: " if found["rest"] and option not in _WHOLE else ""
        return f"{option}: {rest}{match['text']}" if option else message
    field = re.split(r"[.\[]", path, maxsplit=1)[0]
    given = _given(context, _OPTIONS.get(field, f"--{field}"))
    return f"{given}: {match['text']}" if given else message


_WHOLE: Final = ("--cordon", "--uncordon", "--remove-node", "--add-nodes", "--delete-pod")
"""Options whose text names what is wrong, without the field of the override."""


def _given(context: click.Context, option: str) -> str:
    """The option, if the user gave it to the command."""
    for one in context.command.params:
        if option in one.opts and isinstance(one, click.Option):
            source = context.get_parameter_source(one.name or "")
            return option if source is ParameterSource.COMMANDLINE else ""
    return ""
