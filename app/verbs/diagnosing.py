"""What is the smallest change that would let a pod fit.

Nothing here knows why a plugin refuses. Changes that people could make (a replica more, a label, a
policy) are tried on a hypothetical snapshot with the very code that refused the pod, and only those
after which some candidate is kept are told: an advice that does not help is never given.
"""

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import msgspec

from app.domain import events, model, projecting, selecting, verdicts
from app.framework import cycles, registry, running
from app.verbs import equivalence

MOST = 5
"""Changes told at most."""
_TRIED = 64
"""Hypotheses run at most: a diagnosis must stay cheap."""
_PAIRED = 10
"""Of these the pairs are tried too, where no single one helps."""
_KEY = re.compile(r"(?:[a-z0-9][a-z0-9.-]*/)?[A-Za-z0-9][A-Za-z0-9_.-]*[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A change, in words and as the events that would follow from it."""

    message: str
    cost: int
    """Smaller is less to ask for; equal costs are told together."""
    happening: tuple[Callable[[], events.AnyEvent], ...] = ()
    """Makes the events: a policy over thousands of domains is only changed for hypotheses that are tried."""
    pod: model.Pod | None = None
    """The pod as it would have to be."""


def smallest(
    plugins: registry.Registry, cycle: cycles.Cycle, refusals: Sequence[verdicts.Refusal]
) -> tuple[str, ...]:
    """The cheapest changes that would let the refused pod fit; the refusals themselves if none is known."""
    if not cycle.candidates:
        return (
            "no node was offered: kube-scheduler's own filters refused every node before Topolog was asked",
        )
    # Sets that follow from a hypothesis are not worth remembering (lasting.Lasting).
    cycle = replace(cycle, candidates=frozenset(cycle.candidates))
    counted = cycles.assuming(cycle, cycles.nominated(cycle))
    hypotheses = _hypotheses(counted, refusals, equivalence.Classes(plugins, cycle.snapshot))
    single = heapq.nsmallest(_TRIED, hypotheses, key=_order)
    found = _cheapest(plugins, cycle, single)
    if not found:
        pairs = [_both(*pair) for pair in combinations(single[:_PAIRED], 2)]
        found = _cheapest(plugins, cycle, sorted(pairs, key=_order))
    if found:
        return tuple(hypothesis.message for hypothesis in found)
    return tuple(
        f"{refusal.plugin} would have to accept one of the {_many(len(refusal.nodes), 'node')}"
        f" that it refuses: {refusal.reason}"
        for refusal in refusals
    )


def _cheapest(
    plugins: registry.Registry, cycle: cycles.Cycle, ordered: Sequence[Hypothesis]
) -> list[Hypothesis]:
    """Those of the lowest cost that help."""
    found: list[Hypothesis] = []
    for hypothesis in ordered:
        if len(found) >= MOST or (found and hypothesis.cost > found[0].cost):
            break
        if _helps(plugins, cycle, hypothesis):
            found.append(hypothesis)
    return found


def _both(one: Hypothesis, other: Hypothesis) -> Hypothesis:
    return Hypothesis(
        f"{one.message}; and {other.message}",
        one.cost + other.cost,
        (*one.happening, *other.happening),
        one.pod or other.pod,
    )


def _helps(plugins: registry.Registry, cycle: cycles.Cycle, hypothesis: Hypothesis) -> bool:
    changed = replace(
        cycle,
        snapshot=projecting.project_all(cycle.snapshot, [make() for make in hypothesis.happening]),
        pod=hypothesis.pod or cycle.pod,
    )
    return bool(running.run_filter(plugins, changed).kept)


def _hypotheses(
    cycle: cycles.Cycle, refusals: Sequence[verdicts.Refusal], classes: equivalence.Classes
) -> Iterator[Hypothesis]:
    for policy in cycle.snapshot.policies_of(cycle.pod.namespace):
        if policy.errors:
            yield _repaired(policy)
        else:
            yield from _more_room(cycle, policy)
            yield from _more_domains(cycle, policy)
            yield from _selected(cycle, policy)
    yield from _missing_policies(cycle, classes)
    yield from _missing_labels(cycle, refusals)


def _more_room(cycle: cycles.Cycle, policy: model.WorkloadPolicy) -> Iterator[Hypothesis]:
    """One replica more than are there, or as many pods less."""
    for allocation in policy.allocations:
        count = cycle.snapshot.count(policy, allocation.name)
        missing = count + 1 - allocation.replicas
        if missing < 1 or cycle.candidates.isdisjoint(
            cycle.snapshot.topology[policy.topology_key][allocation.name]
        ):
            continue
        message = f"{allocation.name} needs {_many(missing, 'more replica')} in policy {policy.key}"
        if count >= missing:
            message += f", or {_many(missing, 'counted pod')} less"
        yield Hypothesis(message, missing, (partial(_with_room, policy, allocation.name, count + 1),))


def _more_domains(cycle: cycles.Cycle, policy: model.WorkloadPolicy) -> Iterator[Hypothesis]:
    """A domain that the policy does not list; a node that is in none."""
    column = cycle.snapshot.topology[policy.topology_key]
    labelled: set[model.NodeName] = set()
    for domain in sorted(column):
        nodes = column[domain] & cycle.candidates
        labelled |= nodes
        if nodes and policy.desired(domain) is None:
            count = cycle.snapshot.count(policy, domain)
            message = f"policy {policy.key} would have to list {domain} with {_many(count + 1, 'replica')}"
            yield Hypothesis(message, 100 + count, (partial(_with_room, policy, domain, count + 1),))
    bare = min(cycle.candidates - labelled, default=None)
    for allocation in policy.allocations if bare is not None else ():
        if cycle.snapshot.count(policy, allocation.name) < allocation.replicas:
            message = f"a node would need the label {policy.topology_key}={allocation.name}, such as {bare}"
            yield _labelled(cycle, str(bare), policy.topology_key, allocation.name, message, 50)


def _selected(cycle: cycles.Cycle, policy: model.WorkloadPolicy) -> Iterator[Hypothesis]:
    """Labels that the policy's selector asks for and the pod lacks."""
    missing = sorted(policy.selector.labels.items() - cycle.pod.labels.items())
    labels = {**cycle.pod.labels, **policy.selector.labels}
    if missing and selecting.matches(policy.selector, labels):
        spelled = ", ".join(f"{key}={value}" for key, value in missing)
        message = f"the pod would need the label {spelled} to be selected by policy {policy.key}"
        yield Hypothesis(message, 40 + len(missing), pod=msgspec.structs.replace(cycle.pod, labels=labels))


def _repaired(policy: model.WorkloadPolicy) -> Hypothesis:
    mended = msgspec.structs.replace(policy, errors=(), type="Preferred", strict_domains=False)
    message = f"policy {policy.key} would have to be valid: {'; '.join(policy.errors)}"
    return Hypothesis(message, 30, (partial(events.PolicySeen, policy=mended),))


def _missing_policies(cycle: cycles.Cycle, classes: equivalence.Classes) -> Iterator[Hypothesis]:
    """A policy that a label of the pod may name; a soft one would do, so its content does not matter here.

    A label that nothing reads names none.
    """
    for key, name in sorted(cycle.pod.labels.items()):
        if f"{cycle.pod.namespace}/{name}" in cycle.snapshot.policies or not classes.reads(cycle.pod, key):
            continue
        policy = model.WorkloadPolicy(
            uid="", namespace=cycle.pod.namespace, name=name, selector=model.Selector(labels={key: name})
        )
        message = f"workload policy {policy.key}, which the pod's label {key} names, would have to be created"
        if name:
            yield Hypothesis(message, 20, (partial(events.PolicySeen, policy=policy),))
        else:
            labels = {other: value for other, value in cycle.pod.labels.items() if other != key}
            message = f"the pod's label {key} is empty: it would have to name a policy, or to go"
            yield Hypothesis(message, 20, pod=msgspec.structs.replace(cycle.pod, labels=labels))


def _missing_labels(cycle: cycles.Cycle, refusals: Sequence[verdicts.Refusal]) -> Iterator[Hypothesis]:
    """A node label that the plugin's own sentence speaks of."""
    for refusal in refusals:
        node = min(refusal.nodes)
        for word in sorted(set(_KEY.findall(refusal.reason))):
            if "." in word or "/" in word:
                message = f"a node would need the label {word}, such as {node}"
                yield _labelled(cycle, node, word, "1", message, 10)


def _labelled(
    cycle: cycles.Cycle, name: model.NodeName, key: str, value: str, message: str, cost: int
) -> Hypothesis:
    known = cycle.snapshot.nodes.get(name) or model.Node(name=name, uid="")
    node = msgspec.structs.replace(known, labels={**known.labels, key: value})
    return Hypothesis(message, cost, (partial(events.NodeSeen, node=node),))


def _with_room(policy: model.WorkloadPolicy, domain: str, replicas: int) -> events.PolicySeen:
    others = tuple(a for a in policy.allocations if a.name != domain)
    wider = (*others, model.Allocation(name=domain, replicas=replicas))
    return events.PolicySeen(policy=msgspec.structs.replace(policy, allocations=wider))


def _order(hypothesis: Hypothesis) -> tuple[int, str]:
    return hypothesis.cost, hypothesis.message


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
