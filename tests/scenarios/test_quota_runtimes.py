"""Scenarios of ElasticQuota: how a total is divided. Amounts are cores unless a name states another unit."""

import pytest

from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.trees import forests, runtimes
from tests.support.decisions.small_quotas import CORE, cluster, columns, cores, node, of_cpu, pod, quota


@pytest.mark.scenario("EQ-1")
def test_what_is_left_is_shared_by_weight() -> None:
    quotas = quota("a", 30, 90), quota("b", 30, 90), quota("c", 30, 60)
    found = of_cpu(90, {"a": 80, "b": 10, "c": 50}, *quotas)
    assert cores(found) == {"a": 42, "b": 10, "c": 38}
    division, at = found.division("a", "cpu") or (None, 0)
    assert division is not None
    assert [one.left for one in division.shares.rounds] == [20 * CORE]
    assert division.shares.rounds[0].shares[at] == 12 * CORE


@pytest.mark.scenario("EQ-2")
def test_an_annotation_sets_the_weight() -> None:
    quotas = quota("a", 20, 100, weight=30), quota("b", 20, 100, weight=10)
    assert cores(of_cpu(100, {"a": 90, "b": 90}, *quotas)) == {"a": 65, "b": 35}


def gpus(*names: str) -> dict[str, int]:
    quotas = [
        Quota(uid=name, namespace="n", name=name, min={"gpu": 20}, max={"gpu": 100}, weight={"gpu": 1})
        for name in names
    ]
    asked = {name: {"gpu": 100} for name in names}
    tree = forests.grown(quotas).trees[""]
    found = runtimes.derive(tree, {"gpu": 67}, columns(tree, asked), {})
    return {name: found.runtime(name)["gpu"] for name in names}


@pytest.mark.scenario("EQ-3")
def test_equal_remainders_are_ordered_by_name() -> None:
    assert gpus("x", "y", "z") == {"x": 23, "y": 22, "z": 22}
    assert gpus("zz", "y", "z") == {"y": 23, "z": 22, "zz": 22}


@pytest.mark.scenario("EQ-4")
def test_the_excess_of_a_round_is_shared_in_the_next() -> None:
    quotas = (
        quota("a", 10, 100, weight=50),
        quota("b", 10, 100, weight=30),
        quota("c", 10, 100, weight=20),
    )
    found = of_cpu(120, {"a": 25, "b": 100, "c": 100}, *quotas)
    assert cores(found) == {"a": 25, "b": 55, "c": 40}
    division, _ = found.division("a", "cpu") or (None, 0)
    assert division is not None
    assert [list(one.shares.values()) for one in division.shares.rounds] == [
        [45 * CORE, 27 * CORE, 18 * CORE],
        [18 * CORE, 12 * CORE],
    ]


@pytest.mark.scenario("EQ-5")
def test_a_tree_is_shared_level_by_level() -> None:
    found = of_cpu(
        100,
        {"t1a": 60, "t1b": 15, "t2a": 30},
        quota("t1", 40, 80, is_parent=True),
        quota("t1a", 20, 50, parent="t1"),
        quota("t1b", 20, 70, parent="t1"),
        quota("t2", 50, 100, is_parent=True),
        quota("t2a", 50, 100, parent="t2"),
    )
    assert cores(found) == {"t1": 65, "t1a": 50, "t1b": 15, "t2": 30, "t2a": 30}
    assert found.lines["cpu"].requests[found.tree.index["t1"]] == 65 * CORE


@pytest.mark.scenario("EQ-6")
def test_mins_are_scaled_when_the_total_is_smaller() -> None:
    quotas = quota("a", 30, 60), quota("b", 30, 60), quota("c", 15, 60)
    asked = {"a": 40, "b": 40, "c": 5}
    tree = forests.grown([_unit(one) for one in quotas]).trees[""]
    requests = columns(tree, {name: {"cpu": amount} for name, amount in asked.items()})
    found = runtimes.derive(tree, {"cpu": 50}, requests, {})
    assert {name: found.runtime(name)["cpu"] for name in asked} == {"a": 23, "b": 22, "c": 5}
    division, _ = found.division("a", "cpu") or (None, 0)
    assert division is not None
    assert division.shares.scaled == (20, 20, 10)
    assert cores(of_cpu(50, asked, *quotas, scale=False)) == {"a": 30, "b": 30, "c": 5}


def _unit(one: Quota) -> Quota:
    """The quota in units that cannot be divided."""
    return Quota(
        uid=one.uid,
        namespace=one.namespace,
        name=one.name,
        min={"cpu": one.min["cpu"] // CORE},
        max={"cpu": one.max["cpu"] // CORE},
    )


@pytest.mark.scenario("EQ-7")
@pytest.mark.parametrize(("lends", "expected"), [(False, {"a": 40, "b": 20}), (True, {"a": 5, "b": 55})])
def test_a_quota_that_does_not_lend_keeps_its_min(lends: bool, expected: dict[str, int]) -> None:
    quotas = quota("a", 40, 60, lends=lends), quota("b", 10, 60)
    assert cores(of_cpu(60, {"a": 5, "b": 60}, *quotas)) == expected


@pytest.mark.scenario("EQ-8")
def test_a_quota_without_weight_gets_no_more_than_its_min() -> None:
    quotas = [
        Quota(uid=name, namespace="n", name=name, min={"cpu": 10}, max={"cpu": 60, "x": 1}, weight=weight)
        for name, weight in (("a", {"cpu": 0, "x": 1}), ("b", {"cpu": 5}))
    ]
    asked = {name: {"cpu": 40} for name in "ab"}
    tree = forests.grown(quotas).trees[""]
    found = runtimes.derive(tree, {"cpu": 60}, columns(tree, asked), {})
    assert [found.runtime(name)["cpu"] for name in "ab"] == [10, 40]


@pytest.mark.scenario("EQ-9")
def test_what_is_used_may_be_guaranteed() -> None:
    quotas = quota("a", 20, 100), quota("b", 20, 100)
    found = of_cpu(100, {"a": 80, "b": 90}, *quotas, used={"a": 50, "b": 20}, guarantee=True)
    assert cores(found) == {"a": 65, "b": 35}


@pytest.mark.scenario("EQ-9")
def test_a_parent_requests_what_is_guaranteed_to_its_children() -> None:
    """A child without pods keeps its min and takes none of what its sibling needs."""
    quotas = (
        quota("p", 50, 100, is_parent=True),
        quota("c1", 50, 100, parent="p"),
        quota("c2", 0, 100, parent="p"),
    )
    assert cores(of_cpu(100, {"c2": 30}, *quotas, guarantee=True)) == {"p": 80, "c1": 50, "c2": 30}
    assert cores(of_cpu(100, {"c2": 30}, *quotas)) == {"p": 30, "c1": 0, "c2": 30}


@pytest.mark.scenario("EQ-9")
@pytest.mark.parametrize("used", [{}, {"a": 4, "b": 4}, {"p": 12}])
def test_what_is_guaranteed_is_no_more_than_max(used: dict[str, int]) -> None:
    """The mins of children may exceed that of their parent, and a max may be lowered below what is used."""
    quotas = (
        quota("p", 10, 10, is_parent=True),
        quota("a", 10, 10, parent="p"),
        quota("b", 10, 10, parent="p"),
    )
    found = of_cpu(100, {"a": 20, "b": 20}, *quotas, used=used, guarantee=True)
    assert cores(found) == {"p": 10, "a": 10, "b": 10}
    division, _ = found.division("a", "cpu") or (None, 0)
    assert division is not None
    assert division.total == 10 * CORE


@pytest.mark.scenario("EQ-9")
def test_no_guarantee_admits_a_pod_beyond_max() -> None:
    small = cluster(
        node("n1", 100),
        quota("p", 10, 10, is_parent=True),
        quota("a", 10, 10, parent="p"),
        quota("b", 10, 10, parent="p"),
        pod("runs", 8, "p", node="n1"),
        fits := pod("fits", 2, "p"),
        *(asking := [pod("own", 4, "p"), pod("below", 4, "a")]),
        guarantee_usage=True,
        check_parents=True,
    )
    assert not small.filter(fits).refused
    assert [small.why(one) for one in asking] == [
        "elastic quota p: no capacity in cpu",
        "elastic quota a: no capacity in cpu of parent p",
    ]


@pytest.mark.scenario("EQ-10")
def test_large_amounts_are_divided_exactly() -> None:
    total, weights = 7 * 2**50 + 5, {"a": 3 * 2**50, "b": 5 * 2**50 + 1}
    quotas = [
        Quota(uid=name, namespace="n", name=name, max={"memory": 2**62}, weight={"memory": weight})
        for name, weight in weights.items()
    ]
    asked = {name: {"memory": 2**61} for name in weights}
    tree = forests.grown(quotas).trees[""]
    found = runtimes.derive(tree, {"memory": total}, columns(tree, asked), {})
    assert [found.runtime(name)["memory"] for name in "ab"] == [2955487255461890, 4925812092436483]
    assert total == 2955487255461890 + 4925812092436483
