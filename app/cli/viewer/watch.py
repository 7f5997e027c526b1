"""``topolog watch``: prints the events of the log as they are appended."""

import json
import signal
from typing import Any

import click

from app.cli.client import api_client, moment_option, streams
from app.cli.completion import items
from app.cli.output import formats, tables

_NOTICES = ("gap", "incarnation")
_COLUMNS = {"OFFSET": "offset", "AT": "at", "TYPE": "type", "NAME": "name"}
_WIDE = {**_COLUMNS, "OBJECT": "object", "DATA": "data"}
_WIDTHS = (8, 24, 20)
"""Of the first columns, in characters: what comes later is mostly not wider."""


@click.command("watch")
@click.option("--from", "start", type=moment_option.MOMENT, help="Begin behind this moment, instead of now.")
@click.option("--type", "kind", metavar="TYPE", help="Only events of this type, such as PodSeen.")
@click.option(
    "--object",
    "subject",
    metavar="SUBJECT",
    help="Only about pod:NS/NAME, node:NAME, flag:LETTER, shadow:NAME, kind:KIND, relist:KIND, store:ASPECT,"
    " or an object of another kind as events name it, such as policy:NS/NAME.",
)
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="Only about objects of this namespace.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many events.")
@api_client.server_options
@formats.option(formats.TABLE, formats.WIDE, formats.NAME)
@click.pass_obj
def watch_command(
    config: str | None,
    /,
    start: str | None,
    kind: str | None,
    subject: str | None,
    namespace: str | None,
    count: int | None,
    output: str,
    **options: str | None,
) -> None:
    """Print the events of the log as they are appended, until Ctrl-C (exit code 130).

    A lost connection is resumed behind the last event, for a minute. What was not watched, or is no longer
    kept, is reported on standard error. Asks `topolog view` (client.view_url).
    """
    asked = {"from": start, "type": kind, "object": subject, "namespace": namespace}
    query = {name: value for name, value in asked.items() if value}
    client = api_client.view(config, options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    left = count
    columns = _WIDE if output == formats.WIDE else _COLUMNS
    documents = formats.Stream(output)
    table = tables.Table(list(columns), whole=output == formats.WIDE, widths=_WIDTHS)
    for name, data in streams.messages(client, query):
        if name in _NOTICES:
            click.echo(_notice(name, data), err=True)
        elif name != "head":
            if formats.is_document(output):
                documents.show([data])
            elif output == formats.NAME:
                click.echo(f"events/{data['offset']}")
            else:
                table.write([[_cell(data[field]) for field in columns.values()]])
            left = None if left is None else left - 1
            if left == 0:
                return


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value


def _notice(name: str, data: dict[str, Any]) -> str:
    if name == "gap":
        return f"not shown: {data['from']} to {data['to']}: {data['reason']}"
    return f"history began again: {data['from']} is followed by {data['to']}"
