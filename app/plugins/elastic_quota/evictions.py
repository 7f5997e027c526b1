"""Evictions for quotas, if arguments request them: for pods that wait, and above a runtime.

Koordinator does the first in its scheduler (plugins/elasticquota/preempt.go), and the second in a controller
(quota_overuse_revoke.go). Pods that terminate count as gone, so nothing is evicted for capacity that is about
to be free. Everything is computed from one state: what a view of that moment shows is what was evicted.
"""

import functools
import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

import msgspec

from app.domain import events, model, snapshots
from app.domain.fit import budgets, victims
from app.framework import cycles, effects
from app.plugins.elastic_quota import admission, families, kinds
from app.plugins.elastic_quota.trees import membership, overuse, quota_preemption, usage

Action = Literal["report", "evict"]
WAITED = 15.0
"""Seconds for which a pod must have been without capacity: kube-scheduler's longest backoff (10 s), and a
cycle. So a pod that can take what was freed for it takes it first."""
TRIED = 20
"""Pods that differ in what matters, for which evictions are searched in one state, over all nodes each: of
all quotas in turn."""
NODES = 5
"""Nodes on which the eviction for a pod is searched, those with the least harm first."""
OVERUSED = 120.0
"""Seconds for which a quota must have used more than its runtime (Koordinator's delayEvictTime)."""


class EvictionRules(admission.QuotaRules, Protocol):
    """The arguments of the plugin (plugin.ElasticQuota)."""

    @property
    def quota_preemption(self) -> Action:
        """Whether pods are evicted for a more important pod that their quota refuses."""
        ...

    @property
    def overuse(self) -> Action:
        """Whether pods with which a quota exceeds its runtime are evicted."""
        ...


class Preemption(NamedTuple):
    """The eviction for the pod that has waited longest for capacity of its quota."""

    quota: str
    pod: model.Pod
    node: model.NodeName
    eviction: victims.Eviction


class Judges(NamedTuple):
    """What all plugins answer (effects.Changes)."""

    objection: effects.Objection
    protection: effects.Protection
    companions: effects.Companions

    def beside(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> list[model.Pod]:
        """The pods that the pod is judged beside: those it is placed with."""
        return [one for one in self.companions(snapshot, pod) if not _nominated_before(one, pod)]


class _Waiting(NamedTuple):
    """A pod that waits."""

    pod: model.Pod
    alike: Hashable
    """The same for equal pods."""


def requested(rules: EvictionRules) -> bool:
    """Whether an argument requests evictions."""
    return "evict" in (rules.quota_preemption, rules.overuse)


def reconcile(
    snapshot: snapshots.Snapshot, changes: effects.Changes, rules: EvictionRules, plugin: str
) -> Iterator[effects.EvictPods]:
    """All evictions of the state, if the arguments request any."""
    operational = all(isinstance(event, events.OPERATIONAL) for event in changes.events)
    if (changes.before is not None and operational) or not requested(rules):
        return
    judges = Judges(changes.objection, changes.protection, changes.companions)
    wanted = list(_for_pods(snapshot, rules, judges)) if rules.quota_preemption == "evict" else []
    if rules.overuse == "evict":
        wanted += _above_runtimes(without_terminating(snapshot), rules, judges)
    yield effects.EvictPods(plugin, tuple(wanted))


def without_terminating(snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    """The state once the pods that terminate are gone; the snapshot itself if there are no quotas."""
    return cycles.without_terminating(snapshot) if snapshot.all(kinds.QUOTAS) else snapshot


def preemptions(
    snapshot: snapshots.Snapshot,
    rules: admission.QuotaRules,
    judges: Judges | None = None,
    *,
    quota: str = "",
) -> Iterator[Preemption]:
    """For each quota, or that one: the eviction for its pod that has waited longest and can be helped.

    A pod that waits for pods that terminate has what they leave, and so have the pods equal to it, as far as
    that lasts: no eviction for another one counts on it. Whether another one needs an eviction is decided
    beside the first of equal pods alone, because the others may wait longer than it, while what terminates
    was evicted for it. A pod that is admitted beside those of them that are as important needs none, because
    kube-scheduler tries it before the less important ones. A member of a gang is judged beside those that are
    needed with it. ``judges``: by default, quotas alone decide.
    """
    if not snapshot.all(kinds.QUOTAS):
        return
    gone = later = claimed = without_terminating(snapshot)
    helped, served, tried = set[str](), set[Hashable](), 0
    firsts, counted = dict[model.Uid, _First](), set[model.Uid]()
    passed: list[_Waiting] = []
    for name, pods in _in_turn(gone, _least_important(snapshot), by_owner=judges is not None):
        if quota not in ("", name):
            continue
        if name in helped:
            passed += pods
            continue
        if tried == TRIED:
            return
        tried += 1
        first, found = pods[0], None
        beside = judges.beside(gone, first.pod) if judges is not None else []
        fresh = [one for one in beside if one.uid not in firsts]
        ahead = {
            uid: one
            for uid, one in firsts.items()
            if one.priority >= first.pod.priority and not _nominated_before(one.pod, first.pod)
        }
        least = _counting(gone, [one.pod for one in ahead.values()])
        twice = [one.pod for one in firsts.values() if _nominated_before(one.pod, first.pod)]
        if first.pod.uid in firsts:
            served.add(first.alike)
        elif later is snapshot or (
            _refusal(_without(later, twice), first.pod, rules, fresh)
            and _refusal(least, first.pod, rules, [one for one in beside if one.uid not in ahead])
        ):
            claimed, passed = _claimed(claimed, passed, served, rules, counted), []
            # The plugins plan those beside it once more: they must not count in the state in which they do.
            again = [one for one in beside if one.uid in counted]
            found = _preemption(_without(claimed, again), first.pod, rules, judges, beside)
        elif _refusal(snapshot, first.pod, rules, beside):
            later = _counting(later, [first.pod, *fresh])
            firsts |= {one.uid: _First(one, first.pod.priority) for one in (first.pod, *fresh)}
            served.add(first.alike)
        passed += pods
        if found is not None:
            helped.add(name)
            yield found


class _First(NamedTuple):
    """A pod that waits for what terminates, or for which another one does that is placed only with it."""

    pod: model.Pod
    priority: int
    """Of the one that waits."""


def _counting(state: snapshots.Snapshot, pods: Iterable[model.Pod]) -> snapshots.Snapshot:
    """The state in which these pods have what they wait for in their quotas."""
    return state.counting((one, "") for one in pods)


def _without(state: snapshots.Snapshot, pods: Iterable[model.Pod]) -> snapshots.Snapshot:
    """The state in which these pods, which count there by ``_counting``, do not."""
    return state.counting(((one, "") for one in pods), by=-1)


def _nominated_before(one: model.Pod, pod: model.Pod) -> bool:
    """Whether its nomination counts the one for the pod (cycles.nominated)."""
    return bool(one.nominated) and one.priority >= pod.priority


def _claimed(
    later: snapshots.Snapshot,
    pods: Iterable[_Waiting],
    served: set[Hashable],
    rules: admission.QuotaRules,
    counted: set[model.Uid],
) -> snapshots.Snapshot:
    """The state beside those of the pods that wait for what terminates, one after the other.

    ``served``: the kinds of pods that wait for it; those of which one has nothing left are taken out.
    ``counted``: filled with the uids that count in the returned state.
    """
    for one in pods:
        if one.alike in served and _refusal(later, one.pod, rules):
            served.remove(one.alike)
        elif one.alike in served:
            later = _counting(later, [one.pod])
            counted.add(one.pod.uid)
    return later


def _refusal(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    rules: admission.QuotaRules,
    beside: Iterable[model.Pod] = (),
) -> str:
    """Why quotas refuse the pod beside these and the nominated ones; empty if they admit it."""
    base = cycles.cycle(pod, frozenset(), _counting(snapshot, beside))
    assumed = cycles.assuming(base, cycles.nominated(base)).snapshot
    return families.reason(families.admissions(assumed, pod, rules))


def _in_turn(
    later: snapshots.Snapshot, least: Mapping[str, int], *, by_owner: bool
) -> Iterator[tuple[str, list[_Waiting]]]:
    """Quota and pods: the pod of each quota that has waited longest, then the next one of each, and so on.

    So pods of one quota that cannot be helped keep no other quota from being tried. Each is followed by those
    up to the next one that are equal to it or to an earlier one; ``by_owner``: other plugins may treat pods
    of one quota differently, and those of one owner alike. ``least``: the lowest priority of the pods of each
    quota, also of those that terminate.
    """
    grown, seen = usage.forest(later), set[Hashable]()
    queues: dict[str, list[list[_Waiting]]] = {}
    for pod in sorted(_waiting(later), key=lambda one: (one.created, one.uid)):
        name = membership.of(pod, grown).name
        if least.get(name, pod.priority) < pod.priority:
            constraints = msgspec.json.encode(pod.constraints)
            owner = (pod.owners or pod.uid) if by_owner else ()
            alike = (name, pod.priority, families.pod_class(pod, later), constraints, owner)
            queue = queues.setdefault(name, [])
            if alike not in seen:
                seen.add(alike)
                queue.append([])
            queue[-1].append(_Waiting(pod, alike))
    for turn in itertools.zip_longest(*queues.values()):
        yield from ((name, pods) for name, pods in zip(queues, turn, strict=True) if pods is not None)


def _preemption(
    later: snapshots.Snapshot,
    pod: model.Pod,
    rules: admission.QuotaRules,
    judges: Judges | None = None,
    beside: Iterable[model.Pod] = (),
) -> Preemption | None:
    """The eviction after which the pod is admitted beside these; None if there is none, or none is needed."""
    base = cycles.cycle(pod, frozenset(), _counting(later, beside))
    assumed = cycles.assuming(base, cycles.nominated(base))
    possible = quota_preemption.evictions(assumed.snapshot, pod, rules)
    for _ in range(NODES):
        chosen = victims.choose(possible)
        if chosen is None:
            return None
        eviction = possible.pop(chosen.node)
        after = cycles.without(assumed, eviction.victims).snapshot
        if families.reason(families.admissions(after, pod, rules)):
            return None
        if judges is None or judges.objection(later, pod, chosen.node, eviction.victims) is None:
            return Preemption(membership.of(pod, usage.forest(later)).name, pod, chosen.node, eviction)
    return None


def _least_important(snapshot: snapshots.Snapshot) -> dict[str, int]:
    """Quota -> the lowest priority of its evictable pods that are bound to a node."""
    grown, found = usage.forest(snapshot), dict[str, int]()
    for node in snapshot.residents:
        for pod in snapshot.on(node):
            if pod.node and not pod.finished and membership.evictable(pod):
                name = membership.of(pod, grown).name
                found[name] = min(pod.priority, found.get(name, pod.priority))
    return found


def shown(snapshot: snapshots.Snapshot, quota: str, rules: EvictionRules) -> dict[str, object] | None:
    """The eviction for the pod of the quota that has waited longest, for its view; None without one."""
    found = next(preemptions(snapshot, rules, quota=quota), None)
    if found is None:
        return None
    least = quota_preemption.least_harm({found.node: found.eviction}) or {}
    kept = {name: value for name, value in least.items() if name != "decidedBy"}
    return {"action": rules.quota_preemption, "pod": found.pod.key, **kept}


def remarks(snapshot: snapshots.Snapshot, pod: model.Pod, rules: EvictionRules) -> Iterator[str]:
    """The eviction that would let in a pod that its quota refuses."""
    found = _preemption(without_terminating(snapshot), pod, rules)
    if found is not None:
        going = ", ".join(one.key for one in found.eviction.victims)
        without = f"would admit the pod without {going} on node {found.node}"
        yield f"elastic quota {found.quota}: {without}; quota_preemption is {rules.quota_preemption}"


def _for_pods(
    snapshot: snapshots.Snapshot, rules: EvictionRules, judges: Judges
) -> Iterator[effects.Eviction]:
    """Evictions without a violated budget."""
    for found in preemptions(snapshot, rules, judges):
        if not found.eviction.violations:
            yield _for_pod(found, rules, judges)


def _for_pod(found: Preemption, rules: EvictionRules, judges: Judges) -> effects.Eviction:
    """The eviction as an effect; of equal pods the least important one goes first."""
    waiting = f"pod {found.pod.key}"
    return effects.Eviction(
        f"elastic quota {found.quota}: {waiting}",
        tuple(reversed(found.eviction.victims)),
        f"evicted from node {found.node}: {waiting} of elastic quota {found.quota} is more important",
        WAITED,
        renewed=functools.partial(_for_pod_again, found.pod.uid, found.quota, rules, judges),
    )


def _for_pod_again(
    uid: model.Uid, quota: str, rules: EvictionRules, judges: Judges, snapshot: snapshots.Snapshot
) -> effects.Eviction | None:
    pod = _refused(snapshot, uid)
    if pod is None or membership.of(pod, usage.forest(snapshot)).name != quota:
        return None
    found = next(
        (one for one in preemptions(snapshot, rules, judges, quota=quota) if one.pod.uid == uid), None
    )
    return _for_pod(found, rules, judges) if found is not None and not found.eviction.violations else None


def _above_runtimes(
    later: snapshots.Snapshot, rules: EvictionRules, judges: Judges
) -> Iterator[effects.Eviction]:
    for name in sorted(usage.forest(later).quotas) if later.all(kinds.QUOTAS) else ():
        found = _above_runtime(name, rules, judges, later)
        if found is not None:
            yield found


def _above_runtime(
    name: str, rules: EvictionRules, judges: Judges, later: snapshots.Snapshot
) -> effects.Eviction | None:
    """The eviction with which the quota no longer exceeds its runtime.

    If plugins protect all pods that would have to go, others go in place of them, as far as there are any.
    """
    excess = overuse.over(later, name, rules)
    if not excess:
        return None
    members, limits = overuse.members(later, name), budgets.recorded(later)
    going = overuse.excess_pods(excess, members, limits)
    bound = [one.pod for one in going if one.pod.node]
    if bound and len(judges.protection(later, bound)) == len(bound):
        free = [one for one in members if not (one.pod.node and judges.protection(later, [one.pod]))]
        going = overuse.excess_pods(excess, free, limits) or going
    others = [one.pod for one in overuse.excess_pods(excess, members) if budgets.several(one.pod, limits)]
    if not (going or others):
        return None
    return effects.Eviction(
        f"elastic quota {name}: overuse",
        tuple(one.pod for one in reversed(going) if one.pod.node),
        f"evicted: elastic quota {name} uses more than its runtime in {', '.join(excess)}",
        OVERUSED,
        together=False,
        unsupported=tuple(pod for pod in others if pod.node),
        renewed=functools.partial(_above_runtime_again, name, rules, judges),
    )


def _above_runtime_again(
    name: str, rules: EvictionRules, judges: Judges, snapshot: snapshots.Snapshot
) -> effects.Eviction | None:
    return _above_runtime(name, rules, judges, without_terminating(snapshot))


def _waiting(snapshot: snapshots.Snapshot) -> Iterator[model.Pod]:
    """The pods that their quota has refused, and for which kube-scheduler evicts none itself."""
    for uid in snapshot.waiting:
        pod = _refused(snapshot, uid)
        if pod is not None:
            yield pod


def _refused(snapshot: snapshots.Snapshot, uid: model.Uid) -> model.Pod | None:
    """The pod, if its quota has refused it, and kube-scheduler evicts none for it itself.

    Its condition has the reasons of the extender. A pod that waits for a volume, or for another scheduler,
    would not take what is freed for it; a replacement would, and be evicted again. A pod that preempts none
    would keep those behind it from being tried.
    """
    pod = snapshot.pod(uid) if uid in snapshot.waiting else None
    if pod is None or pod.nominated or pod.preemption_policy == "Never":
        return None
    name = membership.of(pod, usage.forest(snapshot)).name
    return pod if admission.subject(name) in pod.unscheduled else None
