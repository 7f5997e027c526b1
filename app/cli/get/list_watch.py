"""``topolog get --watch``: a list, and then what changes of it.

The stream of `topolog view` shows that the log moved. What is shown is read again then, so that a row is the
same as in a list, and nothing is missed while the connection was lost.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from app import exit_codes
from app.cli import exits
from app.cli.client import api_client, outages, streams
from app.cli.get import printers, resources
from app.cli.output import notes

Item = Mapping[str, Any]
_PASSING = ("age",)
"""Fields that change with time alone."""


class Read(NamedTuple):
    """What is there now."""

    items: Sequence[Item]
    left: int | None = 0
    """Items beyond the limit, which are not among them although they are not gone; None: unknown."""


def refuse(kind: str, *, at: str | None) -> None:
    """Raise UsageError for what does not change, or is watched by another command."""
    if at is not None:
        raise click.UsageError("-w watches the present; leave out --at")
    if kind == "events":
        raise click.UsageError("events are watched by `topolog watch`, which prints each when it is appended")
    if not resources.RESOURCES[kind].columns:
        raise click.UsageError(f"{kind} is one report and has no rows to watch; leave out -w")


def follow(client: api_client.ExtenderClient, rows: printers.Rows, read: Callable[[], Read]) -> None:
    """Print the items, and then those that are new or changed, until the user interrupts.

    A server that cannot be reached for a while is asked again. Raises Failed.
    """
    resource = resources.RESOURCES[rows.kind]
    seen: dict[str, str] | None = None
    last, outage, outdated = "", outages.Outage(), 0
    for position in streams.positions(client):
        if outdated or (position == last and resource.recorded):
            outdated = max(0, outdated - 1)
            continue
        started = time.monotonic()
        try:
            found = read()
        except exits.Failed as failed:
            if seen is None:
                raise
            outage.wait(failed)
            continue
        # Positions that arrived meanwhile; so a long list takes at most half of the time of the server.
        outdated = int((time.monotonic() - started) / streams.TICK)
        outage.over()
        last = position
        if found.left != 0 and not resource.endless:
            number = len(found.items)
            most = f"{number} of {number + found.left}" if found.left else f"{number}"
            notes.once("watched", f"only the first {most} {rows.kind} are watched (--limit)")
        now = {_name(rows, item): _lasting(item) for item in found.items}
        if seen is None:
            rows.show(found.items)
        else:
            changed = [item for item in found.items if seen.get(_name(rows, item)) != _lasting(item)]
            # A list of what happened begins with the newest, and the newest line is the last.
            rows.show(changed[::-1] if resource.endless else changed)
            if found.left == 0:
                for name in seen.keys() - now.keys():
                    click.echo(f"{rows.kind}/{name} is gone", err=True)
        seen = now


def one(read: Callable[[], Item]) -> Read:
    """An item that was asked by name; nothing while it does not exist. Raises Failed."""
    try:
        return Read([read()])
    except exits.Failed as failed:
        if failed.code != exit_codes.NEGATIVE:
            raise
        return Read([])


def _name(rows: printers.Rows, item: Item) -> str:
    """The name of an item: the given one, because what is shown of one item may not have its name."""
    return rows.name or resources.named(resources.RESOURCES[rows.kind], item)


def _lasting(item: Item) -> str:
    return json.dumps({name: value for name, value in item.items() if name not in _PASSING}, sort_keys=True)
