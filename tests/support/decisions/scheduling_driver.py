"""A small scheduler: filter, score, pick, place, observe. Only the wire and the store are missing."""

import dataclasses
import random
from collections.abc import Iterable

import msgspec

from app import plugins
from app.domain import events, model, observations, projections, snapshots, verdicts
from app.framework import capabilities, cycles, pipeline, registry
from app.plugins.workload_policy import policy_counts, policy_model
from tests.support import declared
from tests.support.decisions import commitments

Thing = model.Node | model.Pod | model.DeclaredObject


class Cluster:
    """A snapshot of a cluster, and the calls that kube-scheduler makes about it."""

    def __init__(
        self, *things: Thing, configured: Iterable[capabilities.Plugin] | None = None, score_max: int = 10
    ) -> None:
        chosen = [kind() for kind in plugins.USUAL] if configured is None else configured
        self.plugins = registry.Registry(chosen, score_max=score_max)
        self.snapshot = snapshots.empty(
            schema=declared.SCHEMA, indexed=self.plugins.indexed(), incarnation="test"
        )
        self.see(*things)

    def see(self, *things: Thing) -> None:
        """Observe objects, as the watch does."""
        for thing in things:
            self.take(*self._observed(thing))

    def take(self, *batch: events.AnyEvent) -> None:
        """Apply events of the log."""
        self.snapshot = projections.project_all(self.snapshot, batch)

    def gone(self, pod: model.Pod) -> None:
        """Delete a pod."""
        self.take(events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name))

    def count(self, policy: policy_model.WorkloadPolicy, domain: str) -> int:
        """The count, which must equal a recount from the pods."""
        count = policy_counts.count(self.snapshot, policy, domain)
        assert count == policy_counts.count(recounted(self.snapshot), policy, domain)
        return count

    # -- calls of kube-scheduler -----------------------------------------------------------

    def filter(
        self, pod: model.Pod, nodes: Iterable[str] | None = None, *, offered: bool = False
    ) -> verdicts.Trace:
        """The filter trace of the pod, checked against the invariants of every trace.

        ``offered``: kube-scheduler has found that the pod fits on the nodes.
        """
        cycle = dataclasses.replace(self._cycle(pod, nodes), offered=offered)
        trace = pipeline.run_filter(self.plugins, cycle)
        assert trace.refused <= trace.candidates
        assert trace.reasons().keys() == trace.refused
        for refusal in trace.refusals:
            explained = [node for nodes in refusal.details.values() for node in nodes]
            assert not explained or frozenset(explained) == refusal.nodes
        return trace

    def score(self, pod: model.Pod, nodes: Iterable[str] | None = None) -> dict[str, int]:
        """The weighted sum of every candidate."""
        trace = pipeline.run_score(self.plugins, self._cycle(pod, nodes))
        return {node: trace.score_of(node) for node in trace.candidates}

    def only(self, pod: model.Pod, nodes: Iterable[str] | None = None) -> str | None:
        """The answer of filter_onlyone."""
        cycle = self._cycle(pod, nodes)
        return pipeline.best(self.plugins, cycle, pipeline.run(self.plugins, cycle))

    def veto(self, pod: model.Pod, node: str, *victims: model.Pod) -> str | None:
        """Why the victims on the node must not be preempted, or None."""
        return pipeline.veto(self.plugins, self._cycle(pod, None), node, victims)

    def why(self, pod: model.Pod) -> str:
        """The reason for which every node is refused."""
        trace = self.filter(pod)
        assert not trace.kept
        (reason,) = set(trace.reasons().values())
        return reason

    def schedule(self, pod: model.Pod, dice: random.Random, *, alone: bool = False) -> str | None:
        """Schedule one pod: filter, prioritize, bind to any of the best nodes; None if it stays pending.

        ``alone``: the pod has a required hostname anti-affinity to its like, which kube-scheduler's
        own filters see to before an extender is asked.
        """
        self.see(pod)
        offered = [name for name in self.snapshot.nodes if not (alone and self._has_like(name, pod))]
        kept = self.filter(pod, offered).kept
        if not kept:
            return None
        scores = self.score(pod, kept) if len(kept) > 1 else dict.fromkeys(kept, 0)
        assert all(0 <= score <= self.plugins.score_max for score in scores.values())
        best = [node for node in sorted(kept) if scores[node] == max(scores.values())]
        node = dice.choice(best)
        self.place(pod, node)
        self.see(msgspec.structs.replace(pod, node=node, phase="Running"))
        return node

    def place(self, pod: model.Pod, node: str) -> None:
        """Place the pod as bind does, under the guard that the store would check."""
        claim = commitments.of(self.plugins, self._cycle(pod, [node]), node)
        self.take(events.placed(pod, node))
        for key, ceiling in claim.ceilings.items():
            assert self.snapshot.counts.get(key, 0) <= ceiling

    def _cycle(self, pod: model.Pod, nodes: Iterable[str] | None) -> cycles.Cycle:
        candidates = frozenset(self.snapshot.nodes if nodes is None else nodes)
        return cycles.cycle(pod, candidates, self.snapshot, score_max=self.plugins.score_max)

    def _has_like(self, node: str, pod: model.Pod) -> bool:
        return any(other.labels == pod.labels and other.counted for other in self.snapshot.on(node))

    def _observed(self, thing: Thing) -> tuple[events.AnyEvent, ...]:
        match thing:
            case model.Node():
                return observations.node(self.snapshot.nodes.get(thing.name), thing)
            case model.Pod():
                return observations.pod(self.snapshot.pods.get(thing.uid), thing)
            case model.DeclaredObject():
                kind = declared.SCHEMA.of(thing)
                return observations.declared(kind, self.snapshot.get(kind, thing.key), thing)


def recounted(snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    """A snapshot of the same facts and placements, counted from scratch."""
    fresh = snapshots.empty(schema=declared.SCHEMA, indexed=snapshot.indexed)
    placed = [events.placed(placement.pod, placement.node) for placement in snapshot.placements.values()]
    observed: list[events.AnyEvent] = [
        *(events.NodeSeen(node=node) for node in snapshot.nodes.values()),
        *(kind.observed(one) for kind in declared.SCHEMA.kinds for one in snapshot.all(kind).values()),
        *(events.PodSeen(pod=pod) for pod in snapshot.pods.values()),
    ]
    return projections.project_all(fresh, [*observed, *placed])
