"""The objects of the simulated API server: one version counter, optimistic concurrency, a history.

Objects are kept as JSON bytes, so that a list of a hundred thousand is joined and not encoded. Each change is
one line in the history of its resource; watches send these lines. Compaction drops lines, and a watch or list
that needs a dropped one fails with 410.
"""

import bisect
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from app import clocks
from app.simulation.apiserver import status_replies

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

FIRST_VERSION = 1000
_KEPT_LISTS = 8


@dataclass(frozen=True)
class Resource:
    """A collection of the API."""

    name: str
    kind: str
    version: str = "v1"
    """apiVersion."""
    namespaced: bool = True
    custom: bool = False
    """Defined by a CustomResourceDefinition."""
    plural: str = ""
    """The name in paths, which two groups may share; empty: the name."""
    status: bool = False
    """Has the status subresource: the status is changed by it alone."""

    @property
    def prefix(self) -> str:
        """The path of the API group."""
        return f"/api/{self.version}" if "/" not in self.version else f"/apis/{self.version}"


class WatchLine(NamedTuple):
    """One change: version, namespace, and the line that a watch sends."""

    version: int
    namespace: str
    text: bytes


class Stored(NamedTuple):
    """An object as stored."""

    version: int
    body: bytes

    def read(self) -> Json:
        """A new copy of the object."""
        found: Json = msgspec.json.decode(self.body)
        return found


class Backup(NamedTuple):
    """A backup of etcd: all objects at a version."""

    version: int
    objects: dict[str, dict[Key, Stored]]


@dataclass
class _Collection:
    resource: Resource
    objects: dict[Key, Stored] = field(default_factory=dict)
    history: list[WatchLine] = field(default_factory=list)
    compacted: int = FIRST_VERSION
    """Changes up to this version were compacted."""
    lists: dict[int, list[tuple[Key, bytes]]] = field(default_factory=dict)
    """Version -> sorted content, for lists that are read in pages."""
    served: bool = True


class Objects:
    """All objects. Thread-safe; ``changed`` is notified of every change."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = FIRST_VERSION
        self._collections = {resource.name: _Collection(resource) for resource in resources}

    def resource(self, plural: str, path: str) -> Resource | None:
        """The resource that a path leads to, by its group and the name there, if it is served."""
        for found in self._collections.values():
            one = found.resource
            if found.served and (one.plural or one.name) == plural and path.startswith(f"{one.prefix}/"):
                return one
        return None

    def served(self) -> list[Resource]:
        """All resources that are served."""
        with self.changed:
            return [found.resource for found in self._collections.values() if found.served]

    def serve(self, name: str, served: bool) -> None:
        """Define a custom resource, or delete its definition and all its objects."""
        with self.changed:
            collection = self._collections[name]
            collection.served = served
            if not served:
                collection.objects.clear()
            self.changed.notify_all()

    def define_status(self, name: str, status: bool) -> None:
        """Change the definition of a custom resource: with or without the status subresource."""
        with self.changed:
            collection = self._collections[name]
            collection.resource = replace(collection.resource, status=status)

    def get(self, name: str, key: Key) -> Json:
        """A new copy of the object. Raises StatusError."""
        return self.stored(name, key).read()

    def stored(self, name: str, key: Key) -> Stored:
        """The object as stored. Raises StatusError."""
        found = self._collections[name].objects.get(key)
        if found is None:
            raise status_replies.not_found(name, key[1])
        return found

    def all(self, name: str) -> list[Json]:
        """New copies of all objects in the collection."""
        with self.changed:
            return [stored.read() for stored in self._collections[name].objects.values()]

    def create(self, name: str, made: Json) -> bytes:
        """Add an object with namespace and name; sets uid, creationTimestamp and generation."""
        with self.changed:
            metadata = made["metadata"]
            key = (metadata.get("namespace", ""), metadata["name"])
            if key in self._collections[name].objects:
                raise status_replies.exists(name, key[1])
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata["creationTimestamp"] = now()
            metadata.setdefault("generation", 1)
            return self._write(name, key, made, "ADDED")

    def change(self, name: str, key: Key, edit: Callable[[Json], Json]) -> bytes:
        """Replace an object by ``edit`` of a copy; equal content changes nothing, not even the version."""
        with self.changed:
            before = self.stored(name, key)
            after = edit(before.read())
            if after == before.read():
                return before.body
            return self._write(name, key, after, "MODIFIED")

    def remove(self, name: str, key: Key) -> bytes:
        """Delete an object at once; the deletion has a new version."""
        with self.changed:
            last = self.get(name, key)
            body = self._write(name, key, last, "DELETED")
            del self._collections[name].objects[key]
            return body

    def load(self, name: str, made: Iterable[tuple[Key, bytes]]) -> None:
        """Add many objects without watch events; replaces ``"resourceVersion":"@"`` in their bodies."""
        with self.changed:
            collection = self._collections[name]
            version = self.version
            for key, body in made:
                version += 1
                body = body.replace(b'"resourceVersion":"@"', b'"resourceVersion":"%d"' % version, 1)
                collection.objects[key] = Stored(version, body)
            self.version = collection.compacted = version

    def page(
        self, name: str, namespace: str, *, limit: int, at: int | None, after: Key | None
    ) -> tuple[list[bytes], int, Key | None, int]:
        """Bodies, version of the list, key to continue after (None at the end), and the remaining count."""
        with self.changed:
            collection = self._collections[name]
            version = self.version if at is None else at
            content = collection.lists.get(version)
            if content is None:
                if at is not None and at != self.version:
                    raise status_replies.expired(
                        "The provided continue parameter is too old to display a consistent list result."
                    )
                content = sorted((key, stored.body) for key, stored in collection.objects.items())
                collection.lists[version] = content
                while len(collection.lists) > _KEPT_LISTS:
                    del collection.lists[min(collection.lists)]
        if namespace:
            content = [one for one in content if one[0][0] == namespace]
        start = bisect.bisect_right(content, after, key=lambda one: one[0]) if after is not None else 0
        end = min(len(content), start + limit) if limit else len(content)
        more = content[end - 1][0] if end < len(content) else None
        return [body for _, body in content[start:end]], version, more, len(content) - end

    def since(self, name: str, version: int, *, tick: float = 1.0) -> Iterator[tuple[list[WatchLine], int]]:
        """Changes after ``version`` as they happen, each batch with the version that it is complete up to.

        Yields a batch at least every ``tick`` seconds, which may be empty; ends when the resource is no
        longer served. A version of the future has no changes until it is passed. Raises StatusError (410) if
        the changes were compacted.
        """
        collection = self._collections[name]
        while True:
            with self.changed:
                if version < collection.compacted:
                    raise status_replies.expired(
                        f"too old resource version: {version} ({collection.compacted})"
                    )
                lines = _after(collection, version)
                if not lines:
                    self.changed.wait(tick)
                    lines = _after(collection, version) if version >= collection.compacted else []
                    if not collection.served:
                        return
                if version >= collection.compacted:
                    version = max(version, self.version)
            yield lines, version

    def compact(self, name: str) -> None:
        """Drop the history and the lists that are being read in pages."""
        with self.changed:
            collection = self._collections[name]
            collection.history.clear()
            collection.lists.clear()
            collection.compacted = self.version

    def backup(self) -> Backup:
        """All objects as they are now."""
        with self.changed:
            return Backup(self.version, {name: dict(one.objects) for name, one in self._collections.items()})

    def restore(self, backup: Backup) -> None:
        """Restore the objects and the version counter, as by a restore of etcd."""
        with self.changed:
            self.version = backup.version
            for name, collection in self._collections.items():
                collection.objects = dict(backup.objects[name])
                collection.history.clear()
                collection.lists.clear()
                collection.compacted = self.version
            self.changed.notify_all()

    def send_raw(self, name: str, text: bytes) -> None:
        """Send this line to the watches of a resource, unchecked: for lines that no real server sends."""
        with self.changed:
            self.version += 1
            self._collections[name].history.append(WatchLine(self.version, "", text + b"\n"))
            self.changed.notify_all()

    def _write(self, name: str, key: Key, made: Json, change: str) -> bytes:
        collection = self._collections[name]
        self.version += 1
        made["metadata"]["resourceVersion"] = str(self.version)
        body = msgspec.json.encode(made)
        collection.objects[key] = Stored(self.version, body)
        text = b'{"type":"%s","object":%s}\n' % (change.encode(), body)
        collection.history.append(WatchLine(self.version, key[0], text))
        self.changed.notify_all()
        return body


def _after(collection: _Collection, version: int) -> list[WatchLine]:
    start = bisect.bisect_right(collection.history, version, key=lambda line: line.version)
    return collection.history[start:]


def now() -> str:
    """The current time as the API server writes it: RFC 3339, whole seconds."""
    return clocks.rfc3339(time.time())
