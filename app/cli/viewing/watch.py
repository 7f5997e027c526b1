"""``topolog watch``: prints the events of the log as they are appended."""

import json
import signal
import urllib.parse
from collections.abc import Iterator
from typing import Any

import click
import urllib3

from app import exit_codes
from app.cli import exits, formats
from app.cli.client import api_client

_SILENCE = 60.0
"""Seconds without a message; the head is sent every 15 s."""
_NOTICES = ("gap", "incarnation")


@click.command("watch", short_help="Print the events of the log as they are appended.")
@click.option("--from", "start", metavar="POSITION", help="Begin behind this position, instead of now.")
@click.option("--type", "kind", metavar="TYPE", help="Only events of this type, such as PodSeen.")
@click.option("--object", "subject", metavar="SUBJECT", help="Only about pod:NS/NAME, node:NAME ...")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Only about objects of this namespace.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many events.")
@api_client.server_options
@formats.option()
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
    """Print the events of the log as they are appended, until Ctrl-C.

    A lost connection is resumed behind the last event. What was not watched, or is no longer kept, is
    reported on standard error. Asks `topolog view` (client.view_url).
    """
    asked = {"from": start, "type": kind, "object": subject, "namespace": namespace}
    query = urllib.parse.urlencode({name: value for name, value in asked.items() if value})
    client = api_client.view(config, options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    left = count
    try:
        for name, data in _messages(client, query):
            if name in _NOTICES:
                click.echo(_notice(name, data), err=True)
            elif name != "head":
                if formats.is_document(output):
                    formats.show_item(data, output)
                else:
                    click.echo(_line(data))
                left = None if left is None else left - 1
                if left == 0:
                    return
    except KeyboardInterrupt:
        return


def _messages(client: api_client.ExtenderClient, query: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(event, data) of each message; a stream that ends is resumed."""
    last = ""
    while True:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        with client.stream("GET", f"/apis/v1/watch?{query}", headers=headers, silence=_SILENCE) as reply:
            if reply.status != 200:
                raise client.failure(reply.status, reply.data, "/apis/v1/watch")
            for fields in _blocks(reply):
                last = fields.get("id", last)
                if "data" in fields:
                    yield fields.get("event", ""), json.loads(fields["data"])
        if not last:
            raise exits.Failed(exit_codes.UNREACHABLE, "the stream ended before its first message")


def _blocks(reply: urllib3.BaseHTTPResponse) -> Iterator[dict[str, str]]:
    pending = b""
    while piece := reply.read1():
        *whole, pending = (pending + piece).split(b"\n\n")
        for block in whole:
            yield dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)


def _line(data: dict[str, Any]) -> str:
    return f"{data['offset']:>10}  {data['at']}  {data['type']:<20}  {data['name']}"


def _notice(name: str, data: dict[str, Any]) -> str:
    if name == "gap":
        return f"not shown: {data['from']} to {data['to']}: {data['reason']}"
    return f"history began again: {data['from']} is followed by {data['to']}"
