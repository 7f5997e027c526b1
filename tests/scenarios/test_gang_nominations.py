"""Gangs beside pods that kube-scheduler has nominated for a node: it is held as for single pods."""

import msgspec
import pytest

from app.domain import model, verdicts
from app.framework import cycles, plans
from app.plugins.coscheduling import admission
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import membership
from app.plugins.workload_policy.plugin import WorkloadPolicy
from app.verbs import nominations
from tests.support.decisions import small_clusters, small_quotas
from tests.support.decisions.small_gangs import ZONE, Cluster, gang, native, node, pod

NODES = ("n0", "n1", "n2")


def nominee(name: str, cpu: int = 8, *, priority: int = 20) -> model.Pod:
    """A pod that waits for its victims on the node."""
    return pod("nominee", cpu, nominated=name, priority=priority)


def members(count: int = 2, cpu: int = 4, **changed: object) -> list[model.Pod]:
    """Members of the native group g."""
    found = [pod(f"m{number}", cpu, group="g", priority=10) for number in range(count)]
    return [msgspec.structs.replace(one, **changed) for one in found]


def answers(small: Cluster, asked: list[model.Pod]) -> list[str]:
    return [small.planned(one) for one in asked]


@pytest.mark.parametrize("held", NODES)
def test_a_gang_that_fits_beside_a_nominated_pod_is_answered_the_same_node_in_every_call(held: str) -> None:
    asked = members()
    small = Cluster(*map(node, NODES), native("g", 2), *asked, nominee(held))
    first, second = answers(small, asked)
    assert first == second != ""
    assert first != held
    assert small.commit(asked[0], first) == {"m0": first, "m1": first}


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(20, {"m0": "n1", "m1": "n2"}), (10, {"m0": "n1", "m1": "n2"}), (5, {"m0": "n1", "m1": "n0"})],
)
def test_a_bind_commits_no_member_to_the_capacity_of_a_nominated_pod_that_is_not_less_important(
    priority: int, expected: dict[str, str]
) -> None:
    asked = members()
    sizes = {"n0": 8, "n1": 4, "n2": 4}
    nodes = [node(name, cpu) for name, cpu in sizes.items()]
    small = Cluster(*nodes, native("g", 2), *asked, nominee("n0", priority=priority))
    assert small.commit(asked[0], "n1") == expected


@pytest.mark.parametrize("priority", [9, 10, 11])
def test_a_bind_commits_the_plan_that_filter_has_answered_also_beside_an_equal_nominated_pod(
    priority: int,
) -> None:
    """Without that pod, the plan would be in the other zone, and the bind would be refused each time."""
    nodes = [node(f"n{number}", 8, {ZONE: "ab"[number // 2]}) for number in range(4)]
    asked = members(2, 8)
    small = Cluster(*nodes, native("g", 2, topology_key=ZONE), *asked, nominee("n0", priority=priority))
    found = small.planned(asked[0])
    assert found == ("n0" if priority < 10 else "n2")
    assert sorted(small.commit(asked[0], found)) == ["m0", "m1"]


def test_a_bind_commits_no_other_member_to_the_capacity_of_a_pod_that_is_nominated_since() -> None:
    """kube-scheduler would not offer that node to the member, and the gang would run in part."""
    asked = members(2, 8)
    small = Cluster(node("n0"), node("n1"), native("g", 2), *asked, nominee("n1", priority=10))
    assert not small.planned(asked[0])
    cycle = cycles.cycle(asked[0], frozenset(("n0",)), small.snapshot)
    assert isinstance(nominations.in_bind(small.plugins, cycle, "n0"), verdicts.Trace)


@pytest.mark.parametrize("equal", [True, False])
def test_a_later_member_and_an_equal_pod_that_is_bound_do_not_refuse_one_another(equal: bool) -> None:
    labels = {membership.LABEL: "team"}
    later = members(2, 1, labels=labels)[1]
    first = msgspec.structs.replace(members(1)[0], node="n0", phase="Running")
    unrelated = pod("unrelated", 1, labels=labels, nominated="n0", priority=10 if equal else 11)
    quota = small_quotas.quota("team", 0, 1)
    small = Cluster(node("n0"), native("g", 1), quota, first, later, unrelated, beside=(ElasticQuota(),))
    cycle = cycles.cycle(later, frozenset(("n0",)), small.snapshot)
    made = nominations.in_bind(small.plugins, cycle, "n0")
    assert isinstance(made, plans.Commitment) == equal


def test_the_least_important_member_decides_which_nominated_pods_count() -> None:
    asked = gang("g", 2, 4)
    asked[0] = msgspec.structs.replace(asked[0], priority=30)
    small = Cluster(node("n0"), node("n1"), *asked, nominee("n0"))
    assert answers(small, asked) == ["n1", "n1"]


def test_a_nominated_member_of_a_gang_that_is_placed_with_it_has_no_seat() -> None:
    both = '["x/a","x/b"]'
    a, b = gang("a", 2, 4, groups=both), gang("b", 2, 4, groups=both)
    a[0] = msgspec.structs.replace(a[0], nominated="n0")
    small = Cluster(node("n0"), node("n1"), *a, *b)
    found = small.planned(b[0])
    assert len(small.commit(b[0], found)) == 4


def test_a_pod_beside_seats_counts_the_nominated_pods_of_their_node() -> None:
    asked = members(2, 2)
    small = Cluster(node("n0"), native("g", 2), *asked)
    assert small.commit(asked[0], "n0") == {"m0": "n0", "m1": "n0"}
    unrelated = pod("unrelated", 2)
    assert small.planned(unrelated) == "n0"
    small.see(nominee("n0", 3))
    assert small.why(unrelated) == admission.RESERVED


@pytest.mark.parametrize("family", ["tree", "namespace"])
def test_a_nominated_member_that_the_plan_leaves_out_takes_no_quota_from_it(family: str) -> None:
    cores = {"cpu": 2 * small_quotas.CORE}
    of_namespace = namespace_quota.NamespaceQuota(uid="q", namespace="x", name="q", min=cores, max=cores)
    quota = small_quotas.quota("team", 0, 2) if family == "tree" else of_namespace
    asked = members(3, 1, labels={membership.LABEL: "team"})
    asked[2] = msgspec.structs.replace(asked[2], nominated="n1")
    small = Cluster(node("n0"), node("n1"), native("g", 2), quota, *asked, beside=(ElasticQuota(),))
    assert answers(small, asked) == ["n0", "n0", ""]
    assert small.commit(asked[0], "n0") == {"m0": "n0", "m1": "n0"}


ZONES = {"a0": "a", "a1": "a", "b0": "b"}


def limited(count: int, minimum: int, nominated: dict[str, str], *, occupied: bool) -> dict[str, set[str]]:
    """Member -> what is kept for it, where a Required policy admits one member to each zone.

    ``occupied``: a less important pod fills each node.
    """
    labels = {"app": "train", small_clusters.LABEL: "spread"}
    policy = small_clusters.policy(
        {"a": 1, "b": 1},
        required=True,
        name="spread",
        namespace="x",
        key=ZONE,
        selector=model.Selector({"app": "train"}),
    )
    asked = [
        msgspec.structs.replace(one, labels=labels, nominated=nominated.get(one.name, ""))
        for one in members(count)
    ]
    low = [pod(f"low-{name}", 8, node=name) for name in ZONES if occupied]
    nodes = [node(name, 8, {ZONE: zone}) for name, zone in ZONES.items()]
    small = Cluster(*nodes, policy, native("g", minimum), *low, *asked, beside=(WorkloadPolicy(),))
    return {one.name: set(small.filter(one, offered=True).kept) for one in asked}


@pytest.mark.parametrize("occupied", [False, True])
@pytest.mark.parametrize(("count", "minimum"), [(2, 2), (3, 2)])
@pytest.mark.parametrize(
    "nominated",
    [
        {},
        {"m0": "a0", "m1": "b0"},
        {"m0": "b0", "m1": "a0"},
        {"m0": "a0", "m1": "a1"},
        {"m1": "a0", "m2": "b0"},
    ],
)
def test_nominations_of_members_select_who_of_them_goes_and_never_the_nodes_of_the_plan(
    occupied: bool, count: int, minimum: int, nominated: dict[str, str]
) -> None:
    """kube-scheduler keeps the nomination of a member that an extender refuses in the cycle of its group."""
    found = limited(count, minimum, nominated, occupied=occupied)
    there = {name: one for one, kept in found.items() for name in kept}
    assert sorted(map(len, found.values())) == [0, 1, 1][3 - count :]
    assert {ZONES[name] for name in there} == {"a", "b"}
    plan = limited(count, minimum, {}, occupied=occupied)
    assert there.keys() == {name for kept in plan.values() for name in kept}
    for name, one in there.items():
        waiting = [each for each, of in nominated.items() if of == name and each in found]
        assert one in (waiting or found)
    if not nominated:
        assert found == plan
        assert [len(kept) for kept in found.values()] == [1, 1, 0][:count]
