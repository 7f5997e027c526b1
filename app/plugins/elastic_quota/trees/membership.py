"""The quota that a pod belongs to: a function of its labels, its namespace and the quotas that exist."""

from collections.abc import Iterable
from typing import NamedTuple

from app.domain import declared_objects, model, snapshots
from app.plugins.elastic_quota import decoding, kinds, quota_model
from app.plugins.elastic_quota.trees import forests

LABEL = f"{decoding.PREFIX}name"
"""Pod label that names the quota."""
PREEMPTIBLE = f"{decoding.PREFIX}preemptible"
"""Pod label: ``"false"`` limits the pod to the min of its quota."""

_OF_NODES = frozenset(("DaemonSet", "Node"))
"""Kinds of owners whose pods belong to a node: a DaemonSet, and a node that owns the mirror pod of a static
pod."""


class Membership(NamedTuple):
    """The quota of a pod."""

    name: str
    warning: str = ""
    """Why it is probably not the one that was meant."""


def forest(objects: declared_objects.Objects) -> forests.Forest:
    """The trees of the quotas, for each state of them: built again only if more than amounts has changed."""

    def compute(former: forests.Forest | None, changed: Iterable[str]) -> forests.Forest:
        found = objects.all(kinds.QUOTAS)
        amended = None if former is None else former.amended(map(found.get, changed))
        return forests.grown(found.values()) if amended is None else amended

    return objects.followed(kinds.QUOTAS, __name__, compute)


def of(pod: model.Pod, grown: forests.Forest) -> Membership:
    """The quota of the pod: the one that it names, else that of its namespace, else the default quota."""
    name = pod.labels.get(LABEL, "")
    if name and name != quota_model.ROOT:
        if name in grown.quotas or name in quota_model.BUILT_IN:
            return Membership(name)
        return Membership(quota_model.DEFAULT, f"quota {name} does not exist; the default quota applies")
    own = grown.quotas.get(pod.namespace)
    if own is not None and own.namespace == pod.namespace:
        return Membership(own.name)
    return Membership(grown.by_namespace.get(pod.namespace, quota_model.DEFAULT))


def preemptible(pod: model.Pod) -> bool:
    """Whether the pod may use what its quota borrows."""
    return pod.labels.get(PREEMPTIBLE) != "false"


def evictable(pod: model.Pod) -> bool:
    """Whether an eviction of the pod would free something: it is preemptible, and its owner does not create
    it again on the same node.
    """
    return preemptible(pod) and not any(one.controller and one.kind in _OF_NODES for one in pod.owners)


def pod_class(pod: model.Pod, _: snapshots.Snapshot) -> tuple[object, ...]:
    """The properties of a pod on which refusals depend, besides its namespace."""
    return pod.labels.get(LABEL), preemptible(pod), tuple(sorted(pod.requests.items()))
