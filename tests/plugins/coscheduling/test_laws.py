"""Laws of gangs, against oracles that share no code with the plugin: recounts, and every arrangement."""

import itertools
import random
from collections import Counter

import msgspec
import pytest

from app.domain import events, model
from tests.support.decisions import small_gangs
from tests.support.decisions.small_gangs import CORE, ZONE, Cluster


def cluster_of(dice: random.Random, nodes: int) -> list[model.Node]:
    return [
        small_gangs.node(f"n{number}", dice.choice((1, 2, 4)), {ZONE: dice.choice("abc")})
        for number in range(nodes)
    ]


def arrangement(sizes: list[int], free: list[int]) -> bool:
    """Whether all sizes fit, by trying every node for each."""
    if not sizes:
        return True
    first, *rest = sizes
    for at, capacity in enumerate(free):
        if capacity >= first and arrangement(rest, [*free[:at], capacity - first, *free[at + 1 :]]):
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_a_gang_is_placed_if_and_only_if_some_arrangement_exists(seed: int) -> None:
    dice = random.Random(seed)
    nodes = cluster_of(dice, dice.randint(1, 6))
    members = small_gangs.gang("g", dice.randint(1, 6))
    sizes = [dice.choice((1, 1, 2, 3)) for _ in members]
    members = [
        msgspec.structs.replace(one, requests={"cpu": size * CORE})
        for one, size in zip(members, sizes, strict=True)
    ]
    small = Cluster(*nodes, *members)
    free = [node.allocatable["cpu"] // CORE for node in nodes]
    placed = {one.uid: small.planned(one) for one in members}
    assert all(placed.values()) == any(placed.values()) == arrangement(sizes, free)
    used: Counter[str] = Counter()
    for one in members:
        used[placed[one.uid]] += one.requests["cpu"] if placed[one.uid] else 0
    assert all(used[node.name] <= node.allocatable["cpu"] for node in nodes)


@pytest.mark.parametrize("seed", range(60))
def test_equal_members_take_the_fewest_domains_that_any_arrangement_takes(seed: int) -> None:
    dice = random.Random(seed)
    nodes = cluster_of(dice, dice.randint(2, 6))
    members = small_gangs.gang("g", dice.randint(2, 8))
    small = Cluster(*nodes, *members)
    capacity: Counter[str] = Counter()
    for node in nodes:
        capacity[node.labels[ZONE]] += node.allocatable["cpu"] // CORE
    fewest = next(
        (
            count
            for count in range(1, len(capacity) + 1)
            for zones in itertools.combinations(capacity, count)
            if sum(capacity[zone] for zone in zones) >= len(members)
        ),
        0,
    )
    zone_of = {node.name: node.labels[ZONE] for node in nodes}
    used = {small.planned(one) for one in members} - {""}
    assert len({zone_of[name] for name in used}) == fewest


class Arrivals:
    """Gangs that arrive, are filtered, bound, refused and deleted in any order."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.nodes = cluster_of(self.dice, 5)
        self.gangs = {
            name: small_gangs.gang(name, self.dice.randint(2, 5), self.dice.choice((1, 2))) for name in "abcd"
        }
        self.small = Cluster(*self.nodes)
        self.answers: dict[str, tuple[model.Pod, str]] = {}
        """What filter answered, perhaps long ago."""
        self.whole: set[str] = set()
        """Gangs that were committed."""
        self.bound: set[str] = set()

    def step(self) -> None:
        name = self.dice.choice("abcd")
        pod = self.dice.choice(self.gangs[name])
        match self.dice.randrange(6):
            case 0:
                if pod.uid not in self.small.snapshot.pods and pod.uid not in self.bound:
                    self.small.see(pod)
            case 1 | 2:
                if self.waits(pod):
                    self.answers[pod.uid] = pod, self.small.planned(pod)
            case 3 | 4:
                if self.answers:
                    self.bind(*self.answers.pop(self.dice.choice(sorted(self.answers))))
            case 5:
                self.carry_out(pod)

    def waits(self, pod: model.Pod) -> bool:
        return pod.uid in self.small.snapshot.pods and pod.uid not in self.bound

    def bind(self, pod: model.Pod, node: str) -> None:
        """kube-scheduler binds to a node that filter kept before others were placed."""
        if not node or not self.waits(pod) or pod.uid in self.small.snapshot.placements:
            return
        made = self.small.commit(pod, node)
        if made:
            gang = pod.name[0]
            assert gang not in self.whole
            # In one commitment, and all of it.
            assert set(made) == {one.name for one in self.gangs[gang]}
            self.whole.add(gang)

    def carry_out(self, pod: model.Pod) -> None:
        """The Binding of a placed pod is carried out."""
        placement = self.small.snapshot.placements.get(pod.uid)
        if placement is not None:
            self.small.run(pod, placement.node)
            self.bound.add(pod.uid)

    def check(self) -> None:
        used: Counter[str] = Counter()
        seats: Counter[str] = Counter()
        for one in (one for members in self.gangs.values() for one in members):
            node = self.small.snapshot.node_of(one.uid)
            if node:
                used[node] += one.requests["cpu"]
                seats[one.name[0]] += 1
        for known in self.nodes:
            assert used[known.name] <= known.allocatable["cpu"]
        for name, members in self.gangs.items():
            assert seats[name] in (0, len(members))
            assert (name in self.whole) == bool(seats[name])


@pytest.mark.parametrize("seed", range(40))
def test_no_two_gangs_hold_half_of_each_others_capacity(seed: int) -> None:
    arrivals = Arrivals(seed)
    for _ in range(150):
        arrivals.step()
        arrivals.check()


def test_arrivals_place_several_gangs_and_refuse_some() -> None:
    """The generated arrivals are of use: some gangs run, and some cannot."""
    whole = []
    for seed in range(40):
        arrivals = Arrivals(seed)
        for _ in range(150):
            arrivals.step()
        whole.append(len(arrivals.whole))
    assert {0, 1, 2, 3, 4} & set(whole) >= {1, 2}
    assert sum(whole) < 4 * len(whole)


def test_the_plan_does_not_depend_on_the_order_in_which_pods_were_seen() -> None:
    dice = random.Random(7)
    nodes = [small_gangs.node(f"n{number}", 2, {ZONE: "ab"[number % 2]}) for number in range(6)]
    members = small_gangs.gang("g", 5)
    plans = set()
    for _ in range(20):
        order: list[model.Pod | model.Node] = [*nodes, *members]
        dice.shuffle(order)
        small = Cluster(*order)
        plans.add(tuple(sorted((one.name, small.planned(one)) for one in dice.sample(members, 5))))
    assert len(plans) == 1


def test_a_supposed_placement_is_not_a_seat() -> None:
    two = small_gangs.gang("g", 2, 4)
    small = Cluster(small_gangs.node("n1", 8), *two)
    supposed = small.snapshot
    small.take(events.placed(two[0], "n1"))
    assert small.planned(two[1]) == "n1"
    assert supposed.node_of(two[0].uid) == ""


@pytest.mark.parametrize("seed", range(60))
def test_a_preemption_leaves_no_gang_below_its_minimum_whether_or_not_its_other_members_are_bound(
    seed: int,
) -> None:
    dice = random.Random(seed)
    small = Cluster(small_gangs.node("n", 100))
    victims, broken = list[model.Pod](), set[str]()
    for name in "gh":
        minimum, bound, placed = dice.randint(1, 4), dice.randint(0, 4), dice.randint(0, 3)
        running = [small_gangs.pod(f"{name}-bound{at}", node="n", gang=name) for at in range(bound)]
        other = [small_gangs.pod(f"{name}-placed{at}", gang=name) for at in range(placed)]
        small.see(small_gangs.koordinator(name, minimum), *running, *other)
        small.take(events.PlacementsCommitted(placements=tuple(model.Placement(one, "n") for one in other)))
        going = dice.sample(running, dice.randint(0, bound))
        victims += going
        # Every placed member may still be bound, or none.
        for before in (bound + placed, bound):
            after = before - len(going)
            if going and before >= minimum > after > 0:
                broken.add(name)
    found = small.veto(small_gangs.pod("asking", priority=10), "n", *victims)
    assert (found is not None) == bool(broken), (found, broken)
    assert found is None or found.startswith(tuple(f"gang koordinator/x/{name}:" for name in broken))
