"""Counts the pods of each domain at every moment, from the API server's own history.

The watch delivers every change of a pod in order, so the highest number observed is the highest that ever
existed, however briefly.
"""

import threading
from collections import Counter
from collections.abc import Mapping

import urllib3

from tests.support.e2e import api_client

ENDED = ("Succeeded", "Failed")


def counted(pod: api_client.Object) -> str:
    """The node that the pod counts on; empty if it does not count."""
    if pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in ENDED:
        return ""
    node: str = pod["spec"].get("nodeName", "")
    return node


class Overseer:
    """Watches the pods of a namespace from now on; for a `with` block."""

    def __init__(self, api: api_client.Api, namespace: str, domains: Mapping[str, str]) -> None:
        """`domains`: node -> domain."""
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._domains = domains
        self._places: dict[str, str] = {}
        self._now: Counter[str] = Counter()
        self._ended = False
        self._watch: api_client.Watch | None = None
        self._thread = threading.Thread(target=self._run, name="overseer", daemon=True)
        self.peak: Counter[str] = Counter()
        """Domain -> highest number of pods at any moment."""
        self.error: Exception | None = None

    def __enter__(self) -> "Overseer":
        pods = self._api.get(self._path)
        for pod in pods["items"]:
            self._see(pod["metadata"]["uid"], counted(pod))
        self._watch = self._api.watch(self._path, pods["metadata"]["resourceVersion"], seconds=600)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        if self._watch is not None:
            self._watch.close()
        self._thread.join()
        assert self.error is None, f"the watch failed: {self.error}"

    def now(self) -> dict[str, int]:
        """Domain -> pods there."""
        return {domain: number for domain, number in sorted(self._now.items()) if number}

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
        if change.kind == "BOOKMARK":
            return
        pod = change.object
        self._see(pod["metadata"]["uid"], "" if change.kind == "DELETED" else counted(pod))

    def _see(self, uid: str, node: str) -> None:
        domain = self._domains.get(node, "elsewhere") if node else ""
        before = self._places.get(uid, "")
        if before == domain:
            return
        self._places[uid] = domain
        if before:
            self._now[before] -= 1
        if domain:
            self._now[domain] += 1
            self.peak[domain] = max(self.peak[domain], self._now[domain])


def recount(
    api: api_client.Api, namespace: str, domains: Mapping[str, str], labels: str = ""
) -> dict[str, int]:
    """Domain -> pods, counted from a new list of the API server."""
    found: Counter[str] = Counter({domain: 0 for domain in domains.values()})
    for pod in api.list(f"/api/v1/namespaces/{namespace}/pods", labels=labels):
        node = counted(pod)
        if node:
            found[domains.get(node, "elsewhere")] += 1
    return dict(found)
