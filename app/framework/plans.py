"""Merges what the plugins reserve for a pod into one commitment: one append, whole or not at all.

A plugin may place further pods beside the pod that is being bound. All other plugins that one of them
concerns filter it and reserve for it in the state in which the others are placed, with what is decided for
those before it. So it does not matter which of them is bound first.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from app.domain import events, model, node_sets, projections, schema, snapshots, verdicts
from app.framework import capabilities, cycles, manifests, pipeline, registry, transformer_chain

MAX_PLACEMENTS = 1000
"""Placements of one commitment: the store writes it in one call, which nothing can interrupt."""
MAX_METADATA = 64 * 1024
"""Bytes of the annotations and labels of one Binding; all annotations of a pod may have 256 KiB."""
MAX_DATA = 64 * 1024
"""Bytes of the data of one placement, as JSON."""
MAX_TOTAL = 4 * 1024 * 1024
"""Bytes of all data, annotations and labels of one commitment."""

_encode = msgspec.json.Encoder().encode


class InvalidPlan(Exception):
    """The plans of the plugins contradict one another, or a plan cannot be written: a defect of a plugin."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """What one append writes, and the conditions under which it does."""

    placements: tuple[model.Placement, ...]
    """First that of the pod that is being bound; the others are marked as planned."""
    subjects: tuple[str, ...]
    """Subjects whose version must equal that in the cycle's snapshot, sorted."""
    ceilings: Mapping[schema.CountKey, int]
    """Count -> maximum that it may have once all pods are counted."""
    claims: tuple[str, ...] = ()
    """The subjects among them that the commitment moves on."""


def commitment(
    plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName
) -> Commitment | verdicts.Refusal:
    """What is committed when the pod of the cycle is placed on the node, or why it cannot be placed there.

    The pod itself must have been filtered before. Raises InvalidPlan and HookFailed.
    """
    try:
        return _Merge(plugins, cycle, node).run()
    except _Refused as refused:
        return refused.refusal


_Answer = tuple[str, capabilities.Plan | verdicts.Refusal]
"""A plugin, and what it reserves."""


@dataclass(slots=True)
class _Draft:
    """A placement that several plugins contribute to."""

    pod: model.Pod
    node: model.NodeName
    planners: set[str] = field(default_factory=set)
    """The plugins that decided about it together with other pods: they are not asked about it alone."""
    patience: int = 0
    data: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    written_by: dict[str, str] = field(default_factory=dict)
    """``annotation KEY`` or ``label KEY`` -> the plugin that sets it."""

    def add(self, plugin: str, assigned: capabilities.Assignment) -> None:
        """Add what one plugin decided. Raises InvalidPlan."""
        if assigned.node != self.node:
            raise InvalidPlan(
                f"plugin {plugin} places pod {self.pod.key} on node {assigned.node}, not {self.node}"
            )
        for what, mine, given in (
            ("annotation", self.annotations, assigned.annotations),
            ("label", self.labels, assigned.labels),
        ):
            for key, value in given.items():
                _check_pair(plugin, what, key, value)
                other = self.written_by.setdefault(f"{what} {key}", plugin)
                if other != plugin:
                    raise InvalidPlan(
                        f"plugins {other} and {plugin} both set {what} {key} of pod {self.pod.key}"
                    )
                mine[key] = value
        self.patience = max(self.patience, assigned.patience)
        if assigned.data:
            if plugin in self.data:
                raise InvalidPlan(f"plugin {plugin} plans pod {self.pod.key} twice")
            self.data[plugin] = _as_read_back(plugin, assigned.data)

    def placement(self, *, planned: bool) -> model.Placement:
        return model.Placement(
            pod=self.pod,
            node=self.node,
            planned=planned,
            patience=self.patience,
            data=self.data,
            annotations=self.annotations,
            labels=self.labels,
        )


class _Refused(Exception):
    """A plugin refuses a pod of the plan."""

    def __init__(self, refusal: verdicts.Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class _Merge:
    """The merge of one commitment."""

    def __init__(self, plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName) -> None:
        self._plugins = plugins
        self._cycle = cycle
        self._node = node
        own = _Draft(cycle.pod, node)
        self._drafts = {cycle.pod.uid: own}
        self._merged = [own]
        """Those that are not there already."""
        self._known = 1
        """Drafts that are merged, or are there already."""
        self._state = cycle.snapshot
        """The state in which the merged pods are placed, if there are several, but for those to come."""
        self._coming: list[_Draft] = []
        """Those that are placed before a plugin is asked that does not sum."""
        self._counting: snapshots.Snapshot | None = None
        """The same state with those to come counted, and not placed; None until it is read."""
        self._admitted: set[Hashable] = set()
        """Kinds of which a pod was admitted beside all others, and assigned nothing."""
        self._subjects = {events.RUN}
        self._ceilings: dict[schema.CountKey, int] = {}
        self._claims: set[str] = set()
        self._differences: dict[schema.CountKey, int] = {}
        """Count -> what transformers add to it, over all pods of the commitment."""
        self._hidden: dict[schema.CountKey, str] = {}
        """Count of which transformers show too little -> a plugin that limits it."""

    def run(self) -> Commitment:
        """See ``commitment``. Raises _Refused and InvalidPlan."""
        (own,), consulting = self._merged, self._plugins.consulting
        if consulting:
            # They name the pods that are placed beside this one, so that others decide about all of them.
            self._ask(transformer_chain.at(self._plugins, self._cycle, self._node), own, consulting)
            own.planners.update(consulting)
        self._merge_new()
        for draft in self._merged:  # Plans may add some.
            self._decide(draft)
            self._merge_new()
        placements = tuple([draft.placement(planned=draft is not own) for draft in self._merged])
        self._check_sizes(placements)
        self._subjects.update(self._claims)
        ceilings = {key: top - self._differences.get(key, 0) for key, top in self._ceilings.items()}
        self._check_hidden(placements, ceilings)
        return Commitment(placements, tuple(sorted(self._subjects)), ceilings, tuple(sorted(self._claims)))

    def _merge_new(self) -> None:
        """Place the pods that plans have added since. Raises _Refused if one of them cannot be placed."""
        if len(self._drafts) == self._known:
            return
        new = [one for one in [*self._drafts.values()][self._known :] if not self._is_there(one)]
        self._known = len(self._drafts)
        if new and len(self._merged) == 1:
            self._state = pipeline.as_planned(self._plugins, self._cycle)
            self._coming += self._merged
        if new:
            self._coming += new
            self._merged += new
            self._admitted.clear()  # Judged beside fewer pods.
            self._counting = None

    def _decide(self, draft: _Draft) -> None:
        """Add what the plugins reserve for the pod, if none refuses it beside the others. Raises _Refused."""
        self._subjects.update(self._cycle.snapshot.schema.footprint(draft.pod, draft.node))
        if len(self._merged) == 1:
            self._reserve(self._cycle, draft)
            return
        asking = self._asking(draft)
        if not asking and not self._plugins.transforms and not self._plugins.transforms_nodes:
            return
        kind = self._kind(draft, asking)
        if kind is not None and kind in self._admitted:
            return
        if kind is not None and self._reserve_counted(draft):
            self._admitted.add(kind)
            return
        apart = projections.project(self._ahead(), events.not_placed(draft.pod, draft.node))
        if self._reserve(self._admitted_there(draft, apart), draft):
            self._state = apart
            self._coming.append(draft)
        elif kind is not None:
            self._admitted.add(kind)

    def _reserve_counted(self, draft: _Draft) -> bool:
        """As ``_reserve``, by plugins that sum, of which none assigns anything: whether that is so.

        They read no more of the other pods than counts.
        """
        if len(self._coming) < len(self._merged):
            return False  # Something is assigned to others.
        if self._state.schema.reads_annotations and any(one.annotations for one in self._coming):
            return False  # A counter may read what is assigned to others.
        if not self._drafts.keys().isdisjoint(self._state.nominated):
            return False  # Until it is placed, a nominated pod counts where it is nominated.
        if self._counting is None:
            self._counting = self._state.counting([(one.pod, one.node) for one in self._coming])
        apart = self._counting.counting([(draft.pod, draft.node)], -1)
        cycle = self._admitted_there(draft, apart)
        answers = [*self._answers(cycle, draft, self._reserving(draft))]
        if any(not isinstance(plan, verdicts.Refusal) and plan.assignments for _, plan in answers):
            return False
        for plugin, plan in answers:
            self._add(plugin, draft, plan)
        return True

    def _admitted_there(self, draft: _Draft, apart: snapshots.Snapshot) -> cycles.Cycle:
        """The cycle of the pod on its node, in a state without it. Raises _Refused."""
        one = cycles.cycle(draft.pod, frozenset((draft.node,)), apart, score_max=self._cycle.score_max)
        trace = pipeline.run_filter(self._plugins, one, without=draft.planners)
        if trace.refusals:
            raise self._refused(draft, trace.refusals[0])
        return one

    def _asking(self, draft: _Draft) -> Collection[str]:
        """The plugins that may refuse the pod or reserve for it, and have not decided about it."""
        asking = (*self._plugins.filters, *self._plugins.reserves)
        names = [one.name for one in asking if one.name not in draft.planners and one.interested(draft.pod)]
        return dict.fromkeys(names)

    def _kind(self, draft: _Draft, asking: Collection[str]) -> Hashable | None:
        """Equal for pods that all plugins refuse alike, and give the same conditions; None for one apart."""
        pod, node = draft.pod, self._state.nodes.get(draft.node)
        if node is None:
            return None
        kind = pipeline.summed(self._plugins, pod, self._state, asking)
        # The state without a pod of the log has its requests, and that without any other has not.
        return kind and (kind, kind.part(node), pod.uid in self._cycle.snapshot.pods)

    def _ahead(self) -> snapshots.Snapshot:
        """The state in which all merged pods are placed."""
        if self._coming:
            placements = tuple([draft.placement(planned=False) for draft in self._coming])
            self._state = projections.project(self._state, events.PlacementsCommitted(placements=placements))
            self._coming = []
        return self._state

    def _is_there(self, draft: _Draft) -> bool:
        """Whether the pod is already on its node or placed there. Raises _Refused if it cannot be placed."""
        uid, snapshot = draft.pod.uid, self._cycle.snapshot
        pod = snapshot.pods.get(uid)
        if pod is None:
            raise self._refused(draft, verdicts.Refusal("it does not exist", node_sets.NONE))
        draft.pod = pod
        at = snapshot.node_of(uid)
        if at == draft.node:
            self._subjects.add(f"pod:{uid}")
            return True
        if at or not pod.pending:
            why = f"it is on node {at}" if at else "it is not waiting for a node"
            raise self._refused(draft, verdicts.Refusal(why, node_sets.NONE))
        return False

    def _reserve(self, cycle: cycles.Cycle, draft: _Draft) -> bool:
        """Add what the plugins reserve for the pod that have not planned it; whether any assigns something.

        Raises _Refused, InvalidPlan and HookFailed.
        """
        judged = transformer_chain.at(self._plugins, cycle, draft.node)
        if judged.pod is not cycle.pod:
            self._subjects.update(cycle.snapshot.schema.footprint(judged.pod, draft.node))
            self._note_difference(cycle.snapshot, draft, judged)
        return self._ask(judged, draft, self._reserving(draft))

    def _reserving(self, draft: _Draft) -> Collection[str]:
        """The plugins that are asked about the pod alone."""
        return {plugin.name for plugin in self._plugins.reserves} - draft.planners

    def _ask(self, judged: cycles.Cycle, draft: _Draft, names: Collection[str]) -> bool:
        """Add what the named plugins reserve; whether any assigns something. Raises as ``_reserve``."""
        assigned = False
        for plugin, plan in self._answers(judged, draft, names):
            assigned = self._add(plugin, draft, plan) or assigned
        return assigned

    def _answers(self, judged: cycles.Cycle, draft: _Draft, names: Collection[str]) -> Iterator[_Answer]:
        """What each of the named plugins reserves, as it is asked for."""
        for plugin in self._plugins.reserves:
            if plugin.name in names and plugin.interested(judged.pod):
                asking = pipeline.with_peers(self._plugins, judged, plugin.name)
                try:
                    reserved = plugin.reserve(asking, draft.node)
                except Exception as problem:
                    raise cycles.HookFailed.of(plugin.name, "reserve", problem) from problem
                yield plugin.name, reserved

    def _add(self, plugin: str, draft: _Draft, plan: capabilities.Plan | verdicts.Refusal) -> bool:
        """Add one answer: whether something is assigned. Raises _Refused and InvalidPlan."""
        if isinstance(plan, verdicts.Refusal):
            raise self._refused(draft, replace(plan, plugin=plugin))
        self._subjects.update(plan.subjects)
        self._claims.update(plan.claims)
        for key, ceiling in plan.ceilings.items():
            self._ceilings[key] = min(ceiling, self._ceilings.get(key, ceiling))
        self._assign(plugin, draft, plan.assignments)
        return bool(plan.assignments)

    def _note_difference(self, snapshot: snapshots.Snapshot, draft: _Draft, judged: cycles.Cycle) -> None:
        """Note how the pod that plugins judge counts, other than the one that is placed and will be counted.

        Where it counts for more, ceilings are lowered; where for less, those for the placed pod apply, too.
        """
        more, less = transformer_chain.difference(snapshot, draft.pod, judged.pod, draft.node)
        for key, amount in more.items():
            self._differences[key] = self._differences.get(key, 0) + amount
        asking = self._reserving(draft) if less else ()
        for plugin, plan in self._answers(replace(judged, pod=draft.pod), draft, asking):
            tops = {} if isinstance(plan, verdicts.Refusal) else plan.ceilings
            for key in less & tops.keys():
                self._hidden[key] = plugin
                self._ceilings[key] = min(tops[key], self._ceilings.get(key, tops[key]))

    def _check_hidden(self, placed: tuple[model.Placement, ...], tops: Mapping[schema.CountKey, int]) -> None:
        """Raise _Refused if a count of which plugins saw too little would exceed its ceiling."""
        if not self._hidden:
            return
        after = projections.project(self._cycle.snapshot, events.PlacementsCommitted(placements=placed))
        for key, plugin in self._hidden.items():
            if after.counts.get(key, 0) > tops[key]:
                text = f"plugin {plugin} has no capacity for the pod as it is, before transformers"
                raise _Refused(verdicts.Refusal(text, frozenset((self._node,)), plugin=plugin))

    def _assign(self, plugin: str, asked: _Draft, assignments: Sequence[capabilities.Assignment]) -> None:
        """Add what one plugin assigns when it is asked about one pod. Raises _Refused and InvalidPlan."""
        for assigned in assignments:
            draft = self._drafts.setdefault(assigned.pod.uid, _Draft(assigned.pod, assigned.node))
            if draft is not asked:
                draft.planners.add(plugin)
            draft.add(plugin, assigned)
        if len(self._drafts) > MAX_PLACEMENTS:
            text = (
                f"plugin {plugin} places {len(self._drafts):,} pods at once; the limit is {MAX_PLACEMENTS:,}"
            )
            raise _Refused(verdicts.Refusal(text, frozenset((self._node,)), plugin=plugin))

    def _refused(self, draft: _Draft, refusal: verdicts.Refusal) -> _Refused:
        """The refusal of one pod, as that of the pod that is being bound."""
        reason = refusal.reason
        if draft.pod.uid != self._cycle.pod.uid:
            reason = f"pod {draft.pod.key}, which is placed with it, cannot be placed on its node: {reason}"
        return _Refused(replace(refusal, reason=reason, nodes=frozenset((self._node,))))

    def _check_sizes(self, placements: Sequence[model.Placement]) -> None:
        """Raise _Refused if what a Binding or the event would carry is too large."""
        total = 0
        for placement in placements:
            if not (placement.annotations or placement.labels or placement.data):
                continue
            metadata = sum(
                len(key.encode()) + len(value.encode())
                for pairs in (placement.annotations, placement.labels)
                for key, value in pairs.items()
            )
            data = len(_encode(placement.data)) if placement.data else 0
            total += metadata + data
            for what, size, limit in (
                ("annotations and labels", metadata, MAX_METADATA),
                ("data", data, MAX_DATA),
                ("data, annotations and labels of all pods", total, MAX_TOTAL),
            ):
                if size > limit:
                    text = f"the {what} that plugins set for pod {placement.pod.key} have {size:,} bytes"
                    text = f"{text}; the limit is {limit:,}"
                    raise _Refused(verdicts.Refusal(text, frozenset((self._node,))))


def _check_pair(plugin: str, what: str, key: object, value: object) -> None:
    """Raise InvalidPlan for an invalid annotation or label: with it the pod could not be updated later."""
    if not (manifests.is_label if what == "label" else manifests.is_annotation)(key, value):
        raise InvalidPlan(f"plugin {plugin} sets an invalid {what}: {key!r}: {value!r:.80}")


def _as_read_back(plugin: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The data as a reader of the log gets it, so that every replica holds the same. Raises InvalidPlan."""
    try:
        return msgspec.json.decode(_encode(data), type=dict[str, Any])
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as problem:
        raise InvalidPlan(f"plugin {plugin} has data that is not JSON: {problem}") from problem
