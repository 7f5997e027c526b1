"""A simulated scheduler that calls an extender exactly as kube-scheduler does.

It runs one cycle at a time. Its own rules come first (fit, node selector, required anti-affinity), then
filter with the names of the remaining nodes, prioritize unless one node remains, and bind through the
extender to the node with the best sum; a seeded random choice breaks ties. A refused pod gets
kube-scheduler's message. The scheduler keeps an assume cache, as kube-scheduler does, and has no watch: its
caller chooses the next pod.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import urllib3

from app.domain.fit import quantities

Json = dict[str, Any]
_TIMEOUT: Final = 5.0
"""Seconds of a call."""


class CallFailed(RuntimeError):
    """The extender violated the contract; the text is the error that kube-scheduler would show."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one scheduling cycle."""

    node: str | None
    message: str = ""
    """Empty if the pod was bound."""


class Extender:
    """An extender, as in kube-scheduler's configuration: URL, client certificate, nodeCacheCapable."""

    def __init__(
        self,
        url: str,
        *,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._pool = urllib3.PoolManager(
            num_pools=2, maxsize=2, ca_certs=ca, cert_file=cert, key_file=key, retries=False
        )

    def call(self, verb: str, body: Json) -> object:
        """POST to a verb; returns the decoded JSON reply. Raises CallFailed."""
        try:
            reply = self._pool.request(
                "POST",
                f"{self._url}/{verb}",
                body=json.dumps(body, separators=(",", ":")).encode(),
                headers={"Content-Type": "application/json"},
                timeout=_TIMEOUT,
            )
        except urllib3.exceptions.HTTPError as error:
            raise CallFailed(f'Post "{self._url}/{verb}": {error}') from error
        if reply.status != 200:
            raise CallFailed(f"failed {verb} with extender at URL {self._url}/{verb}, code {reply.status}")
        return json.loads(reply.data)


class Scheduler:
    """The scheduling cycle, and the cluster as the scheduler assumes it."""

    def __init__(
        self,
        extender: Extender,
        nodes: Iterable[Json],
        *,
        seed: int = 0,
        filter_verb: str = "filter",
    ) -> None:
        self.calls: dict[str, list[float]] = {}
        """Verb -> seconds of each call."""
        self._extender = extender
        self._filter_verb = filter_verb
        self._dice = random.Random(seed)
        self._nodes = {node["metadata"]["name"]: node for node in nodes}
        self._free = {name: _amounts(node["status"]["allocatable"]) for name, node in self._nodes.items()}
        self._assumed: dict[str, tuple[str, Json]] = {}

    def relabel(self, node: Json) -> None:
        """Take over the changed labels of a node."""
        self._nodes[node["metadata"]["name"]] = node

    def forget(self, uid: str) -> None:
        """Free the resources of a deleted pod."""
        node, pod = self._assumed.pop(uid, ("", {}))
        if node:
            self._take(node, pod, +1)

    def attempt(self, pod: Json) -> Attempt:
        """Run one scheduling cycle and bind the pod. Raises CallFailed for an ``Error`` of filter."""
        fitting, reasons = self._fitting(pod)
        if fitting:
            fitting, refused = self._filter(pod, fitting)
            reasons.update(refused)
        if not fitting:
            spelled = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
            return Attempt(None, f"0/{len(self._nodes)} nodes are available: {spelled}.")
        node = fitting[0] if len(fitting) == 1 else self._best(pod, fitting)
        meta = pod["metadata"]
        self._assumed[meta["uid"]] = (node, pod)
        self._take(node, pod, -1)
        reply = self._call(
            "bind",
            {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node},
        )
        error = reply.get("Error") if isinstance(reply, dict) else ""
        if error:
            self.forget(meta["uid"])
            return Attempt(None, error)
        return Attempt(node)

    # -- the scheduler's own rules ---------------------------------------------------------

    def _fitting(self, pod: Json) -> tuple[list[str], Counter[str]]:
        wanted = _requested(pod)
        selector = pod["spec"].get("nodeSelector") or {}
        avoided = self._avoided(pod)
        reasons: Counter[str] = Counter()
        fitting = []
        for name, node in self._nodes.items():
            if not selector.items() <= (node["metadata"].get("labels") or {}).items():
                reasons["node(s) didn't match Pod's node affinity/selector"] += 1
            elif name in avoided:
                reasons["node(s) didn't match pod anti-affinity rules"] += 1
            elif any(self._free[name].get(key, 0) < amount for key, amount in wanted.items()):
                reasons["Insufficient resources"] += 1
            else:
                fitting.append(name)
        self._dice.shuffle(fitting)
        return fitting, reasons

    def _avoided(self, pod: Json) -> set[str]:
        """Nodes that the pod's required anti-affinity over the host name excludes."""
        terms = ((pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or []
        avoided: set[str] = set()
        for term in terms:
            wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
            avoided.update(
                node
                for node, other in self._assumed.values()
                if wanted.items() <= (other["metadata"].get("labels") or {}).items()
                and other["metadata"]["namespace"] == pod["metadata"]["namespace"]
            )
        return avoided

    # -- calls of the extender ------------------------------------------------------------

    def _filter(self, pod: Json, names: list[str]) -> tuple[list[str], Counter[str]]:
        reply = self._call(self._filter_verb, {"Pod": pod, "Nodes": None, "NodeNames": names})
        if not isinstance(reply, dict):
            raise CallFailed("json: cannot unmarshal into Go value of type v1.ExtenderFilterResult")
        if reply.get("Error"):
            raise CallFailed(reply["Error"])
        failed = {**(reply.get("FailedNodes") or {}), **(reply.get("FailedAndUnresolvableNodes") or {})}
        kept = reply.get("NodeNames") or []
        unknown = set(kept) - set(names)
        if unknown:
            raise CallFailed(f"extender claims a filtered node {unknown.pop()!r} which is not in the input")
        return kept, Counter(failed.values())

    def _best(self, pod: Json, names: list[str]) -> str:
        reply = self._call("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": names})
        sums = dict.fromkeys(names, 0)
        for entry in reply if isinstance(reply, list) else []:
            if entry["Host"] in sums:
                sums[entry["Host"]] += entry["Score"]
        top = max(sums.values())
        return self._dice.choice([name for name, total in sums.items() if total == top])

    def _call(self, verb: str, body: Json) -> object:
        began = time.perf_counter()
        reply = self._extender.call(verb, body)
        self.calls.setdefault(verb, []).append(time.perf_counter() - began)
        return reply

    def _take(self, node: str, pod: Json, sign: int) -> None:
        free = self._free[node]
        for key, amount in _requested(pod).items():
            free[key] = free.get(key, 0) + sign * amount


def _requested(pod: Json) -> dict[str, int]:
    total: dict[str, int] = {"pods": 1}
    for container in pod["spec"]["containers"]:
        for key, amount in _amounts((container.get("resources") or {}).get("requests") or {}).items():
            total[key] = total.get(key, 0) + amount
    return total


def _amounts(spelled: Mapping[str, str]) -> dict[str, int]:
    return {key: quantities.parse(value, key) for key, value in spelled.items()}
