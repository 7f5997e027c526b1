"""Changes of policies, nodes and pods that may let a pod fit that a workload policy refuses.

Also the override ``scalePolicy``, by which a hypothetical question changes quotas.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from app import plurals
from app.domain import events, model, observations, selectors, snapshots, verdicts
from app.framework import cluster_changes, cycles, supposed_operations
from app.plugins.workload_policy import decoding, kinds, logic, policy_counts, policy_model

LABEL_COST, POLICY_COST, VALID_COST, SELECTED_COST, NODE_COST, LISTED_COST = 20, 20, 30, 40, 50, 100
"""What a change costs, beside one for each replica or label that it adds."""
_HOSTNAME, _ANY = "kubernetes.io/hostname", (policy_model.Allocation("any", 0),)
"""Of a policy whose content is open: a specification has to have both."""
_CHANGE = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_MOST = 2**31 - 1
_LISTED = 10
"""Domains that a refusal names."""


def hypotheses(cycle: cycles.Cycle, refusal: verdicts.Refusal) -> Iterator[cluster_changes.Hypothesis]:
    """Changes that may help, in any order: of the namespace's policies, and of the policy label of the pod.

    Every policy of the namespace is considered, whichever of them ``refusal`` is about: a change of the pod's
    labels can bring it under another one.
    """
    for policy in cycle.snapshot.within(kinds.POLICIES, cycle.pod.namespace).values():
        if policy.errors:
            yield _valid(policy)
        else:
            yield from _more_replicas(cycle, policy)
            yield from _more_domains(cycle, policy)
            yield from _selected(cycle, policy)
    yield from _named(cycle)


def _more_replicas(
    cycle: cycles.Cycle, policy: policy_model.WorkloadPolicy
) -> Iterator[cluster_changes.Hypothesis]:
    """Raise the quota of a full domain that has candidates, or remove counted pods there."""
    selected = selectors.matches(policy.selector, cycle.pod.labels)
    for allocation in policy.allocations:
        count = policy_counts.count(cycle.snapshot, policy, allocation.name)
        missing = count + 1 - allocation.replicas
        column = cycle.snapshot.topology[policy.topology_key]
        if missing < 1 or cycle.candidates.isdisjoint(column[allocation.name]):
            continue
        message = f"{allocation.name} needs {plurals.counted(missing, 'more replica')} in policy {policy.key}"
        alternative = f"{plurals.counted(missing, 'counted pod')} fewer" if count >= missing else ""
        change = _quota(policy, allocation.name, count + 1)
        yield cluster_changes.Hypothesis(
            message, missing, (change,), alternative=alternative, indirect=not selected
        )


def _more_domains(
    cycle: cycles.Cycle, policy: policy_model.WorkloadPolicy
) -> Iterator[cluster_changes.Hypothesis]:
    """List a domain that the policy does not list, or label a node that is in no domain."""
    column = cycle.snapshot.topology[policy.topology_key]
    selected = selectors.matches(policy.selector, cycle.pod.labels)
    labelled: set[model.NodeName] = set()
    for domain in sorted(column):
        nodes = column[domain] & cycle.candidates
        labelled |= nodes
        if nodes and policy.desired(domain) is None:
            count = policy_counts.count(cycle.snapshot, policy, domain)
            replicas = plurals.counted(count + 1, "replica")
            message = f"policy {policy.key} would have to list {domain} with {replicas}"
            change = _quota(policy, domain, count + 1)
            yield cluster_changes.Hypothesis(message, LISTED_COST + count, (change,), indirect=not selected)
    bare = min(cycle.candidates - labelled, default=None)
    for allocation in policy.allocations if bare is not None else ():
        count = policy_counts.count(cycle.snapshot, policy, allocation.name)
        if not policy.required or count < allocation.replicas:
            change = cluster_changes.node_labelled(cycle, str(bare), policy.topology_key, allocation.name)
            message = f"a node would need the label {policy.topology_key}={allocation.name}, such as {bare}"
            yield cluster_changes.Hypothesis(message, NODE_COST, (change,))


def _selected(
    cycle: cycles.Cycle, policy: policy_model.WorkloadPolicy
) -> Iterator[cluster_changes.Hypothesis]:
    """Add the labels that the policy's selector requires and the pod lacks."""
    missing = sorted(policy.selector.labels.items() - cycle.pod.labels.items())
    labels = {**cycle.pod.labels, **policy.selector.labels}
    if missing and selectors.matches(policy.selector, labels):
        spelled = ", ".join(f"{key}={value}" for key, value in missing)
        message = f"the pod would need the label {spelled} to be selected by policy {policy.key}"
        pod = msgspec.structs.replace(cycle.pod, labels=labels)
        yield cluster_changes.Hypothesis(message, SELECTED_COST + len(missing), pod=pod)


def _valid(policy: policy_model.WorkloadPolicy) -> cluster_changes.Hypothesis:
    """Correct an invalid policy. Its quotas are unknown: assume one that refuses nothing."""
    corrected = _refusing_nothing(policy)
    message = f"policy {policy.key} would have to be valid: {'; '.join(policy.errors)}"
    return cluster_changes.Hypothesis(message, VALID_COST, (partial(kinds.POLICIES.observed, corrected),))


def _named(cycle: cycles.Cycle) -> Iterator[cluster_changes.Hypothesis]:
    """Create the policy that a label of the pod names: one that refuses nothing, as its content is open."""
    namespace, labels = cycle.pod.namespace, cycle.pod.labels
    for key in (logic.LABEL, logic.ALIAS):
        name = labels.get(key)
        if name is None or f"{namespace}/{name}" in cycle.snapshot.all(kinds.POLICIES):
            continue
        if name:
            selector = model.Selector(labels={key: name})
            policy = _refusing_nothing(
                policy_model.WorkloadPolicy(uid="", namespace=namespace, name=name, selector=selector)
            )
            message = (
                f"workload policy {policy.key}, which the pod's label {key} names, would have to be created"
            )
            change = partial(kinds.POLICIES.observed, policy)
            yield cluster_changes.Hypothesis(message, POLICY_COST, (change,))
        else:
            others = {other: value for other, value in labels.items() if other != key}
            message = f"the pod's label {key} is empty: it would have to name a policy, or to go"
            pod = msgspec.structs.replace(cycle.pod, labels=others)
            yield cluster_changes.Hypothesis(message, LABEL_COST, pod=pod)


def _refusing_nothing(policy: policy_model.WorkloadPolicy) -> policy_model.WorkloadPolicy:
    """A valid policy that refuses no node, with what is valid of this one."""
    found = msgspec.structs.replace(
        policy,
        errors=(),
        type="Preferred",
        strict_domains=False,
        topology_key=policy.topology_key or _HOSTNAME,
        allocations=policy.allocations or _ANY,
    )
    if decoding.check(found):
        found = msgspec.structs.replace(
            found, topology_key=_HOSTNAME, allocations=_ANY, method="Balance", selector=model.Selector()
        )
    return found


def _quota(policy: policy_model.WorkloadPolicy, domain: str, replicas: int) -> cluster_changes.Change:
    """The policy with that many replicas in the domain: copied only if the hypothesis is evaluated."""

    def change() -> events.ObjectObserved:
        return kinds.POLICIES.observed(_with_quotas(policy, {domain: replicas}))

    return change


def _with_quotas(
    policy: policy_model.WorkloadPolicy, quotas: Mapping[str, int]
) -> policy_model.WorkloadPolicy:
    """The policy with these quotas: each in its place in the list, and new ones at its end."""
    every = {**{one.name: one.replicas for one in policy.allocations}, **quotas}
    allocations = tuple(policy_model.Allocation(name, replicas) for name, replicas in every.items())
    return msgspec.structs.replace(policy, allocations=allocations)


class ScalePolicy(supposed_operations.Operation, frozen=True, tag="scalePolicy"):
    """Quotas of a workload policy are set (5) or changed (+2, -1)."""

    usage: ClassVar[str] = "--scale NS/POLICY DOMAIN=N"
    policy: Annotated[supposed_operations.Name, Meta(description="NAMESPACE/NAME.", examples=["shop/spread"])]
    allocations: Annotated[
        dict[str, int | str],
        Meta(
            min_length=1,
            description='Domain -> replicas: 5, or a change such as "+2".',
            examples=["host=+2"],
        ),
    ]

    def events(self, snapshot: snapshots.Snapshot) -> Sequence[events.AnyEvent]:
        policy = snapshot.get(kinds.POLICIES, self.policy)
        if policy is None:
            raise supposed_operations.Impossible(
                "policy", f"there is no workload policy {self.policy} at {snapshot.position}"
            )
        if policy.errors:
            raise supposed_operations.Impossible("policy", f"{self.policy} is invalid: {policy.errors[0]}")
        quotas = {domain: _scaled(policy, domain, change) for domain, change in self.allocations.items()}
        scaled = _with_quotas(policy, quotas)
        changed = (policy_model.Allocation(domain, replicas) for domain, replicas in quotas.items())
        problems = decoding.check_allocations(scaled, changed)
        if problems:
            raise supposed_operations.Impossible("allocations", problems[0])
        return observations.declared(kinds.POLICIES, policy, scaled)


def operations() -> tuple[type[supposed_operations.Operation], ...]:
    """The operations on workload policies."""
    return (ScalePolicy,)


def _scaled(policy: policy_model.WorkloadPolicy, domain: str, change: int | str) -> int:
    field, replicas = f"allocations.{domain}", policy.desired(domain)
    if isinstance(change, str):
        if not _CHANGE.fullmatch(change):
            raise supposed_operations.Invalid(
                field, f"{change[:40]!r} is neither a number nor a change such as +2"
            )
        if change[0] in "+-" and replicas is None:
            names = plurals.listed([one.name for one in policy.allocations], _LISTED)
            text = f"the policy does not list the domain: only a number can be set; it lists {names}"
            raise supposed_operations.Impossible(field, text)
        scaled = (replicas or 0) + int(change) if change[0] in "+-" else int(change)
    else:
        scaled = change
    if not 0 <= scaled <= _MOST:
        raise supposed_operations.Impossible(field, f"{scaled} replicas are not between 0 and {_MOST}")
    return scaled
