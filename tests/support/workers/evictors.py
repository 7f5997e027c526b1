"""An evictor on a virtual clock, in a small cluster."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app import telemetry
from app.domain import events, model, projections, snapshots
from app.framework import cycles, effects, registry
from app.kube import call_limits
from app.kube.objects import decoding
from tests.support import declared
from tests.support.decisions import fake_plugins
from tests.support.kube import fake_clock
from tests.support.workers import clusters
from workers.controller import evictions

Json = dict[str, Any]
TERM = "term"
BUDGETS = "poddisruptionbudgets"


@dataclass(frozen=True, slots=True)
class Protects(fake_plugins.Idle):
    """Objects to the eviction of some pods, unless all of them go."""

    name: str = "Protects"
    together: frozenset[str] = frozenset()

    def veto(self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]) -> str | None:
        going = self.together & {pod.name for pod in victims}
        text = f"{' and '.join(sorted(self.together))} belong together"
        return text if going and going != self.together else None


class Evicting:
    """An evictor on a virtual clock, and the snapshot that it is given."""

    def __init__(self, cluster: clusters.Cluster, *plugins: fake_plugins.Idle) -> None:
        self.cluster = cluster
        self.meanwhile: Callable[[], None] = lambda: None
        """Called while the evictor waits."""
        self.clock = fake_clock.VirtualClock(lambda number: self.meanwhile())
        self.term: Callable[[], str | None] = lambda: TERM
        self.snapshot = snapshots.empty(schema=declared.SCHEMA)
        self.posted: list[effects.PostEvent] = []
        self.evictor = evictions.Evictor(
            cluster.client,
            lambda: self.snapshot,
            registry.Registry(plugins),
            lambda found, term: self.posted.append(found),
            call_limits.CallLimit(self.clock, term=lambda: self.term(), burst=1000.0, rate=1000.0),
            self.clock,
        )
        for name in ("a", "b", "c"):
            cluster.pod(name, node="n", app=name)
            cluster.phase(name, "Running")
        self.observe()
        cluster.server.seen.clear()

    def observe(self) -> None:
        """The recorder observes the pods."""
        found = {one["metadata"]["uid"]: one for one in self.cluster.server.objects.all("pods")}
        for uid, pod in self.snapshot.pods.items():
            if uid not in found:
                gone = events.PodGone(uid=uid, namespace=pod.namespace, name=pod.name)
                self.snapshot = projections.project(self.snapshot, gone)
        for one in found.values():
            seen = events.PodSeen(pod=decoding.pod(json.dumps(one).encode()))
            self.snapshot = projections.project(self.snapshot, seen)

    def pod(self, name: str) -> model.Pod:
        found = self.snapshot.pod_named("ns", name)
        assert found is not None
        return found

    def want(
        self,
        *each: str,
        after: float = 0.0,
        term: str = TERM,
        plugin: str = "P",
        together: bool = True,
        unsupported: str = "",
    ) -> None:
        """Want the pods of each text evicted: ``a b`` are two for one subject.

        ``unsupported``: pods that the API never evicts, for each subject.
        """
        others = tuple(self.pod(name) for name in unsupported.split())
        wanted = tuple(
            effects.Eviction(
                text, tuple(self.pod(name) for name in text.split()), f"for {text}", after, together, others
            )
            for text in each
        )
        self.evictor.submit(effects.EvictPods(plugin, wanted), self.snapshot, term)

    def want_renewed(
        self, name: str, renewed: Callable[[snapshots.Snapshot], effects.Eviction | None], *, after: float
    ) -> None:
        """Want a pod evicted; its plugin computes that again before."""
        one = effects.Eviction("subject", (self.pod(name),), f"for {name}", after, renewed=renewed)
        self.evictor.submit(effects.EvictPods("P", (one,)), self.snapshot, TERM)

    def asked(self, *, after: float = 0.0) -> list[str]:
        """The pods whose eviction is requested when that many seconds have passed."""
        self.clock.now += after
        self.cluster.server.seen.clear()
        self.evictor.run_once()
        found = [one for one in self.cluster.server.seen if one.method != "GET"]
        assert all(one.path.endswith("/eviction") for one in found)
        return [one.path.split("/")[-2] for one in found]

    def budget(self, name: str, allowed: int, *, called: str = "") -> None:
        """A budget of the pods with that label app."""
        selector = {"matchLabels": {"app": name}}
        status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
        made = {
            "metadata": {"namespace": "ns", "name": called or name},
            "spec": {"selector": selector},
            "status": status,
        }
        self.cluster.server.objects.create(BUDGETS, made)

    def allow(self, name: str) -> None:
        def raised(found: Json) -> Json:
            return found | {"status": found["status"] | {"disruptionsAllowed": 1}}

        self.cluster.server.objects.change(BUDGETS, ("ns", name), raised)


def outcomes() -> dict[str, float]:
    """The metric: outcome -> number."""
    return {
        sample.labels["outcome"]: sample.value
        for metric in telemetry.metrics.EVICTIONS.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
