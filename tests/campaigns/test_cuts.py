"""A power cut takes the end of the store's file: no more than that is lost, and it is always told."""

import pathlib
from collections.abc import Iterator

import pytest

from app.kube import accessing, clients
from app.simulation import apiservers
from tests.campaigns import cutting, promises, sizes
from tests.workers import conftest

SHARE = 20
"""Cuts of one server, before the next begins with an empty file."""


@pytest.fixture
def cluster_side() -> Iterator[conftest.Cluster]:
    with apiservers.ApiServer(bookmarks=0.2) as server:
        client = clients.Client(accessing.plain(server.url))
        yield conftest.Cluster(server, client)
        client.close()


def cut(folder: pathlib.Path, cluster: conftest.Cluster, seed: int, times: int) -> cutting.Run:
    run = cutting.Run(folder / f"seed-{seed}", cluster, seed)
    try:
        for _ in range(times):
            run.cut()
    except promises.Broken as broken:
        repeat = f"CAMPAIGN_FIRST_SEED={seed} make campaign TARGET=tests/campaigns/test_cuts.py"
        raise promises.Broken(f"{broken}\nrepeat: {repeat}") from broken
    finally:
        run.close()
    return run


def test_a_cut_file_is_told_and_healed(tmp_path: pathlib.Path, cluster_side: conftest.Cluster) -> None:
    run = cut(tmp_path, cluster_side, sizes.first_seed(), 4)
    assert run.lost


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(sizes.of("CUTS", 200) // SHARE))
def test_many_cut_files_are_told_and_healed(
    tmp_path: pathlib.Path, cluster_side: conftest.Cluster, number: int
) -> None:
    run = cut(tmp_path, cluster_side, sizes.first_seed() + number, SHARE)
    print(f"{SHARE} cuts: {run.lost} lost something, {run.torn} within an entry, {run.vague} told vaguely")
    assert run.torn > SHARE / 4
