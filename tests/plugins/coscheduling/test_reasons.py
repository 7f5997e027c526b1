"""Reasons and remarks about gangs: they state what keeps the gang waiting, and nothing that does not."""

import json

import msgspec
import pytest

from app.domain import model
from app.framework import cycles, pipeline
from app.plugins.coscheduling import endpoints, gang_model, membership, options
from tests.support.decisions.gang_effects import PLUGIN, everything, members, posted
from tests.support.decisions.small_gangs import (
    CORE,
    ZONE,
    Cluster,
    defined,
    gang,
    koordinator,
    native,
    node,
    sigs,
)

BOTH = '["x/a", "x/b"]'


def shown(small: Cluster, name: str) -> tuple[str, str]:
    """The reason and what is missing in the view of a gang."""
    found = defined(small, name)
    question, plan = endpoints.planned(PLUGIN, small.snapshot, found, cycles.ALONE)
    return plan.reason, endpoints.missing(found, question, plan)


def shown_remarks(small: Cluster, name: str, one: model.Pod | None = None) -> list[str]:
    """The remarks of explain about a member of a gang, or the first that waits."""
    pod = one or defined(small, name).waiting[0]
    cycle = cycles.cycle(pod, frozenset(small.snapshot.nodes), small.snapshot)
    return list(PLUGIN.shown().remarks(pipeline.with_peers(small.plugins, cycle, PLUGIN.name)))


def test_members_that_run_are_no_shortage_for_only_waiting() -> None:
    four = gang("g", 4, match_policy="only-waiting")
    small = Cluster(node("n1", 64), *four)
    for one in four[:3]:
        small.run(one, "n1")
    reason = "gang koordinator/x/g: 1 of 4 members wait; those that run do not count (only-waiting)"
    assert small.why(four[3]) == reason
    assert shown(small, "g") == (reason, "")
    assert posted(everything(small)) == [("x/g3", reason)]
    small.run(four[3], "n1")
    assert shown(small, "g") == ("", "")
    extra = msgspec.structs.replace(four[0], name="g4", uid="uid-x-g4")
    small.see(extra)
    assert small.why(extra) == reason


def test_a_seat_that_is_not_bound_counts_for_only_waiting() -> None:
    four = gang("g", 4, minimum=3, match_policy="only-waiting")
    small = Cluster(node("n1", 3), *four)
    small.commit(four[0], "n1")
    small.run(four[0], "n1")
    assert shown(small, "g") == (
        "gang koordinator/x/g: no capacity for 1 member",
        "0 of 1 seats in the cluster; cpu 1 of 1 missing",
    )


def test_a_gang_is_refused_for_another_one_of_its_group_of_which_all_members_run() -> None:
    a, b = gang("a", 2, groups=BOTH), gang("b", 2, groups=BOTH, match_policy="only-waiting")
    small = Cluster(node("n1", 64), *a, *b)
    for one in b:
        small.run(one, "n1")
    reason = "gang koordinator/x/b: 0 of 2 members wait; those that run do not count (only-waiting)"
    assert small.why(a[0]) == reason
    assert posted(everything(small)) == [("x/a0", reason)]
    assert shown(small, "b") == (reason, "")


def test_what_another_gang_of_the_group_lacks_in_members_is_no_shortage() -> None:
    a, b = gang("a", 2, groups=BOTH), gang("b", 2, groups=BOTH)
    small = Cluster(node("n1", 64), *a, b[0])
    assert shown(small, "a") == ("gang koordinator/x/b: 1 of 2 members exist", "")


TOPOLOGY = gang_model.NetworkTopology(
    uid="t", namespace="", name="default", layers=(gang_model.Layer("BlockLayer", ("block",)),)
)


def rules(*given: tuple[str, str, int]) -> str:
    """A network-topology-spec of layers, strategies and multiples."""
    listed = [
        {"layer": layer, "strategy": strategy, "podCountMultiple": multiple}
        for layer, strategy, multiple in given
    ]
    return json.dumps({"gatherStrategy": listed})


RACKS = ("RackLayer", "PreferGather", 1)


def test_a_preferred_layer_that_the_topology_lacks_is_left_out_and_shown() -> None:
    spec = rules(("BlockLayer", "MustGather", 1), RACKS)
    two = gang("g", 2, network_topology_spec=spec)
    nodes = [node(f"n{at}", 1, {"block": block}) for at, block in enumerate("abb")]
    small = Cluster(TOPOLOGY, *nodes, *two)
    assert {small.planned(one) for one in two} == {"n1", "n2"}
    text = "the network topology has no layer RackLayer: it is preferred, and left out"
    remarks = shown_remarks(small, "g")
    assert endpoints.warnings(small.snapshot, defined(small, "g")) == [text]
    assert f"gang koordinator/x/g: {text}" in remarks


def test_a_gang_of_which_all_layers_are_left_out_has_the_usual_ones() -> None:
    two = gang("g", 2, network_topology_spec=rules(RACKS))
    nodes = [node(f"n{at}", 1, {ZONE: zone}) for at, zone in enumerate("abb")]
    for topology in ((), (TOPOLOGY,)):
        small = Cluster(*topology, *nodes, *two)
        assert {small.planned(one) for one in two} == {"n1", "n2"}


@pytest.mark.parametrize("rule", [("RackLayer", "MustGather", 1), ("RackLayer", "PreferGather", 2)])
def test_a_layer_with_a_demand_is_not_left_out(rule: tuple[str, str, int]) -> None:
    two = gang("g", 2, network_topology_spec=rules(rule))
    small = Cluster(TOPOLOGY, node("n1", 8, {"block": "a"}), *two)
    assert small.why(two[0]) == "gang koordinator/x/g: the network topology has no layer RackLayer"
    assert endpoints.warnings(small.snapshot, defined(small, "g")) == []


@pytest.mark.parametrize(("ending", "fits"), [("g", True), ("h", False)])
def test_min_resources_count_what_terminating_members_hold_as_free(ending: str, *, fits: bool) -> None:
    """Of the gang itself: what its last run holds is not what others request."""
    held = {"cpu": 6 * CORE, "pods": 2}
    last = [
        msgspec.structs.replace(one, uid=f"last-{one.uid}", node="n1", phase="Running", terminating=True)
        for one in members(ending, 2, 2)
    ]
    two = [msgspec.structs.replace(one, name=f"next-{one.name}") for one in members("g", 2, 2)]
    small = Cluster(node("n1", 8), sigs("g", 2, resources=held), sigs("h", 2), *last, *two)
    assert bool(small.planned(two[0])) == fits
    if not fits:
        assert small.why(two[0]) == "gang sigs/x/g: the cluster has too little free for minResources in cpu"


def test_a_remark_names_each_other_gang_that_a_pod_names() -> None:
    (one,) = gang("g", 1)
    marks = {options.LABEL: "h", membership.SIGS_LABEL: "s"}
    two = [
        msgspec.structs.replace(one, labels=marks),
        msgspec.structs.replace(one, name="n", uid="n", labels={options.LABEL: "g"}, group="inner"),
    ]
    small = Cluster(node("n1"), koordinator("g", 1), koordinator("h", 1), native("inner", 1), *two)
    text = "gang koordinator/x/h: the pod also names {}, which does not count"
    assert shown_remarks(small, "h")[:2] == [text.format("koordinator/x/g"), text.format("sigs/x/s")]
    assert not [remark for remark in shown_remarks(small, "g") if "names" in remark]
    placed = small.commit(two[0], "n1")
    assert placed
    assert shown_remarks(small, "h", two[0])[0] == text.format("koordinator/x/g")


def test_a_remark_names_the_gang_that_a_pod_has_left_with_a_seat() -> None:
    two = members("g", 2)
    small = Cluster(node("n1"), sigs("g", 2), sigs("h", 2), *two)
    assert small.commit(two[0], "n1")
    other = msgspec.structs.replace(two[1], labels={membership.SIGS_LABEL: "h"})
    assert shown_remarks(small, "h", other)[:2] == [
        "gang sigs/x/h: the pod has left gang sigs/x/g, for which it has a seat on node n1",
        "gang sigs/x/h: minimum 2, 0 on nodes, 1 waiting; defined by PodGroup x/h",
    ]


def test_a_remark_names_the_seat_that_does_not_hold_for_a_pod_that_has_changed() -> None:
    """filter decides about it as without the seat, so the plan is shown."""
    two = members("g", 2)
    small = Cluster(node("n1"), sigs("g", 2), *two)
    assert small.commit(two[0], "n1")
    seat = "gang sigs/x/g: the pod has a seat on node n1"
    assert shown_remarks(small, "g", two[1]) == [seat]
    changed = msgspec.structs.replace(two[1], labels={**two[1].labels, "version": "2"})
    assert shown_remarks(small, "g", changed)[:2] == [
        "gang sigs/x/g: the pod has changed since it got its seat on node n1",
        "gang sigs/x/g: minimum 2, 1 on nodes, 1 waiting; defined by PodGroup x/g",
    ]
    own = msgspec.structs.replace(two[0], labels=changed.labels)
    assert shown_remarks(small, "g", own) == [seat]
