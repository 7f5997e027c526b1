"""Counts the events that are folded."""

from collections.abc import Iterable

import pytest

from app.domain import events, projections


def applied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of events that projections are given from now on, one for each run."""
    found: list[int] = []
    apply_all = projections.Projection.apply_all

    def counted(projection: projections.Projection, batch: Iterable[events.AnyEvent]) -> None:
        held = list(batch)
        found.append(len(held))
        apply_all(projection, held)

    monkeypatch.setattr(projections.Projection, "apply_all", counted)
    return found
