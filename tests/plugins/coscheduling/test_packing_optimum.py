"""The packing of a gang against every arrangement, on clusters of at most six nodes in two layers of domains.

The oracle shares no code with the plugin: it tries each member on each node, for each choice of domains.
"""

import itertools
import random
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from tests.support.decisions import small_gangs
from tests.support.decisions.small_gangs import CORE, ZONE, Cluster

REGION = "topology.kubernetes.io/region"
REGION_OF = {"a": "r", "b": "r", "c": "s", "d": "s"}


def fits(sizes: Sequence[int], free: Sequence[int]) -> bool:
    """Whether all sizes fit, by trying every amount of free capacity for each."""
    if not sizes:
        return True
    first, *rest = sizes
    return any(
        fits(rest, [*free[:at], capacity - first, *free[at + 1 :]])
        for at, capacity in enumerate(free)
        if capacity >= first and capacity not in free[:at]
    )


def fewest(sizes: Sequence[int], free: Mapping[str, int], domain_of: Mapping[str, str]) -> int:
    """The smallest number of domains that hold all sizes; 0 if no number does."""
    domains = sorted({domain_of[name] for name in free})
    for count in range(1, len(domains) + 1):
        for chosen in itertools.combinations(domains, count):
            if fits(sizes, [capacity for name, capacity in free.items() if domain_of[name] in chosen]):
                return count
    return 0


class Case:
    """A cluster, a gang, and where the plan puts it."""

    def __init__(self, seed: int, *, layers: int, mixed: bool) -> None:
        dice = random.Random(seed)
        self.zone = {f"n{number}": dice.choice("abcd") for number in range(dice.randint(2, 6))}
        self.region = {name: REGION_OF[zone] if layers == 2 else "" for name, zone in self.zone.items()}
        self.free = {name: dice.choice((1, 2, 3, 4)) for name in self.zone}
        gang = small_gangs.gang("g", dice.randint(2, 6))
        sizes = [dice.choice((1, 1, 2, 3)) if mixed else 1 for _ in gang]
        self.sizes = sorted(sizes, reverse=True)
        members = [
            msgspec.structs.replace(one, requests={"cpu": size * CORE})
            for one, size in zip(gang, sizes, strict=True)
        ]
        nodes = [small_gangs.node(name, cpu, self._labels(name)) for name, cpu in self.free.items()]
        small = Cluster(*nodes, *members)
        self.used = {small.planned(one) for one in members} - {""}

    def _labels(self, name: str) -> dict[str, str]:
        region = {REGION: self.region[name]} if self.region[name] else {}
        return {ZONE: self.zone[name], **region}

    def within(self, regions: set[str]) -> dict[str, int]:
        return {name: capacity for name, capacity in self.free.items() if self.region[name] in regions}


@pytest.mark.parametrize("mixed", [False, True], ids=["equal", "mixed"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("block", range(3))
def test_a_gang_takes_the_smallest_domain_and_the_fewest_of_its_parts(
    block: int, layers: int, mixed: bool
) -> None:
    split = 0
    for seed in range(block * 60, block * 60 + 60):
        case = Case(seed, layers=layers, mixed=mixed)
        whole = fits(case.sizes, list(case.free.values()))
        assert bool(case.used) == whole, seed
        if not whole:
            continue
        zones, regions = ({of[name] for name in case.used} for of in (case.zone, case.region))
        least = fewest(case.sizes, case.free, case.zone)
        if least == 1:
            assert len(zones) == 1, seed
            continue
        split += 1
        assert len(regions) == fewest(case.sizes, case.free, case.region), seed
        if len(regions) == 1:
            assert len(zones) == fewest(case.sizes, case.within(regions), case.zone), seed
    assert split > 5


def test_members_of_several_sizes_share_fewer_zones_than_their_slots_suggest() -> None:
    """By slots alone the gang would be spread over three zones, one with the most slots first."""
    capacities = {"n0": (4, "b"), "n1": (4, "c"), "n2": (1, "d"), "n3": (2, "d"), "n4": (2, "d")}
    members = small_gangs.gang("g", 3)
    members = [
        msgspec.structs.replace(one, requests={"cpu": size * CORE})
        for one, size in zip(members, (3, 3, 1), strict=True)
    ]
    small = Cluster(
        *(small_gangs.node(name, cpu, {ZONE: zone}) for name, (cpu, zone) in capacities.items()), *members
    )
    assert {small.planned(one) for one in members} == {"n0", "n1"}
