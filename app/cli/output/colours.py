"""Colours of what is printed: on a terminal, unless --color, NO_COLOR or CLICOLOR_FORCE decides."""

import os
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., None])
AUTO, ALWAYS, NEVER = "auto", "always", "never"
_CHOSEN: Final = {ALWAYS: True, NEVER: False}
_VERDICTS: Final = {"problem": "red", "unsure": "magenta", "warning": "yellow", "ok": "green"}


def option(command: F) -> F:
    """Add ``--color``, for everything that is printed by ``click.echo``."""
    return click.option(
        "--color",
        type=click.Choice((AUTO, ALWAYS, NEVER)),
        expose_value=False,
        callback=_decided,
        help="Whether to print colours. Default: auto, which is on a terminal only, unless NO_COLOR or"
        " CLICOLOR_FORCE is set.",
    )(command)


def verdict(text: str, name: str, *, bold: bool = True) -> str:
    """The text in the colour of a verdict, which ``click.echo`` removes where colours are not wanted."""
    return click.style(text, fg=_VERDICTS[name], bold=bold)


def of_environment(environ: Mapping[str, str]) -> bool | None:
    """Whether the environment requests colours; None to print them on a terminal only.

    NO_COLOR (no-color.org) outweighs CLICOLOR_FORCE (bixense.com/clicolors).
    """
    if environ.get("NO_COLOR"):
        return False
    return True if environ.get("CLICOLOR_FORCE", "0") not in ("", "0") else None


def _decided(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value in _CHOSEN:
        context.color = _CHOSEN[value]
    elif value == AUTO or context.parent is None:
        context.color = of_environment(os.environ)
    # Else that of the command above, which the context has taken over.
