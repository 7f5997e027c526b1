"""The measurement of questions about the past works on a small cluster."""

import dataclasses

from tests.bench.introspection import history_questions


def test_everything_is_measured() -> None:
    took = history_questions.measure(nodes=20, pods=60, lived=2_000, decisions=40)
    figures = dataclasses.asdict(took)
    for name in ("grown", "replays_grown", "shadow_behind"):
        figures.pop(name)
    assert all(figure > 0 for figure in figures.values()), figures
