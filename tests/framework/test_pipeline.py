"""The decision pipeline over fake plugins: filter, score, best node and vetoes."""

import collections
import itertools
import random
from collections.abc import Iterable, Mapping

import pytest

from app.domain import model, node_sets, projections, snapshots, verdicts
from app.domain.events import NodeSeen, PodSeen, placed
from app.framework import cycles, pipeline, registry
from tests.support import declared
from tests.support.decisions import fake_plugins

NODES = ("a", "b", "c", "d")
POD = model.Pod(uid="uid-p", namespace="ns", name="p", priority=5)


def names(text: str) -> node_sets.Names:
    return frozenset(text)


def cycle(*pods: model.Pod, pod: model.Pod = POD, over: str = "abcd") -> cycles.Cycle:
    nodes = [NodeSeen(node=model.Node(name=name, uid=f"uid-{name}")) for name in NODES]
    snapshot = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA), [*nodes, *(PodSeen(pod=other) for other in pods)]
    )
    return cycles.cycle(pod, names(over), snapshot)


def nominee(name: str, node: str, priority: int = 5) -> model.Pod:
    return model.Pod(uid=f"uid-{name}", namespace="ns", name=name, nominated=node, priority=priority)


def resident(name: str, node: str) -> model.Pod:
    return model.Pod(uid=f"uid-{name}", namespace="ns", name=name, node=node)


# -- filter --------------------------------------------------------------------------------


def test_every_interested_filter_runs_and_the_first_gives_the_reason() -> None:
    plugins = registry.Registry(
        [
            fake_plugins.Filtering(name="One", refused=names("ab"), reason="one"),
            fake_plugins.Filtering(name="Bored", refused=names("abcd"), label="other"),
            fake_plugins.Filtering(name="Two", refused=names("bc"), reason="two"),
        ]
    )
    trace = pipeline.run_filter(plugins, cycle())
    assert trace.interested == ("One", "Two")
    assert (trace.refused, trace.kept) == (names("abc"), names("d"))
    assert [refusal.plugin for refusal in trace.refusals] == ["One", "Two"]
    assert {node: reason[:3] for node, reason in trace.reasons().items()} == {
        "a": "one",
        "b": "one",
        "c": "two",
    }


def test_a_refusal_of_no_node_is_left_out() -> None:
    trace = pipeline.run_filter(registry.Registry([fake_plugins.Filtering()]), cycle())
    assert (trace.refusals, trace.kept) == ((), names("abcd"))


def test_nominated_pods_count_in_a_first_pass() -> None:
    plugins = registry.Registry([fake_plugins.Filtering(crowded=True)])
    trace = pipeline.run_filter(plugins, cycle(nominee("n", "a"), nominee("low", "b", priority=4)))
    assert trace.refused == names("a")
    assert trace.assumed == ("ns/n",)


def test_what_passes_must_also_pass_without_the_nominated() -> None:
    """A node refused in either pass is refused, with the reason of the first and the details of both."""
    plugins = registry.Registry([fake_plugins.Filtering(lonely=True)])
    here = cycle(nominee("n", "a"), resident("r", "b"))
    trace = pipeline.run_filter(plugins, here)
    assert trace.kept == names("b")
    (refusal,) = trace.refusals
    assert refusal.reason == "refused (2 held)"
    assert refusal.nodes == names("acd")


def test_merging_keeps_the_order_of_plugins() -> None:
    plugins = registry.Registry(
        [
            fake_plugins.Filtering(name="Second", lonely=True),
            fake_plugins.Filtering(name="First", crowded=True),
        ]
    )
    all_held = cycle(*(nominee(f"n-{node}", node) for node in NODES))
    trace = pipeline.run_filter(plugins, all_held)
    # With the nominated only First refuses, without them only Second does.
    assert {refusal.plugin for refusal in trace.refusals} == {"First", "Second"}
    assert trace.kept == node_sets.NONE


def test_plugins_receive_the_transformed_cycle() -> None:
    plugins = registry.Registry(
        [
            fake_plugins.Transforming(dropped=names("ab")),
            fake_plugins.Filtering(refused=names("bc")),
            fake_plugins.Scoring(given={3: names("ad")}),
        ]
    )
    assert pipeline.run_filter(plugins, cycle()).kept == names("d")
    assert pipeline.run(plugins, cycle()).totals == {3: names("d")}


# -- score ---------------------------------------------------------------------------------


def test_scores_are_weighed_and_summed() -> None:
    one = fake_plugins.Scoring(name="One", given={10: names("ab"), 3: names("c")})
    two = fake_plugins.Scoring(name="Two", given={2: names("bc")})
    plugins = registry.Registry([one, two], weights={"Two": 5})
    trace = pipeline.run_score(plugins, cycle())
    assert {node: trace.score_of(node) for node in NODES} == {"a": 10, "b": 20, "c": 13, "d": 0}
    assert [(rating.plugin, rating.weight) for rating in trace.ratings] == [("One", 1), ("Two", 5)]


def test_a_single_rating_is_weighted_like_several() -> None:
    rating = verdicts.Rating({10: names("ab"), 0: names("c"), 7: node_sets.NONE}, weight=3)
    assert verdicts.weighed([rating]) == verdicts.weighed([rating, verdicts.Rating({})]) == {30: names("ab")}


@pytest.mark.parametrize("others", [(), (verdicts.Rating({}),)], ids=["alone", "among others"])
def test_sums_stay_readable_for_the_scheduler(others: tuple[verdicts.Rating, ...]) -> None:
    top = 2**63 - 1
    rating = verdicts.Rating({top: names("a"), top - 1: names("b"), -top: names("c")}, weight=9)
    assert verdicts.weighed([rating, *others]) == {top: names("ab"), -(2**63): names("c")}


def test_sums_of_zero_are_left_out() -> None:
    ratings = [verdicts.Rating({4: names("ab")}), verdicts.Rating({-4: names("a")})]
    assert verdicts.weighed(ratings) == {4: names("b")}


def test_only_kept_nodes_are_scored_in_a_whole_run() -> None:
    plugins = registry.Registry(
        [
            fake_plugins.Filtering(refused=names("a")),
            fake_plugins.Scoring(given={9: names("a"), 1: names("b")}),
        ]
    )
    trace = pipeline.run(plugins, cycle())
    assert trace.totals == {1: names("b")}
    assert trace.refused == names("a")


# -- the best node -------------------------------------------------------------------------


def best(plugins: registry.Registry, here: cycles.Cycle) -> str | None:
    return pipeline.best(plugins, here, pipeline.run(plugins, here))


def test_the_highest_sum_is_best() -> None:
    plugins = registry.Registry([fake_plugins.Scoring(given={5: names("b"), 4: names("acd")})])
    assert best(plugins, cycle()) == "b"


def test_a_score_of_zero_beats_a_negative_score() -> None:
    plugins = registry.Registry([fake_plugins.Scoring(given={-5: names("abd")})])
    assert best(plugins, cycle()) == "c"
    assert best(plugins, cycle(over="ab")) in {"a", "b"}


def test_without_a_kept_node_there_is_no_best_node() -> None:
    assert best(registry.Registry([fake_plugins.Filtering(refused=names("abcd"))]), cycle()) is None


def test_ranks_decide_among_equals_in_plugin_order() -> None:
    scoring = fake_plugins.Scoring(given={5: names("abc")})
    one = fake_plugins.Ranking(name="One", order={"a": 1, "d": -9})
    two = fake_plugins.Ranking(name="Two", order={"b": 1})
    assert best(registry.Registry([scoring, one, two]), cycle()) == "c"


def test_ranks_are_asked_for_the_nodes_that_the_plugins_before_left() -> None:
    one = fake_plugins.Ranking(name="One", order={"a": 1})
    plugins = registry.Registry([one, fake_plugins.RankingFirst(name="Two")])
    pods = [model.Pod(uid=f"uid-{number}", namespace="ns", name="p") for number in range(20)]
    assert {best(plugins, cycle(pod=pod)) for pod in pods} == {"b"}


def test_ties_are_broken_independently_of_order_and_spread_over_pods() -> None:
    plugins, dice = registry.Registry([fake_plugins.Idle()]), random.Random(3)
    found = set()
    for number in range(60):
        pod = model.Pod(uid=f"uid-{number}", namespace="ns", name=f"p-{number}")
        order = list(NODES)
        dice.shuffle(order)
        answers = {
            best(plugins, cycle(pod=pod, over="".join(some))) for some in itertools.permutations(order)
        }
        assert len(answers) == 1
        found |= answers
    assert found == set(NODES)


def spread(nodes: Iterable[str]) -> Mapping[str, str]:
    """Pod -> its node among equals, for 2,000 pods."""
    plugins = registry.Registry([fake_plugins.Idle()])
    world = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA),
        [NodeSeen(node=model.Node(name=one, uid=one)) for one in nodes],
    )
    found = {}
    for number in range(2_000):
        pod = model.Pod(uid=f"00000000-0000-4000-8000-{number:012x}", namespace="ns", name=f"p-{number}")
        found[pod.uid] = best(plugins, cycles.cycle(pod, frozenset(world.nodes), world)) or ""
    return found


def test_among_equals_every_node_gets_as_many_pods() -> None:
    names = [f"ip-10-0-0-{number}.compute.internal" for number in range(20)]
    counts = collections.Counter(spread(names).values())
    # Five times the standard deviation of 100 pods a node.
    assert set(counts) == set(names)
    assert 50 < min(counts.values()) <= max(counts.values()) < 150


def test_a_further_node_takes_pods_from_the_others_and_moves_no_other_pod() -> None:
    names = [f"n-{number}" for number in range(10)]
    before, after = spread(names), spread([*names, "n-new"])
    moved = {uid: node for uid, node in after.items() if node != before[uid]}
    assert set(moved.values()) == {"n-new"}
    assert 90 < len(moved) < 280


# -- vetoes --------------------------------------------------------------------------------


def test_a_plugin_may_veto_for_a_preemptor_that_concerns_no_plugin() -> None:
    here = cycle(resident("v", "a"))
    victim = [resident("v", "a")]
    assert (
        pipeline.veto(registry.Registry([fake_plugins.Preempting(label="other")]), here, "a", victim) == "no"
    )
    assert pipeline.veto(registry.Registry([fake_plugins.Preempting(reason=None)]), here, "a", victim) is None


def test_an_eviction_without_effect_is_vetoed_with_the_remaining_reason() -> None:
    plugins = registry.Registry([fake_plugins.Filtering(crowded=True)])
    here = cycle(resident("v", "a"), resident("w", "a"), resident("x", "b"))
    assert pipeline.veto(plugins, here, "b", [resident("x", "b")]) is None
    assert pipeline.veto(plugins, here, "a", [resident("v", "a")]) == "refused (1 held)"
    assert pipeline.veto(plugins, here, "a", [resident("v", "a"), resident("w", "a")]) is None


def test_the_own_placement_of_a_pod_is_not_counted() -> None:
    plugins = registry.Registry([fake_plugins.Filtering(crowded=True)])
    before = cycle()
    after = projections.project(before.snapshot, placed(POD, "a"))
    trace = pipeline.run_filter(plugins, cycles.cycle(POD, names("abcd"), after))
    assert trace.kept == names("abcd")
    assert trace.position == after.position
