"""The server that the contract is checked on, and the pods and watches of the tests."""

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.kube.client import clients

Json = dict[str, Any]

_numbers = itertools.count()


def pod(name: str, *, node: str = "", **labels: str) -> Json:
    """The smallest pod that a real API server accepts."""
    spec: Json = {"containers": [{"name": "c", "image": "registry.example/app:1"}]}
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def encoded(value: Json) -> bytes:
    return json.dumps(value).encode()


def unique(prefix: str) -> str:
    """A name that no other object has."""
    return f"{prefix}{next(_numbers)}-{time.monotonic_ns():x}"


class Watch:
    """A watch as lines, each with a time limit that only a broken server reaches."""

    def __init__(self, client: clients.Client, path: str, version: str, *, seconds: int = 30) -> None:
        parameters = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        self.stream = client.stream(path, parameters, silence=60.0)

    def __iter__(self) -> Iterator[Json]:
        rest = b""
        for piece in self.stream:
            *lines, rest = (rest + piece).split(b"\n")
            yield from map(json.loads, filter(None, lines))

    def objects(self, count: int) -> list[tuple[str, Json]]:
        """The next changes of objects, bookmarks left out."""
        changes = ((line["type"], line["object"]) for line in self if line["type"] != "BOOKMARK")
        return list(itertools.islice(changes, count))

    def close(self) -> None:
        self.stream.close()


class ServerUnderTest:
    """A part of the contract; `client` and `namespace` are fixtures of its subclass."""

    @property
    def labels_are_merged(self) -> bool:
        """Whether the server copies the labels of a Binding to the pod: kube-apiserver from 1.35 on does."""
        return True

    def forget(self, client: clients.Client) -> bool:
        """Compact the history of pods; returns false if that is not possible."""
        return False

    @pytest.fixture
    def pods(self, namespace: str) -> str:
        """The path of the namespace's pods."""
        return f"/api/v1/namespaces/{namespace}/pods"

    def made(self, client: clients.Client, pods: str, **labels: str) -> Json:
        """Create a pod with a unique name."""
        body = pod(unique("p"), **labels)
        found: Json = json.loads(client.post(pods, encoded(body)))
        return found
