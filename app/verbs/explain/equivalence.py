"""Equivalence classes of pods: pods that every plugin filters alike are evaluated once.

Twenty thousand pending pods usually wait for a handful of reasons. Two pods are of one class if they agree in
everything that a filter or its advice may depend on: the namespace, the ``pod_class`` of each filtering
plugin, and the nominations that count for the pod.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator

import msgspec

from app.domain import model, snapshots
from app.framework import registry

PodClass = Hashable


class Classes:
    """The classes of the pods of one snapshot."""

    def __init__(self, plugins: registry.Registry, snapshot: snapshots.Snapshot) -> None:
        self._plugins = plugins
        self._snapshot = snapshot
        self._nominated = sorted(pod.priority for pod in _nominated(snapshot))

    def of(self, pod: model.Pod) -> PodClass:
        """The class of the pod: equal for pods that are filtered and advised alike in the snapshot."""
        return pod.namespace, self._read(pod), self._nominations(pod)

    def _read(self, pod: model.Pod) -> Hashable:
        """What the filters read of the pod; everything but its identity and age if one does not classify."""
        plugins = self._plugins
        known = plugins.classifies
        deciding = (*plugins.filters, *plugins.transforms, *plugins.transforms_nodes)
        if all(plugin.name in known for plugin in deciding):
            return tuple(known[plugin.name].pod_class(pod, self._snapshot) for plugin in deciding)
        alike = msgspec.structs.replace(pod, uid="", name="", created="", unscheduled="")
        return msgspec.json.encode(alike, order="sorted")

    def _nominations(self, pod: model.Pod) -> tuple[int, model.Uid]:
        """How many nominations count at the pod's priority; a nominated or placed pod is a class alone."""
        own = pod.uid in self._snapshot.nominated or bool(self._snapshot.node_of(pod.uid))
        counting = len(self._nominated) - bisect_left(self._nominated, pod.priority)
        return counting, pod.uid if own else ""


def _nominated(snapshot: snapshots.Snapshot) -> Iterator[model.Pod]:
    for uid in snapshot.nominated:
        pod = snapshot.pods.get(uid)
        if pod is not None and uid not in snapshot.placements:
            yield pod
