"""Routes requests of the simulated API server: authentication, lists, watches and operations."""

import base64
import binascii
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator

from app.simulation.apiserver import (
    discovery,
    evictions,
    objects,
    operations,
    requests,
    reviews,
    status_replies,
)

Answer = tuple[int, bytes]


class Router:
    """Answers requests from the objects; independent of connections."""

    def __init__(self, store: objects.Objects, *, tokens: Iterable[str], bookmarks: float) -> None:
        self.objects = store
        self.tokens = frozenset(tokens)
        self.bookmarks = bookmarks
        """Seconds between the bookmarks of a watch."""
        self.reviews = reviews.Reviews()

    def answer(self, request: requests.Request) -> Answer:
        """The reply: status and body."""
        try:
            self.authenticate(request)
            answered = self.reviews.answer(request) or discovery.answer(self.objects, request)
            if answered is not None:
                return answered
            resource, namespace, name, subresource = self._route(request.path)
            return self._act(request, resource, namespace, name, subresource)
        except status_replies.StatusError as refused:
            return refused.status, refused.body

    def watch(self, request: requests.Request, stopped: Callable[[], bool]) -> Iterator[bytes]:
        """The lines of a watch, in batches. Raises StatusError at the call, not in the stream."""
        self.authenticate(request)
        resource, namespace, _, _ = self._route(request.path)
        return self._changes(resource, namespace, request.query, stopped)

    def authenticate(self, request: requests.Request) -> None:
        """Raise StatusError (401) unless the bearer token is accepted; without tokens all requests are."""
        token = request.headers.get("authorization", "").partition(" ")[2]
        if self.tokens and token not in self.tokens:
            raise status_replies.StatusError(401, "Unauthorized", "Unauthorized")

    def _route(self, path: str) -> tuple[objects.Resource, str, str, str]:
        """Resource, namespace, name and subresource of a path. Raises StatusError."""
        parts = path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        resource = self.objects.resource(rest[0], path) if rest else None
        if resource is None:
            raise _unserved()
        return resource, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""

    def _act(
        self,
        request: requests.Request,
        resource: objects.Resource,
        namespace: str,
        name: str,
        subresource: str,
    ) -> Answer:
        store, key, status = self.objects, (namespace, name), subresource == "status"
        if status and not resource.status:
            raise _unserved()
        match request.method, bool(name), subresource:
            case "GET", False, _:
                return 200, self._page(resource, namespace, request.query)
            case "GET", True, "" | "status":
                return 200, store.stored(resource.name, key).body
            case "POST", False, _:
                return 201, operations.create(store, resource, namespace, request.body)
            case "POST", True, "binding":
                return 201, operations.bind(store, key, request.body)
            case "POST", True, "eviction":
                return 201, evictions.evict(store, resource, key, request.body)
            case "PUT", True, "" | "status":
                return 200, operations.replace(store, resource, key, request.body, status=status)
            case "PATCH", True, "" | "status":
                content = request.content
                return 200, operations.patch(
                    store, resource, key, request.body, content=content, status=status
                )
            case "DELETE", True, "":
                return 200, operations.delete(store, resource, key, request.body)
        raise status_replies.StatusError(
            405, "MethodNotAllowed", "the server does not allow this method on the resource"
        )

    def _page(self, resource: objects.Resource, namespace: str, query: dict[str, str]) -> bytes:
        at, after = _read_token(query["continue"]) if query.get("continue") else (None, None)
        limit = int(query.get("limit") or 0)
        bodies, version, more, remain = self.objects.page(
            resource.name, namespace, limit=limit, at=at, after=after
        )
        metadata = {"resourceVersion": str(version)}
        if more is not None:
            metadata |= {"continue": _token(version, more), "remainingItemCount": str(remain)}
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.version, "metadata": metadata}
        return b'%s,"items":[%s]}\n' % (json.dumps(head).encode()[:-1], b",".join(bodies))

    def _changes(
        self, resource: objects.Resource, namespace: str, query: dict[str, str], stopped: Callable[[], bool]
    ) -> Iterator[bytes]:
        version = int(query.get("resourceVersion") or self.objects.version)
        end = time.monotonic() + float(query.get("timeoutSeconds") or random.randint(1800, 3600))
        marks = query.get("allowWatchBookmarks") in ("1", "true")
        marked = time.monotonic()
        try:
            for lines, upto in self.objects.since(resource.name, version, tick=min(1.0, self.bookmarks)):
                if stopped() or time.monotonic() > end:
                    return
                mine = [line.text for line in lines if namespace in ("", line.namespace)]
                if mine:
                    yield b"".join(mine)
                reached = upto <= self.objects.version
                if marks and reached and time.monotonic() - marked >= self.bookmarks:
                    marked = time.monotonic()
                    yield _bookmark(resource, upto)
        except status_replies.StatusError as refused:
            yield b'{"type":"ERROR","object":%s}\n' % refused.body


def _unserved() -> status_replies.StatusError:
    return status_replies.StatusError(404, "NotFound", "the server could not find the requested resource")


def _bookmark(resource: objects.Resource, version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    mark = {"kind": resource.kind, "apiVersion": resource.version, "metadata": metadata}
    return json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n"


def _token(version: int, key: objects.Key) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, *key]).encode()).decode()


def _read_token(token: str) -> tuple[int, objects.Key]:
    try:
        version, namespace, name = json.loads(base64.urlsafe_b64decode(token))
    except (binascii.Error, ValueError) as problem:
        raise status_replies.bad(f"continue key is not valid: {problem}") from problem
    return int(version), (namespace, name)
