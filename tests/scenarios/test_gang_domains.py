"""Scenarios of Coscheduling: in which domains a gang is placed. A node has capacity for one member."""

import json
from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest

from app.domain import model
from app.plugins.coscheduling import gang_model, options
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.decisions import small_clusters
from tests.support.decisions.small_gangs import CORE, RACK, ZONE, Cluster, gang, native, node, pod

LAYERS = ("SpineLayer", "BlockLayer")
TOR = gang_model.NetworkTopology(
    uid="tor",
    namespace="",
    name="default",
    layers=tuple(gang_model.Layer(name, (name.lower(),)) for name in LAYERS),
)


def tree(places: Mapping[str, str], cores: Mapping[str, int] | None = None) -> list[model.Node]:
    """Nodes by ``spine/block``, with one core each unless given."""
    made = []
    for name, path in places.items():
        labels = dict(zip(("spinelayer", "blocklayer"), path.split("/"), strict=True))
        made.append(node(name, (cores or {}).get(name, 1), labels))
    return made


SMALL = {
    **dict.fromkeys(("n1", "n2"), "A/a1"),
    **dict.fromkeys(("n3", "n4"), "A/a2"),
    **dict.fromkeys(("n5", "n6", "n7"), "B/b1"),
}


def gather(**layers: str | int) -> str:
    """A network-topology-spec: layer -> strategy, or a multiple."""
    rules = [
        {"layer": name, "strategy": rule if isinstance(rule, str) else "PreferGather"}
        | ({"podCountMultiple": rule} if isinstance(rule, int) else {})
        for name, rule in layers.items()
    ]
    return json.dumps({"gatherStrategy": rules})


def placed(small: Cluster, members: list[model.Pod]) -> dict[str, str]:
    return {one.name: small.planned(one) for one in members}


PREFER = gather(SpineLayer="PreferGather", BlockLayer="PreferGather")


@pytest.mark.scenario("CS-8")
def test_the_deepest_layer_with_capacity_is_used() -> None:
    three = gang("g", 3, network_topology_spec=PREFER)
    small = Cluster(TOR, *tree(SMALL), *three)
    assert placed(small, three) == {"g0": "n5", "g1": "n6", "g2": "n7"}
    four = gang("g", 4, network_topology_spec=PREFER)
    small = Cluster(TOR, *tree(SMALL), *four)
    assert placed(small, four) == {"g0": "n1", "g1": "n2", "g2": "n3", "g3": "n4"}
    must = gang("g", 4, network_topology_spec=gather(BlockLayer="MustGather"))
    small = Cluster(TOR, *tree(SMALL), *must)
    assert small.why(must[0]) == "gang koordinator/x/g: no domain of BlockLayer has capacity for 4 members"
    view = next(one for one in Coscheduling().shown().endpoints if one.path == "gangs/<namespace>/<name>")
    shown = view.handle(small.snapshot, {"namespace": "x", "name": "g"})
    assert isinstance(shown, dict)
    assert shown["missing"] == "3 of 4 seats in B/b1; cpu 1 of 4 missing"


@pytest.mark.scenario("CS-9")
def test_nodes_with_more_capacity_are_filled_first() -> None:
    three = gang("g", 3, network_topology_spec=PREFER)
    small = Cluster(TOR, *tree(SMALL, {"n5": 2}), *three)
    assert placed(small, three) == {"g0": "n5", "g1": "n5", "g2": "n6"}


@pytest.mark.parametrize("topology", [(), (TOR,)], ids=["none", "object"])
def test_one_node_may_be_demanded(topology: tuple[gang_model.NetworkTopology, ...]) -> None:
    places = {"n0": "A/a", "n1": "A/a", "n2": "B/b"}
    four = gang("g", 4, 4, network_topology_spec=gather(NodeTopologyLayer="MustGather"))
    small = Cluster(*topology, *tree(places, dict.fromkeys(places, 8)), *four)
    assert {small.why(one) for one in four} == {
        "gang koordinator/x/g: no domain of NodeTopologyLayer has capacity for 4 members"
    }
    small.see(*tree({"n3": "B/b"}, {"n3": 16}))
    assert placed(small, four) == dict.fromkeys(("g0", "g1", "g2", "g3"), "n3")
    assert set(small.commit(four[0], "n3").values()) == {"n3"}


def test_members_come_in_multiples_to_the_one_node_that_is_demanded() -> None:
    rule = {"layer": "NodeTopologyLayer", "strategy": "MustGather", "podCountMultiple": 2}
    three = gang("g", 3, minimum=2, network_topology_spec=json.dumps({"gatherStrategy": [rule]}))
    small = Cluster(TOR, *tree(dict.fromkeys(("n1", "n2"), "A/a"), {"n1": 3}), *three)
    assert placed(small, three) == {"g0": "n1", "g1": "n1", "g2": ""}


ROW = "example.com/row"


def rows(places: Mapping[str, str], **row: str) -> list[model.Node]:
    """The nodes of a tree, those that are named also with a row."""
    return [
        msgspec.structs.replace(one, labels=one.labels | ({ROW: row[one.name]} if one.name in row else {}))
        for one in tree(places)
    ]


def test_a_native_topology_key_is_one_more_layer_beside_those_of_the_object() -> None:
    places = {**dict.fromkeys(("n1", "n2", "n3"), "A/a"), **dict.fromkeys(("n4", "n5", "n6"), "B/b")}
    zones = {"n1": "z1", "n2": "z1", "n3": "z2", "n4": "z1", "n5": "z1"}
    nodes = [
        msgspec.structs.replace(
            one, labels=one.labels | ({ZONE: zones[one.name]} if one.name in zones else {})
        )
        for one in tree(places)
    ]
    spec = gather(BlockLayer="MustGather")
    for count, expected in ((2, {"n1", "n2"}), (3, {""})):
        members = [
            msgspec.structs.replace(one, group="inner")
            for one in gang("g", count, network_topology_spec=spec)
        ]
        small = Cluster(TOR, native("inner", 1, topology_key=ZONE), *nodes, *members)
        assert set(placed(small, members).values()) == expected
    assert small.why(members[0]) == "gang koordinator/x/g: no domain of BlockLayer has capacity for 3 members"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_label_that_is_preferred_does_not_split_a_layer_that_is_demanded(order: tuple[int, int]) -> None:
    """Rows are parts of blocks here; a node without a row is in its block alone."""
    places = dict.fromkeys(("n1", "n2", "n3", "n4", "n5"), "A/a")
    row = {"n1": "r1", "n2": "r2", "n3": "r1", "n4": "r2"}
    rules = {ROW: "PreferGather", "BlockLayer": "MustGather"}
    spec = gather(**{name: rules[name] for name in (list(rules)[at] for at in order)})
    for count, expected in ((2, {"n1", "n3"}), (4, {"n1", "n2", "n3", "n4"}), (5, set(places))):
        members = gang("g", count, network_topology_spec=spec)
        small = Cluster(TOR, *rows(places, **row), *members)
        assert set(placed(small, members).values()) == expected


def test_a_label_is_demanded_beside_a_layer_of_the_object() -> None:
    places = {**dict.fromkeys(("n1", "n2", "n3"), "A/a"), **dict.fromkeys(("n4", "n5"), "B/b")}
    spec = gather(**{ROW: "MustGather", "BlockLayer": "MustGather"})
    two = gang("g", 2, network_topology_spec=spec)
    split = rows(places, n1="r1", n2="r2", n4="r1")
    small = Cluster(TOR, *split, *two)
    assert small.why(two[0]) == "gang koordinator/x/g: no domain of BlockLayer has capacity for 2 members"
    small.see(*rows({"n5": "B/b"}, n5="r1"))
    assert set(placed(small, two).values()) == {"n4", "n5"}


def test_an_object_that_is_invalid_concerns_only_gangs_that_name_its_layers() -> None:
    invalid = msgspec.structs.replace(TOR, layers=(), errors=("layer A is above itself",))
    nodes = rows(dict.fromkeys(("n1", "n2"), "A/a"), n1="r1", n2="r1")
    two = gang("g", 2, network_topology_spec=gather(**{ROW: "MustGather"}))
    assert set(placed(Cluster(invalid, *nodes, *two), two).values()) == {"n1", "n2"}
    two = gang("g", 2, network_topology_spec=gather(**{ROW: "MustGather", "BlockLayer": "PreferGather"}))
    assert Cluster(invalid, *nodes, *two).why(two[0]) == (
        "gang koordinator/x/g: the network topology is invalid: layer A is above itself"
    )


TWO_BLOCKS = {
    **{f"s{n}": "A/small" for n in range(3)},
    **{f"t{n}": "A/tall" for n in range(5)},
}


@pytest.mark.scenario("CS-10")
def test_the_smallest_domain_with_capacity_unless_members_attract() -> None:
    three = gang("g", 3, network_topology_spec=PREFER)
    small = Cluster(TOR, *tree(TWO_BLOCKS), *three)
    assert {name[0] for name in placed(small, three).values()} == {"s"}
    like = {options.SELECTOR: "together"}
    three = [msgspec.structs.replace(one, annotations=one.annotations | like) for one in three]
    runs = pod("runs", 1, node="t4", annotations=like)
    small = Cluster(TOR, *tree(TWO_BLOCKS), *three, runs)
    assert {name[0] for name in placed(small, three).values()} == {"t"}


@pytest.mark.scenario("CS-11")
@pytest.mark.parametrize(("count", "fits"), [(6, True), (7, False)])
def test_members_come_in_multiples(count: int, fits: bool) -> None:
    members = gang("g", count, network_topology_spec=gather(BlockLayer="MustGather", NodeTopologyLayer=2))
    places = dict.fromkeys(("n1", "n2", "n3"), "A/a")
    small = Cluster(TOR, *tree(places, {"n1": 3, "n2": 3, "n3": 2}), *members)
    names = sorted(filter(None, placed(small, members).values()))
    assert names == (sorted(["n1", "n2", "n3"] * 2) if fits else [])
    assert fits or small.why(members[0]).endswith(" for 7 members by multiples of 2 in NodeTopologyLayer")


@pytest.mark.scenario("CS-11")
@pytest.mark.parametrize(("least", "expected"), [(2, 2), (3, 0)])
def test_a_domain_that_takes_the_whole_gang_takes_multiples(least: int, expected: int) -> None:
    three = gang("g", 3, minimum=least, network_topology_spec=gather(BlockLayer=2))
    small = Cluster(TOR, *tree(dict.fromkeys(("n1", "n2"), "A/a"), {"n1": 2, "n2": 2}), *three)
    assert sum(map(bool, placed(small, three).values())) == expected


PAIRS = gather(BlockLayer="PreferGather", NodeTopologyLayer=2)


@pytest.mark.scenario("CS-11")
@pytest.mark.parametrize("match", ["once-satisfied", "waiting-and-running"])
def test_a_member_that_is_made_again_completes_a_multiple(match: str) -> None:
    """Neither a node with a whole multiple nor one without members takes a single one."""
    four = gang("g", 4, 2, network_topology_spec=PAIRS, match_policy=match)
    names = ("n1", "n2", "n3")
    small = Cluster(TOR, *tree(dict.fromkeys(names, "A/a"), dict.fromkeys(names, 6)), *four)
    planned = placed(small, four)
    assert set(planned.values()) == {"n1", "n2"}
    small.commit(four[0], planned["g0"])
    for one in four:
        small.run(one, planned[one.name])
    small.gone(four[3])
    again = msgspec.structs.replace(four[3], uid="again")
    small.see(again)
    assert small.planned(again) == planned["g3"]
    small.see(pod("large", 3, node=planned["g3"]))
    assert small.why(again) == (
        "gang koordinator/x/g: no capacity for 1 member by multiples of 2 in NodeTopologyLayer"
    )


@pytest.mark.scenario("CS-11")
def test_multiples_count_no_members_of_other_gangs_that_attract_the_gang() -> None:
    like = {options.SELECTOR: "together"}
    runs = pod("runs", node="n2", annotations=like)
    for count, expected in ((2, {"n2"}), (3, {"n2", ""})):
        members = gang("g", count, minimum=2, network_topology_spec=PAIRS)
        members = [msgspec.structs.replace(one, annotations=one.annotations | like) for one in members]
        nodes = tree(dict.fromkeys(("n1", "n2"), "A/a"), {"n1": 4, "n2": 4})
        assert set(placed(Cluster(TOR, *nodes, *members, runs), members).values()) == expected


@pytest.mark.scenario("CS-11")
def test_members_come_in_multiples_if_a_planned_node_is_not_offered() -> None:
    four = gang("g", 4, network_topology_spec=PAIRS)
    names = ("n1", "n2", "n3", "n4")
    small = Cluster(TOR, *tree(dict.fromkeys(names, "A/a"), dict.fromkeys(names, 2)), *four)
    assert set(placed(small, four).values()) == {"n1", "n2"}
    assert small.planned(four[0], ["n3", "n4"]) == "n3"
    seats = small.commit(four[0], "n3")
    assert (seats["g0"], sorted(Counter(seats.values()).values())) == ("n3", [2, 2])


@pytest.mark.scenario("CS-11")
@pytest.mark.parametrize("spec", [PAIRS, gather(BlockLayer=2)], ids=["nodes", "blocks"])
@pytest.mark.parametrize(
    ("sizes", "capacity", "expected"),
    [
        ((5, 5, 1, 1), 8, [(1, 5), (1, 5)]),
        ((5, 1, 5, 1), 6, [(1, 5), (1, 5)]),
        ((5, 5, 1, 1, 9), 8, [(1, 5), (1, 5)]),
        ((8, 2, 2, 2), 8, []),
    ],
)
def test_members_of_several_sizes_come_in_multiples(
    sizes: tuple[int, ...], capacity: int, expected: list[tuple[int, ...]], spec: str
) -> None:
    equal = gang("g", len(sizes), minimum=4, network_topology_spec=spec)
    members = [
        msgspec.structs.replace(one, requests={"cpu": size * CORE})
        for one, size in zip(equal, sizes, strict=True)
    ]
    small = Cluster(TOR, *tree({"n1": "A/a", "n2": "A/b"}, {"n1": capacity, "n2": capacity}), *members)
    planned = placed(small, members)
    found = [
        tuple(sorted(size for size, name in zip(sizes, planned.values(), strict=True) if name == node))
        for node in sorted(set(planned.values()) - {""})
    ]
    assert found == expected


@pytest.mark.scenario("CS-12")
def test_a_block_name_below_two_spines_is_two_blocks() -> None:
    places = {**dict.fromkeys(("n1", "n2"), "s1/b1"), **dict.fromkeys(("n3", "n4"), "s2/b1")}
    three = gang("g", 3, network_topology_spec=gather(BlockLayer="MustGather"))
    small = Cluster(TOR, *tree(places), *three)
    assert small.why(three[0]) == "gang koordinator/x/g: no domain of BlockLayer has capacity for 3 members"


@pytest.mark.scenario("CS-13")
def test_members_go_by_their_index() -> None:
    members = [
        msgspec.structs.replace(one, name=name, annotations=one.annotations | {options.INDEX: index})
        for one, name, index in zip(
            gang("g", 3, network_topology_spec=PREFER), "pqr", ("2", "0", "1"), strict=True
        )
    ]
    small = Cluster(TOR, *tree(dict.fromkeys(("n1", "n2"), "A/a"), {"n2": 2}), *members)
    assert placed(small, members) == {"q": "n2", "r": "n2", "p": "n1"}


@pytest.mark.scenario("CS-17")
def test_the_plan_chooses_the_domain_whatever_is_offered() -> None:
    nodes = [node(f"a{n}", 2, {ZONE: "a"}) for n in range(3)] + [
        node(f"b{n}", 2, {ZONE: "b"}) for n in range(2)
    ]
    members = [pod(f"m{n}", 2, group="g") for n in range(2)]
    small = Cluster(*nodes, native("g", 2, topology_key=ZONE), *members)
    for _ in range(2):
        assert small.planned(members[0], ["a0", "a1", "a2"]) == ""
        assert small.planned(members[0], ["b0", "b1"]) == "b0"
        assert small.planned(members[1], ["b1"]) == "b1"
    small.commit(members[0], "b0")
    small.run(members[0], "b0")
    assert small.planned(members[1], ["a0", "a1", "a2"]) == ""


def test_a_gang_without_rules_takes_as_few_usual_domains_as_it_fits_in() -> None:
    nodes = [
        node(f"{zone}{n}", 1, {ZONE: zone})
        for zone, size in (("a", 2), ("b", 4), ("c", 3))
        for n in range(size)
    ]
    for count, zones in ((2, "a"), (3, "c"), (4, "b"), (6, "bc"), (9, "abc")):
        members = gang("g", count)
        small = Cluster(*nodes, *members)
        assert {name[0] for name in placed(small, members).values()} == set(zones), count


def test_the_layers_are_an_argument() -> None:
    nodes = [node(f"{rack}{n}", 1, {ZONE: "z", RACK: rack}) for rack in "pq" for n in range(2)]
    two = gang("g", 2)
    small = Cluster(*nodes, *two, pod("runs", 1, node="p0"), layers=(ZONE, RACK))
    assert {name[0] for name in placed(small, two).values()} == {"q"}


def test_a_layer_that_does_not_exist_is_named() -> None:
    two = gang("g", 2, network_topology_spec=gather(RowLayer="MustGather"))
    assert Cluster(TOR, *tree(SMALL), *two).why(two[0]) == (
        "gang koordinator/x/g: the network topology has no layer RowLayer"
    )


def test_another_node_is_planned_if_the_planned_one_is_not_offered() -> None:
    three = gang("g", 3)
    small = Cluster(*[node(f"n{n}", 1) for n in range(5)], *three)
    first = small.planned(three[0])
    others = sorted({f"n{n}" for n in range(5)} - {first})
    assert small.planned(three[0], others[-1:]) == others[-1]
    assert len(set(small.commit(three[0], others[-1]).values())) == 3


@pytest.mark.parametrize(
    ("offered", "expected"),
    [(("n1", "n4"), "n4"), (("n1", "n3"), "n3"), (("n1",), "")],
    ids=["a free node", "a node whose member can move", "a node whose member cannot move"],
)
def test_a_member_takes_the_offered_node_on_which_the_plan_stays_complete(
    offered: tuple[str, ...], expected: str
) -> None:
    """The member with eight cores needs the first node, and all nodes are in one domain."""
    members = [pod(f"m{number}", cpu, group="g") for number, cpu in enumerate((1, 8, 1))]
    small = Cluster(node("n1", 8), *(node(f"n{number}", 1) for number in (2, 3, 4)), native("g", 3), *members)
    assert placed(small, members) == {"m0": "n2", "m1": "n1", "m2": "n3"}
    assert small.filter(members[0], list(offered), offered=True).kept == {expected} - {""}
    if expected:
        seats = small.commit(members[0], expected)
        assert (len(set(seats.values())), seats["m0"], seats["m1"]) == (3, expected, "n1")


@pytest.mark.parametrize("demanded", ["native", "MustGather"])
@pytest.mark.parametrize(("admitted", "expected"), [(2, "b"), (1, "")])
def test_a_gang_takes_another_domain_where_other_plugins_admit_it(
    demanded: str, admitted: int, expected: str
) -> None:
    """Zone a has less capacity and comes first, and a policy admits too few members there."""
    policy = small_clusters.policy(
        {"a": 1, "b": admitted},
        required=True,
        name="spread",
        namespace="x",
        key=ZONE,
        selector=model.Selector({"app": "train"}),
    )
    two = gang("g", 2, 4, network_topology_spec=gather(**{ZONE: "MustGather"}))
    if demanded == "native":
        two = [msgspec.structs.replace(one, annotations={}, group="g") for one in two]
    labels = {"app": "train", small_clusters.LABEL: "spread"}
    two = [msgspec.structs.replace(one, labels=labels) for one in two]
    small = Cluster(
        node("a0", 8, {ZONE: "a"}),
        *(node(f"b{number}", 8, {ZONE: "b"}) for number in range(2)),
        native("g", 2, topology_key=ZONE),
        policy,
        *two,
        beside=(WorkloadPolicy(),),
    )
    assert {small.planned(one)[:1] for one in two} == {expected}
    if expected:
        assert len(small.commit(two[0], small.planned(two[0]))) == 2
