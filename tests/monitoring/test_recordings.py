"""The shipped alerts over recordings that a test writes: gaps of Prometheus, and faults that are over."""

import pathlib

import pytest

from tests.support.monitoring import alerts, promtool

pytestmark = pytest.mark.skipif(promtool.PATH is None, reason=promtool.MISSING)

LOST = "TopologStoreLostEvents"
FAILS = "TopologCompactionFails"
EXPIRES = "TopologCertificateExpiresSoon"
QUARANTINED = "TopologObjectQuarantined"


def rewinds(values: str, *, started: int) -> dict[str, str]:
    """Series of a recorder; ``values`` as promtool reads them, ``started``: minutes after the first point."""
    return {'topolog_rewinds_total{pod="recorder"}': values, **process(started)}


def process(started: int) -> dict[str, str]:
    """The start of the recorder, in minutes after the first point."""
    return {'process_start_time_seconds{pod="recorder"}': f"{started * 60}x200"}


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


def test_a_loss_during_a_long_gap_is_reported_if_the_recorder_is_new(tmp_path: pathlib.Path) -> None:
    """A limit that docs/how-to/monitoring.md states."""
    gap = "0x60 _x19 1x60"
    recorded = rewinds(gap, started=-10_000)
    assert alerts.misjudged(LOST, recorded, dict.fromkeys(range(140), False), tmp_path) == ""
    recorded = rewinds(gap, started=75)
    assert alerts.misjudged(LOST, recorded, {60: False, 81: True, 100: False}, tmp_path) == ""


def quarantined(values: str, *, started: int) -> dict[str, str]:
    """As `rewinds`."""
    return {'topolog_quarantined_total{pod="recorder",kind="pods"}': values, **process(started)}


def test_an_old_object_is_not_reported_after_a_gap_of_prometheus(tmp_path: pathlib.Path) -> None:
    recorded = quarantined("1x60 _x9 1x120", started=-10_000)
    assert alerts.misjudged(QUARANTINED, recorded, dict.fromkeys(range(60, 180), False), tmp_path) == ""


def test_an_old_object_is_not_reported_by_a_prometheus_without_data(tmp_path: pathlib.Path) -> None:
    recorded = quarantined("1x120", started=-10_000)
    assert alerts.misjudged(QUARANTINED, recorded, dict.fromkeys(range(120), False), tmp_path) == ""


def test_an_object_is_reported_if_the_first_sample_of_a_recorder_counts_it(tmp_path: pathlib.Path) -> None:
    recorded = quarantined("_x9 1x120", started=9)
    expected = {10: True, 40: True, 68: True, 70: False}
    assert alerts.misjudged(QUARANTINED, recorded, expected, tmp_path) == ""


def test_an_object_during_a_gap_of_prometheus_is_reported(tmp_path: pathlib.Path) -> None:
    recorded = quarantined("0x60 _x9 1x120", started=-10_000)
    assert alerts.misjudged(QUARANTINED, recorded, {60: False, 71: True, 150: False}, tmp_path) == ""


def failures(values: str) -> dict[str, str]:
    return {'topolog_failed_compactions_total{pod="compactor",step="store"}': values}


def test_failed_compactions_of_a_short_outage_are_not_reported(tmp_path: pathlib.Path) -> None:
    """The compactor pauses for 2, 4 and 8 s: it fails four times in an outage of 15 s."""
    recorded = failures("0x10 4x60")
    assert alerts.misjudged(FAILS, recorded, dict.fromkeys(range(70), False), tmp_path) == ""


def test_compactions_that_fail_again_and_again_are_reported_until_they_succeed(
    tmp_path: pathlib.Path,
) -> None:
    """The longest pause is 30 s."""
    recorded = failures("0x10 4+2x30 64x60")
    expected = {15: False, 25: True, 30: True, 41: True, 50: False}
    assert alerts.misjudged(FAILS, recorded, expected, tmp_path) == ""


def test_the_certificate_of_the_store_is_reported_for_its_last_week(tmp_path: pathlib.Path) -> None:
    week = 7 * 24 * 3600
    recorded = {
        'topolog_store_certificate_expiry_timestamp_seconds{pod="compactor"}': f"{week + 60 * 60}x200"
    }
    assert alerts.misjudged(EXPIRES, recorded, {60: False, 120: False, 125: True, 190: True}, tmp_path) == ""
