"""Members come in multiples also where another plugin admits only some of them."""

import json
from collections import Counter

import msgspec
import pytest

from app.domain import model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from app.plugins.workload_policy import logic
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.decisions import small_clusters, small_quotas
from tests.support.decisions.small_gangs import RACK, Cluster, gang, node, pod

QUOTA = ElasticQuota(runtime=False)


def rules(**multiples: int) -> str:
    """A network-topology-spec: multiples of nodes, and of racks."""
    layers = {"node": "NodeTopologyLayer", "rack": f"example.com/{RACK}"}
    return json.dumps(
        {
            "gatherStrategy": [
                {"layer": layers[name], "strategy": "PreferGather", "podCountMultiple": multiple}
                for name, multiple in multiples.items()
            ]
        }
    )


def members(count: int, least: int, spec: str) -> list[model.Pod]:
    """Members of one core in the quota, of which so many are required."""
    made = gang("g", count, minimum=least, network_topology_spec=spec, match_policy="waiting-and-running")
    return [msgspec.structs.replace(one, labels={membership.LABEL: "q"}) for one in made]


def in_a_quota(cores: int, asked: list[model.Pod], *, nodes: int = 4) -> Cluster:
    """Nodes of two cores, two in each rack, and a quota of so many."""
    made = [node(f"n{at}", 2, {f"example.com/{RACK}": f"r{at // 2}"}) for at in range(nodes)]
    return Cluster(*made, small_quotas.quota("q", 0, cores), *asked, beside=(QUOTA,))


def planned(small: Cluster, asked: list[model.Pod]) -> Counter[str]:
    """Node -> members that are planned there."""
    return Counter(filter(None, (small.planned(one) for one in asked)))


@pytest.mark.scenario("CS-11")
def test_a_quota_leaves_no_multiple_incomplete() -> None:
    asked = members(4, 2, rules(node=2))
    small = in_a_quota(3, asked)
    assert sorted(planned(small, asked).values()) == [2]
    assert len(small.commit(asked[0], small.planned(asked[0]))) == 2


@pytest.mark.scenario("CS-11")
def test_multiples_of_several_layers_are_complete_in_each() -> None:
    asked = members(8, 1, rules(node=2, rack=4))
    for cores, expected in ((8, [2, 2, 2, 2]), (7, [2, 2]), (5, [2, 2]), (3, [])):
        assert sorted(planned(in_a_quota(cores, asked), asked).values()) == expected


@pytest.mark.scenario("CS-11")
def test_a_gang_whose_minimum_no_multiples_meet_in_its_quota_is_refused_by_the_quota() -> None:
    asked = members(4, 3, rules(node=2))
    small = in_a_quota(3, asked)
    assert planned(small, asked) == Counter()
    assert small.why(asked[0]) == "gang koordinator/x/g: elastic quota q: no capacity in cpu"


@pytest.mark.scenario("CS-11")
def test_a_quota_that_admits_one_member_admits_that_which_completes_a_multiple() -> None:
    """Two more would fill another node."""
    asked = members(4, 1, rules(node=2))
    small = in_a_quota(2, asked)
    small.run(asked[3], "n2")
    assert planned(small, asked[:3]) == Counter({"n2": 1})


def under_a_policy(asked: list[model.Pod], racks: dict[str, str], **limits: int) -> Cluster:
    """Nodes of two cores in these racks, of which each takes so many members."""
    limit = small_clusters.policy(
        limits, name="p", namespace="x", key=RACK, required=True, selector=model.Selector({"app": "a"})
    )
    nodes = [node(name, 2, {RACK: rack}) for name, rack in racks.items()]
    asked = [msgspec.structs.replace(one, labels={logic.LABEL: "p", "app": "a"}) for one in asked]
    return Cluster(*nodes, limit, *asked, beside=(WorkloadPolicy(),))


@pytest.mark.scenario("CS-11")
def test_a_policy_leaves_no_multiple_incomplete() -> None:
    """It admits one member to the first node."""
    small = under_a_policy(members(4, 2, rules(node=2)), {"n0": "r0", "n1": "r1"}, r0=1, r1=4)
    assert planned(small, [*small.snapshot.pods.values()]) == Counter({"n1": 2})


@pytest.mark.scenario("CS-11")
def test_a_member_is_planned_on_the_offered_node_whose_multiple_is_complete() -> None:
    places = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r0"}
    small = under_a_policy(members(4, 2, rules(node=2)), places, r0=6, r1=1)
    last = small.snapshot.pods["uid-x-g3"]
    assert small.planned(last) == "n1"
    assert small.planned(last, ["n2", "n3"]) == "n3"


@pytest.mark.scenario("CS-11")
def test_a_member_whose_planned_node_is_not_offered_comes_with_its_multiple() -> None:
    asked = members(4, 2, rules(node=2))
    small = in_a_quota(3, asked)
    assert small.planned(asked[0], ["n2"]) == "n2"
    assert Counter(small.commit(asked[0], "n2").values()) == Counter({"n2": 2})
    held = in_a_quota(3, asked)
    held.see(pod("large", node="n2"))
    assert held.planned(asked[0], ["n2"]) == ""
