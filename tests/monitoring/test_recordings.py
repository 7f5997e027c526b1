"""The shipped alerts over recordings that a test writes: gaps of Prometheus, and faults that are over."""

import pathlib

import pytest

from tests.support.monitoring import alerts, promtool

pytestmark = pytest.mark.skipif(promtool.PATH is None, reason=promtool.MISSING)

LOST = "TopologStoreLostEvents"


def rewinds(values: str, *, started: int) -> dict[str, str]:
    """Series of a recorder; ``values`` as promtool reads them, ``started``: minutes after the first point."""
    return {
        'topolog_rewinds_total{pod="recorder"}': values,
        'process_start_time_seconds{pod="recorder"}': f"{started * 60}x120",
    }


def test_an_old_loss_is_not_reported_after_a_gap_of_prometheus(tmp_path: pathlib.Path) -> None:
    recorded = rewinds("1x60 _x9 1x60", started=-10_000)
    assert alerts.misjudged(LOST, recorded, dict.fromkeys(range(60, 120), False), tmp_path) == ""


def test_an_old_loss_is_not_reported_by_a_prometheus_without_data(tmp_path: pathlib.Path) -> None:
    recorded = rewinds("1x60", started=-10_000)
    assert alerts.misjudged(LOST, recorded, dict.fromkeys(range(60), False), tmp_path) == ""


def test_a_loss_is_reported_if_the_first_sample_of_a_recorder_counts_it(tmp_path: pathlib.Path) -> None:
    recorded = rewinds("_x9 1x60", started=9)
    expected = {10: True, 11: True, 23: True, 25: False}
    assert alerts.misjudged(LOST, recorded, expected, tmp_path) == ""


def test_a_loss_is_reported_if_the_recorder_before_had_counted_as_many(tmp_path: pathlib.Path) -> None:
    recorded = rewinds("1x60", started=0) | {
        'process_start_time_seconds{pod="recorder"}': "-600000x20 1240x60"
    }
    assert alerts.misjudged(LOST, recorded, {20: False, 22: True, 30: True, 40: False}, tmp_path) == ""


def test_a_loss_during_a_gap_of_prometheus_is_reported(tmp_path: pathlib.Path) -> None:
    recorded = rewinds("0x60 _x9 1x60", started=-10_000)
    assert alerts.misjudged(LOST, recorded, {60: False, 71: True, 100: False}, tmp_path) == ""
