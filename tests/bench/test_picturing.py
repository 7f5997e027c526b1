"""The bench of pictures measures something, on a cluster that is small enough for a test."""

import dataclasses

from tests.bench import picturing


def test_everything_is_measured() -> None:
    took = picturing.measure(nodes=20, pods=60, lived=2_000, decisions=40)
    figures = dataclasses.asdict(took)
    for name in ("grown", "replays_grown"):
        figures.pop(name)
    assert all(figure > 0 for figure in figures.values()), figures
