"""The status of quotas: what their pods use, where ``kubectl get`` and other tools read it.

``status.used`` is the only field that the definitions have (v1alpha1.ElasticQuotaStatus): amounts as in the
plugin's views, so a placement counts before its pod is bound. Koordinator's annotations are written beside it
if they are enabled (annotations).
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from app.domain import events, model, snapshots
from app.domain.fit import quantities
from app.framework import effects
from app.plugins.elastic_quota import admission, annotations, kinds, quota_counts
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.sigs import namespace_counts, namespace_quota
from app.plugins.elastic_quota.sigs.namespace_quota import NamespaceQuota
from app.plugins.elastic_quota.trees import membership, usage

KIND = kinds.QUOTAS.name
KINDS = tuple(kind.name for kind in kinds.declared())
"""The kinds whose status the plugin writes."""


class StatusRules(admission.QuotaRules, Protocol):
    """The arguments of the plugin (plugin.ElasticQuota)."""

    @property
    def koordinator_annotations(self) -> bool:
        """Whether Koordinator's annotations are written, too."""
        ...


def reconcile(
    snapshot: snapshots.Snapshot, changes: effects.Changes, rules: StatusRules
) -> Iterator[effects.PatchStatus]:
    """The status of each quota that the changes concern."""
    pods = _changed_pods(changes)
    if rules.koordinator_annotations:
        yield from _annotated(snapshot, changes, rules)
    else:
        quotas = snapshot.all(kinds.QUOTAS).values() if pods is None else _of_pods(snapshot, pods)
        for quota in quotas:
            yield effects.PatchStatus(KIND, quota.key, status(snapshot, quota), generation=False)
    for own in _of_namespaces(snapshot, pods):
        found = _of_namespace(snapshot, own)
        yield effects.PatchStatus(namespace_quota.KIND.name, own.key, found, generation=False)


def _annotated(
    snapshot: snapshots.Snapshot, changes: effects.Changes, rules: StatusRules
) -> Iterator[effects.PatchStatus]:
    """All quotas with their annotations: a pod, or a node, may change the runtime of each."""
    happened = changes.events
    if changes.before is not None and all(isinstance(event, events.OPERATIONAL) for event in happened):
        return
    writer = annotations.Writer(snapshot, rules)
    for quota in snapshot.all(kinds.QUOTAS).values():
        yield effects.PatchStatus(
            KIND,
            quota.key,
            status(snapshot, quota),
            generation=False,
            annotations=writer.of(quota),
        )


def status(snapshot: snapshots.Snapshot, quota: Quota) -> dict[str, object]:
    """``used`` in the resources of max: of the pods of the quota and of those below it.

    A quota whose name an older one has, or the root, has no pods: it uses nothing.
    """
    grown = usage.forest(snapshot)
    has_pods = quota.key not in grown.unused
    counts = {
        resource: quota_counts.count(snapshot, grown, quota.name, resource) if has_pods else 0
        for resource in quota.max
    }
    amounts = {resource: quota_counts.amount(resource, count) for resource, count in counts.items()}
    return {"used": quantities.all_written(amounts)}


def _of_namespace(snapshot: snapshots.Snapshot, quota: NamespaceQuota) -> dict[str, object]:
    """``used`` in the resources of min and max; zeros if its namespace has an older quota."""
    in_force = quota.key not in namespace_quota.namespaces(snapshot.objects).unused
    amounts = {
        resource: quota_counts.amount(resource, namespace_counts.used(snapshot, quota.namespace, resource))
        if in_force
        else 0
        for resource in sorted({*quota.min, *quota.max})
    }
    return {"used": quantities.all_written(amounts)}


def _changed_pods(changes: effects.Changes) -> list[model.Pod] | None:
    """The pods whose quotas may have another status; None: any quota may.

    The events alone decide, and not a comparison with the state before: it may be older than the state of
    which the former statuses were computed.
    """
    before = changes.before
    if before is None:
        return None
    pods: list[model.Pod] = []
    for event in changes.events:
        match event:
            case events.PodSeen():
                pods += (event.pod, *_known(before, event.pod.uid))
            case events.PlacementsCommitted():
                pods += (placement.pod for placement in event.placements)
            case events.PodGone() | events.PlacementReleased():
                pods += _known(before, event.uid)
            case events.NodeSeen() | events.NodeGone():
                pass  # A pod counts whether its node exists or not.
            case events.ObjectObserved() | events.ObjectGone():
                if event.kind in KINDS:  # Any pod may belong to another quota.
                    return None
            case _ if isinstance(event, events.OPERATIONAL):
                pass
            case _:  # Events were lost.
                return None
    return pods


def _known(before: snapshots.Snapshot, uid: model.Uid) -> tuple[model.Pod, ...]:
    """The pod as it was before, observed or placed; nothing if it is new."""
    pod = before.pod(uid)
    return () if pod is None else (pod,)


def _of_pods(snapshot: snapshots.Snapshot, pods: Iterable[model.Pod]) -> Iterable[Quota]:
    """The quotas of the pods, and those above them, each once."""
    if not snapshot.all(kinds.QUOTAS):
        return ()
    grown = usage.forest(snapshot)
    own = {membership.of(pod, grown).name for pod in pods}
    names = {above for name in own for above in grown.chains.get(name, (name,))}
    return [grown.quotas[name] for name in sorted(names) if name in grown.quotas]


def _of_namespaces(
    snapshot: snapshots.Snapshot, pods: Iterable[model.Pod] | None
) -> Iterable[NamespaceQuota]:
    """The quotas of the namespaces of the pods; None: all."""
    if pods is None:
        return snapshot.all(namespace_quota.KIND).values()
    spaces = sorted({pod.namespace for pod in pods})
    return [own for space in spaces for own in snapshot.within(namespace_quota.KIND, space).values()]
