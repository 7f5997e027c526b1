"""Measures for how long gangs are bound in part."""

import time
from collections import defaultdict

from tests.support.e2e import api_client, pod_watches


class Overseer(pod_watches.PodWatch):
    """Watches the gangs of a namespace from now on; for a `with` block in which no member ends."""

    def __init__(self, api: api_client.Api, namespace: str, label: str, size: int) -> None:
        """`label`: of the pods, with the name of their gang; `size`: members of each gang."""
        super().__init__(api, namespace)
        self._label = label
        self._size = size
        self._bound: defaultdict[str, set[str]] = defaultdict(set)
        self._since: dict[str, float] = {}
        self.partial: dict[str, float] = {}
        """Gang -> longest time in seconds during which some members were bound, and others were not."""

    def see(self, pod: api_client.Object, node: str) -> None:
        """Count the members of the pod's gang that are bound."""
        name = pod["metadata"]["labels"][self._label]
        members = self._bound[name]
        if node:
            members.add(pod["metadata"]["uid"])
        else:
            members.discard(pod["metadata"]["uid"])
        now = time.monotonic()
        if 0 < len(members) < self._size:
            self._since.setdefault(name, now)
        elif name in self._since:
            took = now - self._since.pop(name)
            self.partial[name] = max(took, self.partial.get(name, 0.0))

    def longest(self) -> float:
        """The longest such time of any gang, in seconds; infinite while one is bound in part."""
        return float("inf") if self._since else max(self.partial.values(), default=0.0)
