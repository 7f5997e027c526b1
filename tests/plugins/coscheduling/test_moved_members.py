"""Members that are moved together: how many a part admits, and the nodes that they get."""

import random
from collections.abc import Iterator, Mapping

import pytest

from app.domain import events, model, projections, snapshots
from app.domain.fit import node_fit
from app.plugins.coscheduling.planner import capacities, domains, nearest_nodes, other_plugins
from app.plugins.workload_policy import logic
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.decisions import call_counts, small_clusters, small_gangs
from tests.support.decisions.small_gangs import RACK

HALL = "hall"
LAYERS = (HALL, RACK)


def tried(count: int, among: int, expected: int) -> int:
    """Trials until a number is found, which must be the right one."""
    low, high, trials = 0, among, 0
    while low < high:
        middle = other_plugins.next_tried(low, high, expected)
        assert low < middle <= high
        trials += 1
        low, high = (middle, high) if count >= middle else (low, middle - 1)
    assert low == count
    return trials


def test_the_number_is_found_in_few_trials_if_it_is_about_the_expected_one() -> None:
    for among in range(1, 40):
        for expected in range(among + 1):
            for count in range(among + 1):
                distance = abs(count - expected)
                most = max(2, 2 * distance.bit_length() + 1) if expected else among.bit_length()
                assert tried(count, among, expected) <= most


def generated(dice: random.Random) -> tuple[small_gangs.Cluster, list[model.Pod]]:
    """Nodes in racks and halls, some of them without; pods on some; and members that wait."""
    nodes = [
        small_gangs.node(
            f"n{at}",
            dice.randint(0, 4),
            {key: f"{key}{dice.randint(0, 2)}" for key in LAYERS if dice.random() < 0.9},
            unschedulable=dice.random() < 0.1,
        )
        for at in range(dice.randint(1, 10))
    ]
    port = model.Constraints(host_ports=(model.HostPort(80),))
    beside = [
        small_gangs.pod(f"p{at}", dice.randint(0, 2), node=dice.choice(nodes).name, constraints=port)
        for at in range(dice.randint(0, 4))
    ]
    members = [
        small_gangs.pod(f"m{at}", dice.randint(0, 3), constraints=dice.choice((None, None, None, port)))
        for at in range(dice.randint(1, 6))
    ]
    return small_gangs.Cluster(*nodes, *beside, *members, layers=LAYERS), members


def demanded(small: small_gangs.Cluster, dice: random.Random) -> tuple[domains.Demands, domains.Path]:
    demands = domains.demands(small.snapshot, (), (), LAYERS)
    path = dice.choice([*demands.tree.paths.values(), ()])
    return demands._replace(must=dice.randint(0, len(path))), path


@pytest.mark.parametrize("seed", range(60))
def test_nodes_are_in_the_order_of_their_distance_and_in_parts(seed: int) -> None:
    dice = random.Random(seed)
    small, _ = generated(dice)
    demands, domain = demanded(small, dice)
    paths, labels = demands.tree.paths, dice.choice([(), (RACK,), (HALL, RACK)])
    nodes = nearest_nodes.NearestNodes(small.snapshot, demands, domain)
    inside = [name for name in paths if domains.within(paths[name], domain[: demands.must])]
    expected = sorted(inside, key=lambda name: (-domains.common(paths[name], domain), paths[name], name))
    held = small.snapshot.nodes
    for found, values in (
        (nodes.parts(None), {name: name for name in paths}),
        (
            nodes.parts(labels),
            {name: tuple(held[name].labels.get(label) for label in labels) for name in paths},
        ),
    ):
        assert [name for _, names in found.near for name in names] == expected
        assert all(values[name] == part for part, names in found.near for name in names)
        assert {part: values[name] for part, name in found.samples.items()} == {
            part: part for part in values.values()
        }
        assert found.beyond == {values[name] for name in paths if name not in inside}


def one_by_one(
    run: list[model.Pod],
    names: list[model.NodeName],
    snapshot: snapshots.Snapshot,
    at: Mapping[model.Uid, model.NodeName],
    pods: list[model.Pod],
) -> Iterator[tuple[model.Uid, model.NodeName]]:
    """Each member on the first node with capacity, beside all others and the ones before it."""
    others = [events.placed(one, at[one.uid]) for one in pods if one.uid in at and one.uid != run[0].uid]
    state, waiting = projections.project_all(snapshot, others), list(run)
    for name in names:
        plus: list[model.Pod] = []
        # A member that counts on the node keeps its seat until all are moved.
        while (
            waiting
            and not node_fit.crowded(waiting[0], state.nodes[name], held(state, name, plus))
            and not node_fit.refused(waiting[0], state.nodes[name])
        ):
            pod = waiting.pop(0)
            plus.append(pod)
            yield pod.uid, name


def held(state: snapshots.Snapshot, name: model.NodeName, plus: list[model.Pod]) -> node_fit.Occupancy:
    found = node_fit.occupancy(state, name)
    for pod in plus:
        found = found.plus(pod)
    return found


@pytest.mark.parametrize("seed", range(120))
def test_members_get_the_first_nodes_with_capacity_beside_all_others(seed: int) -> None:
    """Several runs after one another, of which each leaves nodes that the next may get."""
    dice = random.Random(seed)
    small, members = generated(dice)
    names = sorted(small.snapshot.nodes)
    at = {one.uid: dice.choice(names) for one in members if dice.random() < 0.9}
    places = nearest_nodes.Places(members, at)
    for _ in range(4):
        seated = [one for one in members if one.uid in at]
        first = dice.choice(seated) if seated else None
        if first is None:
            break
        run = [first, *(one for one in seated if one.uid != first.uid and alike(one, first))]
        # The node of the first is not among them: it is moved because it is refused there.
        others = [name for name in names if name != at[first.uid]]
        offered = dice.sample(others, dice.randint(0, len(others)))
        expected = dict(one_by_one(run, offered, small.snapshot, at, members))
        moved = places.free(run, iter(offered), capacities.Capacities(small.snapshot))
        assert moved == expected
        places.move(run, moved)
        assert {uid: at[uid] for uid in moved} == moved


def alike(one: model.Pod, other: model.Pod) -> bool:
    return bool(capacities.size(one) == capacities.size(other))


def test_racks_that_take_alike_are_asked_about_a_few_times_each() -> None:
    """Eighty members, and ten racks of sixteen nodes that take eight each: at first the members fill five."""
    labels = {logic.LABEL: "p", "app": "a"}
    asked = [small_gangs.pod(f"m{at:02}", 1, gang="g", labels=labels) for at in range(80)]
    group = small_gangs.koordinator("g", 80)
    nodes = [small_gangs.node(f"n{at:03}", 1, {RACK: f"r{at // 16}"}) for at in range(160)]
    limit = small_clusters.policy(
        {f"r{at}": 8 for at in range(10)},
        name="p",
        namespace="x",
        key=RACK,
        required=True,
        selector=model.Selector({"app": "a"}),
    )
    small = small_gangs.Cluster(*nodes, group, limit, *asked, beside=(WorkloadPolicy(),), layers=(RACK,))
    with (
        call_counts.counted(WorkloadPolicy, "filter") as judged,
        call_counts.counted(capacities.Capacities, "slots") as slots,
    ):
        assert small.planned(asked[0])
    assert judged.call_count <= 50
    assert sum(len(call.args[2]) for call in slots.call_args_list) <= 300


def test_a_gang_that_must_stay_together_goes_to_the_domain_that_admits_all() -> None:
    """Both halls admit a member, and only the second admits forty: more than arrangements are tried for."""
    labels = {logic.LABEL: "p", "app": "a"}
    asked = [small_gangs.pod(f"m{at}", 1, group="g", labels=labels) for at in range(40)]
    group = small_gangs.native("g", 40, topology_key=HALL)
    nodes = [small_gangs.node(f"n{at}", 64, {HALL: f"m{at}", RACK: f"r{at}"}) for at in range(2)]
    limit = small_clusters.policy(
        {"r0": 20, "r1": 40},
        name="p",
        namespace="x",
        key=RACK,
        required=True,
        selector=model.Selector({"app": "a"}),
    )
    small = small_gangs.Cluster(*nodes, group, limit, *asked, beside=(WorkloadPolicy(),))
    assert small.planned(asked[0]) == small.planned(asked[-1]) == "n1"
