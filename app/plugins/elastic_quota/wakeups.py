"""Finds pending pods that fit after events for which kube-scheduler has no event of its own.

A limit rises when a quota changes, or when pending pods of another quota are gone and no longer request
its share; what is used sinks when a placement is released. kube-scheduler watches bound pods and nodes
itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from app.domain import events, model, snapshots
from app.framework import effects
from app.plugins.elastic_quota import admission, families, kinds
from app.plugins.elastic_quota.trees import usage

LIMIT = 1000
"""Pods woken at once, also where no quota limits their number."""
NAMED = 10
"""Quotas named in a message."""

_QUOTAS = frozenset(kind.name for kind in kinds.declared())


def freed_capacity(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    happened: Sequence[events.AnyEvent],
    rules: admission.QuotaRules,
) -> effects.WakePods | None:
    """The pending pods that fit because of the events, at most LIMIT of them."""
    freeing = [event for event in happened if _may_free(before, event)] if after.waiting else []
    if not freeing:
        return None
    if all(isinstance(event, events.PodGone | events.PodSeen) for event in freeing) and not _limit_rose(
        before, after, rules
    ):
        return None  # The waiting pods are not evaluated whenever one of them is deleted.
    # A released pod itself is left out: its bind call failed, and kube-scheduler retries it.
    released = {event.uid for event in freeing if isinstance(event, events.PlacementReleased)}
    waiting = [pod for pod in _waiting(after) if pod.uid not in released]
    pods, quotas = _fitting(before, after, waiting, rules)
    if not pods:
        return None
    names = ", ".join(sorted(quotas)[:NAMED]) + (" and others" if len(quotas) > NAMED else "")
    return effects.WakePods(tuple(pods[:LIMIT]), f"elastic quota {names} has capacity again")


def _may_free(before: snapshots.Snapshot, event: events.AnyEvent) -> bool:
    """Whether the event may raise a limit or lower what is used, without an event of kube-scheduler."""
    match event:
        case events.ObjectObserved() | events.ObjectGone():
            return event.kind in _QUOTAS
        case events.PlacementReleased():
            return event.uid in before.placements
        case events.PodGone():
            return _pending(before, event.uid)
        case events.PodSeen():
            # Pods that end before they are on a node are finished first, and gone later.
            return event.pod.finished and _pending(before, event.pod.uid)
        case _:
            return False


def _pending(before: snapshots.Snapshot, uid: model.Uid) -> bool:
    """Whether the pod requests a share of a quota without a node, also while gated or terminating."""
    pod = before.pod(uid)
    pending = pod is not None and not pod.finished and not before.node_of(uid)
    return pending and bool(before.all(kinds.QUOTAS))


def _limit_rose(before: snapshots.Snapshot, after: snapshots.Snapshot, rules: admission.QuotaRules) -> bool:
    """Whether the runtime of some quota rose, while the quotas stayed the same."""
    if not rules.runtime:
        return False
    sharing = admission.sharing(rules)
    for name, tree in usage.forest(after).trees.items():
        former = usage.of_tree(before, name, sharing).runtimes
        present = usage.of_tree(after, name, sharing).runtimes
        for resource, line in present.lines.items():
            if line is former.lines[resource]:
                continue
            for at in range(len(tree.quotas)):
                runtime, was = line.runtime(at), former.lines[resource].runtime(at)
                if runtime is not None and was is not None and runtime > was:
                    return True
    return False


def _waiting(snapshot: snapshots.Snapshot) -> Iterator[model.Pod]:
    for uid in snapshot.waiting:
        pod = snapshot.pod(uid)
        if pod is not None:
            yield pod


class _Offer(NamedTuple):
    """What quotas with more capacity than before admit of one class of pods."""

    quotas: frozenset[str]
    tests: tuple[admission.Test, ...]


def _fitting(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    waiting: Iterable[model.Pod],
    rules: admission.QuotaRules,
) -> tuple[list[model.Pod], set[str]]:
    """The most important pods that fit together now and did not fit before, and their quotas.

    Quotas are asked once for each class of pods.
    """
    offers: dict[tuple[object, ...], _Offer | None] = {}
    gaining: list[tuple[model.Pod, _Offer]] = []
    for pod in waiting:
        alike = pod.namespace, pod.priority, families.pod_class(pod, after)
        if alike not in offers:
            offers[alike] = _offer(before, after, pod, rules)
        offer = offers[alike]
        if offer is not None:
            gaining.append((pod, offer))
    placed: dict[str, int] = {}
    found, names = [], set[str]()
    for pod, offer in sorted(gaining, key=lambda one: one[0].precedence):
        if all(test.used + placed.get(test.key, 0) + test.request <= test.limit for test in offer.tests):
            for test in offer.tests:
                placed[test.key] = placed.get(test.key, 0) + test.request
            found.append(pod)
            names.update(offer.quotas)
    return found, names


def _offer(
    before: snapshots.Snapshot, after: snapshots.Snapshot, pod: model.Pod, rules: admission.QuotaRules
) -> _Offer | None:
    """None unless pods like this one fit, and their quotas have more capacity than before in any resource."""
    former, present = (families.admissions(state, pod, rules) for state in (before, after))
    tests = tuple([test for one in present for test in one.tests])
    if not former or any(one.objection for one in present) or not all(test.fits for test in tests):
        return None
    limiting = {one.quota for one in present}
    offer = _Offer(frozenset(limiting or families.names(before, pod)), tests)
    if any(one.objection or one.quota not in limiting for one in former):
        return offer
    free = {(test.key, test.firm): test.limit - test.used for one in former for test in one.tests}
    gained = any(test.limit - test.used > free.get((test.key, test.firm), -1) for test in tests)
    return offer if gained else None
