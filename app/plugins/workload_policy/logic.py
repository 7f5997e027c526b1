"""Evaluates a workload policy: quotas, refusals and scores, over whole domains.

It works on sets of nodes, so that the cost depends on the number of domains and candidates, not of pods.
Reasons depend on the policy, its counts and the pod only, never on the candidates, because kube-scheduler
retries a pod at once whenever the text of its condition changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec

from app.domain import model, node_sets, selectors, snapshots, topology, verdicts
from app.framework import cycles
from app.plugins.workload_policy import kinds, policy_counts, policy_model

LABEL = "workload-policy/kosmos.io"
"""Pod label that names the policy in the pod's namespace, as in Kosmos' code."""
ALIAS = "workload-policy.kosmos.io"
"""Alias from Kosmos' documentation; ``LABEL`` wins if a pod carries both (WP-18)."""

MAX_NAMED = 4
"""Domains that a reason names at most: it is sent once per refused node, and the message of a pod's condition
is never shortened."""

_SEVERAL = 4
"""Candidates for each domain, up to which it is faster to look up each candidate."""

T = TypeVar("T")
Graded = tuple[tuple[int, tuple[str, ...]], ...]
"""Score -> the domains that have it, for scores above 0."""


class PolicyQuota(msgspec.Struct, frozen=True, gc=False):
    """One listed domain: the desired and the current number of pods."""

    domain: str
    desired: int
    count: int

    @property
    def reached(self) -> bool:
        """Whether the quota is used up; always true if ``desired`` is 0."""
        return self.count >= self.desired

    @property
    def free(self) -> int:
        """Free places."""
        return max(0, self.desired - self.count)

    def percent(self, method: str) -> int:
        """Fill: the used, Balance: the free share of the quota in whole percent; 0 once reached (WP-17)."""
        if self.reached:
            return 0
        return 100 * (self.count if method == "Fill" else self.desired - self.count) // self.desired

    def score(self, method: str, top: int) -> int:
        """The percentage on a scale of 0 to ``top``; at least 1 while the quota is not reached."""
        return 0 if self.reached else max(1, (self.percent(method) * top + 50) // 100)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the policy that a pod names cannot be applied."""

    reason: str
    ignorable: bool = True
    """Whether ``missing_policy: ignore`` applies: the policy is missing or invalid."""


def indexed() -> tuple[str, ...]:
    """The labels by which pods are found that name a policy."""
    return LABEL, ALIAS


def named(pod: model.Pod) -> str | None:
    """The name of the policy in the pod's label; None without a label."""
    label = pod.labels.get(LABEL)
    return pod.labels.get(ALIAS) if label is None else label


def concerned(pod: model.Pod) -> bool:
    """Whether the pod names a policy and does not belong to a DaemonSet."""
    return named(pod) is not None and not _of_daemon_set(pod)


def pod_class(pod: model.Pod, snapshot: snapshots.Snapshot) -> tuple[object, ...]:
    """The properties of a pod on which refusals depend, besides its namespace."""
    keys = snapshot.derived(
        (__name__, "selecting", pod.namespace), lambda: _selecting(snapshot, pod.namespace)
    )
    labels = tuple(map(pod.labels.get, keys))
    return pod.labels.get(LABEL), pod.labels.get(ALIAS), _of_daemon_set(pod), labels


def _selecting(snapshot: snapshots.Snapshot, namespace: str) -> tuple[str, ...]:
    """The label keys that selectors of the namespace's policies mention."""
    found: set[str] = set()
    for policy in snapshot.within(kinds.POLICIES, namespace).values():
        found.update(policy.selector.labels)
        found.update(requirement.key for requirement in policy.selector.expressions)
    return tuple(sorted(found))


def summed_by(namespace: str, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
    """The topology keys of the namespace's policies: on nodes alike in them, a pod raises the same counts."""
    return snapshot.derived(
        (__name__, "topology keys", namespace), lambda: _topology_keys(snapshot, namespace)
    )


def _topology_keys(snapshot: snapshots.Snapshot, namespace: str) -> tuple[str, ...]:
    held = snapshot.within(kinds.POLICIES, namespace).values()
    return tuple(sorted({policy.topology_key for policy in held}))


def stays_refused(_pod: model.Pod, _snapshot: snapshots.Snapshot) -> bool:
    """Pods that are placed only raise counts, and no quota follows from a count."""
    return True


def _of_daemon_set(pod: model.Pod) -> bool:
    return any(owner.kind == "DaemonSet" for owner in pod.owners)


def followed(snapshot: snapshots.Snapshot, pod: model.Pod) -> policy_model.WorkloadPolicy | Objection:
    """The policy that the pod names, or why it cannot be applied."""
    name = named(pod) or ""
    key = f"{pod.namespace}/{name}"
    policy = snapshot.get(kinds.POLICIES, key)
    if policy is not None and not policy.errors and selectors.matches(policy.selector, pod.labels):
        return policy
    prefix = f"workload policy {key}:"
    if not name:
        return Objection(f"{prefix} not found (the pod's label is empty)")
    if policy is None:
        return Objection(f"{prefix} not found")
    if policy.errors:
        return Objection(f"{prefix} invalid: {'; '.join(policy.errors[:3])}")
    return Objection(f"{prefix} pod labels do not match its labelSelector", ignorable=False)


class State:
    """What follows from a policy and its counts; all but the quotas is computed when it is first read."""

    def __init__(self, policy: policy_model.WorkloadPolicy, listed: tuple[PolicyQuota, ...]) -> None:
        self.policy = policy
        self.quotas = listed
        """The listed domains in the policy's order."""
        self._admitting: tuple[str, ...] | None = None
        self._sentence = ""
        self._graded: dict[int, Graded] = {}

    def admitting(self) -> tuple[str, ...]:
        """The listed domains that admit another pod."""
        found = self._admitting
        if found is None:
            required = self.policy.required
            found = tuple([quota.domain for quota in self.quotas if not (required and quota.reached)])
            self._admitting = found
        return found

    def sentence(self) -> str:
        """Why the policy refuses nodes: the same for every node and every set of candidates."""
        if not self._sentence:
            self._sentence = _sentence(self.policy, self.quotas)
        return self._sentence

    def graded(self, top: int) -> Graded:
        """The domains below their quota, in groups of equal score; ``top`` is the largest score."""
        found = self._graded.get(top)
        if found is None:
            found = self._graded[top] = _graded(self.quotas, self.policy.method, top)
        return found


def _sentence(policy: policy_model.WorkloadPolicy, listed: tuple[PolicyQuota, ...]) -> str:
    if not policy.required:
        names = shortened(listed, lambda quota: quota.domain)
        return f"workload policy {policy.key}: only nodes with {policy.topology_key} in ({names})"
    # While another domain has free places, "no capacity" alone would look like an error.
    where = "" if all(quota.reached for quota in listed) else " on these nodes"
    return f"workload policy {policy.key}: no capacity{where} ({spelled(listed)})"


def state(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> State:
    """The state of a policy: the same object until a policy or a count changes (Snapshot.derived).

    For a policy that is not the snapshot's own, nothing is kept.
    """
    found = snapshot.derived((State, policy.key), lambda: _state(snapshot, policy))
    return found if found.policy is policy else _state(snapshot, policy)


def _state(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> State:
    counted = zip(policy.allocations, policy_counts.listed(snapshot, policy), strict=True)
    return State(policy, tuple([PolicyQuota(one.name, one.replicas, count) for one, count in counted]))


def quotas(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> tuple[PolicyQuota, ...]:
    """The listed domains in the policy's order; the same tuple until a policy or a count changes."""
    return state(snapshot, policy).quotas


def free(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> int:
    """Free places in all listed domains."""
    return sum(quota.free for quota in quotas(snapshot, policy))


def limits(policy: policy_model.WorkloadPolicy) -> bool:
    """Whether the policy can refuse a node; a Preferred policy does so only with strict domains."""
    return policy.required or policy.strict_domains


def refusal(cycle: cycles.Cycle, policy: policy_model.WorkloadPolicy) -> verdicts.Refusal | None:
    """The candidates that a limiting policy refuses to the pod; None if it refuses none of them."""
    if len(cycle.candidates) == 1 and all(_admits(cycle.snapshot, policy, name) for name in cycle.candidates):
        return None  # A bind: it must not read the counts of all domains, which may be as many as the nodes.
    key, present = policy.topology_key, state(cycle.snapshot, policy)
    refused = node_sets.minus(cycle.candidates, within(cycle, key, present.admitting()))
    if not refused:
        return None
    details = partial(explained, cycle.snapshot.topology[key], key, present.quotas, refused)
    return verdicts.Refusal(present.sentence(), refused, verdicts.LazyDetails(details))


def _admits(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, name: model.NodeName) -> bool:
    """Whether a limiting policy admits another pod to the node."""
    node = snapshot.nodes.get(name)
    domain = None if node is None else node.labels.get(policy.topology_key)
    top = None if domain is None else desired(snapshot, policy, domain)
    if domain is None or top is None:
        return False
    return not policy.required or policy_counts.count(snapshot, policy, domain) < top


def desired(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, domain: str) -> int | None:
    """The quota of a domain, or None if the policy does not list it; found without a search of the list."""
    known, found = snapshot.objects.derived(
        kinds.POLICIES, (__name__, policy.key), lambda: (policy, _desired(policy))
    )
    return (found if known is policy else _desired(policy)).get(domain)


def _desired(policy: policy_model.WorkloadPolicy) -> Mapping[str, int]:
    return {one.name: one.replicas for one in policy.allocations}


def sentence(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> str:
    """Why the policy refuses nodes: the same for every node and every set of candidates."""
    return state(snapshot, policy).sentence()


def spelled(listed: Sequence[PolicyQuota]) -> str:
    """``host 3/3, member 1/1``."""
    return shortened(listed, lambda quota: f"{quota.domain} {quota.count}/{quota.desired}")


def shortened(parts: Sequence[T], spell: Callable[[T], str] = str) -> str:
    """The first parts in one line, and the number of the others."""
    more = f" and {len(parts) - MAX_NAMED} more" if len(parts) > MAX_NAMED else ""
    return ", ".join(map(spell, parts[:MAX_NAMED])) + more


def explained(
    column: topology.Column, key: str, listed: Iterable[PolicyQuota], nodes: node_sets.Names
) -> Mapping[str, node_sets.Names]:
    """Detail -> refused nodes: the count of their domain, or that they are in no listed domain."""
    groups: dict[str, node_sets.Names] = {}
    rest = set(nodes)
    domains = {quota.domain: f"{quota.domain}: {quota.count}/{quota.desired}" for quota in listed}
    for domain in (*domains, *sorted(value for value in column if value not in domains)):
        inside = column[domain] & rest
        if inside:
            groups[domains.get(domain, f"domain {domain} is not listed")] = inside
            rest -= inside
    if rest:
        groups[f"no label {key}"] = frozenset(rest)
    return groups


def rating(cycle: cycles.Cycle) -> verdicts.Rating:
    """The candidates in domains below their quota, by the score of the domain."""
    policy = followed(cycle.snapshot, cycle.pod)
    if isinstance(policy, Objection):
        return verdicts.Rating({})
    column, candidates = cycle.snapshot.topology[policy.topology_key], cycle.candidates
    present = state(cycle.snapshot, policy)
    groups = {
        score: node_sets.common(within(cycle, policy.topology_key, domains), candidates)
        for score, domains in present.graded(cycle.score_max)
    }
    details = partial(described, policy.method, column, present.quotas, candidates)
    return verdicts.Rating(groups, verdicts.LazyDetails(details))


def _graded(listed: Iterable[PolicyQuota], method: str, top: int) -> Graded:
    scored: dict[int, list[str]] = {}
    for quota in listed:
        if not quota.reached:
            scored.setdefault(quota.score(method, top), []).append(quota.domain)
    return tuple((score, tuple(domains)) for score, domains in scored.items())


def within(cycle: cycles.Cycle, key: str, domains: tuple[str, ...]) -> node_sets.Names:
    """A set that holds all candidates in one of the domains; it may hold other nodes of these domains.

    The union of whole domains is kept by the column, and only for the candidates of scheduling attempts:
    the unions of explanations and hypotheses are not needed again and would displace it. Of a few candidates,
    such as the one node of a bind, each is looked up by its label.
    """
    column, candidates = cycle.snapshot.topology[key], cycle.candidates
    if isinstance(candidates, node_sets.InternedNodes | node_sets.Subset):
        return column.union(domains)
    if len(candidates) > _SEVERAL * len(domains):
        return frozenset().union(*(column[domain] & candidates for domain in domains))
    nodes, listed = cycle.snapshot.nodes, frozenset(domains)
    labelled = ((name, nodes.get(name)) for name in candidates)
    return frozenset(name for name, node in labelled if node is not None and node.labels.get(key) in listed)


def described(
    method: str, column: topology.Column, listed: Iterable[PolicyQuota], candidates: node_sets.Names
) -> Mapping[str, node_sets.Names]:
    """Detail -> candidates: the count and percentage of their domain."""
    return {
        f"{q.domain}: {q.count}/{q.desired}, {q.percent(method)} percent": nodes
        for q in listed
        if not q.reached and (nodes := column[q.domain] & candidates)
    }
