"""Prints the decisions that would have been others, for ``topolog replay`` and ``topolog shadow``."""

from collections import Counter
from typing import Final

import click

from app import plurals
from app.cli.client import option_names
from app.cli.output import tables
from app.cli.questions import question_options

CLASSES: Final = ("refused", "admitted", "node", "nodes", "reason", "scores")
"""The classes of differences, the gravest first."""
_OBJECTS = 10
"""Objects that are shown, those with the most differences."""


def show_numbers(found: question_options.Document) -> None:
    """Write the number of decisions that were compared, and of those in each class and of each object.

    What was not compared, and the overrides that changed nothing, are notes on standard error.
    """
    click.echo(f"{found['examined']} decisions compared, {found['same']} would have been the same")
    for name in CLASSES:
        if found["classes"][name]:
            click.echo(f"  {name}: {found['classes'][name]}")
    # An earlier version counts no objects.
    objects = Counter(found["by"].get("object"))
    uncounted = objects.pop("", 0)
    for name, number in objects.most_common(_OBJECTS):
        click.echo(f"  of {name}: {number}")
    if len(objects) > _OBJECTS:
        click.echo(f"  of {plurals.counted(len(objects) - _OBJECTS, 'other object')}: -o json")
    if uncounted:
        click.echo(f"  of more objects, which are not counted by name: {uncounted}")
    for index in found["idle"] or ():
        click.echo(f"note: {option_names.override(index)} changed nothing at any decision", err=True)
    skipped = ", ".join(f"{number} {cause}" for cause, number in found["skipped"].items() if number)
    if skipped:
        click.echo(f"note: skipped, because they cannot be compared: {skipped}", err=True)


def more(found: question_options.Document) -> int:
    """How many decisions that would have been others are not in the answer."""
    total: int = sum(found["classes"].values())
    return total - len(found["items"])


def show_items(found: question_options.Document) -> None:
    """Write a table of decisions that would have been others, if there are any."""
    rows = [
        (
            one["class"],
            one["id"],
            one["verb"],
            f"{one['pod']['namespace']}/{one['pod']['name']}",
            f"{one['was']['kept']} -> {one['would']['kept']}",
            "; ".join(one["would"]["reasons"]),
        )
        for one in found["items"]
    ]
    if rows:
        click.echo()
        tables.show(["CLASS", "ID", "VERB", "POD", "KEPT", "REASONS THEN"], rows)
    if number := more(found):
        click.echo(f"({plurals.counted(number, 'more decision')})")
