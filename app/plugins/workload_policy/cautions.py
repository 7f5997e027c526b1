"""What is odd about a policy though nothing is wrong: sentences for its operator."""

from collections.abc import Iterable, Iterator

from app.domain import model, selecting, snapshots
from app.plugins.workload_policy import announcing, logic

REVISION = "pod-template-hash"
"""Pod label by which a Deployment tells its ReplicaSets apart."""


def warnings(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> list[str]:
    """The warnings, in a stable order; an invalid policy has errors instead."""
    if policy.errors:
        return []
    waiting = announcing.waiting(snapshot, policy.namespace, policy.name)
    return [
        *_domains(snapshot, policy),
        *_labels(snapshot, policy),
        *_selection(policy, waiting),
        *_rolling_update(snapshot, policy, waiting),
    ]


def _domains(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> Iterator[str]:
    column = snapshot.topology[policy.topology_key]
    for quota in logic.quotas(snapshot, policy):
        if quota.desired and not column[quota.domain]:
            yield f"no node has the label {policy.topology_key}={quota.domain}"
        if quota.count > quota.desired:
            yield (
                f"{quota.domain} holds {quota.count} pods, {quota.desired} are desired:"
                " nothing is evicted, the number falls as pods end"
            )


def _labels(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> Iterator[str]:
    """The alias works, but only the canonical label is what Kosmos itself reads (WP-18)."""
    aliased = list(snapshot.siblings(policy.namespace, logic.ALIAS, policy.name))
    both = [pod for pod in aliased if logic.LABEL in pod.labels]
    other = sorted(pod.key for pod in both if pod.labels[logic.LABEL] != policy.name)
    only = len(aliased) - len(both)
    if only:
        yield f"{only} pods name the policy by the alias {logic.ALIAS} only; write {logic.LABEL}"
    if other:
        yield (
            f"{len(other)} pods name this policy by {logic.ALIAS} and another by {logic.LABEL}, which wins:"
            f" {logic.shortened(other)}"
        )


def _selection(policy: model.WorkloadPolicy, waiting: Iterable[model.Pod]) -> Iterator[str]:
    missed = sorted(pod.key for pod in waiting if not selecting.matches(policy.selector, pod.labels))
    if missed:
        yield f"{len(missed)} waiting pods do not match the labelSelector: {logic.shortened(missed)}"


def _rolling_update(
    snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy, waiting: Iterable[model.Pod]
) -> Iterator[str]:
    """Old and new pods share the quotas: without maxUnavailable neither can move (WP-21)."""
    if not policy.required or any(quota.free for quota in logic.quotas(snapshot, policy)):
        return
    new = {pod.labels[REVISION] for pod in waiting if REVISION in pod.labels}
    old = {
        pod.labels[REVISION]
        for label in (logic.LABEL, logic.ALIAS)
        for pod in snapshot.siblings(policy.namespace, label, policy.name)
        if REVISION in pod.labels and pod.counted and snapshot.node_of(pod.uid)
    }
    if new - old and old - new:
        yield (
            f"pods of {REVISION} {logic.shortened(sorted(new - old))} wait for places that"
            f" {logic.shortened(sorted(old - new))} holds: a rolling update with maxUnavailable 0"
            " cannot go on; allow maxUnavailable 1, or raise a quota for its time"
        )
