"""Which counts does one pod on one node belong to.

The count of (policy, domain) is the number of distinct pods of the policy's namespace that its
selector selects, that are bound or placed, not terminating and not finished, and whose node's
current label value is the domain (policies-and-scenarios 2.4). Pods of a DaemonSet count like any
other (WP-11); a policy that is invalid counts nothing.
"""

from collections.abc import Iterable, Iterator

from app.domain import model, selecting

FORM = 2
"""Of the names below. Another form is a migration: the counts are built anew beside those in use."""

CountKey = str
"""``NAMESPACE/POLICY|LABEL=DOMAIN``: also the field of the counts hash in Redis."""


def key(policy: model.WorkloadPolicy, domain: str) -> CountKey:
    """The name of the count of one domain of one policy.

    It names the label too: a policy that is given another label counts in other names from then on.
    """
    return f"{policy.key}|{policy.topology_key}={domain}"


def contributions(
    pod: model.Pod, node: model.Node | None, policies: Iterable[model.WorkloadPolicy]
) -> Iterator[CountKey]:
    """The counts that the pod adds one to on that node; ``policies`` are those of its namespace."""
    if node is None or not pod.counted:
        return
    for policy in policies:
        if policy.errors:
            continue
        domain = node.labels.get(policy.topology_key)
        if domain is not None and selecting.matches(policy.selector, pod.labels):
            yield key(policy, domain)


def selects(policy: model.WorkloadPolicy, pod: model.Pod) -> bool:
    """Whether the policy counts the pod, on a node that has its label."""
    return pod.counted and not policy.errors and selecting.matches(policy.selector, pod.labels)


def footprint(pod: model.Pod, node: model.NodeName) -> tuple[str, ...]:
    """The subjects whose versions decide what the pod counts for on the node.

    Whoever places or releases a pod expects their versions, or its increments would miss a policy
    or a label that another writer just recorded.
    """
    return f"pod:{pod.uid}", f"node:{node}", f"policies:{pod.namespace}"
