"""Options of the commands below ``topolog doctor``."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

import click

from app import settings
from app.cli.client import urls
from app.cli.output import colours, formats
from app.framework import doctor_checks

F = TypeVar("F", bound=Callable[..., None])

FAILING: dict[str, tuple[doctor_checks.Verdict, ...]] = {
    "problem": (doctor_checks.PROBLEM,),
    "unsure": (doctor_checks.PROBLEM, doctor_checks.UNSURE),
    "warning": (doctor_checks.PROBLEM, doctor_checks.UNSURE, doctor_checks.WARNING),
}
"""Value of --fail-on -> verdicts with exit code 1."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How the results of a command are shown."""

    output: str
    fail_on: str
    skip: tuple[str, ...]
    listed: bool
    """The checks are shown, and not made."""


def namespace(command: F) -> F:
    """Add ``--namespace``."""
    option = click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Namespace of Topolog's own pods. Default: that of the pod in which this runs, else"
        " client.namespace.",
    )
    return option(command)


def home(loaded: settings.Settings, given: str | None) -> str:
    """The namespace of Topolog's own pods."""
    from app.kube.client import credentials

    return given or credentials.pod_namespace() or loaded.client.namespace


def pre(command: F) -> F:
    """Add ``--pre``."""
    option = click.option("--pre", is_flag=True, help="Check what can be checked before an installation.")
    return option(command)


def process(command: F) -> F:
    """Add ``--process``."""
    option = click.option(
        "--process",
        "urls",
        multiple=True,
        type=urls.URL,
        metavar="URL",
        help="Health port of a process, such as http://127.0.0.1:8081; may be repeated.",
    )
    return option(command)


def output(command: F) -> F:
    """Add ``-o``, ``--fail-on``, ``--skip`` and ``--list`` to a command, which gets them as ``shown``."""

    @functools.wraps(command)
    def made(
        *given: object, output: str, fail_on: str, skip: tuple[str, ...], listed: bool, **others: object
    ) -> None:
        command(*given, shown=Shown(output, fail_on, skip, listed), **others)

    found = cast(F, made)
    for option in (
        click.option("--list", "listed", is_flag=True, help="List the checks of this command and exit."),
        click.option("--skip", multiple=True, metavar="ID", help="Leave a check out; may be repeated."),
        click.option(
            "--fail-on",
            type=click.Choice(list(FAILING)),
            default="unsure",
            show_default=True,
            help="The mildest verdict with exit code 1; warning includes unsure.",
        ),
        colours.option,
        formats.option(formats.TEXT, formats.TABLE, formats.WIDE, default=formats.TEXT),
    ):
        found = option(found)
    return found
