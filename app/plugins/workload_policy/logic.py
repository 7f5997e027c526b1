"""What a workload policy says about nodes: the arithmetic of quotas over whole domains.

Sets of nodes, never single ones: the cost follows the domains that the policy lists and the number
of candidates, not the pods. Sentences depend on the policy, its counts and the pod only, never on
the candidates, because kube-scheduler wakes a pod whenever its text changes (architecture 7).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import immutables
import msgspec

from app.domain import counting, lasting, model, selecting, snapshots, topology, verdicts
from app.framework import cycles, deferring

LABEL = "workload-policy/kosmos.io"
"""Pod label whose value names the policy in the pod's namespace: Kosmos' code and its test Deployment."""
ALIAS = "workload-policy.kosmos.io"
"""The spelling in Kosmos' prose; ``LABEL`` wins if a pod carries both (WP-18)."""

REMEMBERED = 256
"""Policies, and states of policies, whose arithmetic is kept."""
NAMED = 4
"""So many domains are spelled out in a sentence: it is sent once for each refused node, and the pod's
condition is never cut (C18)."""


class Quota(msgspec.Struct, frozen=True, gc=False):
    """One listed domain: how many pods it is to get, and how many it has."""

    domain: str
    desired: int
    count: int

    @property
    def reached(self) -> bool:
        """The domain has all it is to get; with ``desired`` 0 from the start."""
        return self.count >= self.desired

    @property
    def free(self) -> int:
        """Places left."""
        return max(0, self.desired - self.count)

    def percent(self, method: str) -> int:
        """Seed 003's formula in whole numbers, 0 once reached (WP-17)."""
        if self.reached:
            return 0
        return 100 * (self.count if method == "Fill" else self.desired - self.count) // self.desired

    def score(self, method: str, top: int) -> int:
        """The percentage on the wire's scale; an unreached domain always beats a reached one (B14b)."""
        return 0 if self.reached else max(1, (self.percent(method) * top + 50) // 100)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the pod's policy cannot be followed at all."""

    reason: str
    ignorable: bool = True
    """There is no policy to follow: what happens then is a setting."""


def named(pod: model.Pod) -> str | None:
    """The name of the policy that the pod asks for; None if it asks for none."""
    label = pod.labels.get(LABEL)
    return pod.labels.get(ALIAS) if label is None else label


def concerned(pod: model.Pod) -> bool:
    """Whether quotas apply to the pod: it names a policy and belongs to no DaemonSet."""
    return named(pod) is not None and not _of_daemon_set(pod)


def pod_class(pod: model.Pod) -> tuple[object, ...]:
    """What quotas depend on of a pod, beside its namespace and the labels that selectors mention."""
    return pod.labels.get(LABEL), pod.labels.get(ALIAS), _of_daemon_set(pod)


def _of_daemon_set(pod: model.Pod) -> bool:
    return any(owner.kind == "DaemonSet" for owner in pod.owners)


def followed(snapshot: snapshots.Snapshot, pod: model.Pod) -> model.WorkloadPolicy | Objection:
    """The policy that the pod is placed by, or why there is none (policies-and-scenarios 2.4)."""
    name = named(pod) or ""
    policy = snapshot.policies.get(f"{pod.namespace}/{name}")
    says = f"workload policy {pod.namespace}/{name}:"
    if not name:
        return Objection(f"{says} not found (the pod's label is empty)")
    if policy is None:
        return Objection(f"{says} not found")
    if policy.errors:
        return Objection(f"{says} invalid: {'; '.join(policy.errors[:3])}")
    if not selecting.matches(policy.selector, pod.labels):
        return Objection(f"{says} pod labels do not match its labelSelector", ignorable=False)
    return policy


Counts = immutables.Map[counting.CountKey, int]
_latest: dict[model.NamespacedName, tuple[model.WorkloadPolicy, Counts, tuple[Quota, ...]]] = {}


def quotas(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> tuple[Quota, ...]:
    """The listed domains in the policy's order; the same tuple while neither policy nor counts change."""
    known = _latest.get(policy.key)
    if known is not None and known[0] is policy and known[1] is snapshot.counts:
        return known[2]
    listed = tuple(Quota(a.name, a.replicas, snapshot.count(policy, a.name)) for a in policy.allocations)
    if len(_latest) >= REMEMBERED:
        _latest.clear()
    _latest[policy.key] = policy, snapshot.counts, listed
    return listed


def free(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> int:
    """Places left in all listed domains together."""
    return sum(quota.free for quota in quotas(snapshot, policy))


def limits(policy: model.WorkloadPolicy) -> bool:
    """Whether the policy ever refuses a node; a Preferred one only prefers (architecture 17)."""
    return policy.required or policy.strict_domains


def refusal(cycle: cycles.Cycle, policy: model.WorkloadPolicy) -> verdicts.Refusal | None:
    """The candidates that the policy keeps the pod from; which is one that limits."""
    listed = quotas(cycle.snapshot, policy)
    column = cycle.snapshot.topology[policy.topology_key]
    open_to = tuple(q.domain for q in listed if not (policy.required and q.reached))
    refused = lasting.minus(cycle.candidates, within(column, open_to, cycle.candidates))
    if not refused:
        return None
    details = partial(explained, column, policy.topology_key, listed, refused)
    return verdicts.Refusal(sentence(policy, listed), refused, deferring.Details(details))


def sentence(policy: model.WorkloadPolicy, listed: Iterable[Quota]) -> str:
    """Why the policy keeps the pod from nodes."""
    if not policy.required:
        names = shortened([quota.domain for quota in listed])
        return f"workload policy {policy.key}: only nodes with {policy.topology_key} in ({names})"
    # With places left somewhere "no room" alone would be read as a mistake of ours.
    where = "" if all(quota.reached for quota in listed) else " on these nodes"
    return f"workload policy {policy.key}: no room{where} ({spelled(listed)})"


def spelled(listed: Iterable[Quota]) -> str:
    """``host 3/3, member 1/1``."""
    return shortened([f"{quota.domain} {quota.count}/{quota.desired}" for quota in listed])


def shortened(parts: list[str]) -> str:
    """The parts in one line, the last of many only counted."""
    more = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return ", ".join(parts[:NAMED]) + more


def explained(
    column: topology.Column, key: str, listed: Iterable[Quota], nodes: verdicts.Names
) -> Mapping[str, verdicts.Names]:
    """What keeps the pod from each of the nodes."""
    groups: dict[str, verdicts.Names] = {}
    rest = set(nodes)
    domains = {quota.domain: f"{quota.domain}: {quota.count}/{quota.desired}" for quota in listed}
    for domain in (*domains, *sorted(value for value in column if value not in domains)):
        within = column[domain] & rest
        if within:
            groups[domains.get(domain, f"domain {domain} is not listed")] = within
            rest -= within
    if rest:
        groups[f"no label {key}"] = frozenset(rest)
    return groups


def rating(cycle: cycles.Cycle) -> verdicts.Rating:
    """The candidates in domains that are not reached, by what is left there."""
    policy = followed(cycle.snapshot, cycle.pod)
    if isinstance(policy, Objection):
        return verdicts.Rating({})
    column, candidates = cycle.snapshot.topology[policy.topology_key], cycle.candidates
    listed = quotas(cycle.snapshot, policy)
    groups = {
        score: lasting.common(within(column, domains, candidates), candidates)
        for score, domains in graded(listed, policy.method, cycle.score_max)
    }
    told = partial(described, policy.method, column, listed, candidates)
    return verdicts.Rating(groups, deferring.Details(told))


@lru_cache(maxsize=REMEMBERED)
def graded(listed: tuple[Quota, ...], method: str, top: int) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The domains that are not reached, by their score."""
    scored: dict[int, list[str]] = {}
    for quota in listed:
        if not quota.reached:
            scored.setdefault(quota.score(method, top), []).append(quota.domain)
    return tuple((score, tuple(domains)) for score, domains in scored.items())


def within(column: topology.Column, domains: tuple[str, ...], candidates: verdicts.Names) -> verdicts.Names:
    """At least those of the candidates that are in one of the domains.

    The union is remembered for the candidates of attempts only: explanations and hypotheses would displace
    it by others that nobody needs again, each of which may be as large as the cluster has nodes.
    """
    if isinstance(candidates, lasting.Lasting | lasting.Among):
        return united(column, domains)
    return frozenset().union(*(column[domain] & candidates for domain in domains))


@lru_cache(maxsize=REMEMBERED)
def united(column: topology.Column, domains: tuple[str, ...]) -> verdicts.Names:
    """The nodes of several domains. Remembered: it changes with a label or when a domain fills up only."""
    return lasting.Lasting(frozenset().union(*(column[domain] for domain in domains)))


def described(
    method: str, column: topology.Column, listed: Iterable[Quota], candidates: verdicts.Names
) -> Mapping[str, verdicts.Names]:
    """Where the scores come from."""
    return {
        f"{q.domain}: {q.count}/{q.desired}, {q.percent(method)} percent": nodes
        for q in listed
        if not q.reached and (nodes := column[q.domain] & candidates)
    }
