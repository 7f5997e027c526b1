"""Computes the counts to which a pod on a node contributes.

The count of (policy, domain) is the number of distinct pods of the policy's namespace that its
selector selects, that are bound or placed, not terminating and not finished, and whose node's
current label value is the domain. Pods of a DaemonSet count like any other (WP-11); an invalid policy
counts nothing.
"""

from collections.abc import Iterable, Iterator

from app.domain import model, selectors

FORM = 2
"""Version of the key format below. A new version needs a migration that rebuilds the counts."""

CountKey = str
"""``NAMESPACE/POLICY|LABEL=DOMAIN``: also the field of the counts hash in Redis."""


def key(policy: model.WorkloadPolicy, domain: str) -> CountKey:
    """The key of the count of one domain of one policy.

    It contains the label key, so that a policy with a new topology key counts under new keys.
    """
    return f"{policy.key}|{policy.topology_key}={domain}"


def contributions(
    pod: model.Pod, node: model.Node | None, policies: Iterable[model.WorkloadPolicy]
) -> Iterator[CountKey]:
    """The counts that the pod increments on the node; ``policies`` are those of its namespace."""
    if node is None or not pod.counted:
        return
    for policy in policies:
        if policy.errors:
            continue
        domain = node.labels.get(policy.topology_key)
        if domain is not None and selectors.matches(policy.selector, pod.labels):
            yield key(policy, domain)


def selects(policy: model.WorkloadPolicy, pod: model.Pod) -> bool:
    """Whether the policy counts the pod on a node with the policy's label."""
    return pod.counted and not policy.errors and selectors.matches(policy.selector, pod.labels)


def footprint(pod: model.Pod, node: model.NodeName) -> tuple[str, ...]:
    """The subjects on which the counts of the pod on the node depend.

    The guard of every placement and release expects their versions; otherwise its increments could miss a
    policy or a label that another writer has just recorded.
    """
    return f"pod:{pod.uid}", f"node:{node}", f"policies:{pod.namespace}"
