"""Recorded decisions, computed again in another situation: which of them would have been others.

Each decision is computed on its own snapshot, changed by the situation. There is no knock-on effect: what
an earlier decision would have changed is not carried on.
"""

import bisect
import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.domain import model, node_sets, snapshots, verdicts
from app.framework import cycles, pipeline, registry
from app.store import errors as store_errors
from app.store.decisions import records
from app.verbs.explain import explanations, recorded_configurations
from app.verbs.questions import errors, situations

CLASSES = ("refused", "admitted", "node", "nodes", "reason", "scores")
"""How an answer may differ, the gravest first."""
SAME = "same"
SKIPPED = ("error", "trimmed", "superseded", "configuration", "unrepeatable")
"""Why a decision cannot be compared."""
FACETS = ("verb", "namespace", "plugin", "object")
"""What those that would have been others are counted by; a decision concerns any number of objects."""
MOST_OBJECTS = 1000
"""Objects that are counted by name; the others share the empty one."""
MOST = 100_000
"""Decisions that one call compares."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayedAnswer:
    """What was answered, or would be."""

    kept: int
    reasons: Mapping[str, int]
    node: model.NodeName = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """One decision that would have been another."""

    decision: records.Decision
    difference: str
    """One of CLASSES."""
    was: ReplayedAnswer
    would: ReplayedAnswer


class Input(NamedTuple):
    """What the decisions of one configuration are repeated by."""

    plugins: registry.Registry
    supposed: situations.Supposition


class Replay:
    """Compares decisions one after the other, and counts."""

    def __init__(
        self,
        suppose: Callable[[registry.Registry], situations.Supposition],
        recorded: recorded_configurations.RecordedConfigurations,
        *,
        scores: bool,
        limit: int,
        first: Sequence[str] = (),
    ) -> None:
        """``suppose``: the situation for decisions of the given plugins; may raise Mistake.

        ``limit``: items that are kept: of the classes ``first``, then the gravest.
        """
        self._suppose = suppose
        self._recorded = recorded
        self._scores = scores
        self._limit = limit
        self._ranks = {name: rank for rank, name in enumerate(dict.fromkeys((*first, *CLASSES)))}
        self._inputs: dict[str, Input | None] = {}
        self._resolved: dict[str, situations.Resolved] = {}
        self._idle: set[int] | None = None
        self._unapplied: dict[int, str] | None = None
        self.examined = 0
        self.classes: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.by: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
        self.items: list[Item] = []
        """By class, each from the oldest decision."""

    @property
    def idle(self) -> list[int] | None:
        """The indexes of overrides that changed nothing at any decision; None before one is compared."""
        return None if self._idle is None or not self.examined else sorted(self._idle)

    @property
    def unapplied(self) -> dict[int, str] | None:
        """Of those, the ones that applied to no snapshot, with the latest reason; None as for ``idle``."""
        return None if self._unapplied is None or not self.examined else dict(self._unapplied)

    def incomparable(self, decision: records.Decision) -> str:
        """Why the decision cannot be compared, as far as its record shows; empty if it can."""
        if decision.error or decision.outcome == "error":
            return "error"
        return "" if self._input(decision.configuration) else "configuration"

    def skip(self, decision: records.Decision, cause: str) -> None:
        """Count a decision that cannot be compared; ``cause`` is one of SKIPPED."""
        if self._counts(decision):
            self.skipped[cause] += 1

    def compare(
        self, decision: records.Decision, candidates: node_sets.Names, snapshot: snapshots.Snapshot
    ) -> None:
        """Compare one decision; ``snapshot`` is the one at its position."""
        given = self._input(decision.configuration)
        if given is None:
            self.skip(decision, "configuration")
            return
        try:
            cycle = explanations.cycle_of(decision, candidates, snapshot, given.plugins)
        except store_errors.Shortened:
            self.skip(decision, "unrepeatable")
            return
        trace = self._trace(decision, cycle, given.plugins)
        was = _answer(decision, trace, cycle, given.plugins)
        if not _repeats(decision, was):
            self.skip(decision, "unrepeatable")
            return
        resolved = self._resolve(snapshot, given)
        if _without_victims(decision, resolved):
            self.skip(decision, "unrepeatable")
            return
        supposed, would = trace, was
        if resolved.snapshot is not snapshot or resolved.plugins is not given.plugins:
            changed = self._changed(decision, candidates, resolved)
            supposed = self._trace(decision, changed, resolved.plugins)
            would = _answer(decision, supposed, changed, resolved.plugins)
        self._compared(decision, candidates, resolved, (was, would))
        if not self._counts(decision):
            return
        self.examined += 1
        difference = self._difference(decision, (trace, was), (supposed, would))
        self.classes[difference] += 1
        if difference != SAME:
            self._note(Item(decision, difference, was, would), trace, supposed)

    def _trace(
        self, decision: records.Decision, cycle: cycles.Cycle, plugins: registry.Registry
    ) -> verdicts.Trace:
        """As explanations.trace_of, without scores that no difference can lie in."""
        match decision.verb:
            case "filter" if plugins.interested(cycle.pod):
                return pipeline.run_filter(plugins, cycle)
            case "prioritize" if not self._scores:
                return explanations.untouched(cycle)
            case _:
                return explanations.trace_of(decision, cycle, plugins)

    def _note(self, item: Item, was: verdicts.Trace, would: verdicts.Trace) -> None:
        decision = item.decision
        self.by["verb"][decision.verb] += 1
        self.by["namespace"][decision.pod.namespace] += 1
        refusing = {refusal.plugin for trace in (was, would) for refusal in trace.refusals}
        self.by["plugin"].update(sorted(refusing))
        named = self.by["object"]
        # As long as a shadow lives, pods name new groups.
        named.update(one if one in named or len(named) < MOST_OBJECTS else "" for one in decision.objects)
        self._keep(item)

    def _keep(self, item: Item) -> None:
        """Keep the item among those of its class, unless there are enough before it."""
        bisect.insort(self.items, item, key=lambda one: self._ranks[one.difference])
        del self.items[self._limit :]

    def _input(self, digest: str) -> Input | None:
        """How decisions of a configuration are repeated; None if they cannot be."""
        if digest not in self._inputs:
            plugins = self._recorded.find(digest)
            try:
                found = Input(plugins, self._suppose(plugins)) if plugins is not None else None
            except errors.Mistake:
                if plugins is self._recorded.present:
                    raise
                found = None  # The situation is about plugins that were not enabled then.
            self._inputs[digest] = found
        return self._inputs[digest]

    def _compared(
        self,
        decision: records.Decision,
        candidates: node_sets.Names,
        resolved: situations.Resolved,
        answers: tuple[ReplayedAnswer, ReplayedAnswer],
    ) -> None:
        """Called for each decision that was compared."""

    def _counts(self, _: records.Decision) -> bool:
        """Whether the numbers and the items include the decision."""
        return True

    def _resolve(self, snapshot: snapshots.Snapshot, given: Input) -> situations.Resolved:
        """The situation at a snapshot."""
        if given.supposed.nothing:
            resolved = situations.Resolved(snapshot, snapshot, given.plugins)
            self._observe(resolved)
            return resolved
        digest = given.plugins.digest
        found = self._resolved.get(digest)
        if found is None or found.base is not snapshot:
            found = self._resolved[digest] = situations.resolve(snapshot, given.supposed, strict=False)
            self._observe(found)
        return found

    def _observe(self, resolved: situations.Resolved) -> None:
        """Keep which overrides have had no effect so far."""
        idle, unapplied = set(resolved.idle), resolved.unapplied
        self._idle = idle if self._idle is None else self._idle & idle
        so_far = unapplied if self._unapplied is None else self._unapplied
        self._unapplied = {at: text for at, text in unapplied.items() if at in so_far}

    @staticmethod
    def _changed(
        decision: records.Decision, candidates: node_sets.Names, resolved: situations.Resolved
    ) -> cycles.Cycle:
        """The input of the decision in the situation: an override may have changed its pod, too."""
        uid = decision.pod.uid
        cycle = explanations.cycle_of(
            decision, resolved.offered(candidates), resolved.snapshot, resolved.plugins
        )
        supposed = resolved.snapshot.pods.get(uid)
        if supposed is None or supposed is resolved.base.pods.get(uid):
            return cycle
        return dataclasses.replace(cycle, pod=supposed)

    def _difference(
        self,
        decision: records.Decision,
        before: tuple[verdicts.Trace, ReplayedAnswer],
        after: tuple[verdicts.Trace, ReplayedAnswer],
    ) -> str:
        """The gravest class that holds."""
        (trace, was), (supposed, would) = before, after
        if trace is supposed:
            return SAME
        if decision.verb == "prioritize":
            return "scores" if self._scores and trace.totals != supposed.totals else SAME
        if was.kept and not would.kept:
            return "refused"
        if would.kept and not was.kept:
            return "admitted"
        if decision.verb == "filter_onlyone" and was.node != would.node:
            return "node"
        if not _same(trace.kept, supposed.kept):
            return "nodes"
        return "reason" if was.reasons != would.reasons else SAME


def _answer(
    decision: records.Decision,
    trace: verdicts.Trace,
    cycle: cycles.Cycle,
    plugins: registry.Registry,
) -> ReplayedAnswer:
    kept, node = trace.kept, decision.node
    if decision.verb == "filter_onlyone":
        narrowed = dataclasses.replace(cycle, candidates=kept)
        node = (pipeline.best(plugins, narrowed, trace) or "") if kept else ""
    number = min(len(kept), 1) if decision.verb == "filter_onlyone" else len(kept)
    return ReplayedAnswer(number, {refusal.reason: len(refusal.nodes) for refusal in trace.refusals}, node)


def _same(one: node_sets.Names, other: node_sets.Names) -> bool:
    """Whether the sets are equal: an interned set is compared with itself most of the time."""
    return one is other or one == other


def _without_victims(decision: records.Decision, resolved: situations.Resolved) -> bool:
    """Whether the situation deletes a victim of the preemption: kube-scheduler would name others there."""
    before, after = resolved.base.pods, resolved.snapshot.pods
    if decision.verb != "preempt" or before is after:
        return False
    return any(uid in before and uid not in after for uids in decision.victims.values() for uid in uids)


def _repeats(decision: records.Decision, was: ReplayedAnswer) -> bool:
    """Whether the answer computed on the log is the recorded one; prioritize records no scores."""
    if decision.verb not in (*explanations.ATTEMPTS, "bind", "preempt"):
        return True
    if decision.outcome == "bound":
        return was.kept > 0
    if decision.verb == "filter_onlyone" and decision.node != was.node:
        return False
    return decision.kept == was.kept and dict(decision.reasons) == dict(was.reasons)
