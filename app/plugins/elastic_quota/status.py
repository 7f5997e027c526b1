"""The status of quotas: what their pods use, where ``kubectl get`` and Koordinator's tools look for it.

``status.used`` is the only field that the definitions have (v1alpha1.ElasticQuotaStatus), and everything that
Topolog writes to a quota: amounts as in the plugin's views, so a placement counts before its pod is bound.
Koordinator's controller also writes annotations; that needs the right to patch quotas, their limits included.
"""

from collections.abc import Iterable, Iterator

from app.domain import events, model, snapshots
from app.domain.fitting import quantities
from app.framework import effects
from app.plugins.elastic_quota import counting, kinds, membership, usage
from app.plugins.elastic_quota.quota_model import Quota

KIND = kinds.QUOTAS.name


def reconcile(snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterator[effects.PatchStatus]:
    """The status of each quota that the changes concern."""
    for quota in _concerned(snapshot, changes):
        yield effects.PatchStatus(KIND, quota.key, status(snapshot, quota), generation=False)


def status(snapshot: snapshots.Snapshot, quota: Quota) -> dict[str, object]:
    """``used`` in the resources of max: of the pods of the quota and of those below it.

    A quota whose name an older one has, or the root, has no pods: it uses nothing.
    """
    grown = usage.forest(snapshot)
    has_pods = quota.key not in grown.unused
    counts = {
        resource: counting.count(snapshot, grown, quota.name, resource) if has_pods else 0
        for resource in quota.max
    }
    amounts = {resource: counting.amount(resource, count) for resource, count in counts.items()}
    return {"used": quantities.all_written(amounts)}


def _concerned(snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[Quota]:
    """The quotas whose status may have changed, each once.

    The events alone decide, and not a comparison with the state before: it may be older than the state of
    which the former statuses were computed.
    """
    everything = snapshot.all(kinds.QUOTAS).values()
    before = changes.before
    if before is None or not everything:
        return everything
    pods: list[model.Pod] = []
    for event in changes.events:
        match event:
            case events.PodSeen():
                pods += (event.pod, *_known(before, event.pod.uid))
            case events.PlacementsCommitted():
                pods += (placement.pod for placement in event.placements)
            case events.PodGone() | events.PlacementReleased():
                pods += _known(before, event.uid)
            case events.NodeSeen():
                if event.node.name not in before.nodes:  # Pods count once their node is known.
                    pods += (*before.on(event.node.name), *snapshot.on(event.node.name))
            case events.NodeGone():
                pods += (*before.on(event.name), *snapshot.on(event.name))
            case events.ObjectObserved() | events.ObjectGone():
                if event.kind == KIND:  # Any pod may belong to another quota.
                    return everything
            case _ if isinstance(event, events.OPERATIONAL):
                pass
            case _:  # Events were lost.
                return everything
    return _of_pods(snapshot, pods)


def _known(before: snapshots.Snapshot, uid: model.Uid) -> tuple[model.Pod, ...]:
    """The pod as it was before, observed or placed; nothing if it is new."""
    pod = before.pod(uid)
    return () if pod is None else (pod,)


def _of_pods(snapshot: snapshots.Snapshot, pods: Iterable[model.Pod]) -> Iterable[Quota]:
    """The quotas of the pods, and those above them."""
    grown = usage.forest(snapshot)
    own = {membership.of(pod, grown).name for pod in pods}
    names = {above for name in own for above in grown.chains.get(name, (name,))}
    return [grown.quotas[name] for name in sorted(names) if name in grown.quotas]
