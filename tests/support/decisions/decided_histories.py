"""Random histories of a small cluster, with the decisions that were taken on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.framework import cycles, pipeline
from app.store.decisions import records
from app.store.log import readers
from app.verbs.explain import recorded_configurations
from app.verbs.questions import question_schema, situations
from tests.support import declared
from tests.support.decisions import cluster_strategies, small_clusters

RULES = cluster_strategies.PLUGINS[10]
KNOWN = [type(plugin) for plugin in RULES.plugins]


LABELS = (small_clusters.REPLICA, {**small_clusters.REPLICA, cluster_strategies.GROUP: "x"})
"""Of the pods that plugins are interested in."""


@dataclass(frozen=True)
class History:
    """A log, and the decisions that were taken on it."""

    base: snapshots.Snapshot
    entries: list[readers.Entry]
    decisions: list[tuple[records.Decision, frozenset[str]]]

    def at(self, offset: int) -> snapshots.Snapshot:
        happened = [entry.event for entry in self.entries if entry.offset <= offset]
        return projections.project_all(self.base, happened)


@st.composite
def histories(
    draw: st.DrawFn, between: Sequence[events.AnyEvent] = (), least: int = 1, most: int = 5
) -> History:
    """Pods come, are tried on some of the nodes, placed with or without the verb bind, observed, and end.

    ``between``: events that happen at a random moment of the first half; ``least`` and ``most``: pods.
    """
    base = draw(cluster_strategies.worlds())
    made = _Making(base)
    pods = draw(st.integers(least, most))
    moment, seen_first = draw(st.integers(0, pods // 2)), draw(st.booleans())
    for number in range(pods):
        labels = draw(st.sampled_from([*LABELS, {}]))
        pod = small_clusters.pod(f"new{number}", labels, node="", nominated="")
        happened = [events.PodSeen(pod=pod), *(between if number == moment else ())]
        for event in happened if seen_first else reversed(happened):
            made.append(event)
        known = frozenset(made.snapshot.nodes)
        kept = made.attempt(pod, draw(st.one_of(st.just(known), cluster_strategies.candidates)) & known)
        if draw(st.booleans()):
            made.append(declared.observed(draw(cluster_strategies.policies())))
            kept = made.attempt(pod, kept)
        if not kept:
            continue
        if draw(st.booleans()):
            made.score(pod, kept)
        node = draw(st.sampled_from(sorted(kept)))
        if draw(st.booleans()):
            placement = model.Placement(pod=pod, node=node)
            made.append(events.PlacementsCommitted(placements=(placement,)))
        made.append(events.PodSeen(pod=msgspec.structs.replace(pod, node=node, phase="Running")))
        if draw(st.booleans()):
            done = msgspec.structs.replace(pod, node=node, phase="Succeeded")
            made.append(events.PodSeen(pod=done))
        if draw(st.integers(0, 3)) == 0:
            made.append(events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name))
    return History(base, made.entries, made.decisions)


class _Making:
    def __init__(self, base: snapshots.Snapshot) -> None:
        self.snapshot = base
        self.entries: list[readers.Entry] = []
        self.decisions: list[tuple[records.Decision, frozenset[str]]] = []

    def append(self, event: events.AnyEvent) -> None:
        self.snapshot = projections.project(self.snapshot, event)
        offset = self.snapshot.offset
        self.entries.append(readers.Entry(offset, 1000 * offset, event))

    def attempt(self, pod: model.Pod, offered: frozenset[str]) -> frozenset[str]:
        cycle = cycles.cycle(pod, offered, self.snapshot, score_max=RULES.score_max)
        interested = RULES.interested(pod)
        trace = pipeline.run(RULES, cycle)
        kept = frozenset(trace.kept if interested else offered)
        refusals = trace.refusals if interested else ()
        outcome = "kept" if kept else "refused"
        reasons = {refusal.reason: len(refusal.nodes) for refusal in refusals}
        self._decided("filter", pod, outcome, offered, kept=len(kept), reasons=reasons)
        return kept

    def score(self, pod: model.Pod, kept: frozenset[str]) -> None:
        self._decided("prioritize", pod, "scored", kept, kept=len(kept), reasons={})

    def _decided(
        self,
        verb: str,
        pod: model.Pod,
        outcome: str,
        offered: frozenset[str],
        *,
        kept: int,
        reasons: dict[str, int],
    ) -> None:
        decision = records.Decision(
            id=f"{1000 * self.snapshot.offset}-{len(self.decisions)}",
            position=self.snapshot.position,
            verb=verb,
            pod=pod,
            configuration=RULES.digest,
            kept=kept,
            outcome=outcome,
            at="2026-07-01T10:00:00Z",
            milliseconds=1.0,
            reasons=reasons,
            candidates=b"",
            count=len(offered),
        )
        self.decisions.append((decision, offered))


def suppose(*overrides: dict[str, Any]) -> situations.Supposition:
    """A situation with a configuration, so that decisions are computed in it although it changes nothing."""
    asked = question_schema.Situation(
        overrides=list(overrides), configuration=question_schema.Configuration()
    )
    return situations.hypothesis(asked, RULES, KNOWN)


def recorded(history: History) -> recorded_configurations.RecordedConfigurations:
    return recorded_configurations.RecordedConfigurations(RULES, KNOWN, lambda: history.base)
