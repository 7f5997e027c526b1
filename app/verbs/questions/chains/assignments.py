"""Assigns again, by the plugins, to the pods that a supposed history places on another node than the log.

Plugins are asked about each pod alone, as in the rest of a chain; those that place pods together are not.
"""

from collections.abc import Mapping

import msgspec

from app.domain import model, snapshots
from app.framework import cycles, plans, registry
from app.verbs.questions import situations


class Assignments:
    """The annotations that Bindings of the log set, and those of supposed placements in their place."""

    def __init__(self) -> None:
        self._recorded: dict[model.Uid, Mapping[str, str]] = {}
        self._supposed: dict[model.Uid, Mapping[str, str]] = {}
        self._alone: dict[registry.Registry, registry.Registry] = {}
        """Plugins of a configuration -> those of them that do not place pods together."""

    def record(self, placement: model.Placement) -> None:
        """Note what the log assigns to a pod."""
        if placement.annotations:
            self._recorded[placement.pod.uid] = placement.annotations
        else:
            self._recorded.pop(placement.pod.uid, None)

    def forget(self, uid: model.Uid) -> None:
        """Nothing is assigned to a pod that is gone."""
        self._recorded.pop(uid, None)
        self._supposed.pop(uid, None)

    def reserve(
        self, plugins: registry.Registry, snapshot: snapshots.Snapshot, pod: model.Pod, node: model.NodeName
    ) -> model.Pod:
        """The pod on a node where the log does not place it, with what the plugins assign to it there."""
        alone = self._alone.get(plugins)
        if alone is None:
            left = [plugin for plugin in plugins.plugins if plugin not in plugins.groups]
            alone = self._alone[plugins] = registry.Registry(left, score_max=plugins.score_max)
        cycle = cycles.cycle(pod, frozenset((node,)), snapshot, score_max=plugins.score_max)
        try:
            made = plans.commitment(alone, cycle, node)
        except (plans.InvalidPlan, cycles.HookFailed):
            made = None
        self._supposed[pod.uid] = made.placements[0].annotations if isinstance(made, plans.Commitment) else {}
        return self.on(pod, node)

    def kept(self, pod: model.Pod, node: model.NodeName) -> model.Pod:
        """The pod on the node where the log places it, too, with what the log assigns to it."""
        return situations.on(model.annotated(pod, self._recorded.get(pod.uid, {})), node)

    def on(self, pod: model.Pod, node: model.NodeName) -> model.Pod:
        """An observed pod as it would be observed on its supposed node."""
        return situations.on(model.annotated(self._bare(pod), self._supposed.get(pod.uid, {})), node)

    def unbound(self, pod: model.Pod) -> model.Pod:
        """An observed pod as it would be observed if it had not been bound."""
        return situations.unbound(self._bare(pod))

    def _bare(self, pod: model.Pod) -> model.Pod:
        """The pod without what the log, or the supposed history, assigns to it."""
        assigned = {
            pair for each in (self._recorded, self._supposed) for pair in each.get(pod.uid, {}).items()
        }
        if not assigned:
            return pod
        left = {key: value for key, value in pod.annotations.items() if (key, value) not in assigned}
        return msgspec.structs.replace(pod, annotations=left)
