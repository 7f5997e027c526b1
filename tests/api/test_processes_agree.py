"""Replicas answer alike, and a position has one answer: whatever the order of a set in a process is."""

import os
import pathlib
import subprocess
import sys

from app.store.server import embedded
from tests.support.extender import api_worlds, crowded_worlds

ROOT = pathlib.Path(__file__).parents[2]


def test_every_process_has_the_same_answers(store_server: embedded.Server, cluster: str) -> None:
    chosen = crowded_worlds.configured()
    with api_worlds.processes(store_server, cluster, chosen) as start:
        world = api_worlds.world(start(), chosen)
        world.append(*crowded_worlds.history())
        api_worlds.decide(world, api_worlds.pod("waiting"))
        found = [
            subprocess.run(
                [sys.executable, "-m", "tests.support.extender.crowded_worlds", store_server.url, cluster],
                env={**os.environ, "PYTHONHASHSEED": seed},
                stdout=subprocess.PIPE,
                check=True,
                cwd=ROOT,
                text=True,
            ).stdout.splitlines()
            for seed in ("1", "2", "3")
        ]
    assert len(found[0]) > 80
    for one, other in ((0, 1), (0, 2)):
        assert [pair for pair in zip(found[one], found[other], strict=True) if pair[0] != pair[1]] == []
