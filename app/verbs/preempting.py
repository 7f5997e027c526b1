"""preempt: the offered nodes that would admit the pod after the eviction of their victims.

kube-scheduler's dry run does not apply our rules. A node is dropped if the pod would be refused there even
without the victims (otherwise pods are evicted on one node after another: docs/design/extender-contract.md,
10), if a plugin objects to the eviction, if the node is unknown, if a listed victim runs on another node
(extender contract, 11), if one is not less important than the pod, or if one is not recorded and a plugin
may refuse the pod, object or add victims. Plugins may add victims of the same node, once these are bound.
For a member of a gang, pods of further nodes may go (companion_victims), and those that are preempted already
count as gone. No node is kept if the pod needs no eviction but another attempt (``WHOLE``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.domain import model, snapshots
from app.domain.fit import node_fit
from app.framework import cycles, pipeline
from app.store import errors as store_errors
from app.verbs import contexts, filtering, nominations
from app.verbs.memory import preemption_memo
from app.verbs.preemption import offers

ATTEMPT = 5.0
"""Seconds between filter and preempt of one attempt at most: kube-scheduler's httpTimeout."""
LAG = 0.05
"""Seconds by which the log may be behind kube-scheduler's own watch."""
WAIT = 0.2
"""Seconds that a call waits for the log at most: kube-scheduler schedules no other pod meanwhile."""
PAUSE = 0.01
"""Seconds between two reads of the log."""
IN_VAIN = 5.0
"""Seconds for which no call waits until pods, or nodes, are recorded, after one has waited in vain."""
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3_600.0
"""Seconds from an eviction for a member of a gang until the next one for it; doubled each time."""
OUTDATED = "filter refused the pod on an older state; it fits without an eviction"
AWAITS_VICTIMS = "the pod fits on its nominated node once the pods that were evicted for it are gone"
AWAITS_OTHERS = "the gang fits once the pods that were evicted for its members are gone"
MAY_BE_BOUND = "a Binding of the pod may still be carried out"
EVICTED_BEFORE = "pods were evicted for this member of a gang a short time ago, and the gang did not start"
WHOLE = frozenset((OUTDATED, AWAITS_VICTIMS, AWAITS_OTHERS, MAY_BE_BOUND))
"""Why all nodes are dropped, whatever their victims: reasons that follow from the calls before."""


def run(context: contexts.Context, pod: model.Pod, offer: offers.Offer) -> offers.PreemptAnswer:
    """Which offered nodes remain. While the store is away, a pod under hard rules evicts no pods, and no pod
    evicts one that a plugin may protect.
    """
    plugins, refusal = context.plugins, context.preemptions.take_refusal(pod.uid)
    if not (plugins.interested(pod) or plugins.preempts or plugins.adjusts):
        return offers.judge(
            plugins, _cycle(context, pod, offer, context.state.snapshot), offer, adjusting=False
        )
    try:
        snapshot = context.present(context.time_limits.state)
    except store_errors.StoreError as problem:
        return _without_state(context, pod, offer, problem)
    found, until = _answer(context, pod, offer, snapshot, refusal), context.monotonic() + WAIT
    for _ in range(2):  # The second answer may keep nodes of which the first kept none.
        needed = _Needed() if found.kept else _needed(pod, offer, found)
        later = _newer(context, pod, snapshot, refusal, until, needed=needed)
        if later is snapshot:
            break
        snapshot, found = later, _answer(context, pod, offer, later, refusal)
    if found.kept:
        before = _rounds(context, pod, snapshot)
        if before is None:
            return replace(found, kept={}, dropped=dict.fromkeys(offer, EVICTED_BEFORE))
        victims_of = {node: kept.uids for node, kept in found.kept.items()}
        context.preemptions.grant(pod.uid, victims_of, context.monotonic(), before)
    return found


def _rounds(context: contexts.Context, pod: model.Pod, snapshot: snapshots.Snapshot) -> int | None:
    """How often pods were evicted for the pod; None if no more may be for now.

    For a pod that is placed with others, the pods of several nodes have to go, one node after the other. What
    is created again may use the first nodes before the last ones are free, and the gang would evict pods
    without end. As kubelet does between restarts, it waits twice as long after each time.
    """
    latest = context.preemptions.latest(pod.uid)
    if latest is None or not context.plugins.companions(snapshot, pod):
        return 0
    chosen = latest.victims.get(pod.nominated)
    granted = latest.victims.values() if chosen is None else (chosen,)
    if not any(all(_went(uid, snapshot) for uid in uids) for uids in granted):
        return latest.before
    pause = min(FIRST_PAUSE * 2 ** min(latest.before, 10), LONGEST_PAUSE)
    return latest.before + 1 if context.monotonic() >= latest.at + pause else None


def _went(uid: model.Uid, snapshot: snapshots.Snapshot) -> bool:
    """Whether the pod is gone, or is being evicted by kube-scheduler."""
    pod = snapshot.pods.get(uid)
    return pod is None or (pod.terminating and pod.preempted)


def _answer(
    context: contexts.Context,
    pod: model.Pod,
    offer: offers.Offer,
    snapshot: snapshots.Snapshot,
    refusal: preemption_memo.Refusal | None,
) -> offers.PreemptAnswer:
    """The answer on the snapshot, beside what the calls before will do."""
    going = [one for one in nominations.evicted(context, pod, snapshot) if not one.terminating]
    uids = tuple(victim.uid for victim in going)
    reason = _in_vain(context, pod, snapshot, refusal)
    if reason:
        return offers.PreemptAnswer(snapshot, dropped=dict.fromkeys(offer, reason), going=uids)
    base = cycles.without(_cycle(context, pod, offer, snapshot), going)
    found = offers.judge(context.plugins, base, offer, going=frozenset(uids))
    return replace(found, snapshot=snapshot, going=uids)


def _in_vain(
    context: contexts.Context,
    pod: model.Pod,
    snapshot: snapshots.Snapshot,
    refusal: preemption_memo.Refusal | None,
) -> str:
    """Why no pod must be evicted for this pod now, on any node; empty if one may be.

    kube-scheduler's own filters passed the nodes that filter was asked about in the same attempt. If one of
    them takes the pod on this state, or its nominated node once the victims are gone, or one of them a member
    of a gang once those of the others are, the pod needs another attempt and no eviction. The controller
    wakes it (workers/controller/stale_refusals.py), or the end of the victims does. A refusal counts for one
    call: what kube-scheduler's filters pass may have changed since.
    """
    placement = snapshot.placements.get(pod.uid)
    if placement is not None and not placement.planned:
        return MAY_BE_BOUND
    if refusal is None or context.monotonic() - refusal.at > ATTEMPT:
        return ""
    plugins = context.plugins
    cycle = cycles.cycle(pod, refusal.offered, snapshot, score_max=plugins.score_max, offered=True)
    if refusal.position != snapshot.position and pipeline.run_filter(plugins, cycle).kept:
        return OUTDATED
    if pod.nominated in refusal.offered:
        victims = nominations.victims(context, pod, snapshot)
        if nominations.awaits(plugins, pod, snapshot, victims):
            return AWAITS_VICTIMS
    going = nominations.awaited(context, pod, snapshot)
    if going and pipeline.run_filter(plugins, cycles.without(cycle, going)).kept:
        return AWAITS_OTHERS
    return ""


@dataclass(frozen=True, slots=True)
class _Needed:
    """What the log must show before no node is kept: kube-scheduler may not try the pod again for minutes
    (docs/design/extender-contract.md, 12).
    """

    pods: frozenset[model.Uid] = frozenset()
    """Pods that are not recorded."""
    nodes: frozenset[model.NodeName] = frozenset()
    """Nodes that are not recorded as kube-scheduler has them."""

    def __bool__(self) -> bool:
        return bool(self.pods or self.nodes)

    def lacking(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> Iterator[preemption_memo.Lacking]:
        """What the snapshot lacks of it."""
        if any(uid not in snapshot.pods for uid in self.pods):
            yield "pods"
        if any(_outdated(pod, node, snapshot) for node in self.nodes):
            yield "nodes"


def _needed(pod: model.Pod, offer: offers.Offer, found: offers.PreemptAnswer) -> _Needed:
    """The pods and nodes that must be recorded before no node is kept.

    The pod itself: the members of its gang that were created before it are recorded then, too. The victims of
    the nodes that are dropped for want of their records alone. And the nodes that kube-scheduler's own
    filters have passed and would not pass as they are recorded, as one that was uncordoned a moment ago.
    """
    listed = (uid for node, why in found.dropped.items() if why == offers.UNRECORDED for uid in offer[node])
    pods = frozenset((pod.uid, *(uid for uid in listed if found.snapshot.pod(uid) is None)))
    judged = not WHOLE.intersection(found.dropped.values())
    nodes = (node for node in offer if judged and _outdated(pod, node, found.snapshot))
    return _Needed(pods, frozenset(nodes))


def _outdated(pod: model.Pod, name: model.NodeName, snapshot: snapshots.Snapshot) -> bool:
    """Whether the log is behind kube-scheduler, which has offered the node for the pod."""
    node = snapshot.nodes.get(name)
    return node is None or bool(node_fit.refused(pod, node))


def _newer(
    context: contexts.Context,
    pod: model.Pod,
    snapshot: snapshots.Snapshot,
    refusal: preemption_memo.Refusal | None,
    until: float,
    *,
    needed: _Needed,
) -> snapshots.Snapshot:
    """The state once the log has had the time to show what kube-scheduler saw before its call, and what it
    does after those before; the snapshot itself if there is nothing to wait for.

    ``until``: when the wait ends at the latest, in monotonic seconds. ``needed``: what must be recorded
    before no node is kept; nothing if one is.
    """
    shown = refusal.at + LAG if refusal is not None else 0.0

    def waits(now: float) -> bool:
        if not needed:
            return now < shown or nominations.pending(context, pod, snapshot)
        last = map(context.preemptions.in_vain, needed.lacking(pod, snapshot))
        return any(now > at + IN_VAIN for at in last)

    while waits(now := context.monotonic()):
        if now >= until:
            for lacking in needed.lacking(pod, snapshot):
                context.preemptions.waited_in_vain(lacking, now)
            break
        context.sleep(PAUSE)
        try:
            snapshot = context.present(max(PAUSE, until - context.monotonic()))
        except store_errors.StoreError:
            break  # The state that the answer has was the head of the log when the call arrived.
    return snapshot


def _without_state(
    context: contexts.Context, pod: model.Pod, offer: offers.Offer, problem: store_errors.StoreError
) -> offers.PreemptAnswer:
    """The answer while the log cannot be read."""
    hard = filtering.hard(context, pod)
    away = [node for node, uids in offer.items() if hard or _protected(context, uids)]
    dropped = dict.fromkeys(away, store_errors.obstacle(problem))
    offer = {node: uids for node, uids in offer.items() if node not in dropped}
    base = _cycle(context, pod, offer, context.state.snapshot)
    found = offers.judge(context.plugins, base, offer, adjusting=False)
    return replace(found, dropped={**dropped, **found.dropped})


def _cycle(
    context: contexts.Context, pod: model.Pod, offer: offers.Offer, snapshot: snapshots.Snapshot
) -> cycles.Cycle:
    return cycles.cycle(pod, frozenset(offer), snapshot, score_max=context.plugins.score_max)


def _protected(context: contexts.Context, uids: Sequence[model.Uid]) -> bool:
    """Whether a plugin may veto the eviction of one of the pods; of one that was never observed, any may.

    A pod that a quota limits counts, too, although quotas protect pods from those of other quotas alone: a
    node that is kept wrongly costs pods, and one that is dropped wrongly costs time.
    """
    vetoing = context.plugins.preempts
    victims_there = map(context.state.snapshot.pod, uids)
    return bool(vetoing) and any(
        victim is None or any(filtering.binds(context, plugin, victim) for plugin in vetoing)
        for victim in victims_there
    )
