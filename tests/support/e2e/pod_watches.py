"""Follows the pods of a namespace by the API server's own history.

A watch delivers every change of a pod in order, so that what it shows is what ever existed, however briefly.
"""

import threading
from typing import Self

import urllib3

from tests.support import polling
from tests.support.e2e import api_client

ENDED = ("Succeeded", "Failed")


def counted(pod: api_client.Object) -> str:
    """The node that the pod counts on; empty if it does not count."""
    if pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in ENDED:
        return ""
    node: str = pod["spec"].get("nodeName", "")
    return node


class PodWatch:
    """Watches the pods of a namespace from now on; for a `with` block."""

    def __init__(self, api: api_client.Api, namespace: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._ended = False
        self._version = 0
        self._watch: api_client.Watch | None = None
        self._thread = threading.Thread(target=self._run, name="pod-watch", daemon=True)
        self.error: Exception | None = None

    def see(self, pod: api_client.Object, node: str) -> None:
        """Take one state of a pod; ``node``: that it counts on, empty if there is none."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        pods = self._api.get(self._path)
        for pod in pods["items"]:
            self.see(pod, counted(pod))
        self._version = int(pods["metadata"]["resourceVersion"])
        self._watch = self._api.watch(self._path, pods["metadata"]["resourceVersion"], seconds=600)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.catch_up()
        finally:
            self._ended = True
            if self._watch is not None:
                self._watch.close()
            self._thread.join()
        assert self.error is None, f"the watch failed: {self.error}"

    def catch_up(self) -> None:
        """Wait until every pod was seen as a list of the API server has it now."""
        pods = self._api.list(self._path)
        # A watch delivers changes in the order of their versions.
        last = max((int(pod["metadata"]["resourceVersion"]) for pod in pods), default=0)
        polling.eventually(
            lambda: self._version >= last or self.error is not None,
            f"the watch delivers version {last}",
            seen=lambda: self._version,
        )

    def _run(self) -> None:
        assert self._watch is not None
        try:
            for change in self._watch:
                self._take(change)
            assert self._ended, "the API server ended it"
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AssertionError) as error:
            self.error = error

    def _take(self, change: api_client.Change) -> None:
        assert change.kind != "ERROR", change.object
        if change.kind != "BOOKMARK":
            self.see(change.object, "" if change.kind == "DELETED" else counted(change.object))
        self._version = int(change.object["metadata"]["resourceVersion"])
