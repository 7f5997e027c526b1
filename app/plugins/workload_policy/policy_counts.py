"""The counts of the plugin: the pods of each policy in each domain.

The count of (policy, domain) is the number of distinct pods of the policy's namespace that its
selector selects, that are bound or placed, not terminating and not finished, and whose node's
current label value is the domain. Pods of a DaemonSet count like any other (WP-11); an invalid policy
counts nothing.
"""

from collections.abc import Iterator

from app.domain import declared_objects, model, schema, selectors, snapshots
from app.plugins.workload_policy import kinds, policy_model


def key(policy: policy_model.WorkloadPolicy, domain: str) -> schema.CountKey:
    """``NAMESPACE/POLICY|LABEL=DOMAIN``: the key of the count of one domain of one policy.

    It contains the label key, so that a policy with a new topology key counts under new keys.
    """
    return f"{_prefix(policy)}{domain}"


def _prefix(policy: policy_model.WorkloadPolicy) -> str:
    """How the keys of all counts of a policy begin."""
    return f"{policy.key}|{policy.topology_key}="


def count(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, domain: str) -> int:
    """The number of pods that the policy counts in the domain."""
    return snapshot.counts.get(key(policy, domain), 0)


def listed(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> list[int]:
    """The number of counted pods in each domain that the policy lists, in its order."""
    prefix, get = _prefix(policy), snapshot.counts.get
    return [get(f"{prefix}{allocation.name}", 0) for allocation in policy.allocations]


def counted_by(
    policy: policy_model.WorkloadPolicy, pod: model.Pod, node: model.Node
) -> schema.CountKey | None:
    """The count of the policy that the pod raises on the node; None if it raises none."""
    if not pod.counted or policy.errors:
        return None
    domain = node.labels.get(policy.topology_key)
    if domain is None or not selectors.matches(policy.selector, pod.labels):
        return None
    return key(policy, domain)


def _contributions(
    pod: model.Pod, node: model.Node, objects: declared_objects.Objects
) -> Iterator[tuple[schema.CountKey, int]]:
    held = objects.within(kinds.POLICIES, pod.namespace)
    if not held or not pod.counted:
        return
    labels, found = node.labels, pod.labels
    for identity, policy in held.items():
        domain = labels.get(policy.topology_key)
        if domain is not None and not policy.errors and selectors.matches(policy.selector, found):
            yield f"{identity}|{policy.topology_key}={domain}", 1


def _selects(pod: model.Pod, objects: declared_objects.Objects) -> bool:
    held = objects.within(kinds.POLICIES, pod.namespace)
    return pod.counted and any(
        not policy.errors and selectors.matches(policy.selector, pod.labels) for policy in held.values()
    )


def _node_labels(objects: declared_objects.Objects) -> Iterator[str]:
    return (policy.topology_key for policy in objects.all(kinds.POLICIES).values())


def _reads(policy: policy_model.WorkloadPolicy) -> tuple[object, ...]:
    return policy.topology_key, policy.selector, bool(policy.errors)


COUNTER = schema.Counter(
    family="",
    form=2,
    contributions=_contributions,
    selects=_selects,
    pod_fields=("namespace", "labels", "phase", "terminating"),
    node_labels=_node_labels,
    depends_on=(
        schema.Dependency(
            kind=kinds.POLICIES,
            reads=_reads,
            additive=True,
        ),
    ),
)
"""The family without a name: its keys are those of the first version of Topolog."""


def declared() -> tuple[schema.Counter, ...]:
    """All counters of the plugin."""
    return (COUNTER,)
