"""A plain client of the API server for tests: requests and replies are dictionaries.

It is independent of app.kube on purpose: a test that read the cluster through the code under test would share
its mistakes.
"""

import contextlib
import dataclasses
import http
import json
import pathlib
import urllib.parse
from collections.abc import Iterator
from typing import Any

import urllib3

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, request: str, status: int, body: bytes) -> None:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = {"message": body[:500].decode(errors="replace")}
        self.status = status
        self.reason: str = answer.get("reason", "")
        self.message: str = answer.get("message", "")
        super().__init__(f"{request}: {status} {self.reason}: {self.message}")


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One line of a watch."""

    kind: str  # ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
    object: Object


class Watch:
    """An open watch; iterating over it ends when the server or `close` ends it."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._closed = False

    def __iter__(self) -> Iterator[Change]:
        try:
            for line in self._response:
                change = json.loads(line)
                yield Change(change["type"], change["object"])
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            if not self._closed:
                raise

    def close(self) -> None:
        """End it, from any thread."""
        self._closed = True
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._response.shutdown()


class Api:
    """The API server under one identity. A path may carry its own query."""

    def __init__(self, server: str, *, ca: pathlib.Path, token: str) -> None:
        self.server = server
        self._headers = {"Authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(
            ca_certs=str(ca),
            maxsize=16,
            retries=False,
            timeout=urllib3.Timeout(connect=5.0, read=30.0),
        )

    def text(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content: str = "application/json",
    ) -> bytes:
        """Send one request and return the bytes that come back."""
        response = self._pool.request(
            method,
            self.server + path,
            body=None if body is None else json.dumps(body).encode(),
            headers=self._headers | {"Content-Type": content},
        )
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiError(f"{method} {path}", response.status, response.data)
        return response.data

    def get(self, path: str) -> Object:
        """Return one object, or one list with its metadata."""
        return _object(self.text("GET", path))

    def find(self, path: str) -> Object | None:
        """Return one object, None if it does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def list(self, path: str, *, labels: str = "", fields: str = "") -> list[Object]:
        """Return the objects of a collection that match both selectors."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = urllib.parse.urlencode({name: value for name, value in selectors.items() if value})
        items: list[Object] = self.get(f"{path}?{query}")["items"]
        return items

    def create(self, path: str, body: Object) -> Object:
        """Create an object in a collection, or a subresource such as a binding or a token."""
        return _object(self.text("POST", path, body))

    def replace(self, path: str, body: Object) -> Object:
        """Write a whole object; the API server refuses it where its resourceVersion is old."""
        return _object(self.text("PUT", path, body))

    def patch(self, path: str, body: Object, *, content: str = MERGE) -> Object:
        """Change a part of an object; None in a merge patch removes a field."""
        return _object(self.text("PATCH", path, body, content=content))

    def delete(self, path: str, *, grace: int | None = None, uid: str = "") -> None:
        """Delete an object if it is there, and if it still is the one with this uid."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        gone = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT)
        try:
            self.text("DELETE", path, options)
        except ApiError as error:
            if error.status not in gone:
                raise

    def watch(self, path: str, resource_version: str, *, seconds: int = 300) -> Watch:
        """Open a watch that starts after a resourceVersion."""
        query = urllib.parse.urlencode(
            {
                "watch": "true",
                "resourceVersion": resource_version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": seconds,
            }
        )
        response = self._pool.request(
            "GET",
            f"{self.server}{path}?{query}",
            headers=self._headers,
            preload_content=False,
            timeout=urllib3.Timeout(connect=5.0, read=seconds + 30.0),
        )
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiError(f"WATCH {path}", response.status, response.data)
        return Watch(response)


def _object(body: bytes) -> Object:
    answer: Object = json.loads(body)
    return answer
