"""Nominated pods, and the pods that are evicted for them.

kube-scheduler evicts and nominates after preempt is answered, and asks about the next pod meanwhile. Until
the log shows the victims as terminating, they count as gone here if their node was chosen. kube-scheduler
itself waits while pods that it evicted for a pod terminate on its nominated node, but not if an extender
refused that node, as it does if a rule counts pods that terminate (PodEligibleToPreemptOthers, 1.37).
"""

from collections.abc import Sequence

from app.domain import model, snapshots
from app.framework import cycles, pipeline, registry
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


def going(context: contexts.Context, pod: model.Pod, snapshot: snapshots.Snapshot) -> tuple[model.Pod, ...]:
    """The pods that are evicted on nominated nodes by granted preemptions, and do not terminate yet."""
    found: list[model.Pod] = []
    for grant in context.preemptions.grants():
        age = context.monotonic() - grant.at
        known = pod if grant.uid == pod.uid else snapshot.pod(grant.uid)
        uids = grant.victims.get(known.nominated, ()) if known is not None else ()
        victims = [one for uid in uids if (one := snapshot.pod(uid)) is not None and not one.terminating]
        if victims and age < EVICTION:
            found += victims
        elif age > NOMINATION:
            context.preemptions.forget(grant)
    return tuple(found)


def awaits_victims(
    plugins: registry.Registry,
    pod: model.Pod,
    snapshot: snapshots.Snapshot,
    evicted: Sequence[model.Pod] = (),
) -> bool:
    """Whether the pod's nominated node, which refused it, would take it once all evicted pods are gone: those
    that terminate in the snapshot because of a preemption, and ``evicted``.
    """
    gone = (*snapshot.computed(awaits_victims, lambda: _preempted(snapshot)), *evicted)
    if not gone or pod.nominated not in snapshot.nodes:
        return False
    node = frozenset((pod.nominated,))
    base = cycles.cycle(pod, node, snapshot, score_max=plugins.score_max, offered=True)
    return bool(pipeline.run_filter(plugins, cycles.without(base, gone)).kept)


def _preempted(snapshot: snapshots.Snapshot) -> tuple[model.Pod, ...]:
    return tuple(pod for pod in snapshot.pods.values() if pod.terminating and pod.preempted)


def _settled(grant: preemption_memo.Grant, snapshot: snapshots.Snapshot) -> bool:
    """Whether the pod is nominated for one of the nodes, has a node, or is gone."""
    pod = snapshot.pod(grant.uid)
    return pod is None or pod.nominated in grant.victims or bool(snapshot.node_of(grant.uid))
