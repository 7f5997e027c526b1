"""A power failure cuts the end of the store's file: no more than that is lost, and the loss is reported."""

import pathlib
from collections.abc import Iterator

import pytest

from app.kube.client import clients
from app.simulation.apiserver import apiservers
from tests.support import declared
from tests.support.campaigns import cut_files, sizes
from tests.support.kube import plain_access
from tests.support.simulation.oracle import guarantees
from tests.support.workers import clusters

SHARE = 20
"""Cuts of one server, before the next begins with an empty file."""


@pytest.fixture
def cluster_side() -> Iterator[clusters.Cluster]:
    with apiservers.ApiServer(declared.SCHEMA, bookmarks=0.2) as server:
        client = clients.Client(plain_access.of(server.url))
        yield clusters.Cluster(server, client)
        client.close()


def cut(folder: pathlib.Path, cluster: clusters.Cluster, seed: int, times: int) -> cut_files.Run:
    run = cut_files.Run(folder / f"seed-{seed}", cluster, seed)
    try:
        for _ in range(times):
            run.cut()
    except guarantees.Broken as broken:
        repeat = f"CAMPAIGN_FIRST_SEED={seed} make campaign TARGET=tests/campaigns/test_cuts.py"
        raise guarantees.Broken(f"{broken}\nrepeat: {repeat}") from broken
    finally:
        run.close()
    return run


def test_the_loss_of_a_cut_file_is_reported_and_repaired(
    tmp_path: pathlib.Path, cluster_side: clusters.Cluster
) -> None:
    run = cut(tmp_path, cluster_side, sizes.first_seed(), 4)
    assert run.lost


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(sizes.of("CUTS", 200) // SHARE))
def test_the_losses_of_many_cut_files_are_reported_and_repaired(
    tmp_path: pathlib.Path, cluster_side: clusters.Cluster, number: int
) -> None:
    run = cut(tmp_path, cluster_side, sizes.first_seed() + number, SHARE)
    print(
        f"{SHARE} cuts: {run.lost} lost something, {run.torn} within an entry, {run.vague} reported vaguely"
    )
    assert run.torn > SHARE / 4
