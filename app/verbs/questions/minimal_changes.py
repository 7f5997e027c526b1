"""The smallest changes that would let a refused pod fit, spelled as overrides.

What is returned is what was evaluated: each change is spelled first, and its overrides are decoded and folded
as those of a question are. So a change fed back into a simulation fits, and without one of its overrides
it does not.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Any

from app import plurals
from app.domain import events, model, node_sets, snapshots
from app.domain.fit import fitting_nodes
from app.framework import cluster_changes, cycles, pipeline, registry
from app.kube.objects import merge_patches
from app.verbs.explain import advice, explanations
from app.verbs.questions import errors, kinds, question_schema, situations

EVALUATED = 64
"""Single changes that are evaluated."""
_PAIRED = 10
"""The cheapest single changes, whose pairs are evaluated if none helps alone."""
_GROUPS = 16
"""Sets of counts for which deletions are tried, those with the fewest pods first."""

Override = dict[str, Any]
_ALLOWED_BY: Mapping[str, question_schema.Allowed] = {
    "patchObject": "objects",
    "setObject": "objects",
    "labelNodes": "nodes",
    "labelPods": "labels",
    "deletePods": "pods",
}
_MOVING = ("nodes", "pods")
"""Changes after which the pod may fit on other nodes by kube-scheduler's rules."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A change after which the pod fits."""

    message: str
    cost: int
    overrides: tuple[Override, ...]
    kept: int = 0
    """Nodes that are kept then."""
    indirect: bool = False
    """It cannot help alone (cluster_changes.Hypothesis)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """The smallest changes."""

    summary: str
    fits: bool
    """The pod fits without any change."""
    changes: tuple[Change, ...]
    tried: int
    complete: bool
    """Whether no change that may be smaller was left out, for want of time or because there were too many."""
    more: bool = False
    """Whether there are other changes of the same cost, beyond the number that was asked for."""


def fit(
    resolved: situations.Resolved,
    uid: model.Uid,
    offered: node_sets.Names,
    allow: Iterable[question_schema.Allowed],
    most: int,
    running: Callable[[], bool],
    *,
    roomy: bool = False,
) -> Fit:
    """The changes of the lowest cost that let the pod fit on one of the offered nodes. Raises Missing.

    ``roomy``: the offered nodes are those that the pod fits on, and a change of nodes or pods changes them.
    """
    pod = resolved.snapshot.pod(uid)
    if pod is None:
        raise errors.Missing("the pod of the question does not exist in the situation")
    cycle = cycles.cycle(pod, frozenset(offered), resolved.snapshot, score_max=resolved.plugins.score_max)
    trace = pipeline.run_filter(resolved.plugins, cycle)
    summary = explanations.nowhere(cycle) or explanations.summary(trace)
    if trace.kept or not trace.candidates:
        return Fit(summary, bool(trace.kept), (), 0, True)
    search = _Search(resolved, uid, cycle.candidates, frozenset(allow), running, roomy=roomy)
    counted = cycles.assuming(cycle, cycles.nominated(cycle))
    # Spelled one by one: of thousands of proposals the first few mostly suffice.
    proposed = sorted(advice.proposed(resolved.plugins, counted, trace.refusals), key=order)

    def single() -> Iterator[Change]:
        spelled = (as_change(resolved.snapshot, pod, one) for one in proposed)
        return allowed(spelled, search.allow)

    wanted = most + 1  # One that is not returned shows that there are more.
    found = search.cheapest(single(), wanted, EVALUATED)
    if "pods" in search.allow:
        bound = found[0].cost if found else None
        deletions = sorted(search.deletions(pod, bound), key=order)
        found = sorted([*found, *deletions], key=order)
        found = [one for one in found if one.cost == found[0].cost]
    if not found:
        first = list(islice(single(), _PAIRED + 1))
        pairs = sorted((both(*pair) for pair in combinations(first[:_PAIRED], 2)), key=order)
        for other in first[_PAIRED:]:
            search.leave_out(first[0].cost + other.cost)
        found = search.cheapest(pairs, wanted)
    complete = search.complete(found)
    return Fit(summary, False, tuple(found[:most]), search.tried, complete, more=len(found) > most)


class _Search:
    """Evaluates changes within a budget."""

    def __init__(
        self,
        resolved: situations.Resolved,
        uid: model.Uid,
        offered: frozenset[model.NodeName],
        allow: frozenset[question_schema.Allowed],
        running: Callable[[], bool],
        *,
        roomy: bool,
    ) -> None:
        self._roomy = roomy
        self._plugins: registry.Registry = resolved.plugins
        self._snapshot = resolved.snapshot
        self._uid = uid
        self._offered = offered
        self._running = running
        self.allow = allow
        self._left = math.inf
        """The cost that the cheapest change which was not evaluated has at least."""
        self.tried = 0

    def leave_out(self, cost: int = 0) -> None:
        """Some changes are not evaluated, which cost at least so much."""
        self._left = min(self._left, cost)

    def complete(self, found: Sequence[Change]) -> bool:
        """Whether no change that may be smaller than those found was left out."""
        return self._left == math.inf or (bool(found) and found[0].cost <= self._left)

    def cheapest(self, ordered: Iterable[Change], most: int, limit: int | None = None) -> list[Change]:
        """The changes of the lowest cost that help, and of which no override can be left out.

        ``limit``: how many are evaluated at most.
        """
        found: list[Change] = []
        for number, change in enumerate(ordered):
            if len(found) == most or (found and change.cost > found[0].cost):
                break
            if not self._running():
                self.leave_out()
                break
            if number == limit:
                self.leave_out(change.cost)
                break
            if change.indirect:
                self.tried += 1
                continue
            kept = self._kept(change.overrides)
            if kept and not self._spare(change.overrides):
                found.append(dataclasses.replace(change, kept=kept))
        return found

    def deletions(self, pod: model.Pod, bound: int | None) -> Iterator[Change]:
        """For each set of counts to which the pod would contribute: the fewest deletions that help.

        ``bound``: the cost above which none is wanted.
        """
        counts = kinds.counting(self._snapshot)
        groups = {counts(pod, node) for node in kinds.counted_apart(self._snapshot, self._offered)}
        pods = self._counted(pod, counts)
        counted = {keys: {other.uid: other for key in keys for other in pods.get(key, ())} for keys in groups}
        ordered = sorted(counted, key=lambda keys: (len(counted[keys]), keys))
        if any(counted[keys] for keys in ordered[_GROUPS:]):
            self.leave_out(1)
        for keys in ordered[:_GROUPS]:
            if not self._running():
                self.leave_out()
                return
            names = least_first(counted[keys].values())
            wanted = names if bound is None else names[:bound]
            if not wanted or not self._kept((deletion(wanted),)):
                continue
            least = self._least(wanted)
            if not least:
                self.leave_out()
                return
            message = f"{plurals.counted(len(least), 'counted pod')} fewer in {', '.join(keys)}"
            overrides = (deletion(least),)
            yield Change(message, len(least), overrides, self._kept(overrides))

    def _counted(
        self, pod: model.Pod, counts: Callable[[model.Pod, model.NodeName], tuple[str, ...]]
    ) -> dict[str, list[model.Pod]]:
        """Count -> the pods of the namespace that contribute to it."""
        found: dict[str, list[model.Pod]] = {}
        snapshot = self._snapshot
        for uid in snapshot.namespaces.get(pod.namespace, ()):
            other = snapshot.pod(uid)
            node = (other.node or snapshot.node_of(uid)) if other is not None else ""
            if other is None or not node or uid == pod.uid or snapshot.names.get(other.key) != uid:
                continue
            for key in counts(other, node):
                found.setdefault(key, []).append(other)
        return found

    def _least(self, names: Sequence[str]) -> list[str]:
        """A shortest prefix of the names that helps, without those that can be left out; empty if that is not
        found in time.
        """
        low, high = 1, len(names)
        while low < high:
            if not self._running():
                return []
            middle = (low + high) // 2
            if self._kept((deletion(names[:middle]),)):
                high = middle
            else:
                low = middle + 1
        kept = list(names[:low])
        for name in list(kept):
            if not self._running():
                return []
            fewer = [other for other in kept if other != name]
            if fewer and self._kept((deletion(fewer),)):
                kept = fewer
        return kept

    def _spare(self, overrides: Sequence[Override]) -> bool:
        """Whether the pod fits without one of the overrides."""
        return len(overrides) > 1 and any(
            self._kept([*overrides[:at], *overrides[at + 1 :]]) for at in range(len(overrides))
        )

    def _kept(self, overrides: Sequence[Override]) -> int:
        """How many nodes are kept with the overrides; 0 if they do not apply."""
        self.tried += 1
        snapshot = self._snapshot
        try:
            for operation in question_schema.overrides(overrides, self._plugins):
                made = situations.applied(operation, snapshot, "")
                snapshot = situations.fold(snapshot, made, self._running) if made else snapshot
        except errors.Mistake:
            return 0
        pod = snapshot.pod(self._uid)
        if pod is None:
            return 0
        offered = self._offered
        if self._roomy and any(_ALLOWED_BY[part["op"]] in _MOVING for part in overrides):
            offered = fitting_nodes.FittingNodes(snapshot).of(pod)
        cycle = cycles.cycle(pod, offered, snapshot, score_max=self._plugins.score_max)
        return len(pipeline.run_filter(self._plugins, cycle).kept)


def allowed(changes: Iterable[Change | None], allow: frozenset[question_schema.Allowed]) -> Iterator[Change]:
    """The changes that can be spelled and are allowed."""
    for one in changes:
        if one is not None and all(_ALLOWED_BY[part["op"]] in allow for part in one.overrides):
            yield one


def least_first(pods: Iterable[model.Pod]) -> list[str]:
    """The names of the pods, the least important first: lowest priority, newest, uid."""
    found = sorted({pod.uid: pod for pod in pods}.values(), key=lambda one: one.uid)
    found.sort(key=lambda one: one.created, reverse=True)
    found.sort(key=lambda one: one.priority)
    return [one.key for one in found]


def as_change(
    snapshot: snapshots.Snapshot, pod: model.Pod, proposed: cluster_changes.Hypothesis
) -> Change | None:
    """The hypothesis as overrides; None if it contains a change for which there is no operation."""
    overrides: list[Override] = []
    for make in proposed.changes:
        override = _override(snapshot, make())
        if override is None:
            return None
        overrides.append(override)
    if proposed.pod is not None:
        labels = merge_patches.difference(pod.labels, proposed.pod.labels)
        overrides.append({"op": "labelPods", "pods": [pod.key], "labels": labels})
    return Change(proposed.message, proposed.cost, tuple(overrides), indirect=proposed.indirect)


def _override(snapshot: snapshots.Snapshot, event: events.AnyEvent) -> Override | None:
    """The override that becomes the event in the snapshot."""
    if isinstance(event, events.NodeSeen):
        before = snapshot.nodes.get(event.node.name)
        if before is None:
            return None
        labels = merge_patches.difference(before.labels, event.node.labels)
        return {"op": "labelNodes", "nodes": [event.node.name], "labels": labels}
    observed = kinds.observed_in(snapshot, event)
    if observed is None:
        return None
    return spelled(snapshot, *observed)


def spelled(snapshot: snapshots.Snapshot, kind: str, after: model.DeclaredObject) -> Override:
    """The override after which the snapshot holds the object."""
    name = after.key
    held = kinds.all_of(snapshot, kind).get(name)
    if held is None:
        return {"op": "setObject", "kind": kind, "fields": kinds.fields(after)}
    patch = merge_patches.difference(kinds.fields(held), kinds.fields(after))
    return {"op": "patchObject", "kind": kind, "name": name, "patch": patch}


def deletion(names: Sequence[str]) -> Override:
    """The deletion of these pods."""
    return {"op": "deletePods", "pods": list(names)}


def addition(like: model.NodeName, count: int) -> Override:
    """The addition of so many nodes like this one."""
    return {"op": "addNodes", "count": count, "like": like}


def both(one: Change, other: Change) -> Change:
    """Two changes as one."""
    message = f"{one.message}; and {other.message}"
    overrides = (*one.overrides, *other.overrides)
    return Change(message, one.cost + other.cost, overrides, indirect=one.indirect and other.indirect)


def order(change: Change | cluster_changes.Hypothesis) -> tuple[int, str]:
    """By which changes are sorted: the cheapest first."""
    return change.cost, change.message
