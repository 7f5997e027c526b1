"""What the plan of a gang computes, and how often."""

from unittest import mock

import msgspec

from app.domain import events, model
from app.domain.fit import budgets
from app.domain.fold import node_sums
from app.plugins.coscheduling import gangs
from app.plugins.coscheduling.planner import capacities, domains, evictions, packing, plans
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import forests, membership
from app.verbs.explain import explanations
from tests.support.decisions import (
    call_counts,
    gang_effects,
    group_evictions,
    scheduling_driver,
    small_gangs,
    small_quotas,
)

LIMIT = budgets.DisruptionBudget(
    uid="uid", namespace="x", name="limit", selector=model.Selector({"app": "db"}), allowed=1
)


def members(count: int, cpu: int) -> list[model.Pod]:
    return [
        small_gangs.pod(f"m{cpu}-{number:02}", cpu, group="g", priority=group_evictions.GROUP)
        for number in range(count)
    ]


def occupied(
    count: int, asked: list[model.Pod], *more: scheduling_driver.Thing
) -> tuple[small_gangs.Cluster, list[str]]:
    """Nodes that a less important pod each fills, and a native group that waits."""
    names = [f"n{number:02}" for number in range(count)]
    low = [small_gangs.pod(f"low-{name}", 8, node=name) for name in names]
    nodes = [small_gangs.node(name, 8) for name in names]
    return small_gangs.Cluster(*nodes, small_gangs.native("g", len(asked)), *low, *asked, *more), names


def test_the_slots_of_a_gang_that_does_not_fit_are_counted_once() -> None:
    asked = small_gangs.gang("big", 3, 8)
    small = small_gangs.Cluster(small_gangs.node("n0", 8), small_gangs.node("n1", 8), *asked)
    with call_counts.counted(packing, "slots") as slots:
        assert not small.filter(asked[0], ["n0", "n1"]).kept
    assert slots.call_count == 1


def test_the_slots_of_a_gang_for_which_all_pods_may_go_are_counted_once() -> None:
    """Once as things are, and once without the pods, of which none alone does more harm than another."""
    asked = members(20, 8)
    small, names = occupied(60, asked)
    with call_counts.counted(packing, "slots") as slots:
        assert small.filter(asked[0], names, offered=True).kept
    assert slots.call_count == 2


def test_seats_of_the_last_class_are_not_summed_up_where_no_later_one_reads_them() -> None:
    """Too many arrangements to compare, so that the group is placed node by node."""
    asked = members(20, 8)
    small, names = occupied(60, asked)
    with call_counts.counted(capacities.Capacities, "put") as put:
        assert small.filter(asked[0], names, offered=True).kept
    assert put.call_count == 0


def test_members_of_several_sizes_read_each_node_once_for_each_size() -> None:
    """A launcher that needs a whole node, beside workers that fill one each: more than are tried out."""
    asked = [*members(40, 5), *members(1, 8)]
    nodes = [small_gangs.node(f"n{number:02}", 8 if number == 59 else 5) for number in range(60)]
    small = small_gangs.Cluster(*nodes, small_gangs.native("g", len(asked)), *asked)
    with call_counts.counted(capacities.Capacities, "fits") as fits:
        assert len(small.filter(asked[0], [node.name for node in nodes]).kept) == 1
    assert 0 < fits.call_count <= 2 * len(nodes) + 2 * len(asked)


def test_a_node_that_is_too_small_for_a_large_member_still_gets_a_small_one() -> None:
    asked = [*members(33, 3), *members(1, 8)]
    nodes = [small_gangs.node(f"n{number:02}", 5) for number in range(33)]
    small = small_gangs.Cluster(*nodes, small_gangs.node("n99", 8), small_gangs.native("g", 34), *asked)
    names = [*(node.name for node in nodes), "n99"]
    found = ["".join(small.filter(one, names).kept) for one in asked]
    assert found[-1] == "n99"
    assert len(set(found)) == 34


def test_seats_of_a_class_are_not_given_to_the_next_one() -> None:
    asked = [*members(20, 8), *members(20, 5)]
    small, names = occupied(60, asked)
    found = ["".join(small.filter(one, names, offered=True).kept) for one in asked]
    assert all(found)
    assert len(set(found)) == 40


def test_the_pods_of_a_node_are_ranked_once() -> None:
    asked = members(1, 8)
    small, names = occupied(3, asked, LIMIT)
    assert small.filter(asked[0], names, offered=True).kept
    small.see(msgspec.structs.replace(LIMIT, allowed=0))  # The plan is made again.
    with mock.patch.object(node_sums, "holding", side_effect=AssertionError("a pod was examined again")):
        assert small.filter(asked[0], names, offered=True).kept


def test_only_nodes_with_a_less_important_pod_are_examined_for_what_may_go() -> None:
    asked = members(4, 8)
    small, names = occupied(3, asked)
    equal = [small_gangs.pod(f"e{at}", 8, node=f"e{at}", priority=group_evictions.GROUP) for at in range(5)]
    small.see(*(small_gangs.node(one.node, 8) for one in equal), *equal)
    with call_counts.counted(evictions.Evictions, "occupancy") as examined:
        assert not small.filter(asked[0], [*names, *(one.node for one in equal)], offered=True).kept
    assert {call.args[1] for call in examined.call_args_list} == {*names}


def test_a_changed_member_of_a_large_group_makes_the_plan_of_its_gangs_once() -> None:
    """And the list of each gang is compared with each other one, and read no more often."""
    count = 20
    groups = str([f"x/g{number}" for number in range(count)]).replace("'", '"')
    asked = [one for number in range(count) for one in small_gangs.gang(f"g{number}", 1, groups=groups)]
    small = small_gangs.Cluster(small_gangs.node("n1", count), *asked)
    changed = msgspec.structs.replace(asked[0], unscheduled="no node")
    keys = call_counts.counted(gangs, "GangKey")
    with call_counts.counted(packing, "slots") as slots, keys as read:
        woken = gang_effects.woken(gang_effects.after(small, events.PodSeen(pod=changed)))
    assert woken == []
    assert slots.call_count == 2, "of the states before and after"
    assert read.call_count < count**3


def test_a_port_of_a_pod_that_stays_is_not_free() -> None:
    port = model.Constraints(host_ports=(model.HostPort(80),))
    asked = [msgspec.structs.replace(one, constraints=port) for one in members(1, 8)]
    stays = small_gangs.pod("stays", 0, node="n00", priority=group_evictions.GROUP, constraints=port)
    small, names = occupied(2, asked, stays)
    assert small.filter(asked[0], names, offered=True).kept == {"n01"}
    goes = msgspec.structs.replace(stays, uid="goes", name="goes", node="n01", priority=0)
    small.see(goes)
    assert small.filter(asked[0], names, offered=True).kept == {"n01"}


def under_a_quota(cores: int) -> tuple[small_gangs.Cluster, list[model.Pod]]:
    """A gang of eight that its node has capacity for, and a quota of so many cores."""
    marks = {"scheduling.x-k8s.io/pod-group": "train", membership.LABEL: "q"}
    members = [small_gangs.pod(f"m{number}", labels=marks) for number in range(8)]
    things = small_gangs.sigs("train", 8), small_quotas.quota("q", 0, cores)
    return small_gangs.Cluster(
        small_gangs.node("n1", 100), *things, *members, beside=(ElasticQuota(),)
    ), members


def test_explain_of_a_gang_that_its_quota_refuses_makes_its_plan_and_that_of_its_advice() -> None:
    """The advice begins with the members that the quota admits; each minimum that is tried costs a plan."""
    small, members = under_a_quota(3)
    with (
        call_counts.counted(plans, "_computed") as computed,
        call_counts.counted(forests, "grown") as grown,
        mock.patch.object(domains, "Tree", side_effect=domains.Tree) as trees,
    ):
        found = explanations.presently(members[0], small.snapshot, small.plugins)
    assert [one.text for one in found.remarks if one.plugin == "Coscheduling"][1:] == [
        "gang sigs/x/train: elastic quota q: no capacity in cpu"
    ]
    assert found.changes == ("gang sigs/x/train would have to need 5 members fewer (minimum 3 of 8)",)
    assert (computed.call_count, grown.call_count, trees.call_count) == (2, 0, 1)


def test_explain_of_a_gang_of_which_its_quota_admits_no_member_plans_twice() -> None:
    """A smaller minimum is not tried; a larger quota is, once."""
    small, members = under_a_quota(0)
    with call_counts.counted(plans, "_computed") as computed:
        found = explanations.presently(members[0], small.snapshot, small.plugins)
    assert len(found.changes) == 2
    assert all("would have to accept one of the 1 node" in change for change in found.changes)
    assert computed.call_count == 2


def test_nominations_cost_a_gang_no_search_for_each_member() -> None:
    small, members = under_a_quota(100)
    small.see(*(msgspec.structs.replace(one, nominated="n1") for one in members))
    small.see(small_gangs.pod("unrelated", nominated="n1", priority=9))
    with call_counts.counted(gangs, "find") as found:
        assert small.planned(members[0]) == "n1"
    assert found.call_count <= 4
