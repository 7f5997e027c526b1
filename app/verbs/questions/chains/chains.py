"""A recorded range played once in a situation, with the knock-on effects of every placement.

Two snapshots move along the log: the recorded one, and that of the supposed history, which the situation
changed at the start. Facts happen in both. A pod is placed in the supposed history when it was placed in
the log, or when an attempt is recorded at which it would have fitted; what it was observed as afterwards is
observed on its supposed node.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.domain import events, model, node_sets, snapshots
from app.framework import cycles, pipeline, registry
from app.store.decisions import records
from app.store.log import readers
from app.verbs.explain import explanations, recorded_configurations
from app.verbs.questions import kinds, question_schema, replays, simulated_placements, situations
from app.verbs.questions.chains import assignments, histories

LIMITS = (
    "the scores of kube-scheduler and the running times of pods under another placement are not known",
    "a pod is tried when an attempt is recorded: one that is refused instead of placed is not tried again",
    "overrides of pods apply to those at the start; members of a gang are placed one by one",
    "what plugins assign to a pod, such as a device, is decided again only if it is on another node",
)


@dataclasses.dataclass(slots=True)
class Placements:
    """Where pods were placed within the range, and where they would have been."""

    was: dict[model.Uid, model.NodeName] = dataclasses.field(default_factory=dict)
    would: dict[model.Uid, model.NodeName] = dataclasses.field(default_factory=dict)
    was_at: dict[model.Uid, int] = dataclasses.field(default_factory=dict)
    """Milliseconds since 1970."""
    would_at: dict[model.Uid, int] = dataclasses.field(default_factory=dict)

    def numbers(self) -> dict[str, int]:
        """How many pods are on the same node, elsewhere, only then, only now."""
        both = self.was.keys() & self.would.keys()
        same = sum(self.was[uid] == self.would[uid] for uid in both)
        return {
            "same": same,
            "elsewhere": len(both) - same,
            "onlyThen": len(self.was) - len(both),
            "onlyNow": len(self.would) - len(both),
        }


class _Attempt(NamedTuple):
    """The latest attempt of a pod that was not placed since."""

    offered: node_sets.Names
    plugins: registry.Registry
    kept: int
    """Nodes that were kept in the log."""


class Chain(replays.Replay):
    """Plays a range: ``advance`` with the entries up to a decision, ``compare`` it, and so on."""

    def __init__(
        self,
        suppose: Callable[[registry.Registry], situations.Supposition],
        recorded: recorded_configurations.RecordedConfigurations,
        base: snapshots.Snapshot,
        *,
        choice: question_schema.Choice,
        scores: bool,
        limit: int,
        first: Sequence[str] = (),
        counted: Callable[[records.Decision], bool] = lambda _: True,
    ) -> None:
        """``base``: the snapshot at the start; ``choice``: whether the recorded node is preferred.

        ``counted``: whether the numbers and the items include a decision. All of them are played.
        """
        super().__init__(suppose, recorded, scores=scores, limit=limit, first=first)
        self._supposed = suppose(recorded.present)
        self._choice = choice
        self._counted = counted
        resolved = situations.resolve(base, self._supposed, strict=False)
        self._observe(resolved)
        self._copies: Mapping[model.NodeName, model.NodeName] = resolved.copies
        self._removed = resolved.removed
        attended = self._supposed.attended
        self.was = histories.History(base, attended)
        self.would = histories.History(resolved.snapshot, attended)
        self._together = not self._supposed.operations
        """Both histories are the same so far, so that one fold is enough."""
        self.placements = Placements()
        self.created: dict[model.Uid, str] = {}
        """When the placed pods were created (RFC 3339)."""
        self._position = base.position
        after = resolved.snapshot.pods
        gone = (one.uid for one in resolved.happened if isinstance(one, events.PodGone))
        self._deleted = {uid for uid in gone if uid in base.pods and uid not in after}
        """Pods that the log has, and the supposed history no longer."""
        self._collected: set[model.Uid] = set()
        """Those of them that ended with their node: where the log places them is known nevertheless."""
        self._lost: set[model.NodeName] = set()
        """Nodes that the log has deleted within the range."""
        seen = (one.pod.uid for one in resolved.happened if isinstance(one, events.PodSeen))
        self._labels = {
            uid: after[uid].labels
            for uid in seen
            if uid in after and uid in base.pods and base.pods[uid].labels != after[uid].labels
        }
        self._attempts: dict[model.Uid, _Attempt] = {}
        self._moved: dict[model.Uid, model.NodeName] = {}
        """Pods on another node than in the log, or on one that they never got there."""
        self._assigned = assignments.Assignments()
        self._unplaced: set[model.Uid] = set()
        """Pods that were placed in the log and would not have been."""

    # -- the facts -------------------------------------------------------------------------

    def advance(self, entries: Iterable[readers.Entry], running: Callable[[], bool] = lambda: True) -> None:
        """Let the events of consecutive entries happen in both histories, until time runs out."""
        for entry in entries:
            # What a placement is compared with is the state before it.
            if self._attempts and isinstance(entry.event, events.PodSeen | events.PlacementsCommitted):
                self._fold()
            supposed = list(self._translated(entry))
            if not (len(supposed) == 1 and supposed[0] is entry.event):
                self._part()
            self.was.add((entry.event,), entry.offset)
            if not self._together:
                self.would.add(supposed, entry.offset)
            self._position = model.Position(self._position.incarnation, entry.offset)
            if self._supposed.operations and isinstance(entry.event, _REPLACING):
                self._fold()
                self.would.add(self._overridden(entry.event), entry.offset)
                if not running():
                    break
        self._fold()

    def _fold(self) -> None:
        self.was.fold(self._position)
        if self._together:
            self.would.follow(self.was)
        else:
            self.would.fold(self._position)

    def _part(self) -> None:
        """From here on the histories differ."""
        if self._together:
            self._fold()
            self._together = False
            self.would.part()

    def _translated(self, entry: readers.Entry) -> Iterator[events.AnyEvent]:
        """The event as it would have been in the supposed history."""
        event = entry.event
        match event:
            case events.PodSeen():
                yield from self._seen(event, entry)
            case events.PodGone():
                self._forget(event.uid)
                if event.uid not in self._deleted:
                    yield event
            case events.NodeGone():
                # Of pods that are there in the supposed history alone, the log has no end.
                on = self.would.snapshot.on(event.name)
                yield from [self._collect(pod) for pod in on if self._only_supposed(pod.uid)]
                yield event
            case events.PlacementsCommitted():
                yield from self._committed(event, entry)
            case events.PlacementReleased() if event.uid in self._moved:
                pod = self.would.snapshot.pod(event.uid)
                del self._moved[event.uid]
                if pod is not None:
                    yield events.PodSeen(pod=self._assigned.unbound(pod))
            case events.PlacementReleased() if event.uid in self._unplaced:
                self._unplaced.discard(event.uid)
            case _:
                yield event

    def _seen(self, event: events.PodSeen, entry: readers.Entry) -> Iterator[events.AnyEvent]:
        pod, uid = event.pod, event.pod.uid
        attempt = self._attempts.get(uid)
        placed = bool(pod.node) and attempt is not None and self._by_scheduler(pod, attempt)
        if uid in self._deleted:
            if placed and uid in self._collected:
                self._was_placed(pod, pod.node, entry)
            return
        if uid in self._labels:
            pod = msgspec.structs.replace(pod, labels=self._labels[uid])
        if placed:
            # Without the verb bind, kube-scheduler's own binding is the placement.
            self._settle(pod, pod.node, entry)
        if uid in self._moved:
            yield events.PodSeen(pod=self._assigned.on(pod, self._moved[uid]))
        elif uid in self._unplaced:
            yield events.PodSeen(pod=self._assigned.unbound(pod))
        elif pod.node in self._removed:
            yield self._collect(pod)
        else:
            yield event if pod is event.pod else events.PodSeen(pod=pod)

    def _forget(self, uid: model.Uid) -> None:
        self._assigned.forget(uid)
        self._attempts.pop(uid, None)
        self._moved.pop(uid, None)
        self._unplaced.discard(uid)

    def _only_supposed(self, uid: model.Uid) -> bool:
        """Whether the pod is on another node than in the log, or is not in it: an override added it."""
        return uid in self._moved or self.was.snapshot.pod(uid) is None

    def _collect(self, pod: model.Pod) -> events.PodGone:
        """The end of a pod whose node does not exist: the pod garbage collection deletes it."""
        self._forget(pod.uid)
        self._deleted.add(pod.uid)
        self._collected.add(pod.uid)
        return events.gone(pod)

    def _by_scheduler(self, pod: model.Pod, attempt: _Attempt) -> bool:
        """Whether the pod is bound as its attempt allowed, and not by other means."""
        unplaced = not self.was.snapshot.node_of(pod.uid)
        return unplaced and attempt.kept > 0 and pod.node in attempt.offered

    def _committed(
        self, event: events.PlacementsCommitted, entry: readers.Entry
    ) -> Iterator[events.AnyEvent]:
        for one in event.placements:
            self._assigned.record(one)
            if one.pod.uid in self._collected:
                self._was_placed(one.pod, one.node, entry)
        placements = [one for one in event.placements if one.pod.uid not in self._deleted]
        if not self._as_recorded(placements):
            for one in placements:
                self._settle(one.pod, one.node, entry)
            return
        same = []
        for one in placements:
            uid = one.pod.uid
            self._attempts.pop(uid, None)
            self._was_placed(one.pod, one.node, entry)
            if uid not in self._moved:
                same.append(one)
                self.placements.would[uid], self.placements.would_at[uid] = one.node, entry.at_ms
        if len(same) == len(event.placements):
            yield event
        elif same:
            yield msgspec.structs.replace(event, placements=tuple(same))

    def _as_recorded(self, placements: Sequence[model.Placement]) -> bool:
        """Whether they can be committed as they were, by the attempt of the first pod."""
        if any(one.node in self._removed for one in placements):
            return False
        first = placements[0] if placements else None
        if first is None or first.pod.uid not in self._attempts or first.pod.uid in self._moved:
            return True
        kept, best = self._decided(first.pod, first.node)
        return first.node in kept and (self._choice == "recorded" or first.node == best)

    def _was_placed(self, pod: model.Pod, node: model.NodeName, entry: readers.Entry) -> None:
        """Note where the log places the pod."""
        self.created[pod.uid] = pod.created
        self.placements.was[pod.uid], self.placements.was_at[pod.uid] = node, entry.at_ms

    def _settle(self, pod: model.Pod, node: model.NodeName, entry: readers.Entry) -> None:
        """Place a pod that was placed on the node: there if it is still kept, else where it fits best."""
        uid = pod.uid
        self._was_placed(pod, node, entry)
        if uid in self._moved:
            self._attempts.pop(uid, None)
            return
        kept, best = self._decided(pod, node)
        chosen = node if self._choice == "recorded" and node in kept else best
        plugins = self._deciding(uid)
        self._attempts.pop(uid, None)
        if not chosen:
            self._unplaced.add(uid)
            return
        self.placements.would[uid], self.placements.would_at[uid] = chosen, entry.at_ms
        if chosen != node:
            self._moved[uid] = chosen
        elif self._together:
            return  # The event of the log has the same effect.
        # Of several pods that are placed at once, each sees those before it.
        self._part()
        snapshot = self.would.snapshot
        known = snapshot.pod(uid) or pod
        placed = (
            self._assigned.kept(known, chosen)
            if chosen == node
            else self._assigned.reserve(plugins, snapshot, known, chosen)
        )
        self.would.add((events.PodSeen(pod=placed),), entry.offset)
        self.would.fold(self._position)

    def _decided(self, pod: model.Pod, node: model.NodeName) -> tuple[node_sets.Names, model.NodeName]:
        """The nodes that are kept in the supposed history, and the best of them; empty if there is none."""
        attempt = self._attempts.get(pod.uid)
        plugins = self._deciding(pod.uid)
        offered = attempt.offered if attempt is not None else frozenset((node,))
        snapshot = self.would.snapshot
        names = self._situation(plugins).offered(offered)
        known = snapshot.pod(pod.uid) or pod
        cycle = cycles.cycle(known, names, snapshot, score_max=plugins.score_max)
        trace = pipeline.run(plugins, cycle)
        return trace.kept, simulated_placements.chosen(plugins, cycle, trace)

    def _deciding(self, uid: model.Uid) -> registry.Registry:
        """The plugins that decide about the pod."""
        attempt = self._attempts.get(uid)
        return attempt.plugins if attempt is not None else self._supposed.plugins

    def _overridden(self, event: events.AnyEvent) -> Iterator[events.AnyEvent]:
        """The events after which nodes and objects are as the overrides make them.

        Those of the event, and those of overrides that apply only now, because all that they name exists. An
        override goes on without a node that it names and that the log has deleted.
        """
        if isinstance(event, events.NodeGone):
            self._lost.add(event.name)
        lost = self._lost.difference(self.was.snapshot.nodes)
        named = situations.without(self._supposed, lost)
        resolved = situations.resolve(self.was.snapshot, named, strict=False)
        self._observe(resolved)
        self._copies = {**self._copies, **resolved.copies}
        self._removed = resolved.removed
        replacing = [one for one in resolved.happened if isinstance(one, _REPLACING)]
        for one in {one.subject: one for one in (event, *replacing)}.values():
            if isinstance(one, events.NodeSeen | events.NodeGone):
                name = one.subject.partition(":")[2]
                if name in self._removed:
                    yield from [self._collect(pod) for pod in self.would.snapshot.on(name)]
                yield from situations.node_became(self.would.snapshot, resolved.snapshot, name)
            elif isinstance(one, events.ObjectObserved | events.ObjectGone):
                yield from kinds.became(self.would.snapshot, resolved.snapshot, one.kind, one.identity)

    # -- the attempts ----------------------------------------------------------------------

    def _counts(self, decision: records.Decision) -> bool:
        return self._counted(decision)

    def _resolve(self, snapshot: snapshots.Snapshot, given: replays.Input) -> situations.Resolved:
        return self._situation(given.supposed.plugins)

    def _situation(self, plugins: registry.Registry) -> situations.Resolved:
        return situations.Resolved(self.was.snapshot, self.would.snapshot, plugins, copies=self._copies)

    def _compared(
        self,
        decision: records.Decision,
        candidates: node_sets.Names,
        resolved: situations.Resolved,
        answers: tuple[replays.ReplayedAnswer, replays.ReplayedAnswer],
    ) -> None:
        uid = decision.pod.uid
        if decision.verb not in explanations.ATTEMPTS or resolved.base.node_of(uid):
            return
        was, would = answers
        self._attempts[uid] = _Attempt(candidates, resolved.plugins, was.kept)
        if was.kept or not would.kept or uid in self._moved or uid in self._deleted:
            return
        pod = resolved.snapshot.pod(uid) or decision.pod
        _, node = self._decided(pod, "")
        if node:
            self._moved[uid] = node
            self.created[uid] = pod.created
            self.placements.would[uid] = node
            self.placements.would_at[uid] = int(decision.id.partition("-")[0])
            self._part()
            placed = self._assigned.reserve(resolved.plugins, self.would.snapshot, pod, node)
            self.would.add((events.PodSeen(pod=placed),), self._position.offset)
            self._fold()


_REPLACING = (events.NodeSeen, events.NodeGone, events.ObjectObserved, events.ObjectGone)
"""Events that put an object into the state in which it was observed."""
