"""Nominated pods, and the pods that are evicted for them.

kube-scheduler evicts and nominates after preempt is answered, and asks about the next pod meanwhile. Until
the log shows the victims as terminating, they count as gone here if their node was chosen. kube-scheduler
itself waits while pods that it evicted for a pod terminate on its nominated node, but not if an extender
refused that node, as it does if a rule counts pods that terminate (PodEligibleToPreemptOthers, 1.37).
"""

from collections.abc import Sequence
from dataclasses import replace

from app.domain import model, snapshots, verdicts
from app.framework import cycles, pipeline, plans, registry
from app.verbs import contexts
from app.verbs.memory import preemption_memo

NOMINATION = 0.2
"""Seconds within which the log shows the nomination that follows a granted preemption."""
EVICTION = 10.0
"""Seconds within which the log shows the victims as terminating; kube-scheduler may fail to evict them."""


def pending(context: contexts.Context, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
    """Whether the outcome of a preemption that was granted to another pod is about to be recorded."""
    now = context.monotonic()
    return any(
        grant.uid != pod.uid and now < grant.at + NOMINATION and not _settled(grant, snapshot)
        for grant in context.preemptions.grants()
    )


def evicted(context: contexts.Context, pod: model.Pod, snapshot: snapshots.Snapshot) -> tuple[model.Pod, ...]:
    """The pods of the snapshot that are evicted by granted preemptions, those for the pod itself included."""
    found: list[model.Pod] = []
    for grant in context.preemptions.grants():
        age = context.monotonic() - grant.at
        known = pod if grant.uid == pod.uid else snapshot.pod(grant.uid)
        uids = grant.victims.get(known.nominated, ()) if known is not None else ()
        there = [victim for uid in uids if (victim := snapshot.pod(uid)) is not None]
        victims = [victim for victim in there if victim.terminating or age < EVICTION]
        found += victims
        if not victims and age > NOMINATION:
            context.preemptions.forget(grant)
    return tuple(found)


def victims(context: contexts.Context, pod: model.Pod, snapshot: snapshots.Snapshot) -> tuple[model.Pod, ...]:
    """The evicted pods that a nominated pod waits for; on its node also those of other extenders."""
    there = [one for one in snapshot.on(pod.nominated) if one.terminating and one.preempted]
    return tuple({one.uid: one for one in (*evicted(context, pod, snapshot), *there)}.values())


def leaving(
    plugins: registry.Registry, pod: model.Pod, snapshot: snapshots.Snapshot
) -> tuple[model.Pod, ...]:
    """The preempted pods that count as gone for a pod that is placed together with others.

    kube-scheduler preempts for one of them after the other. While the victims of the first ones counted, the
    next would be refused every node, and would evict only once they are gone. Before it preempts again for a
    pod alone, kube-scheduler waits itself.
    """
    if not plugins.companions(snapshot, pod):
        return ()
    return snapshot.computed(
        leaving, lambda: tuple(one for one in snapshot.pods.values() if one.terminating and one.preempted)
    )


def awaited(context: contexts.Context, pod: model.Pod, snapshot: snapshots.Snapshot) -> tuple[model.Pod, ...]:
    """The pods that are evicted for a pod that is placed with others, or for these; none for a pod alone."""
    if not context.plugins.companions(snapshot, pod):
        return ()
    return (*evicted(context, pod, snapshot), *leaving(context.plugins, pod, snapshot))


def awaits(
    plugins: registry.Registry, pod: model.Pod, snapshot: snapshots.Snapshot, victims: Sequence[model.Pod]
) -> bool:
    """Whether the pod's nominated node, which refused it, would take it once the victims are gone."""
    if not victims or pod.nominated not in snapshot.nodes:
        return False
    node = frozenset((pod.nominated,))
    base = cycles.cycle(pod, node, snapshot, score_max=plugins.score_max, offered=True)
    return bool(pipeline.run_filter(plugins, cycles.without(base, victims)).kept)


def in_bind(
    plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName
) -> plans.Commitment | verdicts.Trace:
    """What a bind to the node commits, or the trace of its refusal. Raises InvalidPlan and HookFailed.

    The pod is judged as by filter, so that a gang has the same plan. If that refuses it, nominated pods of
    the same priority hold nothing against it: kube-scheduler also nominates a pod while it prepares the
    volumes and claims of the pod, before bind (1.35 and later), and judges none again that it has assumed.
    Equal pods, all of them in that step, would refuse one another while there is capacity; the order of the
    log decides which of them get it. This holds for the pod alone: to the other members of its gang
    kube-scheduler would not offer the nodes of those pods.
    """
    found = _committed(plugins, cycle, node)
    if isinstance(found, plans.Commitment):
        return found
    equal = [one for one in pipeline.nominated(plugins, cycle) if one.priority == cycle.pod.priority]
    if not equal:
        return found
    beside = _committed(plugins, cycles.unnominated(cycle, equal), node)
    several = isinstance(beside, plans.Commitment) and len(beside.placements) > 1
    return found if several else beside


def _committed(
    plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName
) -> plans.Commitment | verdicts.Trace:
    """``in_bind`` in the state of the cycle. Raises InvalidPlan and HookFailed."""
    trace = pipeline.run_filter(plugins, cycle)
    if trace.refusals:
        return trace
    made = plans.commitment(plugins, cycle, node)
    return replace(trace, refusals=(made,)) if isinstance(made, verdicts.Refusal) else made


def _settled(grant: preemption_memo.Grant, snapshot: snapshots.Snapshot) -> bool:
    """Whether the pod is nominated for one of the nodes, or has one. An unknown pod may be recorded later."""
    pod = snapshot.pod(grant.uid)
    return pod is not None and (pod.nominated in grant.victims or bool(snapshot.node_of(grant.uid)))
