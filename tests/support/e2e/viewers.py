"""A client of the introspection API, which asks again while a process cannot answer yet."""

import json

import urllib3

from tests.support import polling
from tests.support.e2e import api_client

BUSY = {429: "TooManyRequests", 503: "Behind"}
"""Status and reason of the answers that ask for patience (docs/reference/errors.md)."""

_Reply = tuple[int, bytes]
"""Status and body."""


class Viewer:
    """Asks one process, with the certificate of a viewer."""

    def __init__(self, pool: urllib3.PoolManager, base: str) -> None:
        """``base``: the URL of the process; ``pool`` holds the certificates."""
        self._pool = pool
        self._base = base

    def ask(self, path: str) -> api_client.Object:
        """GET a path."""
        return _content(f"GET {path}", self._answered("GET", path))

    def find(self, path: str) -> api_client.Object | None:
        """The same; None if it does not exist."""
        reply = self._answered("GET", path)
        return None if reply[0] == 404 else _content(f"GET {path}", reply)

    def question(self, name: str, asked: api_client.Object) -> api_client.Object:
        """The answer to a hypothetical question."""
        return _content(f"POST {name}", self._answered("POST", f"/apis/v1/{name}", asked))

    def _answered(self, method: str, path: str, asked: api_client.Object | None = None) -> _Reply:
        """The first reply that does not ask for patience."""
        last: list[_Reply] = []

        def reply() -> bool:
            found = self._pool.request(method, f"{self._base}{path}", json=asked)
            last[:] = [(found.status, found.data)]
            return not _busy(*last[0])

        polling.eventually(reply, f"{method} {path} is answered", every=0.2, seen=lambda: last)
        return last[0]


def _busy(status: int, body: bytes) -> bool:
    return status in BUSY and b'"%b"' % BUSY[status].encode() in body


def _content(what: str, reply: _Reply) -> api_client.Object:
    status, body = reply
    assert status == 200, f"{what}: {status} {body.decode()[:500]}"
    answer: api_client.Object = json.loads(body)
    return answer
