"""The smallest changes that would let a whole group of pods be placed, spelled as overrides.

What is returned is what was evaluated, by the code that simulates. A change is one of four kinds: what the
plugins propose for a member, what they propose for one member after the other, nodes that are added, and pods
that are deleted.
"""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from app import plurals
from app.domain import model, snapshots
from app.domain.fit import fitting_nodes, node_fit
from app.domain.fold import node_sums
from app.framework import cycles, pipeline, registry, supposed_operations
from app.verbs.explain import advice
from app.verbs.questions import errors, kinds, minimal_changes, question_schema, situations
from app.verbs.questions.groups import group_placement
from app.verbs.questions.minimal_changes import Change, Override

KINDS_OF_NODES: Final = 4
"""Kinds of nodes of which some are added, those with most capacity first."""
MAX_ADDED, MAX_DELETED = 1_024, 256
"""Nodes that a change adds, and pods that it deletes, at most."""


def fit(
    resolved: situations.Resolved,
    name: model.NamespacedName,
    candidates: frozenset[model.NodeName] | None,
    allow: Iterable[question_schema.Allowed],
    most: int,
    running: Callable[[], bool],
) -> minimal_changes.Fit:
    """The changes of the lowest cost that let the group be placed. Raises Missing.

    ``candidates``: as in group_placement.place.
    """
    outcome = group_placement.place(resolved.plugins, resolved.snapshot, name, candidates, running)
    if outcome.fits or not outcome.group.waiting:
        return minimal_changes.Fit(outcome.summary, outcome.fits, (), 0, complete=True)
    search = _Search(resolved, outcome.group, candidates, frozenset(allow), running)
    found = search.cheapest()
    shown, more = tuple(found[:most]), len(found) > most
    return minimal_changes.Fit(outcome.summary, False, shown, search.tried, search.complete, more=more)


class _Spent(Exception):
    """The budget is spent: what was not evaluated by now is left out."""


class _Search:
    """Evaluates changes within a budget: each raises _Spent at its end, and what ``running`` raises."""

    def __init__(
        self,
        resolved: situations.Resolved,
        group: supposed_operations.Group,
        candidates: frozenset[model.NodeName] | None,
        allow: frozenset[question_schema.Allowed],
        running: Callable[[], bool],
    ) -> None:
        self._plugins: registry.Registry = resolved.plugins
        self._snapshot = resolved.snapshot
        self._group = group
        self._candidates = candidates
        self._allow = allow
        self._running = running
        self._bound = MAX_ADDED
        """The cost above which no change is wanted."""
        self._left = MAX_ADDED
        """The cost that the cheapest change which was not evaluated has at least."""
        self.tried = 0
        self.complete = True

    def cheapest(self) -> list[Change]:
        """The changes of the lowest cost."""
        found: list[Change] = []
        with contextlib.suppress(_Spent):
            for made in self._all():
                if made is None or made.cost > self._bound:
                    continue
                self._bound = made.cost
                found = [*(one for one in found if one.cost == made.cost), made]
        if not self._running() or self._left < self._bound:
            self.complete = False
        unique = {str(one.overrides): one for one in found}
        return sorted(unique.values(), key=lambda one: (one.cost, one.message))

    def _all(self) -> Iterator[Change | None]:
        yield from self._proposed()
        each = self._for_each()
        if each is not None:
            yield self._needed(each)
        alone = [*self._nodes(()), *self._deletions(())]
        yield from alone
        if each is not None and not alone and not self._placed(each.overrides):
            # Neither is enough: what the plugins refuse, and the capacity.
            for other in (*self._nodes(each.overrides), *self._deletions(each.overrides)):
                yield self._needed(minimal_changes.both(each, other))

    # -- what the plugins propose --------------------------------------------------------------

    def _proposed(self) -> Iterator[Change]:
        """What they propose for the first member."""
        pod = self._group.waiting[0]
        for change in self._proposals(pod, self._snapshot, without=()):
            if change.cost > self._bound:
                return
            kept = self._placed(change.overrides)
            if kept and not self._spare(change.overrides):
                yield dataclasses.replace(change, kept=kept)

    def _for_each(self) -> Change | None:
        """What the others propose for one member after the other, as one change, if it is wanted."""
        groups = frozenset(plugin.name for plugin in self._plugins.groups)
        state, steps = self._snapshot, list[Change]()
        fitting_now = fitting_nodes.FittingNodes(state)
        for member in self._group.waiting[: self._group.needed or None]:
            self._check()
            pod = state.pod(member.uid)
            if pod is None:
                return None
            names = self._offered(pod, state, fitting_now)
            node = self._kept(pod, names, state, groups)
            if not node:
                step = self._step(member.uid, state, names, groups)
                if step is None:
                    # No capacity, most likely: what was found so far may be needed beside it.
                    break
                state = self._changed(step.overrides, state) or state
                steps.append(step)
                if sum(one.cost for one in steps) > self._bound:
                    return None
                pod = state.pod(member.uid) or pod
                node = self._kept(pod, names, state, groups)
            if node:
                state = situations.fold(state, (situations.bound(pod, node),))
                fitting_now.place(pod, node)
        return self._joined(steps) if steps else None

    def _step(
        self,
        uid: model.Uid,
        state: snapshots.Snapshot,
        names: frozenset[model.NodeName],
        without: frozenset[str],
    ) -> Change | None:
        pod = state.pod(uid)
        for change in self._proposals(pod, state, without, names) if pod is not None else ():
            after = self._changed(change.overrides, state)
            changed = after.pod(uid) if after is not None else None
            if after is not None and changed is not None and self._kept(changed, names, after, without):
                return change
        return None

    def _joined(self, steps: Sequence[Change]) -> Change | None:
        """Several changes as one: what becomes of each object is spelled once."""
        base = self._snapshot
        after = self._changed([one for step in steps for one in step.overrides], base)
        if after is None:
            return None
        overrides: dict[str, Override] = {}
        for one in (one for step in steps for one in step.overrides):
            if one["op"] in ("patchObject", "setObject"):
                name = one.get("name") or kinds.recorded(base, one["kind"], one["fields"], "fields").key
                spelled = minimal_changes.spelled(base, one["kind"], kinds.get(after, one["kind"], name))
                overrides[f"{one['kind']} {name}"] = spelled
            else:
                overrides[str(one)] = one
        times = Counter(step.message for step in steps)
        message = "; and ".join(f"{text}, {n} times" if n > 1 else text for text, n in times.items())
        return Change(message, sum(step.cost for step in steps), tuple(overrides.values()))

    def _proposals(
        self,
        pod: model.Pod,
        state: snapshots.Snapshot,
        without: Iterable[str],
        names: frozenset[model.NodeName] | None = None,
    ) -> list[Change]:
        """The changes that can be spelled and are allowed, the cheapest first."""
        offered = self._offered(pod, state) if names is None else names
        if not offered:
            offered = frozenset(state.topology.everywhere)
        cycle = cycles.cycle(pod, offered, state, score_max=self._plugins.score_max)
        refusals = pipeline.run_filter(self._plugins, cycle, without=frozenset(without)).refusals
        counted = cycles.assuming(cycle, cycles.nominated(cycle))
        proposed = advice.proposed(self._plugins, counted, refusals)
        spelled = (minimal_changes.as_change(state, pod, one) for one in proposed)
        found = sorted(minimal_changes.allowed(spelled, self._allow), key=minimal_changes.order)
        self._left = min([self._left, *(one.cost for one in found[minimal_changes.EVALUATED :])])
        return found[: minimal_changes.EVALUATED]

    # -- capacity ----------------------------------------------------------------------------------

    def _nodes(self, beside: Sequence[Override]) -> Iterator[Change]:
        """The fewest nodes of each kind that help, added to the other overrides."""
        if "nodes" not in self._allow:
            return
        for like in self._examples():
            added = self._fewest(like, beside)
            if added:
                override = minimal_changes.addition(like, added)
                message = f"{plurals.counted(added, 'more node')} like {like}"
                yield Change(message, added, (override,), self._placed((*beside, override)))

    def _fewest(self, like: model.NodeName, beside: Sequence[Override]) -> int:
        """How many nodes like this one are enough; 0 if none are."""
        limit = min(self._bound, len(self._group.waiting))
        high = 1
        while not self._placed((*beside, minimal_changes.addition(like, high))):
            if high >= limit:
                return 0
            high = min(2 * high, limit)
        low = high // 2 + 1 if high > 1 else 1
        while low < high:
            middle = (low + high) // 2
            if self._placed((*beside, minimal_changes.addition(like, middle))):
                high = middle
            else:
                low = middle + 1
        return high

    def _examples(self) -> list[model.NodeName]:
        """One node of each kind that a member may run on, of the kinds with most capacity first."""
        pod, snapshot = self._group.waiting[0], self._snapshot
        capacity: Counter[str] = Counter()
        example: dict[str, model.NodeName] = {}
        for name, node in sorted(snapshot.nodes.items()):
            if node_fit.refused(pod, node):
                continue
            labels = {key: value for key, value in node.labels.items() if value != name}
            kind = f"{sorted(labels.items())} {sorted(node.allocatable.items())} {node.taints}"
            example.setdefault(kind, name)
            capacity[kind] += node_fit.slots(pod, node, snapshot)
        first = sorted(example, key=lambda kind: (-capacity[kind], example[kind]))
        return self._first([example[kind] for kind in first], KINDS_OF_NODES)

    def _deletions(self, beside: Sequence[Override]) -> Iterator[Change]:
        """Pods whose deletion helps, of which none can be left out."""
        if "pods" not in self._allow:
            return
        for pool in (self._in_the_way(), self._counted()):
            least = self._least(pool, beside) if pool else []
            if least:
                override = minimal_changes.deletion(least)
                message = f"{plurals.counted(len(least), 'pod')} fewer: {plurals.listed(least)}"
                kept = self._placed((*beside, override))
                yield Change(message, len(least), (override,), kept)

    def _in_the_way(self) -> list[str]:
        """Pods that take capacity from members: first those of which the fewest have to go for one member."""
        steps = [
            step
            for _, node in sorted(self._snapshot.nodes.items())
            if not node_fit.refused(self._group.waiting[0], node)
            for step in self._steps(node)
        ]
        steps.sort(key=lambda going: (len(going), going))
        return self._first([key for going in steps for key in going], MAX_DELETED)

    def _steps(self, node: model.Node) -> Iterator[list[str]]:
        """The pods of a node that have to go for one more member, for another one, and so on."""
        members = self._group.waiting
        found = {
            one.key: one
            for one in self._snapshot.on(node.name)
            if node_sums.holding(one) and one.uid not in self._group.placed
        }
        held, pod, seats = node_fit.occupancy(self._snapshot, node.name), members[0], 0
        while seats < len(members) and not node_fit.crowded(pod, node, held):
            held, seats = held.plus(pod), seats + 1
        going: list[str] = []
        for key in minimal_changes.least_first(found.values()):
            if seats == len(members):
                return
            held = held.without(found[key])
            going.append(key)
            if not node_fit.crowded(pod, node, held):
                yield going
                held, seats, going = held.plus(pod), seats + 1, []

    def _counted(self) -> list[str]:
        """Pods that raise a count which a member would raise, the least important first."""
        pod, snapshot = self._group.waiting[0], self._snapshot
        own = {one.uid for one in self._group.waiting} | self._group.placed
        counts = kinds.counting(snapshot)
        wanted = {key for name in snapshot.nodes for key in counts(pod, name)}
        found: list[model.Pod] = []
        for uid in snapshot.namespaces.get(pod.namespace, ()) if wanted else ():
            other, node = snapshot.pod(uid), snapshot.node_of(uid)
            if other is None or not node or uid in own:
                continue
            if wanted.intersection(counts(other, node)):
                found.append(other)
        return self._first(minimal_changes.least_first(found), MAX_DELETED)

    def _first(self, names: list[str], most: int) -> list[str]:
        """The first names; a change with one of the others may cost 1."""
        self._left = 1 if len(names) > most else self._left
        return names[:most]

    def _least(self, pool: Sequence[str], beside: Sequence[Override]) -> list[str]:
        """A subset that helps and of which none can be left out; empty if none helps."""

        def helps(names: Sequence[str]) -> bool:
            return bool(names) and bool(self._placed((*beside, minimal_changes.deletion(names))))

        if not helps(pool):
            return []
        kept, size = list(pool), len(pool)
        while size:
            at, dropped = 0, False
            while at < len(kept):
                fewer = [*kept[:at], *kept[at + size :]]
                if helps(fewer):
                    kept, dropped = fewer, True
                else:
                    at += size
            if size > 1 or not dropped:
                size //= 2
        return kept

    # -- evaluation ----------------------------------------------------------------------------

    def _needed(self, change: Change) -> Change | None:
        """The change without the overrides that can be left out; None if it does not help."""
        overrides = list(change.overrides)
        if not self._placed(overrides):
            return None
        for one in list(overrides):
            fewer = [other for other in overrides if other is not one]
            if fewer and self._placed(fewer):
                overrides = fewer
        return dataclasses.replace(change, overrides=tuple(overrides), kept=self._placed(overrides))

    def _spare(self, overrides: Sequence[Override]) -> bool:
        """Whether the group is placed without one of the overrides."""
        return len(overrides) > 1 and any(
            self._placed([*overrides[:at], *overrides[at + 1 :]]) for at in range(len(overrides))
        )

    def _placed(self, overrides: Sequence[Override]) -> int:
        """How many members are placed with the overrides; 0 if the group is not, or they do not apply."""
        self.tried += 1
        try:
            resolved = self._resolved(overrides, self._snapshot)
            offered = self._candidates
            candidates = None if offered is None else resolved.offered(offered)
            outcome = group_placement.place(
                self._plugins, resolved.snapshot, self._group.name, candidates, self._check
            )
        except (errors.Mistake, errors.Missing):
            return 0
        return outcome.several.placed if outcome.fits else 0

    def _changed(self, overrides: Sequence[Override], state: snapshots.Snapshot) -> snapshots.Snapshot | None:
        """The state with the overrides; None if they do not apply."""
        try:
            return self._resolved(overrides, state).snapshot
        except errors.Mistake:
            return None

    def _resolved(self, overrides: Sequence[Override], state: snapshots.Snapshot) -> situations.Resolved:
        """The state with the overrides. Raises Mistake."""
        supposed = situations.supposition_of(overrides, self._plugins)
        return situations.resolve(state, dataclasses.replace(supposed, attended=self._check))

    def _check(self) -> bool:
        """True while there is time. Raises _Spent: what is cut short is no answer."""
        if not self._running():
            raise _Spent
        return True

    def _offered(
        self,
        pod: model.Pod,
        state: snapshots.Snapshot,
        now: fitting_nodes.FittingNodes | None = None,
    ) -> frozenset[model.NodeName]:
        if self._candidates is not None:
            return self._candidates
        return (now or fitting_nodes.FittingNodes(state)).of(pod)

    def _kept(
        self,
        pod: model.Pod,
        names: frozenset[model.NodeName],
        state: snapshots.Snapshot,
        without: frozenset[str],
    ) -> model.NodeName:
        """A node that the plugins keep for the pod; empty if there is none."""
        cycle = cycles.cycle(pod, names, state, score_max=self._plugins.score_max)
        return min(pipeline.run_filter(self._plugins, cycle, without=without).kept, default="")
