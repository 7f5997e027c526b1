"""The messages of a stream of Server-Sent Events."""

import json
from typing import Any

Message = tuple[str, str, dict[str, Any]]
"""(id, event, data)."""


def parsed(text: str) -> list[Message]:
    """The messages in what was sent."""
    found = []
    for block in text.split("\n\n")[:-1]:
        if block == ":":
            continue
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((lines["id"], lines["event"], json.loads(lines["data"])))
    return found
