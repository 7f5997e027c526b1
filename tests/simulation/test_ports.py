"""The ports of the simulated installation."""

import pytest

from app.cli import processes
from app.simulation import stages


def test_the_ports_of_two_ranges_are_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of one range kept those of the other from their ports."""
    offered = iter((40_000, 39_996, 40_004, 40_006))
    monkeypatch.setattr(stages, "_free_port", lambda: next(offered))
    monkeypatch.setattr(stages, "_is_free", lambda _: True)
    assert stages.free_ports(2) == [40_000, 40_006]


def test_a_range_with_a_port_in_use_or_beyond_the_last_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = iter((65_531, 40_000, 65_530))
    monkeypatch.setattr(stages, "_free_port", lambda: next(offered))
    monkeypatch.setattr(stages, "_is_free", lambda port: port != 40_005)
    assert stages.free_ports(1) == [65_530]


def test_a_range_has_a_port_for_each_process() -> None:
    assert sorted(one.offset for one in processes.TOGETHER.values()) == list(range(stages._RANGE))
