"""Which policies limit a pod: the one that it names, or every Required policy whose selector selects it.

A policy counts every pod that its selector selects. Kosmos limits only pods that name the policy; under
``enforce: selected`` a Required quota limits whatever it counts. What is counted is the same either way.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, Protocol

from app.domain import counting, lasting, model, selecting, snapshots, verdicts
from app.framework import capabilities, cycles, deferring
from app.plugins.workload_policy import logic

Enforce = Literal["named", "selected"]
Missing = Literal["reject", "ignore"]

MENTIONED = 3
"""Policies spelled out in one sentence."""


class Rules(Protocol):
    """The arguments that decide which policies limit a pod (plugin.WorkloadPolicy)."""

    @property
    def enforce(self) -> Enforce:
        """Whether a Required policy limits the pods that name it, or all that its selector selects."""
        ...

    @property
    def missing_policy(self) -> Missing:
        """Whether a named policy that is absent or invalid refuses every node, or none."""
        ...


Limiting = tuple[model.WorkloadPolicy, ...]


def limiting(snapshot: snapshots.Snapshot, pod: model.Pod, rules: Rules) -> Limiting | logic.Objection:
    """The policies that may refuse nodes to the pod, the one that it names first; or why none will do."""
    by_name = rules.enforce == "named"
    named: Limiting = ()
    if by_name or logic.concerned(pod):  # with named no other pod gets here
        policy = logic.followed(snapshot, pod)
        if isinstance(policy, model.WorkloadPolicy):
            named = (policy,) if logic.limits(policy) else ()
        elif rules.missing_policy == "reject" or not policy.ignorable:
            return policy
    if by_name:
        return named
    return (*named, *(policy for policy in required(snapshot, pod, rules) if policy not in named))


def required(snapshot: snapshots.Snapshot, pod: model.Pod, rules: Rules) -> Limiting:
    """The Required policies that limit the pod because their selector selects it, by name."""
    if rules.enforce == "named":
        return ()
    found = [
        policy
        for policy in snapshot.policies_of(pod.namespace)
        if policy.required and not policy.errors and selecting.matches(policy.selector, pod.labels)
    ]
    return tuple(sorted(found, key=lambda policy: policy.name))


def refusal(cycle: cycles.Cycle, rules: Rules) -> verdicts.Refusal | None:
    """The candidates that some limiting policy keeps the pod from, under one sentence."""
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
    nodes = lasting.union(*(refused.nodes for refused in refusals.values()))
    details = deferring.Details(partial(_details, refusals))
    return verdicts.Refusal(sentence(cycle.snapshot, policies), nodes, details)


def sentence(snapshot: snapshots.Snapshot, policies: Sequence[model.WorkloadPolicy]) -> str:
    """Why several policies keep the pod from nodes: the same for every node and every set of candidates.

    A policy without any place left refuses every node: where there is one, the others do not matter.
    """
    full = [policy for policy in policies if policy.required and not logic.free(snapshot, policy)]
    mentioned = full or policies
    spelled = [logic.sentence(policy, logic.quotas(snapshot, policy)) for policy in mentioned[:MENTIONED]]
    more = len(mentioned) - len(spelled)
    if more:
        spelled.append(f"and {more} more workload {'policy' if more == 1 else 'policies'}")
    return "; ".join(spelled)


def _details(refusals: Mapping[str, verdicts.Refusal]) -> Mapping[str, verdicts.Names]:
    return {
        f"{key}: {detail}": nodes
        for key, refused in refusals.items()
        for detail, nodes in refused.details.items()
    }


def claim(cycle: cycles.Cycle, node: model.NodeName, rules: Rules) -> capabilities.Claim:
    """That no count of a limiting Required policy exceeds its quota once the pod is placed on the node."""
    policies, known = limiting(cycle.snapshot, cycle.pod, rules), cycle.snapshot.nodes.get(node)
    if isinstance(policies, logic.Objection) or known is None:
        return capabilities.Claim()
    hard = [policy for policy in policies if policy.required]
    domains = [(policy, known.labels.get(policy.topology_key, "")) for policy in hard]
    return capabilities.Claim(
        subjects=tuple(f"policy:{policy.key}" for policy in hard),
        ceilings={counting.key(policy, domain): policy.desired(domain) or 0 for policy, domain in domains},
    )


def soft(snapshot: snapshots.Snapshot, pod: model.Pod, rules: Rules) -> bool:
    """Whether no policy that is known in this state may refuse a node to the pod."""
    if rules.enforce == "selected" and (not snapshot.offset or snapshot.unlisted):
        return False  # Of what is not listed yet, anything may select the pod.
    if required(snapshot, pod, rules):
        return False
    if not logic.concerned(pod):
        return True
    policy = logic.followed(snapshot, pod)
    return isinstance(policy, model.WorkloadPolicy) and not logic.limits(policy)


def prefers(pod: model.Pod, rules: Rules) -> bool:
    """Whether the pod may be scored: a policy that only selects a pod limits it and does not prefer."""
    return rules.enforce == "named" or logic.concerned(pod)
