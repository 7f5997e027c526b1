"""Partitions of every shape, and failing primaries: losses are reported, and the state recovers."""

import pathlib
import random

import pytest

from tests.support.campaigns import partitions, sentinel_groups, sizes
from tests.support.simulation.oracle import guarantees

SHARE = 10
"""Failovers of one set of servers."""


def part(folder: pathlib.Path, shape: str, seed: int, times: int) -> None:
    """One kind of partition in front of one server."""
    ground = partitions.Ground(folder, seed)
    healed: list[float] = []
    try:
        for _ in range(times):
            healed.append(ground.part(shape))
        ground.field.judged(lossy=False)
    except AssertionError as broken:
        raise guarantees.Broken(f"{broken}\n{_repeat(seed, shape, healed)}") from broken
    finally:
        ground.close()
    binds = len(ground.field.load.acknowledged)
    print(f"{shape}: parted {times} times, healed within {max(healed):.1f} s, {binds} binds")


def fail(folder: pathlib.Path, seed: int, shapes: list[str]) -> None:
    """Failovers of one set of servers."""
    ground = sentinel_groups.Ground(folder, seed)
    healed: list[float] = []
    try:
        for shape in shapes:
            healed.append(ground.fail(shape))
        lost = ground.field.judged(lossy=True)
    except AssertionError as broken:
        raise guarantees.Broken(f"{broken}\n{_repeat(seed, str(shapes), healed)}") from broken
    finally:
        ground.close()
    load = ground.field.load
    print(
        f"{len(shapes)} failovers, healed within {max(healed):.1f} s: {len(load.acknowledged)} binds,"
        f" {lost} of {len(load.written)} acknowledged appends lost and reported, {dict(load.counted)}"
    )


def _repeat(seed: int, what: str, healed: list[float]) -> str:
    return (
        f"{what}, after {len(healed)} that healed\n"
        f"repeat: CAMPAIGN_FIRST_SEED={seed} make campaign TARGET=tests/campaigns/test_partitions.py"
    )


def test_a_parted_network_heals(tmp_path: pathlib.Path) -> None:
    part(tmp_path, "all and store", sizes.first_seed(), 1)


@pytest.mark.campaign
@pytest.mark.parametrize("shape", partitions.SHAPES)
def test_many_partitions(tmp_path: pathlib.Path, shape: str) -> None:
    part(tmp_path, shape, sizes.first_seed(), sizes.of("PARTITIONS", 20))


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(-(-sizes.of("FAILOVERS", 200) // SHARE)))
def test_many_failovers(tmp_path: pathlib.Path, number: int) -> None:
    seed = sizes.first_seed() + number
    names = sorted(sentinel_groups.SHAPES)
    rng = random.Random(seed)
    fail(tmp_path, seed, [*names, *(rng.choice(names) for _ in range(SHARE - len(names)))])
