"""Transformers change what the other plugins judge, in the operator's order, and nothing beside."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import model, verdicts
from app.framework import capabilities, cycles, pipeline, plans, registry, transformer_chain
from app.plugins.elastic_quota.plugin import ElasticQuota
from tests.support.decisions import commitments, fake_plugins, fake_transformers, scheduling_driver
from tests.support.decisions.small_quotas import CORE, node, pod, quota

NODES = ("n1", "n2", "n3", "n4", "n5")
X = "n4", "n5"
"""The nodes with the label x."""


def cluster(*configured: capabilities.Plugin, most: int = 2) -> scheduling_driver.Cluster:
    nodes = [node(name, 8, labels={"x": ""} if name in X else {}) for name in NODES]
    return scheduling_driver.Cluster(*nodes, quota("q", 0, most), configured=configured)


def cycle(small: scheduling_driver.Cluster, asking: model.Pod, over: tuple[str, ...] = NODES) -> cycles.Cycle:
    return cycles.cycle(asking, frozenset(over), small.snapshot)


GROWING, NARROWING = fake_transformers.Growing(), fake_transformers.Narrowing()
EVERYWHERE = fake_plugins.Scoring(given={5: frozenset(NODES)})


@pytest.mark.scenario("TR-1")
@pytest.mark.parametrize("order", [(GROWING, NARROWING), (NARROWING, GROWING)], ids=["growing", "narrowing"])
def test_all_verbs_judge_the_pod_and_the_candidates_as_transformed(
    order: tuple[capabilities.Plugin, ...],
) -> None:
    asking = pod("p", 2, "q")
    small = cluster(*order, ElasticQuota(), EVERYWHERE, most=3)
    trace = small.filter(asking)
    assert (trace.pod, trace.candidates, trace.kept) == (asking, frozenset(NODES), frozenset(NODES) - {*X})
    assert trace.reasons() == dict.fromkeys(X, "transformer Narrowing leaves the node out")
    changed = {one.plugin: one.changed for one in trace.transformed}
    assert changed == {"Growing": ("pod.requests.cpu",), "Narrowing": ("candidates -2",)}
    assert list(changed) == [plugin.name for plugin in order]
    assert small.score(asking) == {name: 0 if name in X else 5 for name in NODES}
    made = commitments.of(small.plugins, cycle(small, asking, ("n1",)), "n1")
    assert made.placements[0].pod == asking
    refused = cluster(*order, ElasticQuota(), most=2)
    assert refused.filter(asking).kept == set()
    assert "elastic quota q: no capacity in cpu" in refused.filter(asking).reasons().values()


DEFECTS: dict[str, tuple[Callable[[cycles.Cycle], object], str]] = {
    "another node": (
        lambda given: replace(given, candidates=given.candidates | {"n9"}),
        "it returned node n9, which was not offered",
    ),
    "another pod": (
        lambda given: replace(given, pod=msgspec.structs.replace(given.pod, uid="other")),
        "it changed the identity of the pod, its node or the scale of scores",
    ),
    "another position": (
        lambda given: replace(
            given, snapshot=replace(given.snapshot, position=model.Position(incarnation="x", offset=9))
        ),
        "it changed the position of the snapshot",
    ),
    "no cycle": (lambda given: "done", "it returned a str, not a cycle"),
    "an error": (lambda given: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
}


@pytest.mark.scenario("TR-2")
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_a_transformer_is_its_own(defect: str) -> None:
    does, problem = DEFECTS[defect]
    small = cluster(fake_transformers.Misbehaving(does=does), ElasticQuota())
    with pytest.raises(transformer_chain.TransformFailed) as failed:
        small.filter(pod("p", 1, "q"))
    assert str(failed.value) == f"transformer Misbehaving failed: {problem}"
    assert failed.value.plugin == "Misbehaving"


@pytest.mark.scenario("TR-3")
def test_a_transformer_may_refuse_the_pod_and_no_other_plugin_is_asked() -> None:
    def fail(given: cycles.Cycle) -> object:
        raise AssertionError("asked")

    late = fake_transformers.Misbehaving(does=fail)
    everywhere = fake_plugins.Filtering(refused=frozenset(NODES))
    small = cluster(fake_transformers.Refusing(), late, everywhere)
    (refusal,) = small.filter(pod("p")).refusals
    assert (refusal.plugin, refusal.reason, refusal.nodes) == (
        "Refusing",
        "closed for today",
        frozenset(NODES),
    )


@pytest.mark.scenario("TR-4")
def test_a_view_of_nodes_is_asked_for_these_nodes_and_each_pass() -> None:
    viewed = frozenset(("n1", "n2", "n3", "gone"))
    emptying = fake_transformers.Emptying(nodes=viewed)
    small = cluster(emptying, fake_plugins.Filtering(crowded=True))
    small.see(*(pod(f"on-{name}", node=name) for name in NODES))
    trace = small.filter(pod("p"))
    assert emptying.asked == ["n1", "n2", "n3"]
    assert trace.kept == {"n1", "n2", "n3"}
    assert [str(one) for one in trace.transformed] == ["Emptying (view of n1, view of n2, view of n3)"]
    emptying.asked.clear()
    small.see(pod("nominee", nominated="n2", priority=9))
    assert small.filter(pod("p")).kept == {"n1", "n2", "n3"}
    assert len(emptying.asked) == 6


def test_views_that_are_refused_alike_are_one_refusal() -> None:
    emptying = fake_transformers.Emptying(nodes=frozenset(("n1",)))
    small = cluster(emptying, fake_plugins.Filtering(refused=frozenset(("n1", "n2")), reason="never"))
    small.see(pod("there", node="n1"))
    (refusal,) = small.filter(pod("p")).refusals
    assert (refusal.reason, refusal.nodes) == ("never (0 held)", frozenset(("n1", "n2")))


@pytest.mark.scenario("TR-5")
def test_a_commitment_counts_the_pod_as_transformed() -> None:
    asking = pod("p", 2, "q")
    small = cluster(GROWING, ElasticQuota(runtime=False), most=5)
    made = commitments.of(small.plugins, cycle(small, asking, ("n1",)), "n1")
    # The count will rise by 2, for the pod as it is: that there is capacity for 3 must hold before.
    assert made.ceilings["quota||q|cpu"] == 4 * CORE
    full = cluster(GROWING, ElasticQuota(), most=2)
    assert full.why(asking) == "elastic quota q: no capacity in cpu"


@pytest.mark.scenario("TR-6")
def test_a_preemption_is_judged_by_the_pod_as_transformed() -> None:
    victim = pod("victim", 2, "q", node="n1")
    without, transformed = cluster(ElasticQuota(), most=2), cluster(GROWING, ElasticQuota(), most=2)
    without.see(victim)
    transformed.see(victim)
    asking = pod("p", 2, "q", priority=10)
    assert without.veto(asking, "n1", victim) is None
    assert transformed.veto(asking, "n1", victim) == "elastic quota q: no capacity in cpu"


def test_candidates_left_out_of_scoring_are_kept_and_have_no_score() -> None:
    class Rating(fake_plugins.Scoring):
        def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
            return verdicts.Rating({7: cycle.candidates})

    leaving = fake_plugins.TransformingScores(dropped=frozenset(("n1",)))
    small = cluster(leaving, Rating())
    trace = pipeline.run(small.plugins, cycle(small, pod("p")))
    assert trace.kept == set(NODES)
    assert (trace.score_of("n1"), trace.score_of("n2")) == (0, 7)
    assert [str(one) for one in trace.transformed] == ["TransformingScores (candidates -1)"]
    assert pipeline.best(small.plugins, cycle(small, pod("p")), trace) in set(NODES) - {"n1"}


def test_the_order_of_each_phase_is_the_operators() -> None:
    chosen = registry.Registry(
        [NARROWING, fake_transformers.Emptying(), GROWING, fake_plugins.TransformingScores()]
    )
    assert transformer_chain.order(chosen) == {
        "filter": ("Narrowing", "Growing"),
        "node": ("Emptying",),
        "score": ("TransformingScores",),
    }


TRANSFORMERS = st.lists(
    st.sampled_from(
        [
            GROWING,
            NARROWING,
            fake_transformers.Refusing(),
            fake_transformers.Emptying(nodes=frozenset(("n1", "n3"))),
            fake_plugins.TransformingScores(dropped=frozenset(("n2",))),
        ]
    ),
    unique_by=lambda one: one.name,
)


@given(
    chosen=TRANSFORMERS,
    offered=st.sets(st.sampled_from(NODES), min_size=1),
    used=st.integers(0, 4),
    most=st.integers(0, 8),
)
def test_transformed_decisions_are_functions_of_their_input(
    chosen: list[capabilities.Plugin], offered: set[str], used: int, most: int
) -> None:
    small = cluster(*chosen, ElasticQuota(), most=most)
    small.see(pod("there", used, "q", node="n1"))
    before, asked = small.snapshot, cycle(small, pod("p", 2, "q"), tuple(offered))
    first, second = pipeline.run(small.plugins, asked), pipeline.run(small.plugins, asked)
    assert first == second
    assert small.snapshot is before
    assert (first.pod, first.candidates, first.position) == (asked.pod, asked.candidates, before.position)
    assert first.kept | first.refused == offered
    assert not first.kept & first.refused
    once = transformer_chain.before_filter(small.plugins, asked)
    assert once.cycle.candidates <= asked.candidates
    assert once.cycle.snapshot.position == before.position
    for name in first.kept:
        made = plans.commitment(small.plugins, replace(asked, candidates=frozenset((name,))), name)
        assert isinstance(made, plans.Commitment)
        assert made.placements[0].pod is asked.pod
