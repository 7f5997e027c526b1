"""Warnings about valid policies that probably do not work as intended."""

from bisect import insort
from collections.abc import Iterator

from app.domain import model, selectors, snapshots
from app.plugins.workload_policy import logic, policy_model, waking

REVISION = "pod-template-hash"
"""Pod label that identifies the ReplicaSet of a Deployment."""


class _Named:
    """The number of pods and the first of their names; bounded, however many pods are added."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[model.NamespacedName] = []

    def add(self, pod: model.Pod) -> None:
        self.count += 1
        insort(self._first, pod.key)
        del self._first[logic.MAX_NAMED :]

    def __str__(self) -> str:
        more = self.count - len(self._first)
        return ", ".join(self._first) + (f" and {more} more" if more else "")


def warnings(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> list[str]:
    """The warnings in a stable order; an invalid policy has errors instead."""
    if policy.errors:
        return []
    return [
        *_domains(snapshot, policy),
        *_labels(snapshot, policy),
        *_selection(snapshot, policy),
        *_rolling_update(snapshot, policy),
    ]


def _domains(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    column = snapshot.topology[policy.topology_key]
    for quota in logic.quotas(snapshot, policy):
        if quota.desired and not column[quota.domain]:
            yield f"no node has the label {policy.topology_key}={quota.domain}"
        if quota.count > quota.desired:
            yield (
                f"{quota.domain} holds {quota.count} pods, {quota.desired} are desired:"
                " no pod is evicted, the number falls as pods end"
            )


def _labels(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    """Pods with the alias: it works, but Kosmos itself reads only the canonical label (WP-18)."""
    only = 0
    other = _Named()
    for pod in snapshot.siblings(policy.namespace, logic.ALIAS, policy.name):
        label = pod.labels.get(logic.LABEL)
        if label is None:
            only += 1
        elif label != policy.name:
            other.add(pod)
    if only:
        yield f"{only} pods name the policy only by the alias {logic.ALIAS}; use {logic.LABEL}"
    if other.count:
        yield (
            f"{other.count} pods name this policy by {logic.ALIAS} and another by {logic.LABEL}, which wins:"
            f" {other}"
        )


def _selection(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    missed = _Named()
    for pod in waking.naming(snapshot, policy.namespace, policy.name):
        if not selectors.matches(policy.selector, pod.labels):
            missed.add(pod)
    if missed.count:
        yield f"{missed.count} pending pods do not match the labelSelector: {missed}"


def _rolling_update(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    """A rolling update that is blocked because old and new pods share the quotas (WP-21)."""
    if not policy.required or any(quota.free for quota in logic.quotas(snapshot, policy)):
        return
    waiting = waking.naming(snapshot, policy.namespace, policy.name)
    new = {pod.labels[REVISION] for pod in waiting if REVISION in pod.labels}
    old = {
        pod.labels[REVISION]
        for label in (logic.LABEL, logic.ALIAS)
        for pod in snapshot.siblings(policy.namespace, label, policy.name)
        if REVISION in pod.labels and pod.counted and snapshot.node_of(pod.uid)
    }
    if new - old and old - new:
        yield (
            f"pods of {REVISION} {logic.shortened(sorted(new - old))} wait for places held by"
            f" {logic.shortened(sorted(old - new))}: a rolling update with maxUnavailable 0"
            " cannot proceed; set maxUnavailable to 1, or raise a quota during the update"
        )
