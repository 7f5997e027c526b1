"""The stream of ``topolog view``, ``GET /apis/v1/watch``: Server-Sent Events, resumed where it ended."""

import json
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import urllib3

from app import exit_codes
from app.cli import exits
from app.cli.client import api_client, outages

_PATH = "/apis/v1/watch"
_SILENCE = 60.0
"""Seconds without a message; the head is sent every 15 s."""
TICK = 1.0
"""Seconds between two positions."""


def messages(
    client: api_client.ExtenderClient, query: Mapping[str, object]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(event, data) of each message, without end. Raises Failed."""
    for fields in _blocks(client, query):
        if "data" in fields:
            yield fields.get("event", ""), json.loads(fields["data"])


def positions(client: api_client.ExtenderClient) -> Iterator[str]:
    """The position of the log: at the start, and about every second even if it stays. Raises Failed."""
    position = ""
    for fields in _blocks(client, {"tick": int(TICK * 1000)}):
        position = fields.get("id", position)
        # A comment, which keeps the connection alive, has no fields.
        if position and (not fields or fields.get("event") == "head"):
            yield position


def _blocks(client: api_client.ExtenderClient, query: Mapping[str, object]) -> Iterator[dict[str, str]]:
    """The fields of each message; none for a comment. A stream that ends is resumed behind the last one."""
    path, last, outage = f"{_PATH}?{urllib.parse.urlencode(query)}", "", outages.Outage()
    while True:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        try:
            with client.stream("GET", path, headers=headers, silence=_SILENCE) as reply:
                if reply.status != 200:
                    raise client.failure(reply.status, reply.data, _PATH)
                for fields in _of(reply):
                    outage.over()
                    last = fields.get("id", last)
                    yield fields
        except exits.Failed as failed:
            if not last:
                raise
            outage.wait(failed)
        if not last:
            raise exits.Failed(exit_codes.UNREACHABLE, "the stream ended before its first message")


def _of(reply: urllib3.BaseHTTPResponse) -> Iterator[dict[str, str]]:
    pending = b""
    while piece := reply.read1():
        *whole, pending = (pending + piece).split(b"\n\n")
        for block in whole:
            yield dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)
