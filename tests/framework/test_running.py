"""How opinions become one decision."""

import itertools
import random

import pytest

from app.domain import model, projecting, snapshots, verdicts
from app.domain.events import NodeSeen, PodPlaced, PodSeen
from app.framework import capabilities, cycles, registry, running
from tests.framework import fakes

NODES = ("a", "b", "c", "d")
POD = model.Pod(uid="uid-p", namespace="ns", name="p", priority=5)


def names(text: str) -> verdicts.Names:
    return frozenset(text)


def cycle(*pods: model.Pod, pod: model.Pod = POD, over: str = "abcd") -> cycles.Cycle:
    nodes = [NodeSeen(node=model.Node(name=name, uid=f"uid-{name}")) for name in NODES]
    snapshot = projecting.project_all(snapshots.empty(), [*nodes, *(PodSeen(pod=other) for other in pods)])
    return cycles.cycle(pod, names(over), snapshot)


def nominee(name: str, node: str, priority: int = 5) -> model.Pod:
    return model.Pod(uid=f"uid-{name}", namespace="ns", name=name, nominated=node, priority=priority)


def resident(name: str, node: str) -> model.Pod:
    return model.Pod(uid=f"uid-{name}", namespace="ns", name=name, node=node)


# -- filter --------------------------------------------------------------------------------


def test_every_interested_filter_is_asked_and_the_first_gives_the_reason() -> None:
    plugins = registry.Registry(
        [
            fakes.Filtering(name="One", refused=names("ab"), reason="one"),
            fakes.Filtering(name="Bored", refused=names("abcd"), label="other"),
            fakes.Filtering(name="Two", refused=names("bc"), reason="two"),
        ]
    )
    trace = running.run_filter(plugins, cycle())
    assert trace.interested == ("One", "Two")
    assert (trace.refused, trace.kept) == (names("abc"), names("d"))
    assert [refusal.plugin for refusal in trace.refusals] == ["One", "Two"]
    assert {node: reason[:3] for node, reason in trace.reasons().items()} == {
        "a": "one",
        "b": "one",
        "c": "two",
    }


def test_a_refusal_of_nobody_is_none() -> None:
    trace = running.run_filter(registry.Registry([fakes.Filtering()]), cycle())
    assert (trace.refusals, trace.kept) == ((), names("abcd"))


def test_nominated_pods_count_in_a_first_pass() -> None:
    plugins = registry.Registry([fakes.Filtering(crowded=True)])
    trace = running.run_filter(plugins, cycle(nominee("n", "a"), nominee("low", "b", priority=4)))
    assert trace.refused == names("a")
    assert trace.assumed == ("ns/n",)


def test_what_passes_must_also_pass_without_the_nominated() -> None:
    """Refused in either pass is refused; the first pass' sentence is kept, with the details of both."""
    plugins = registry.Registry([fakes.Filtering(lonely=True)])
    here = cycle(nominee("n", "a"), resident("r", "b"))
    trace = running.run_filter(plugins, here)
    assert trace.kept == names("b")
    (refusal,) = trace.refusals
    assert refusal.reason == "refused (2 held)"
    assert refusal.nodes == names("acd")


def test_merging_keeps_the_order_of_plugins() -> None:
    plugins = registry.Registry(
        [fakes.Filtering(name="Second", lonely=True), fakes.Filtering(name="First", crowded=True)]
    )
    all_held = cycle(*(nominee(f"n-{node}", node) for node in NODES))
    trace = running.run_filter(plugins, all_held)
    # With the nominated only First refuses, without them only Second does.
    assert {refusal.plugin for refusal in trace.refusals} == {"First", "Second"}
    assert trace.kept == verdicts.NONE


def test_a_transformed_cycle_is_what_plugins_see() -> None:
    plugins = registry.Registry(
        [
            fakes.Transforming(dropped=names("ab")),
            fakes.Filtering(refused=names("bc")),
            fakes.Scoring(given={3: names("ad")}),
        ]
    )
    assert running.run_filter(plugins, cycle()).kept == names("d")
    assert running.run(plugins, cycle()).totals == {3: names("d")}


# -- score ---------------------------------------------------------------------------------


def test_scores_are_weighed_and_summed() -> None:
    one = fakes.Scoring(name="One", given={10: names("ab"), 3: names("c")})
    two = fakes.Scoring(name="Two", given={2: names("bc")})
    plugins = registry.Registry([one, two], weights={"Two": 5})
    trace = running.run_score(plugins, cycle())
    assert {node: trace.score_of(node) for node in NODES} == {"a": 10, "b": 20, "c": 13, "d": 0}
    assert [(rating.plugin, rating.weight) for rating in trace.ratings] == [("One", 1), ("Two", 5)]


def test_one_rating_alone_weighs_as_among_others() -> None:
    rating = verdicts.Rating({10: names("ab"), 0: names("c"), 7: verdicts.NONE}, weight=3)
    assert running.weigh([rating]) == running.weigh([rating, verdicts.Rating({})]) == {30: names("ab")}


@pytest.mark.parametrize("others", [(), (verdicts.Rating({}),)], ids=["alone", "among others"])
def test_sums_stay_readable_for_the_scheduler(others: tuple[verdicts.Rating, ...]) -> None:
    top = 2**63 - 1
    rating = verdicts.Rating({top: names("a"), top - 1: names("b"), -top: names("c")}, weight=9)
    assert running.weigh([rating, *others]) == {top: names("ab"), -(2**63): names("c")}


def test_sums_that_cancel_out_are_nothing() -> None:
    ratings = [verdicts.Rating({4: names("ab")}), verdicts.Rating({-4: names("a")})]
    assert running.weigh(ratings) == {4: names("b")}


def test_only_kept_nodes_are_scored_in_a_whole_run() -> None:
    plugins = registry.Registry(
        [fakes.Filtering(refused=names("a")), fakes.Scoring(given={9: names("a"), 1: names("b")})]
    )
    trace = running.run(plugins, cycle())
    assert trace.totals == {1: names("b")}
    assert trace.refused == names("a")


# -- the best one --------------------------------------------------------------------------


def best(plugins: registry.Registry, here: cycles.Cycle) -> str | None:
    return running.best(plugins, here, running.run(plugins, here))


def test_the_highest_sum_is_best() -> None:
    plugins = registry.Registry([fakes.Scoring(given={5: names("b"), 4: names("acd")})])
    assert best(plugins, cycle()) == "b"


def test_nothing_beats_less_than_nothing() -> None:
    plugins = registry.Registry([fakes.Scoring(given={-5: names("abd")})])
    assert best(plugins, cycle()) == "c"
    assert best(plugins, cycle(over="ab")) in {"a", "b"}


def test_no_kept_node_no_best_one() -> None:
    assert best(registry.Registry([fakes.Filtering(refused=names("abcd"))]), cycle()) is None


def test_ranks_decide_among_equals_in_plugin_order() -> None:
    scoring = fakes.Scoring(given={5: names("abc")})
    one = fakes.Ranking(name="One", order={"a": 1, "d": -9})
    two = fakes.Ranking(name="Two", order={"b": 1})
    assert best(registry.Registry([scoring, one, two]), cycle()) == "c"


def test_ties_fall_alike_whatever_the_order_and_spread_over_pods() -> None:
    plugins, dice = registry.Registry([fakes.Idle()]), random.Random(3)
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


# -- claims and vetoes ---------------------------------------------------------------------


def test_claims_add_up_and_the_lowest_ceiling_holds() -> None:
    plugins = registry.Registry(
        [
            fakes.Reserving(name="One", made=capabilities.Claim(("policy:ns/x",), {"k": 3, "l": 1})),
            fakes.Reserving(name="Two", made=capabilities.Claim(("policy:ns/y",), {"k": 2})),
            fakes.Reserving(name="Bored", made=capabilities.Claim(("never",), {"k": 0}), label="other"),
        ]
    )
    claimed = running.claim(plugins, cycle(), "a")
    assert claimed.ceilings == {"k": 2, "l": 1}
    pod, policies = {"pod:uid-p", "node:a"}, {"policies:ns", "policy:ns/x", "policy:ns/y"}
    assert set(claimed.subjects) == {*pod, *policies, "store:run"}


def test_victims_have_rights_against_pods_that_nobody_cares_for() -> None:
    here = cycle(resident("v", "a"))
    victim = [resident("v", "a")]
    assert running.veto(registry.Registry([fakes.Preempting(label="other")]), here, "a", victim) == "no"
    assert running.veto(registry.Registry([fakes.Preempting(reason=None)]), here, "a", victim) is None


def test_an_eviction_that_changes_nothing_is_vetoed_with_the_reason_that_stays() -> None:
    plugins = registry.Registry([fakes.Filtering(crowded=True)])
    here = cycle(resident("v", "a"), resident("w", "a"), resident("x", "b"))
    assert running.veto(plugins, here, "b", [resident("x", "b")]) is None
    assert running.veto(plugins, here, "a", [resident("v", "a")]) == "refused (1 held)"
    assert running.veto(plugins, here, "a", [resident("v", "a"), resident("w", "a")]) is None


def test_a_pod_is_judged_as_if_it_were_not_there_yet() -> None:
    plugins = registry.Registry([fakes.Filtering(crowded=True)])
    placed = cycle()
    promised = projecting.project(placed.snapshot, PodPlaced(pod=POD, node="a"))
    trace = running.run_filter(plugins, cycles.cycle(POD, names("abcd"), promised))
    assert trace.kept == names("abcd")
    assert trace.position == promised.position
