"""PodGroups, Workloads and topologies as they come: what cannot be read is an error of the object."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.plugins.coscheduling import decoding, gang_model, kinds, options
from tests.support import declared
from tests.support.decisions.small_gangs import (
    ZONE,
    Cluster,
    defined,
    gang,
    koordinator,
    node,
    pod,
    sigs,
)

Decode = Callable[[bytes], gang_model.PodGroup | gang_model.Workload | gang_model.NetworkTopology]
DECODERS: list[Decode] = [
    decoding.koordinator,
    decoding.sigs,
    decoding.native,
    decoding.workload,
    decoding.topology,
]


def raw(spec: object, **metadata: object) -> bytes:
    return json.dumps(
        {"metadata": {"name": "g", "namespace": "x", "uid": "u", **metadata}, "spec": spec}
    ).encode()


def test_the_sigs_form() -> None:
    spec = {"minMember": 3, "scheduleTimeoutSeconds": 30, "minResources": {"cpu": "1500m", "memory": "1Ki"}}
    found = decoding.sigs(raw(spec, creationTimestamp="2026-01-01T00:00:00Z"))
    assert (found.minimum, found.timeout, found.errors) == (3, 30, ())
    assert found.resources == {"cpu": 1500, "memory": 1024}
    assert found.created == "2026-01-01T00:00:00Z"
    assert declared.SCHEMA.read(kinds.SIGS.name, kinds.SIGS.encode(found)) == found


@pytest.mark.parametrize("spec", [None, {}, {"minMember": None}, {"minMember": 0}])
def test_a_minimum_below_one_is_one(spec: object) -> None:
    found = decoding.koordinator(raw(spec))
    assert (found.minimum, found.errors) == (1, ())


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"minMember": -1}, "spec.minMember is negative: -1"),
        ({"minMember": 1001}, "spec.minMember is 1001; at most 1,000 members are placed together"),
        (
            {"minMember": 2, "scheduleTimeoutSeconds": 3 * 10**9},
            "spec.scheduleTimeoutSeconds is 3000000000; at most 2,147,483,647 seconds are allowed",
        ),
        ({"minMember": 10**30}, f"spec.minMember is {10**30}; at most 1,000 members are placed together"),
        ({"minMember": 2.5}, "spec.minMember must be a whole number"),
        ({"minMember": True}, "spec.minMember must be a whole number"),
        ({"minMember": "3"}, "spec.minMember must be a whole number"),
        ([], "spec must be an object"),
        ({"minResources": {"cpu": "-1"}}, "spec.minResources.cpu is not a quantity"),
        ({"minResources": {"cpu": [1]}}, "spec.minResources.cpu is not a quantity"),
        ({"minResources": 7}, "spec.minResources must be an object"),
        (
            {"minResources": {f"r{number}": 1 for number in range(101)}},
            "spec.minResources has 101 resources; at most 100 are allowed",
        ),
    ],
)
def test_what_is_wrong_is_named_and_the_members_are_refused_with_it(spec: object, error: str) -> None:
    found = decoding.sigs(raw(spec))
    assert found.errors == (error,)
    one = pod("m", labels={"scheduling.x-k8s.io/pod-group": "g"})
    assert Cluster(node("n1"), found, one).why(one) == f"gang sigs/x/g: invalid: {error}"


def test_the_native_forms() -> None:
    policy = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    topology = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    found = decoding.native(raw({**policy, **topology}))
    assert (found.minimum, found.topology_key, found.errors) == (4, "rack", ())
    assert decoding.native(raw({"schedulingPolicy": {"basic": {}}})).minimum == 0
    for mode, whole in (({"all": {}}, True), ("PodGroup", True), ({"single": {}}, False), ("Pod", False)):
        assert decoding.native(raw({**policy, "disruptionMode": mode})).disrupted_whole == whole
    for wrong in ([{"key": "a"}, {"key": "b"}], "rack", [{"key": 5}]):
        assert decoding.native(raw({"schedulingConstraints": {"topology": wrong}})).errors


@pytest.mark.parametrize("policy", [{"gang": {"minCount": 1}}, {"basic": {}}])
def test_a_member_of_a_group_inside_a_composite_group_is_refused_with_that_reason(policy: object) -> None:
    """Decision 44: alone it would fit."""
    spec = {"schedulingPolicy": policy, "parentCompositePodGroupName": "job"}
    error = "invalid: spec.parentCompositePodGroupName is job: composite pod groups are not modelled"
    one = pod("m", group="g")
    assert Cluster(node("n1"), decoding.native(raw(spec)), one).why(one) == f"gang native/x/g: {error}"
    small = Cluster(node("n1"), decoding.native(raw({**spec, "parentCompositePodGroupName": ""})), one)
    assert small.filter(one).kept == {"n1"}
    both = pod("b", group="g", labels={"scheduling.x-k8s.io/pod-group": "s"})
    small = Cluster(node("n1"), decoding.native(raw(spec)), sigs("s", 1), both)
    assert small.why(both) == f"gang sigs/x/s: {error}"


def test_the_workload_of_1_35() -> None:
    groups = [
        {"name": "workers", "policy": {"gang": {"minCount": 3}}},
        {"name": "driver", "policy": {"basic": {}}},
    ]
    found = decoding.workload(raw({"podGroups": groups}))
    assert (found.groups, found.errors) == ({"workers": 3, "driver": 0}, ())
    members = [pod(f"w{number}", group="g/workers/0") for number in range(3)]
    small = Cluster(node("n1"), found, *members[:2], pod("d", group="g/driver"))
    assert small.why(members[0]) == "gang native/x/g:workers:0: 2 of 3 members exist"
    small.see(members[2])
    assert small.planned(members[0]) == "n1"
    assert not small.filter(pod("d", group="g/driver")).refused
    assert "has no group other" in small.why(pod("o", group="g/other"))


def test_layers_are_ordered_by_their_parents() -> None:
    layers: list[dict[str, Any]] = [
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
        {"topologyLayer": "SpineLayer", "parentTopologyLayer": "ClusterTopologyLayer", "labelKey": ["spine"]},
        {"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": ["block", "b"]},
    ]
    found = decoding.topology(raw({"networkTopologySpec": layers}))
    assert found.layers == (
        gang_model.Layer("SpineLayer", ("spine",)),
        gang_model.Layer("BlockLayer", ("block", "b")),
    )
    layers[1]["parentTopologyLayer"] = "BlockLayer"
    assert decoding.topology(raw({"networkTopologySpec": layers})).errors == (
        "layer BlockLayer is above itself",
    )
    layers[1]["parentTopologyLayer"] = "Absent"
    assert "not listed" in decoding.topology(raw({"networkTopologySpec": layers})).errors[0]
    assert (
        "no layer NodeTopologyLayer" in decoding.topology(raw({"networkTopologySpec": layers[1:]})).errors[0]
    )


ODD: list[Any] = [None, 0, -1, 2**70, 1.5, True, "", "x" * 9999, [], [None], {}, {"a": None}, [[[]]]]
FIELDS = (
    "minMember",
    "minResources",
    "schedulingPolicy",
    "schedulingConstraints",
    "podGroups",
    "networkTopologySpec",
)


@pytest.mark.parametrize("decode", DECODERS, ids=lambda decode: decode.__name__)
def test_no_specification_ends_the_process(decode: Decode) -> None:
    for field in FIELDS:
        for value in (*ODD, *([one] for one in ODD), *({"gang": one, "topology": one} for one in ODD)):
            made = decode(raw({field: value}))
            assert all(len(error) <= 512 for error in made.errors)
            msgspec.json.encode(made)
    for value in ODD:
        decode(raw(value))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("10ms", 1),
        (".5s", 1),
        ("1m.5s", 61),
        ("5s-3s", 0),
        ("-5s", 0),
        ("5", 0),
        ("", 0),
        ("9" * 70, 0),
        ("1s x", 0),
    ],
)
def test_a_waiting_time_is_a_duration_of_go(text: str, seconds: int) -> None:
    assert options.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "[5]", '["x/a", 5]', "[" * 5000])
def test_a_list_of_groups_that_cannot_be_read_is_none(text: str) -> None:
    found = options.read({options.GROUPS: text}, {})
    assert (found.groups, found.errors) == ((), ())


def many(count: int) -> str:
    """A list of so many gangs."""
    return json.dumps([f"x/g{number}" for number in range(count)])


RULES = {"gatherStrategy": [{"layer": ZONE, "strategy": "MustGather"}] * 17}


@pytest.mark.parametrize("declared", [False, True], ids=["pods", "PodGroup"])
@pytest.mark.parametrize(
    ("key", "text", "error"),
    [
        (options.GROUPS, many(101), f"{options.GROUPS} lists 101 gangs; at most 100 are placed together"),
        (options.GROUPS, '["b", "x/g"]', f"{options.GROUPS} lists 'b', which is not NAMESPACE/NAME"),
        (options.GROUPS, '["a/b/c"]', f"{options.GROUPS} lists 'a/b/c', which is not NAMESPACE/NAME"),
        (options.TOPOLOGY, json.dumps(RULES), f"{options.TOPOLOGY} has 17 rules; at most 16 are allowed"),
        (
            options.TOPOLOGY,
            json.dumps({"gatherStrategy": [{"layer": "l" * 400, "strategy": "MustGather"}]}),
            f"{options.TOPOLOGY} names a layer of 400 characters; at most 317 are allowed",
        ),
    ],
)
def test_an_option_that_can_be_read_is_not_ignored(
    key: str, text: str, error: str, *, declared: bool
) -> None:
    two = gang("g", 2)
    if not declared:
        two = [msgspec.structs.replace(one, annotations={**one.annotations, key: text}) for one in two]
    groups = [koordinator("g", 2, options={key: text})] if declared else []
    small = Cluster(node("n1"), *groups, *two)
    assert small.why(two[0]) == f"gang koordinator/x/g: invalid: {error}"
    assert defined(small, "g").errors == (error,)


@pytest.mark.parametrize("text", [many(100), '["x/a"' + ',"x/a"' * 101 + "]"])
def test_a_list_of_groups_has_at_most_100_gangs(text: str) -> None:
    found = options.read({options.GROUPS: text}, {})
    assert (len(found.groups), found.errors) == (len(set(json.loads(text))), ())


def test_an_annotation_that_is_too_long_is_an_error_of_the_pod_group() -> None:
    found = decoding.koordinator(raw({}, annotations={options.GROUPS: many(9000), "other": many(9000)}))
    assert found.errors == (f"annotation {options.GROUPS} has more than 65,536 characters",)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"gatherStrategy": 5}', '{"gatherStrategy": [5, {"layer": 7}]}', "{" * 9999]
)
def test_a_topology_that_cannot_be_read_is_none(text: str) -> None:
    assert options.read({f"{options.PREFIX}network-topology-spec": text}, {}).gather == ()


@pytest.mark.parametrize("minimum", ["two", "", "1e3", "99999999999", "3 "])
def test_a_minimum_that_cannot_be_read_defines_no_gang(minimum: str) -> None:
    (one,) = gang("g", 1, minimum=minimum or " ")
    assert "no member defines" in Cluster(node("n1"), one).why(one)


@pytest.mark.parametrize(("minimum", "counts"), [("-5", 1), ("0", 1), ("1000", 1000)])
def test_a_minimum_below_one_counts_as_one(minimum: str, counts: int) -> None:
    (one,) = gang("g", 1, minimum=minimum)
    small = Cluster(node("n1"), one)
    assert (small.planned(one) == "n1") == (counts == 1)


def test_members_in_two_groups_of_kube_scheduler_are_invalid() -> None:
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    two = [pod(f"m{number}", labels=label, group=f"inner-{number}") for number in range(2)]
    small = Cluster(node("n1"), sigs("g", 2), *two)
    assert small.why(two[0]) == (
        "gang sigs/x/g: invalid: its members are in several pod groups of kube-scheduler: inner-0, inner-1"
    )


def test_two_families_of_one_name_are_two_gangs() -> None:
    mine = pod("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
    theirs = pod("b", labels={options.LABEL: "g"})
    small = Cluster(node("n1"), sigs("g", 2), mine, theirs)
    assert small.why(mine) == "gang sigs/x/g: 1 of 2 members exist"
    assert "no member defines" in small.why(theirs)


def test_a_definition_that_vanishes_leaves_its_gangs_refused_and_the_seats_kept() -> None:
    group = sigs("g", 2)
    two = [pod(f"m{number}", labels={"scheduling.x-k8s.io/pod-group": "g"}) for number in range(2)]
    late = pod("late", labels={"scheduling.x-k8s.io/pod-group": "g"})
    small = Cluster(node("n1"), group, *two)
    small.commit(two[0], "n1")
    small.take(kinds.SIGS.gone("x", "g", group.uid))
    assert small.planned(two[1]) == "n1"
    assert small.why(late) == "gang sigs/x/g: pod group x/g not found"
    small.see(group)
    assert small.planned(late) == "n1"
