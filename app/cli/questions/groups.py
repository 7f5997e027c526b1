"""Pods that are placed together, in questions about pods."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from app.cli.questions import question_options

F = TypeVar("F", bound=Callable[..., None])


def options(command: F) -> F:
    """Add the options that name a group, or make one of the pod of a file; ``question`` reads them."""
    for option in (
        click.option("--group", metavar="[NS/]NAME", help="The waiting pods of this gang, placed together."),
        click.option(
            "--minimum",
            type=click.IntRange(1),
            metavar="N",
            help="With --members: how many at least, unless they name a group.",
        ),
        click.option(
            "--members",
            type=click.IntRange(1, 1000),
            metavar="N",
            help="With -f: a gang of N pods like that one, placed together or not at all.",
        ),
    ):
        command = option(command)
    return command


def question(
    given: dict[str, question_options.Value],
    pods: Sequence[str | question_options.Document],
    namespace: str | None,
) -> question_options.Document:
    """The part of a question that names a group; empty if it names none.

    Takes the options out of ``given``.
    """
    group, members, minimum = given.pop("group"), given.pop("members"), given.pop("minimum")
    if minimum is not None and members is None:
        raise click.UsageError("--minimum requires --members")
    if group is not None:
        if pods or members is not None:
            raise click.UsageError("--group names the pods: leave out other pods, -f and --members")
        return {"group": question_options.pod_name(group, namespace or "default")}
    if members is None:
        return {}
    if len(pods) != 1 or isinstance(pods[0], str):
        raise click.UsageError("--members requires -f FILE with one pod")
    gang = {"members": members, "template": pods[0], **({"minimum": minimum} if minimum else {})}
    return {"gang": gang}
