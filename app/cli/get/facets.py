"""``topolog get decisions --facet``: how often each value of a property occurs among the decisions."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

from app import exit_codes
from app.cli import exits
from app.cli.client import api_client
from app.cli.output import formats, tables

NAMES: Final = ("verb", "outcome", "plugin", "reason", "object", "namespace", "node")
_PATH: Final = "/apis/v1/decisions/facets"


class Chosen(NamedTuple):
    """Which facets are shown, and how many values of each."""

    names: tuple[str, ...]
    limit: int


def show(
    client: api_client.ExtenderClient,
    query: Mapping[str, object],
    chosen: Chosen,
    output: str,
    *,
    heading: bool,
) -> None:
    """Print the values of the chosen facets, the most frequent first. Raises Failed."""
    reply = client.get(_PATH, query)
    if isinstance(reply, str):
        raise exits.Failed(exit_codes.UNREACHABLE, f"the reply to {_PATH} is not JSON")
    found = [_cut(one, chosen.limit) for one in reply["facets"] if one["name"] in chosen.names]
    if formats.is_document(output):
        formats.show_document({**reply, "facets": found}, output)
        return
    rows = [(facet["name"], value["count"], value["value"]) for facet in found for value in facet["values"]]
    if output == formats.NAME:
        for name, _, text in rows:
            click.echo(f"{name}/{text}")
        return
    tables.show(["FACET", "DECISIONS", "VALUE"], rows, heading=heading, empty="nothing found")
    for facet in found:
        if facet["more"]:
            click.echo(f"... and {facet['more']} more values of {facet['name']}", err=True)
    if not reply["complete"]:
        click.echo(f"only the newest {reply['examined']} decisions were counted", err=True)


def _cut(facet: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The facet with so many values at most."""
    values = facet["values"]
    return {**facet, "values": values[:limit], "more": facet["more"] + len(values[limit:])}
