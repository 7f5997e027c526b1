"""The counts of the quotas of namespaces: what their pods use, per namespace and in all.

A pod counts from its placement until it has finished or is gone, in any namespace that has a quota, also on a
node that was not observed yet or is gone.
"""

from collections.abc import Iterator

from app.domain import declared_objects, model, schema, snapshots
from app.plugins.elastic_quota import quota_counts
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.sigs.namespace_quota import NamespaceQuota

FAMILY = "sigsquota"
ALL = ""
"""In the place of the namespace, in keys of what all namespaces with a quota use."""


def key(namespace: str, resource: str) -> schema.CountKey:
    """``sigsquota|NAMESPACE|RESOURCE``: the key of what the pods of a namespace use."""
    return f"{FAMILY}|{namespace}|{resource}"


def used(snapshot: snapshots.Snapshot, namespace: str, resource: str) -> int:
    """What the pods of a namespace use, or those of all namespaces with a quota, in counted units."""
    return snapshot.counts.get(key(namespace, resource), 0)


def requests(pod: model.Pod) -> dict[str, int]:
    """Resource -> what the pod counts, in counted units."""
    return {
        resource: quota_counts.counted(resource, asked)
        for resource, asked in sorted(pod.requests.items())
        if asked > 0
    }


def _used(
    pod: model.Pod, _: model.Node, objects: declared_objects.Objects
) -> Iterator[tuple[schema.CountKey, int]]:
    if _selects(pod, objects):
        for resource, amount in requests(pod).items():
            yield key(pod.namespace, resource), amount
            yield key(ALL, resource), amount


def _selects(pod: model.Pod, objects: declared_objects.Objects) -> bool:
    return not pod.finished and bool(objects.within(namespace_quota.KIND, pod.namespace))


def _reads(_: NamespaceQuota) -> object:
    """A pod counts alike whatever the quota of its namespace contains."""
    return None


COUNTER = schema.Counter(
    family=FAMILY,
    form=4,
    contributions=_used,
    selects=_selects,
    pod_fields=("namespace", "phase", "requests"),
    node_fields=(),
    depends_on=(schema.Dependency(kind=namespace_quota.KIND, reads=_reads, required=True),),
    namespace=lambda key: key.partition("|")[0],
)
