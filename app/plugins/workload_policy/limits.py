"""Selects the policies that limit a pod: the one that it names, or all Required policies that select it.

A policy counts every pod that its selector selects. By default, as in Kosmos, it limits only pods that
name it; under ``enforce: selected`` a Required policy limits every pod that it counts. Counting is the
same in both cases.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, Protocol

from app.domain import model, node_sets, selectors, snapshots, verdicts
from app.framework import capabilities, cycles
from app.plugins.workload_policy import kinds, logic, policy_counts, policy_model

Enforce = Literal["named", "selected"]
Missing = Literal["reject", "ignore"]

MENTIONED = 3
"""Policies that a reason names at most."""


class PolicyRules(Protocol):
    """The arguments that decide which policies limit a pod (plugin.WorkloadPolicy)."""

    @property
    def enforce(self) -> Enforce:
        """Whether a Required policy limits the pods that name it, or all that its selector selects."""
        ...

    @property
    def missing_policy(self) -> Missing:
        """Whether a pod that names a missing or invalid policy is refused everywhere, or not limited."""
        ...


Limiting = tuple[policy_model.WorkloadPolicy, ...]


def limiting(snapshot: snapshots.Snapshot, pod: model.Pod, rules: PolicyRules) -> Limiting | logic.Objection:
    """The policies that may refuse nodes to the pod, the named one first; or why every node is refused."""
    by_name = rules.enforce == "named"
    named: Limiting = ()
    if by_name or logic.concerned(pod):  # Under ``named``, every pod that gets here is concerned.
        policy = logic.followed(snapshot, pod)
        if isinstance(policy, policy_model.WorkloadPolicy):
            named = (policy,) if logic.limits(policy) else ()
        elif rules.missing_policy == "reject" or not policy.ignorable:
            return policy
    if by_name:
        return named
    return (*named, *(policy for policy in required(snapshot, pod, rules) if policy not in named))


def required(snapshot: snapshots.Snapshot, pod: model.Pod, rules: PolicyRules) -> Limiting:
    """The Required policies that limit the pod because they select it, sorted by name."""
    if rules.enforce == "named":
        return ()
    found = [
        policy
        for policy in snapshot.within(kinds.POLICIES, pod.namespace).values()
        if policy.required and not policy.errors and selectors.matches(policy.selector, pod.labels)
    ]
    return tuple(sorted(found, key=lambda policy: policy.name))


def refusal(cycle: cycles.Cycle, rules: PolicyRules) -> verdicts.Refusal | None:
    """The candidates that some limiting policy refuses, with one reason."""
    policies = limiting(cycle.snapshot, cycle.pod, rules)
    if isinstance(policies, logic.Objection):
        return verdicts.Refusal(policies.reason, cycle.candidates)
    if len(policies) == 1:
        return logic.refusal(cycle, policies[0])
    refusals = {
        policy.key: refused for policy in policies if (refused := logic.refusal(cycle, policy)) is not None
    }
    if not refusals:
        return None
    nodes = node_sets.union(*(refused.nodes for refused in refusals.values()))
    details = verdicts.LazyDetails(partial(_details, refusals))
    return verdicts.Refusal(sentence(cycle.snapshot, policies), nodes, details)


def sentence(snapshot: snapshots.Snapshot, policies: Sequence[policy_model.WorkloadPolicy]) -> str:
    """The reason of several policies: the same for every node and every set of candidates.

    A policy without a free place refuses every node: if such policies exist, only they are named.
    """
    full = [policy for policy in policies if policy.required and not logic.free(snapshot, policy)]
    mentioned = full or policies
    spelled = [logic.sentence(snapshot, policy) for policy in mentioned[:MENTIONED]]
    more = len(mentioned) - len(spelled)
    if more:
        spelled.append(f"and {more} more workload {'policy' if more == 1 else 'policies'}")
    return "; ".join(spelled)


def _details(refusals: Mapping[str, verdicts.Refusal]) -> Mapping[str, node_sets.Names]:
    return {
        f"{key}: {detail}": nodes
        for key, refused in refusals.items()
        for detail, nodes in refused.details.items()
    }


def plan(cycle: cycles.Cycle, node: model.NodeName, rules: PolicyRules) -> capabilities.Plan:
    """A ceiling for each limiting Required policy: its quota in the domain of the node."""
    snapshot = cycle.snapshot
    policies, known = limiting(snapshot, cycle.pod, rules), snapshot.nodes.get(node)
    if isinstance(policies, logic.Objection) or known is None:
        return capabilities.Plan()
    hard = [policy for policy in policies if policy.required]
    domains = [(policy, known.labels.get(policy.topology_key, "")) for policy in hard]
    return capabilities.Plan(
        subjects=tuple(f"policy:{policy.key}" for policy in hard),
        ceilings={
            policy_counts.key(policy, domain): logic.desired(snapshot, policy, domain) or 0
            for policy, domain in domains
        },
    )


def soft(rules: PolicyRules, pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
    """Whether no policy in this state may refuse a node to the pod."""
    if rules.enforce == "selected" and (not last_known.offset or last_known.unlisted):
        return False  # A policy that is not listed yet may select the pod.
    if required(last_known, pod, rules):
        return False
    if not logic.concerned(pod):
        return True
    policy = logic.followed(last_known, pod)
    return isinstance(policy, policy_model.WorkloadPolicy) and not logic.limits(policy)


def prefers(pod: model.Pod, rules: PolicyRules) -> bool:
    """Whether the pod is scored: a policy that selects a pod without being named only limits it."""
    return rules.enforce == "named" or logic.concerned(pod)
