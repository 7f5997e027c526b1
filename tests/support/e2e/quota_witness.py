"""Counts the pods of each domain at every moment."""

from collections import Counter
from collections.abc import Mapping

from tests.support.e2e import api_client, pod_watches


class Overseer(pod_watches.PodWatch):
    """Watches the pods of a namespace from now on; for a `with` block."""

    def __init__(self, api: api_client.Api, namespace: str, domains: Mapping[str, str]) -> None:
        """`domains`: node -> domain."""
        super().__init__(api, namespace)
        self._domains = domains
        self._places: dict[str, str] = {}
        self._now: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        """Domain -> highest number of pods at any moment."""

    def now(self) -> dict[str, int]:
        """Domain -> pods there."""
        return {domain: number for domain, number in sorted(self._now.items()) if number}

    def see(self, pod: api_client.Object, node: str) -> None:
        """Count the pod in the domain of its node, and no longer where it was."""
        uid = pod["metadata"]["uid"]
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
        node = pod_watches.counted(pod)
        if node:
            found[domains.get(node, "elsewhere")] += 1
    return dict(found)
