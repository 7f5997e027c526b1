"""Laws of replays over random histories: what changes nothing differs nowhere, alone and as a chain."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import events, model, projecting, snapshots
from app.framework import cycles, pipeline
from app.plugins.workload_policy import kinds
from app.store.decisions import records
from app.store.log import readers
from app.verbs.explain import recorded_configurations
from app.verbs.questions import asking, chaining, replaying, situations
from tests.support import declared
from tests.support.decisions import cluster_strategies, small_clusters

RULES = cluster_strategies.PLUGINS[10]
some = settings(max_examples=40, deadline=None)
KNOWN = [type(plugin) for plugin in RULES.plugins]


@dataclass(frozen=True)
class History:
    """A log, and the decisions that were taken on it."""

    base: snapshots.Snapshot
    entries: list[readers.Entry]
    decisions: list[tuple[records.Decision, frozenset[str]]]

    def at(self, offset: int) -> snapshots.Snapshot:
        happened = [entry.event for entry in self.entries if entry.offset <= offset]
        return projecting.project_all(self.base, happened)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Pods come, are tried on some of the nodes, placed with or without the verb bind, observed, and end."""
    base = draw(cluster_strategies.worlds())
    made = _Making(base)
    for number in range(draw(st.integers(1, 5))):
        pod = small_clusters.pod(
            f"new{number}", draw(st.sampled_from([small_clusters.REPLICA, {}])), node="", nominated=""
        )
        made.append(events.PodSeen(pod=pod))
        kept = made.attempt(pod, draw(cluster_strategies.candidates) & frozenset(made.snapshot.nodes))
        if draw(st.booleans()):
            made.append(declared.observed(draw(cluster_strategies.policies())))
            kept = made.attempt(pod, kept)
        if not kept:
            continue
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
        self.snapshot = projecting.project(self.snapshot, event)
        offset = self.snapshot.offset
        self.entries.append(readers.Entry(offset, 1000 * offset, event))

    def attempt(self, pod: model.Pod, offered: frozenset[str]) -> frozenset[str]:
        cycle = cycles.cycle(pod, offered, self.snapshot, score_max=RULES.score_max)
        interested = RULES.interested(pod)
        trace = pipeline.run(RULES, cycle)
        kept = frozenset(trace.kept if interested else offered)
        refusals = trace.refusals if interested else ()
        decision = records.Decision(
            id=f"{1000 * self.snapshot.offset}-{len(self.decisions)}",
            position=self.snapshot.position,
            verb="filter",
            pod=pod,
            configuration=RULES.digest,
            kept=len(kept),
            outcome="kept" if kept else "refused",
            at="2026-07-01T10:00:00Z",
            milliseconds=1.0,
            reasons={refusal.reason: len(refusal.nodes) for refusal in refusals},
            candidates=b"",
            count=len(offered),
        )
        self.decisions.append((decision, offered))
        return kept


def suppose(*overrides: dict[str, Any]) -> situations.Hypothesis:
    """A situation with a configuration, so that decisions are computed in it although it changes nothing."""
    asked = asking.Situation(overrides=list(overrides), configuration=asking.Configuration())
    return situations.hypothesis(asked, RULES, KNOWN)


def recorded(history: History) -> recorded_configurations.RecordedConfigurations:
    return recorded_configurations.RecordedConfigurations(RULES, KNOWN, lambda: history.base)


def played(history: History, supposed: situations.Hypothesis, choice: asking.Choice) -> chaining.Chain:
    run = chaining.Chain(
        lambda _: supposed, recorded(history), history.base, choice=choice, scores=False, limit=100
    )
    waiting = history.entries
    for decision, offered in history.decisions:
        upto = [entry for entry in waiting if entry.offset <= decision.position.offset]
        waiting = waiting[len(upto) :]
        run.advance(upto)
        assert run.was.snapshot.position == decision.position
        run.look(decision, offered, run.was.snapshot)
    run.advance(waiting)
    return run


def nodes_of(snapshot: snapshots.Snapshot) -> dict[str, str]:
    return {uid: snapshot.node_of(uid) for uid in (*snapshot.pods, *snapshot.placements)}


def differing(run: replaying.Replay) -> Iterator[str]:
    return (name for name in replaying.CLASSES if run.classes[name])


@pytest.mark.scenario("WI-4")
@some
@given(history=histories())
def test_a_replay_that_changes_nothing_differs_nowhere(history: History) -> None:
    run = replaying.Replay(lambda _: suppose(), recorded(history), scores=False, limit=100)
    for decision, offered in history.decisions:
        run.look(decision, offered, history.at(decision.position.offset))
    assert (list(differing(run)), run.looked) == ([], len(history.decisions))


@pytest.mark.scenario("WI-4")
@some
@given(history=histories())
def test_a_chain_that_changes_nothing_is_the_log(history: History) -> None:
    run = played(history, suppose(), "recorded")
    end = history.at(history.base.offset + len(history.entries))
    assert (list(differing(run)), run.looked) == ([], len(history.decisions))
    for found in (run.was.snapshot, run.would.snapshot):
        assert (found.position, found.counts, nodes_of(found)) == (end.position, end.counts, nodes_of(end))
        assert (found.nodes, found.objects, found.waiting) == (end.nodes, end.objects, end.waiting)
    numbers = run.placements.numbers()
    assert numbers == {"same": numbers["same"], "elsewhere": 0, "onlyThen": 0, "onlyNow": 0}


@pytest.mark.scenario("WI-6")
@some
@given(
    history=histories(),
    change=st.sampled_from(["+1", "-1", 0, 9]),
    choice=st.sampled_from(["recorded", "best"]),
)
def test_the_counts_of_a_chain_are_those_of_its_pods(
    history: History, change: str | int, choice: asking.Choice
) -> None:
    """Whatever is supposed: the pods of the end, counted from nothing."""
    policy = f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}"
    run = played(
        history,
        suppose({"op": "scalePolicy", "policy": policy, "allocations": {"a": change, "b": change}}),
        choice,
    )
    would = run.would.snapshot
    seen: list[events.AnyEvent] = [events.NodeSeen(node=node) for node in would.nodes.values()]
    seen += [declared.observed(found) for found in would.all(kinds.POLICIES).values()]
    for uid, node in nodes_of(would).items():
        pod = would.pod(uid)
        assert pod is not None
        seen.append(events.PodSeen(pod=msgspec.structs.replace(pod, node=node)))
    again = projecting.project_all(snapshots.empty(schema=declared.SCHEMA, indexed=would.indexed), seen)
    assert again.counts == would.counts
    numbers = run.placements.numbers()
    if not (numbers["elsewhere"] or numbers["onlyThen"] or numbers["onlyNow"]):
        assert nodes_of(would) == nodes_of(run.was.snapshot)
