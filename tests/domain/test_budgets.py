"""Which evictions violate PodDisruptionBudgets, and what it costs to find out."""

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections
from app.domain.fit import budgets
from app.plugins.preemption_rules import kinds
from tests.support.decisions import call_counts, crowded_nodes

SPACES, APPS = ("a", "a-b", "b"), ("x", "y")


def budget(name: str, namespace: str, app: str, allowed: int = 0) -> budgets.DisruptionBudget:
    return budgets.DisruptionBudget(
        uid=name, namespace=namespace, name=name, selector=model.Selector({"app": app}), allowed=allowed
    )


def pod(name: str, namespace: str, app: str) -> model.Pod:
    return crowded_nodes.pod(name, node="n1", namespace=namespace, labels={"app": app, "any": "x"})


def plainly(pods: Sequence[model.Pod], every: Sequence[budgets.DisruptionBudget]) -> set[model.Uid]:
    """Each pod is compared with each budget of the cluster."""
    ordered, found = sorted(every, key=lambda one: (one.namespace, one.name)), set()
    left = [one.allowed for one in ordered]
    for one in pods:
        for at, limit in enumerate(ordered):
            if limit.selects(one):
                left[at] -= 1
                if left[at] < 0:
                    found.add(one.uid)
                    break
    return found


spaces, apps = st.sampled_from(SPACES), st.sampled_from(APPS)


@given(
    st.lists(st.tuples(spaces, apps), max_size=8),
    st.lists(st.tuples(spaces, st.sampled_from((*APPS, "none")), st.integers(0, 3)), max_size=8),
    st.randoms(use_true_random=False),
)
def test_violations_are_those_of_every_pod_against_every_budget(
    found: list[tuple[str, str]], limits: list[tuple[str, str, int]], order: random.Random
) -> None:
    pods = [pod(f"p{at}", *one) for at, one in enumerate(found)]
    every = [budget(f"b{at}", *one) for at, one in enumerate(limits)]
    order.shuffle(every)
    assert budgets.violating(pods, budgets.by_namespace(every)) == plainly(pods, every)


def test_the_eviction_api_refuses_pods_of_several_budgets_beside_the_violating_ones() -> None:
    every = [budget("one", "a", "x", 1), budget("two", "a", "x", 1), budget("three", "a", "y", 1)]
    pods = [pod("both", "a", "x"), pod("fits", "a", "y"), pod("exceeds", "a", "y"), pod("other", "b", "x")]
    limits = budgets.by_namespace(every)
    assert budgets.violating(pods, limits) == {pods[2].uid}
    assert budgets.refused(pods, limits) == {pods[0].uid, pods[2].uid}


def test_the_eviction_api_applies_an_empty_selector_to_all_pods_of_the_namespace() -> None:
    """kube-scheduler applies it to none; a missing one selects none in both."""
    every = budgets.DisruptionBudget(
        uid="every", namespace="a", name="every", selector=model.Selector(), allowed=1
    )
    bare = crowded_nodes.pod("bare", node="n1", namespace="a")
    pods = [pod("labelled", "a", "x"), bare, pod("other", "b", "x")]
    assert budgets.violating(pods, budgets.by_namespace([every])) == frozenset()
    assert budgets.refused(pods, budgets.by_namespace([every])) == {bare.uid}
    missing = msgspec.structs.replace(every, selector=None, allowed=0)
    assert budgets.refused(pods, budgets.by_namespace([missing])) == frozenset()


@pytest.mark.parametrize(
    "state", [{"phase": phase} for phase in ("Pending", "Succeeded", "Failed")] + [{"terminating": True}]
)
def test_the_eviction_api_checks_no_budget_for_a_pod_that_does_not_run(state: dict[str, object]) -> None:
    """It uses up none, either. kube-scheduler's preemption counts every pod."""
    limits = budgets.by_namespace(
        [budget("one", "a", "x"), budget("two", "a", "y", 1), budget("three", "a", "y")]
    )
    running = [pod("single", "a", "x"), pod("both", "a", "y")]
    pods = [msgspec.structs.replace(one, **state) for one in running]
    assert budgets.refused(running, limits) == {"single", "both"}
    assert budgets.refused(pods, limits) == frozenset()
    assert [budgets.several(one, limits) for one in (running[1], pods[1])] == [True, False]
    assert budgets.violating(pods, limits) == budgets.violating(running, limits) == {"single", "both"}
    only = budgets.by_namespace([budget("one", "a", "x", 1)])
    assert budgets.refused([pods[0], running[0]], only) == frozenset()


def test_budgets_of_other_namespaces_cost_a_pod_nothing() -> None:
    pods = [pod(f"p{number}", "b", "x") for number in range(10)]
    own = budget("own", "b", "x")
    others = [budget(f"other-{number}", "a", "x") for number in range(100)]
    with call_counts.counted(budgets.DisruptionBudget, "selects") as selects:
        assert len(budgets.violating(pods, budgets.by_namespace([own, *others]))) == 10
    assert selects.call_count == len(pods)


def test_recorded_budgets_are_sorted_once_until_one_changes() -> None:
    observed: list[events.AnyEvent] = [
        kinds.BUDGETS.observed(budget(name, space, "x"))
        for name, space in (("2", "b"), ("1", "b"), ("1", "a"))
    ]
    before = projections.project_all(crowded_nodes.world(crowded_nodes.node()), observed)
    seen = projections.project_all(before, crowded_nodes.seen(pod("p", "a", "x")))
    with call_counts.counted(budgets, "by_namespace") as sorted_by:
        found = budgets.recorded(before)
        assert budgets.recorded(seen) is found
    assert {space: [one.name for one in those] for space, those in found.items()} == {
        "a": ["1"],
        "b": ["1", "2"],
    }
    assert sorted_by.call_count == 1
    after = projections.project(seen, kinds.BUDGETS.observed(budget("1", "a", "x", 5)))
    assert [one.allowed for one in budgets.recorded(after)["a"]] == [5]
