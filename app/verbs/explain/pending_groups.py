"""Pending pods in groups of one reason: what an operator reads first, before a list of thousands of pods.

Pods that every plugin filters alike are evaluated once (see equivalence), so the cost depends on the number
of reasons and not of pods. Each gang is a class of its own. No advice is computed here.
"""

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from app.domain import model, snapshots
from app.domain.fit import fitting_nodes
from app.framework import cycles, pipeline, registry
from app.verbs.explain import equivalence

KUBE_SCHEDULER: Final = "kube-scheduler"
"""Who refuses a pod that a plugin would accept: its condition has the reason."""
NEITHER: Final = "none"
"""Nothing is known against the pod: it has not been attempted, or its state has just changed."""
NOT_ATTEMPTED: Final = "kube-scheduler has not reported an attempt"


class Cause(NamedTuple):
    """Why a pod is pending."""

    by: str
    """The first plugin that refuses nodes, KUBE_SCHEDULER or NEITHER."""
    reason: str


class Group(NamedTuple):
    """The pods that are pending for one reason."""

    cause: Cause
    pods: int
    oldest: str
    """When the one that waits longest was created (RFC 3339)."""
    example: model.NamespacedName
    """That pod."""


def groups(snapshot: snapshots.Snapshot, plugins: registry.Registry) -> list[Group]:
    """All groups, the largest first, assuming that all nodes are offered now."""
    steps = stepwise(snapshot, plugins)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[Group] = end.value
            return found


def stepwise(snapshot: snapshots.Snapshot, plugins: registry.Registry) -> Generator[None, None, list[Group]]:
    """The same, computed pod by pod, so that the caller can pause: hundreds of gangs take long to plan."""
    found: dict[Cause, Group] = {}
    for pod, cause in _caused(snapshot, plugins):
        yield
        group = found.get(cause)
        if group is None:
            found[cause] = Group(cause, 1, pod.created, pod.key)
        else:
            oldest, example = min((group.oldest, group.example), (pod.created, pod.key))
            found[cause] = Group(cause, group.pods + 1, oldest, example)
    return sorted(found.values(), key=lambda group: (-group.pods, group.oldest, group.example))


def _caused(snapshot: snapshots.Snapshot, plugins: registry.Registry) -> Iterator[tuple[model.Pod, Cause]]:
    classes = equivalence.Classes(plugins, snapshot)
    candidates = frozenset(snapshot.topology.everywhere)
    known: dict[equivalence.PodClass, Cause | None] = {}
    for pod in _together(snapshot):
        alike = classes.of(pod)
        if alike not in known:
            cycle = cycles.cycle(pod, candidates, snapshot, score_max=plugins.score_max)
            known[alike] = _refused(plugins, cycle)
        yield pod, known[alike] or _unrefused(pod)


def _together(snapshot: snapshots.Snapshot) -> list[model.Pod]:
    """The waiting pods, those of a namespace that have the same values in the indexes beside one another.

    By these plugins find the pods that they decide about together. What they keep of a state is limited, so
    that a gang whose members are visited between those of hundreds of others is planned for each of them.
    """
    keys = sorted(snapshot.indexed)
    found = (pod for uid in snapshot.waiting if (pod := snapshot.pod(uid)) is not None)
    return sorted(found, key=lambda pod: (pod.namespace, [pod.indexed(key) or "" for key in keys]))


def _refused(plugins: registry.Registry, cycle: cycles.Cycle) -> Cause | None:
    """Why no node is left; None if one is."""
    if not cycle.candidates:
        return Cause(KUBE_SCHEDULER, fitting_nodes.NO_NODES)
    try:
        trace = pipeline.run_filter(plugins, cycle)
    except cycles.HookFailed as failed:
        return Cause(failed.plugin, str(failed))
    if trace.kept:
        return None
    # Without numbers of nodes: pods with one reason are one group.
    reasons = dict.fromkeys(refusal.reason for refusal in trace.refusals)
    return Cause(trace.refusals[0].plugin, "; ".join(reasons))


def _unrefused(pod: model.Pod) -> Cause:
    return Cause(KUBE_SCHEDULER, pod.unscheduled) if pod.unscheduled else Cause(NEITHER, NOT_ATTEMPTED)
