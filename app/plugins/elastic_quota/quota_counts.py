"""The counts of the plugin: what pods use and request, per quota and resource.

A pod counts in its quota and in every quota above it, from its placement until it has finished or is gone: a
terminating pod still holds its resources, and so does one whose node was not observed yet or is gone. A pod
without a node counts as pending in its own quota alone, because what a quota requests of its parent is
limited to its max. Counts are kept for any cluster that has quotas, whether or not the plugin is enabled.
"""

from app.domain import declared_objects, model, schema, snapshots
from app.domain.fit import quantities
from app.plugins.elastic_quota import kinds, quota_model
from app.plugins.elastic_quota.quota_model import Amounts, Quota
from app.plugins.elastic_quota.trees import forests, membership

FAMILY = "quota"
FIRM = "np|"
"""Before the resource, in keys of what non-preemptible pods use or request."""
PENDING = "pending|"
"""Before the resource, in keys of what pods without a node request."""
LARGEST = 2**36
"""What one pod counts at most, in counted units (4 TiB): the store's sums are exact below 2^53, which 131,071
pods do not reach, whatever they request; pending ones need no node to be counted (decision 60)."""

_UNIT_BITS = 6
"""64 bytes are the largest unit of which each M, G and T is a multiple, as well as each Ki, Mi, Gi and Ti."""


def bits(resource: str) -> int:
    """The counted unit: amounts in bytes are counted in units of 64 bytes, everything else as it is."""
    return _UNIT_BITS if quantities.in_bytes(resource) else 0


def counted(resource: str, amount: int) -> int:
    """A request in counted units, rounded up; at most LARGEST."""
    return min(_units(resource, amount), LARGEST)


def uncountable(asked: Amounts) -> list[str]:
    """The resources of which a pod requests more than LARGEST."""
    return sorted(one for one, amount in asked.items() if _units(one, amount) > LARGEST)


def _units(resource: str, amount: int) -> int:
    return -(-amount >> bits(resource))


def ceiling(resource: str, amount: int) -> int:
    """A limit in counted units, rounded down."""
    return amount >> bits(resource)


def amount(resource: str, count: int) -> int:
    """A count as an amount."""
    return count << bits(resource)


def written(counts: Amounts) -> dict[str, str]:
    """Resource -> count, as quantities."""
    return quantities.all_written({one: amount(one, count) for one, count in counts.items()})


def key(tree: str, name: str, resource: str, part: str = "") -> schema.CountKey:
    """``quota|TREE|NAME|RESOURCE``: the key of what a quota uses; ``part`` is FIRM, PENDING or both."""
    return f"{FAMILY}|{tree}|{name}|{part}{resource}"


def count(
    snapshot: snapshots.Snapshot, grown: forests.Forest, name: str, resource: str, part: str = ""
) -> int:
    """A count of a quota, in counted units."""
    return snapshot.counts.get(key(tree_of(grown, name), name, resource, part), 0)


def tree_of(grown: forests.Forest, name: str) -> str:
    """The tree id of a quota; that of a built-in one is empty."""
    quota = grown.quotas.get(name)
    return "" if quota is None or name in quota_model.BUILT_IN else quota.tree


def requests(pod: model.Pod, grown: forests.Forest, name: str) -> Amounts:
    """The requests of the pod that its quota counts: the resources of max, or all in a built-in quota."""
    quota = grown.quotas.get(name)
    if quota is None or name in quota_model.BUILT_IN:
        return {resource: asked for resource, asked in pod.requests.items() if asked > 0}
    return {
        resource: asked for resource, asked in pod.requests.items() if asked > 0 and resource in quota.max
    }


_Contributed = tuple[tuple[schema.CountKey, int], ...]


def _used(pod: model.Pod, _: model.Node, objects: declared_objects.Objects) -> _Contributed:
    return _contributed(pod, objects)[0] if _selects(pod, objects) else ()


def _pending(pod: model.Pod, objects: declared_objects.Objects) -> _Contributed:
    return _contributed(pod, objects)[1] if _selects(pod, objects) else ()


def _contributed(pod: model.Pod, objects: declared_objects.Objects) -> tuple[_Contributed, _Contributed]:
    """What the pod counts on a node, and without one: computed once for pods like it."""
    labels, asked = pod.labels, tuple(pod.requests.items())
    named, marked = labels.get(membership.LABEL), labels.get(membership.PREEMPTIBLE)
    key = __name__, pod.namespace, named, marked, asked
    return objects.derived(kinds.QUOTAS, key, lambda: _both(pod, membership.forest(objects)))


def _both(pod: model.Pod, grown: forests.Forest) -> tuple[_Contributed, _Contributed]:
    name = membership.of(pod, grown).name
    asked = [(one, counted(one, amount)) for one, amount in requests(pod, grown, name).items()]
    parts = ("",) if membership.preemptible(pod) else ("", FIRM)
    used = tuple(
        (key(tree_of(grown, above), above, resource, part), amount)
        for above in grown.chains.get(name, (name,))
        for resource, amount in asked
        for part in parts
    )
    tree = tree_of(grown, name)
    pending = tuple(
        (key(tree, name, resource, f"{PENDING}{part}"), amount)
        for resource, amount in asked
        for part in parts
    )
    return used, pending


def _selects(pod: model.Pod, objects: declared_objects.Objects) -> bool:
    return bool(objects.all(kinds.QUOTAS)) and not pod.finished


def _reads(quota: Quota) -> tuple[object, ...]:
    """Amounts are not read: a pod counts alike whatever its quota allows."""
    return (
        quota.uid,
        quota.created,
        quota.parent,
        quota.tree,
        quota.namespaces,
        tuple(quota.max),
    )


COUNTER = schema.Counter(
    family=FAMILY,
    form=6,
    contributions=_used,
    pending=_pending,
    selects=_selects,
    pod_fields=("namespace", "labels", "phase", "requests"),
    node_fields=(),
    depends_on=(
        schema.Dependency(
            kind=kinds.QUOTAS,
            reads=_reads,
            reach="cluster",
            required=True,
        ),
    ),
)
