"""Laws of replays over random histories: what changes nothing differs nowhere, alone and as a chain."""

from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import events, projections, snapshots
from app.plugins.workload_policy import kinds
from app.store.decisions import records
from app.verbs.questions import question_schema, replays, situations
from app.verbs.questions.chains import chains
from app.verbs.questions.chains import histories as chain_histories
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import small_clusters
from tests.support.decisions.decided_histories import History, histories, recorded, suppose

some = settings(max_examples=sizes.examples(40), deadline=None)


def played(
    history: History,
    supposed: situations.Supposition,
    choice: question_schema.Choice,
    counted: Callable[[records.Decision], bool] = lambda _: True,
) -> chains.Chain:
    run = chains.Chain(
        lambda _: supposed,
        recorded(history),
        history.base,
        choice=choice,
        scores=False,
        limit=100,
        counted=counted,
    )
    waiting = history.entries
    for decision, offered in history.decisions:
        upto = [entry for entry in waiting if entry.offset <= decision.position.offset]
        waiting = waiting[len(upto) :]
        run.advance(upto)
        assert run.was.snapshot.position == decision.position
        run.compare(decision, offered, run.was.snapshot)
    run.advance(waiting)
    return run


def nodes_of(snapshot: snapshots.Snapshot) -> dict[str, str]:
    return {uid: snapshot.node_of(uid) for uid in (*snapshot.pods, *snapshot.placements)}


def differing(run: replays.Replay) -> Iterator[str]:
    return (name for name in replays.CLASSES if run.classes[name])


@pytest.mark.scenario("WI-4")
@some
@given(history=histories())
def test_a_replay_that_changes_nothing_differs_nowhere(history: History) -> None:
    run = replays.Replay(lambda _: suppose(), recorded(history), scores=False, limit=100)
    for decision, offered in history.decisions:
        run.compare(decision, offered, history.at(decision.position.offset))
    assert (list(differing(run)), run.examined) == ([], len(history.decisions))


@pytest.mark.scenario("WI-4")
@some
@given(history=histories())
def test_a_chain_that_changes_nothing_is_the_log(history: History) -> None:
    run = played(history, suppose(), "recorded")
    end = history.at(history.base.offset + len(history.entries))
    assert (list(differing(run)), run.examined) == ([], len(history.decisions))
    for found in (run.was.snapshot, run.would.snapshot):
        assert (found.position, found.counts, nodes_of(found)) == (end.position, end.counts, nodes_of(end))
        assert (found.nodes, found.objects, found.waiting) == (end.nodes, end.objects, end.waiting)
    numbers = run.placements.numbers()
    assert numbers == {"same": numbers["same"], "elsewhere": 0, "onlyThen": 0, "onlyNow": 0}


@pytest.mark.scenario("WI-6")
@some
@given(history=histories())
def test_the_peaks_of_a_chain_are_those_of_every_event(history: History) -> None:
    """However many events lie between two decisions."""
    run = played(history, suppose(), "recorded")
    peaks: dict[str, chain_histories.Peak] = {}
    for offset in range(history.base.offset, history.base.offset + len(history.entries) + 1):
        for key, value in history.at(offset).counts.items():
            if key not in peaks or value > peaks[key].value:
                peaks[key] = chain_histories.Peak(value, offset)
    for found in (run.was.peaks, run.would.peaks):
        assert {key: peak for key, peak in found.items() if peak.value} == peaks


@pytest.mark.scenario("WI-6")
@some
@given(
    history=histories(),
    change=st.sampled_from(["+1", "-1", 0, 9]),
    choice=st.sampled_from(["recorded", "best"]),
)
def test_the_counts_of_a_chain_are_those_of_its_pods(
    history: History, change: str | int, choice: question_schema.Choice
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
    again = projections.project_all(snapshots.empty(schema=declared.SCHEMA, indexed=would.indexed), seen)
    assert again.counts == would.counts
    numbers = run.placements.numbers()
    if not (numbers["elsewhere"] or numbers["onlyThen"] or numbers["onlyNow"]):
        assert nodes_of(would) == nodes_of(run.was.snapshot)


BOUND: list[events.AnyEvent] = [
    events.NodeSeen(node=small_clusters.node("n0", {small_clusters.KEY: "a"})),
    events.PodSeen(pod=small_clusters.pod("bound", small_clusters.REPLICA, node="n0")),
    events.NodeGone(name="n1", uid="uid-n1"),
]
"""A node joins or is observed again, a pod is bound to it by other means, and another node is deleted."""


@pytest.mark.scenario("WI-6")
@some
@given(
    history=histories(BOUND),
    choice=st.sampled_from(["recorded", "best"]),
    removed=st.sampled_from([["n0"], ["n0", "n1"]]),
)
def test_no_pod_of_a_chain_is_on_a_node_that_does_not_exist(
    history: History, choice: question_schema.Choice, removed: list[str]
) -> None:
    """Unless the log has it there: its end has not arrived yet."""
    if any(name not in history.base.nodes for name in removed):
        removed = ["n0"]  # An override of several nodes applies once all of them exist.
    run = played(history, suppose({"op": "removeNodes", "nodes": removed}), choice)
    was, would = run.was.snapshot, run.would.snapshot
    found = {uid: node for uid, node in nodes_of(would).items() if node and node not in would.nodes}
    there = {uid: node for uid, node in found.items() if node not in removed and was.node_of(uid) == node}
    assert found == there
    # An override holds, whatever the log deletes.
    assert [name for name in removed if name in would.nodes] == []


@pytest.mark.scenario("WI-6")
@some
@given(history=histories(), change=st.sampled_from(["-1", 0, 9]))
def test_the_parts_of_a_chain_are_counted_apart_and_played_together(
    history: History, change: str | int
) -> None:
    policy = f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}"
    supposed = suppose({"op": "scalePolicy", "policy": policy, "allocations": {"a": change, "b": change}})
    whole = played(history, supposed, "recorded")
    filters = played(history, supposed, "recorded", lambda one: one.verb == "filter")
    others = played(history, supposed, "recorded", lambda one: one.verb != "filter")
    assert filters.classes + others.classes == whole.classes
    assert filters.examined + others.examined == whole.examined
    for part in (filters, others):
        assert part.would.snapshot.counts == whole.would.snapshot.counts
        assert nodes_of(part.would.snapshot) == nodes_of(whole.would.snapshot)
        assert part.placements == whole.placements
