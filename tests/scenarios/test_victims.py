"""Scenarios of the dry run: which pods of a node are evicted, and which node is chosen.

The node has 8 cores; a, b, c and d have 2 each, priorities 40, 30, 30 and 10, and started in this order. Held
against the real kube-scheduler in tests/e2e/placement/test_dry_runs.py.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import model
from app.domain.fit import budgets, node_fit, victims
from tests.support.decisions import crowded_nodes

NODE = crowded_nodes.node()


def names(found: victims.Eviction | str) -> list[str]:
    assert isinstance(found, victims.Eviction), found
    return [victim.name for victim in found.victims]


def select(
    cpu: int,
    *held: budgets.DisruptionBudget,
    priority: int = 50,
    nominated: tuple[model.Pod, ...] = (),
    pods: list[model.Pod] | None = None,
) -> victims.Eviction | str:
    snapshot = crowded_nodes.world(NODE, *(crowded_nodes.four() if pods is None else pods))
    asking = crowded_nodes.pod("p", priority, cpu)
    return victims.select(snapshot, asking, NODE, nominated, budgets.by_namespace(held))


def budget(
    allowed: int, expressions: tuple[model.Requirement, ...], *disrupted: str, name: str = "pdb"
) -> budgets.DisruptionBudget:
    return budgets.DisruptionBudget(
        uid=name,
        namespace="ns",
        name=name,
        selector=model.Selector(expressions=expressions),
        allowed=allowed,
        disrupted=disrupted,
    )


C_AND_D = (model.Requirement("app", "In", ("c", "d")),)


@pytest.mark.scenario("PR-26")
def test_the_least_important_pods_are_evicted() -> None:
    assert names(select(3)) == ["c", "d"]


@pytest.mark.scenario("PR-27")
def test_more_is_evicted_for_more() -> None:
    assert names(select(5)) == ["b", "c", "d"]


@pytest.mark.scenario("PR-19", "PR-28")
def test_only_pods_of_lower_priority_are_evicted() -> None:
    assert select(3, priority=30) == "Insufficient cpu"
    assert select(3, priority=10) == "No preemption victims found for incoming pod"


@pytest.mark.scenario("PR-17", "PR-29")
def test_protected_pods_are_put_back_first() -> None:
    found = select(3, budget(0, C_AND_D))
    assert names(found) == ["a", "b"]
    assert isinstance(found, victims.Eviction)
    assert found.violations == 0
    found = select(3, budget(1, C_AND_D))
    assert (names(found), isinstance(found, victims.Eviction) and found.violations) == (["b", "c"], 0)
    found = select(3, budget(1, C_AND_D, "d"))
    assert (names(found), isinstance(found, victims.Eviction) and found.violations) == (["c", "d"], 0)


@pytest.mark.scenario("PR-17")
def test_violations_are_counted_where_they_cannot_be_avoided() -> None:
    found = select(8, budget(1, C_AND_D))
    assert isinstance(found, victims.Eviction)
    assert (names(found), found.violations, found.violating) == (["a", "b", "c", "d"], 1, frozenset("d"))


@pytest.mark.scenario("PR-18")
def test_the_least_important_pod_that_no_budget_protects_is_evicted() -> None:
    low = {"protected": 1, "five": 5, "one": 1}
    pods = [
        crowded_nodes.pod(name, priority, 2, node="n1", labels={"app": name})
        for name, priority in low.items()
    ]
    kept = budget(0, (model.Requirement("app", "In", ("protected",)),))
    found = select(4, kept, pods=pods)
    assert (names(found), isinstance(found, victims.Eviction) and found.violations) == (["one"], 0)


@pytest.mark.scenario("PR-30")
def test_a_pod_may_use_up_several_budgets() -> None:
    pods = [
        crowded_nodes.pod("a", 40, 4, node="n1", labels={"app": "w", "tier": "x"}),
        crowded_nodes.pod("b", 20, 4, node="n1", labels={"app": "v", "tier": "x"}),
    ]
    w = budget(1, (model.Requirement("app", "In", ("w",)),), name="w")
    tier = budget(1, (model.Requirement("tier", "In", ("x",)),), name="x")
    found = select(4, w, tier, pods=pods)
    assert (names(found), isinstance(found, victims.Eviction) and found.violations) == (["a"], 0)


@pytest.mark.parametrize(
    "selector", [None, model.Selector(), model.Selector(expressions=(model.Requirement("app", "Near"),))]
)
def test_a_budget_without_a_usable_selector_protects_no_pod(selector: model.Selector | None) -> None:
    one = budgets.DisruptionBudget(uid="x", namespace="ns", name="x", selector=selector)
    assert names(select(3, one)) == ["c", "d"]


def test_a_budget_protects_pods_of_its_namespace_that_have_labels() -> None:
    everything = (model.Requirement("none", "DoesNotExist"),)
    assert names(select(3, budget(0, everything))) == ["c", "d"]
    elsewhere = budgets.DisruptionBudget(
        uid="x", namespace="other", name="x", selector=model.Selector(expressions=C_AND_D)
    )
    assert names(select(3, elsewhere)) == ["c", "d"]
    bare = crowded_nodes.pod("bare", 10, 2, node="n1")
    assert budget(0, everything).selects(bare) is False


@pytest.mark.scenario("PR-31")
def test_a_nominated_pod_holds_its_place() -> None:
    nominee = crowded_nodes.pod("n", 60, 2, nominated="n1")
    assert names(select(3, nominated=(nominee,))) == ["b", "c", "d"]


def test_pods_that_have_not_started_are_the_least_important_of_their_priority() -> None:
    pods = [
        crowded_nodes.pod("new", 1, 4, node="n1"),
        crowded_nodes.pod("old", 1, 4, node="n1", start=5),
    ]
    assert names(select(4, pods=pods)) == ["new"]


def test_finished_pods_are_not_evicted() -> None:
    pods = [
        crowded_nodes.pod("done", 1, 4, node="n1", phase="Succeeded"),
        crowded_nodes.pod("b", 2, 8, node="n1"),
    ]
    assert names(select(8, pods=pods)) == ["b"]


def test_terminating_pods_are_victims_as_others() -> None:
    pods = [crowded_nodes.pod("ending", 1, 8, node="n1", terminating=True)]
    assert names(select(8, pods=pods)) == ["ending"]


def eviction(*of: tuple[int, int], violating: int = 0) -> victims.Eviction:
    pods = [
        crowded_nodes.pod(f"v{at}", priority, node="n", start=start)
        for at, (priority, start) in enumerate(of)
    ]
    return victims.Eviction(
        tuple(victims.by_importance(pods)), frozenset(pod.uid for pod in pods[:violating])
    )


@pytest.mark.scenario("PR-18", "PR-32")
@pytest.mark.parametrize(
    ("offered", "chosen", "criterion"),
    [
        ({"n1": eviction((40, 1))}, "n1", "only candidate"),
        (
            {"n1": eviction((40, 1)), "n3": eviction((5, 1), violating=1)},
            "n1",
            "fewest PodDisruptionBudget violations",
        ),
        (
            {
                "n1": eviction((40, 1)),
                "n2": eviction((30, 1), (30, 1)),
                "n3": eviction((5, 1), violating=1),
            },
            "n2",
            "lowest priority of the most important victim",
        ),
        (
            {"n1": eviction((30, 1), (-10, 1)), "n2": eviction((30, 1))},
            "n2",
            "lowest sum of the victims' priorities",
        ),
        (
            {"n1": eviction((-(2**31), 1), (-(2**31), 1)), "n2": eviction((-(2**31), 1))},
            "n2",
            "fewest victims",
        ),
        (
            {"n1": eviction((30, 5), (20, 1)), "n2": eviction((30, 3), (20, 9))},
            "n1",
            "latest start of the most important victims",
        ),
        (
            {"n2": eviction((30, 5)), "n1": eviction((30, 5))},
            "n1",
            "name of the node; kube-scheduler takes any of the equal ones",
        ),
    ],
)
def test_each_criterion_decides(offered: dict[str, victims.Eviction], chosen: str, criterion: str) -> None:
    assert victims.choose(offered) == victims.Choice(chosen, criterion)


def test_no_node_is_chosen_among_none() -> None:
    assert victims.choose({}) is None


_PODS = st.lists(
    st.builds(
        lambda priority, cpu, start, app: (priority, cpu, start, app),
        st.integers(-3, 9),
        st.integers(0, 3),
        st.none() | st.integers(0, 9),
        st.sampled_from("ab"),
    ),
    max_size=8,
)


@given(of=_PODS, cpu=st.integers(1, 9), priority=st.integers(-2, 9), allowed=st.integers(0, 2))
def test_an_eviction_is_enough_and_none_of_it_can_be_spared(
    of: list[tuple[int, int, int | None, str]], cpu: int, priority: int, allowed: int
) -> None:
    pods = [
        crowded_nodes.pod(f"v{at}", rank, size, node="n1", start=start, labels={"app": app})
        for at, (rank, size, start, app) in enumerate(of)
    ]
    snapshot = crowded_nodes.world(NODE, *pods)
    asking = crowded_nodes.pod("p", priority, cpu)
    held = budgets.by_namespace((budget(allowed, (model.Requirement("app", "In", ("a",)),)),))
    found = victims.select(snapshot, asking, NODE, (), held)
    lower = [pod for pod in pods if pod.priority < priority]
    if isinstance(found, str):
        # Not even all of them would do, or none is needed.
        enough = not node_fit.fits(snapshot, asking, NODE, minus=lower)
        assert not lower or not enough or not node_fit.fits(snapshot, asking, NODE)
        return
    assert set(names(found)) <= {pod.name for pod in lower}
    assert not node_fit.fits(snapshot, asking, NODE, minus=found.victims)
    for spared in found.victims:
        rest = [victim for victim in found.victims if victim is not spared]
        assert node_fit.fits(snapshot, asking, NODE, minus=rest)
