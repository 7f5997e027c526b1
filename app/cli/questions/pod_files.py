"""Pods of files, and what is created with them, in questions about pods."""

from collections.abc import Sequence

import click

from app.cli.questions import question_options


def pods_and_objects(
    files: Sequence[str], namespace: str
) -> tuple[list[question_options.Document], list[question_options.Document]]:
    """The pods of the files, and the overrides that create the other objects, such as PodGroups."""
    documents = [
        question_options.in_namespace(one, namespace) for file in files for one in question_options.read(file)
    ]
    pods = [one for one in documents if one.get("kind", "Pod") == "Pod"]
    others = [one for one in documents if one.get("kind", "Pod") != "Pod"]
    return pods, [{"op": "setObject", "manifest": one} for one in others]


def refuse_without_pod(files: Sequence[str], created: Sequence[question_options.Document]) -> None:
    """Raise BadParameter for files that were to contain pods and have other objects only."""
    kinds = dict.fromkeys(str(one["manifest"].get("kind")) for one in created)
    raise click.BadParameter(f"{', '.join(files)}: contains no Pod, only {', '.join(kinds)}", param_hint="-f")
