"""A small cluster in a store, and the process of ``topolog view`` that shows it."""

import dataclasses
import json
import urllib.error
import urllib.request
from typing import Any, TypeAlias

from tests.support.browser import viewers
from tests.support.extender import api_worlds

Json: TypeAlias = Any
"""A value of a type that the test asserts."""


@dataclasses.dataclass
class Seen:
    """A world, and the process that shows it."""

    world: api_worlds.World
    viewer: viewers.Viewer


def ask(seen: Seen, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, Json]:
    """Status and JSON of a reply."""
    request = urllib.request.Request(
        seen.viewer.url + path, body, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
