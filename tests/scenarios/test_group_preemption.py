"""kube-scheduler preempts for a group of its own: it asks as if less important pods were gone.

A node has 8 cores and capacity for one member. Every offer with a node without capacity is such a question.
"""

import msgspec
import pytest

from app.domain import model
from app.domain.fit import budgets
from app.plugins.coscheduling import membership, options
from app.plugins.elastic_quota.plugin import ElasticQuota
from tests.support.decisions import small_quotas
from tests.support.decisions.small_gangs import (
    CORE,
    ZONE,
    Cluster,
    gang,
    koordinator,
    native,
    node,
    pod,
    sigs,
)

NODES = tuple(f"n{number}" for number in range(4))
OTHER_NODE = (
    "gang native/x/g: its plan, for which less important pods have to go, has another node for the pod"
)
NO_CAPACITY = "gang native/x/g: no capacity for 3 members together"


def members(count: int = 3, **changed: object) -> list[model.Pod]:
    """Members of the native group g, which are important."""
    found = [pod(f"m{number}", 8, group="g", priority=10) for number in range(count)]
    return [msgspec.structs.replace(one, **changed) for one in found]


def running(*names: str, **changed: object) -> list[model.Pod]:
    """A pod on each of the nodes that needs all of it."""
    return [msgspec.structs.replace(pod(f"on-{name}", 8, node=name), **changed) for name in names]


def answers(small: Cluster, asked: list[model.Pod], offered: tuple[str, ...] = NODES) -> list[str]:
    """The node that each of the pods is answered; empty for none."""
    return ["".join(small.filter(one, offered, offered=True).kept) for one in asked]


def test_each_member_is_answered_a_node_that_evictions_would_free_and_none_is_bound_before() -> None:
    asked, low = members(), running(*NODES)
    small = Cluster(*map(node, NODES), native("g", 3), *low, *asked)
    found = answers(small, asked)
    assert len({*found} - {""}) == 3
    assert answers(small, asked[::-1]) == found[::-1]
    assert set(small.filter(asked[0], NODES, offered=True).reasons().values()) == {OTHER_NODE}
    # Without an offer, as in bind, the state counts as it is.
    assert small.why(asked[0]) == NO_CAPACITY
    assert small.commit(asked[0], found[0]) == {}
    for victim in low:
        if victim.node in found:
            small.gone(victim)
    for one, name in zip(asked, found, strict=True):
        small.see(msgspec.structs.replace(one, nominated=name))
    assert [answers(small, [one], (name,)) for one, name in zip(asked, found, strict=True)] == [
        [name] for name in found
    ]
    assert sorted(small.commit(asked[1], found[1]).values()) == sorted(found)


def test_a_member_is_answered_to_whom_only_a_node_with_capacity_is_offered() -> None:
    """The members before it may fill the others. In an ordinary cycle they find none, and none is placed."""
    asked = members()
    small = Cluster(*map(node, NODES[:3]), native("g", 3), *running(*NODES[1:3]), *asked)
    found = answers(small, asked, NODES[:3])
    assert sorted(found) == sorted(NODES[:3])
    last = asked[found.index("n0")]
    assert small.filter(last, ["n0"], offered=True).kept == {"n0"}
    assert small.commit(last, "n0") == {}


def test_no_pod_has_to_go_for_a_group_that_would_still_not_fit() -> None:
    asked = members()
    low, equal = running(*NODES[:2]), running(*NODES[2:], priority=10)
    small = Cluster(*map(node, NODES), native("g", 3), *low, *equal, *asked)
    assert answers(small, asked) == ["", "", ""]
    assert set(small.filter(asked[0], NODES, offered=True).reasons().values()) == {NO_CAPACITY}


@pytest.mark.parametrize(("policy", "priority"), [("Never", 10), ("PreemptLowerPriority", 0)])
def test_a_group_that_may_evict_no_pod_is_judged_as_it_is(policy: str, priority: int) -> None:
    asked = members(preemption_policy=policy, priority=priority)
    small = Cluster(*map(node, NODES), native("g", 3), *running(*NODES), *asked)
    assert answers(small, asked) == ["", "", ""]


def test_gangs_of_another_form_are_judged_as_they_are() -> None:
    """For their members, kube-scheduler calls preempt."""
    asked = [msgspec.structs.replace(one, priority=10) for one in gang("g", 3, 8)]
    small = Cluster(*map(node, NODES), *running(*NODES), *asked)
    assert answers(small, asked) == ["", "", ""]


def test_other_plugins_judge_with_the_pods_that_would_have_to_go() -> None:
    """kube-scheduler evicts what its own rules need gone, which may leave a quota as full as it is."""
    labels = {"quota.scheduling.koordinator.sh/name": "team"}
    asked, low = members(labels=labels), running(*NODES, labels=labels)
    for most, answered in ((32, False), (56, True)):
        quota = small_quotas.quota("team", 0, most)
        beside = (ElasticQuota(runtime=False),)
        small = Cluster(*map(node, NODES), quota, native("g", 3), *low, *asked, beside=beside)
        assert all(answers(small, asked)) == answered


def test_min_resources_count_what_evictions_would_free() -> None:
    labels = {membership.SIGS_LABEL: "s"}
    asked, low = members(labels=labels), running(*NODES)
    for cores, answered in ((24, True), (33, False)):
        outer = sigs("s", 3, resources={"cpu": cores * CORE})
        small = Cluster(*map(node, NODES), native("g", 3), outer, *low, *asked)
        assert all(answers(small, asked)) == answered


@pytest.mark.parametrize(
    ("definition", "may_go"),
    [
        (native("low", 2), False),
        (native("low", 2, disrupted_whole=True), True),
        (native("low", 2, options={options.VICTIMS: "allow"}), True),
        (native("low", 3), True),
    ],
    ids=["whole", "evicted as a whole", "allowed", "not whole anyway"],
)
def test_a_gang_that_runs_is_not_broken_up(definition: model.DeclaredObject, may_go: bool) -> None:
    asked = members()
    together = running(*NODES[:2], group="low")
    small = Cluster(*map(node, NODES), native("g", 3), definition, *together, *running(*NODES[2:]), *asked)
    assert all(answers(small, asked)) == may_go


def test_a_node_of_a_gang_that_stays_is_not_counted_on_for_its_other_pods() -> None:
    """kube-scheduler may put back the other pod, which is more important, instead of the member."""
    asked = members(2)
    beside = [pod("important", 4, node="n1", priority=5)]
    low = [pod(f"low{number}", 4, node=f"n{number + 1}", gang="low") for number in range(2)]
    small = Cluster(*map(node, NODES[:3]), native("g", 2), koordinator("low", 2), *beside, *low, *asked)
    assert answers(small, asked, NODES[:3]) == ["", ""]


def test_what_changes_of_a_pod_that_keeps_its_node_counts_at_once() -> None:
    (asked,) = members(1)
    limit = budgets.DisruptionBudget(
        uid="uid", namespace="x", name="limit", selector=model.Selector({"app": "db"}), allowed=0
    )
    low = {one.node: one for one in running(*NODES[:2])}
    small = Cluster(*map(node, low), native("g", 1), *low.values(), asked, limit)
    (first,) = answers(small, [asked], NODES[:2])
    small.see(msgspec.structs.replace(low[first], labels={"app": "db"}))
    assert answers(small, [asked], NODES[:2]) == [*({*low} - {first})]


def test_the_plan_chooses_the_domain_whichever_is_offered() -> None:
    zones = {"n0": "a", "n1": "b", "n2": "b", "n3": "a"}
    nodes = [node(name, 8, {ZONE: zone}) for name, zone in zones.items()]
    asked = members(2)
    equal = running("n3", priority=10)
    low = running("n0", "n1", "n2")
    small = Cluster(*nodes, native("g", 2, topology_key=ZONE), *low, *equal, *asked)
    assert answers(small, asked, ("n0",)) == ["", ""]
    assert sorted(answers(small, asked, ("n1", "n2"))) == ["n1", "n2"]
