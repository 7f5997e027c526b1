"""Reads the HTTP/1.1 requests of the simulated API server: only what its clients send."""

import urllib.parse
from typing import BinaryIO, NamedTuple

_MAX_HEAD = 64 * 1024
MAX_BODY = 8 * 1024 * 1024


class Request(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def watches(self) -> bool:
        """Whether the request is a watch."""
        return self.query.get("watch") in ("1", "true")

    @property
    def content(self) -> str:
        """The media type of the body."""
        return self.headers.get("content-type", "").partition(";")[0].strip()


def read(stream: BinaryIO) -> Request | None:
    """The next request of a connection; None at its end. Raises ValueError for a malformed request."""
    line = stream.readline(_MAX_HEAD)
    if not line.strip():
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := stream.readline(_MAX_HEAD)) not in (b"\r\n", b"\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= MAX_BODY:
        raise ValueError("body too long")
    path, _, query = target.partition("?")
    return Request(
        method,
        urllib.parse.unquote(path),
        dict(urllib.parse.parse_qsl(query, keep_blank_values=True)),
        headers,
        stream.read(length) if length else b"",
    )
