"""The shipped alerts over recordings that a test writes: gaps of Prometheus, and faults that are over."""

import pathlib

import pytest

from app.telemetry import metrics
from tests.support.monitoring import alerts, promtool

pytestmark = pytest.mark.skipif(promtool.PATH is None, reason=promtool.MISSING)

LOST = "TopologStoreLostEvents"
FAILS = "TopologCompactionFails"
EXPIRES = "TopologCertificateExpiresSoon"
QUARANTINED = "TopologObjectQuarantined"
EXTENDERS = "TopologExtenderNotReady"
INCONSISTENT = "TopologInconsistent"
DIFFERENCES = 'topolog_consistency_differences{{kind="{}"}}'
OTHERS = "TopologProcessNotReady"


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


def readiness(process: str = "extender", /, *, namespace: str = "one", **pods: str) -> dict[str, str]:
    """Series of the replicas of a process; pod -> values as promtool reads them."""
    labels = f'process="{process}",namespace="{namespace}"'
    return {f'topolog_ready{{pod="{pod}",{labels}}}': values for pod, values in pods.items()}


def test_a_rolling_update_of_extenders_is_not_reported(tmp_path: pathlib.Path) -> None:
    """Each new one is not ready for a while, and its predecessor ends only with it."""
    recorded = readiness(a="1x10 stale", b="1x14 0x1 stale", c="_x10 0x3 1x60", d="_x15 0x9 1x60")
    assert alerts.misjudged(EXTENDERS, recorded, dict.fromkeys(range(60), False), tmp_path) == ""


def test_the_start_of_the_only_extender_is_not_reported(tmp_path: pathlib.Path) -> None:
    recorded = readiness(a="1x10 stale", b="_x12 0x1 1x60")
    assert alerts.misjudged(EXTENDERS, recorded, dict.fromkeys(range(60), False), tmp_path) == ""


def test_extenders_of_which_none_is_ready_are_reported_until_one_is(tmp_path: pathlib.Path) -> None:
    recorded = readiness(a="1x10 0x60", b="1x5 0x30 1x60") | readiness(namespace="two", a="1x90")
    expected = {9: False, 11: False, 14: True, 35: True, 37: False, 60: False}
    assert alerts.misjudged(EXTENDERS, recorded, expected, tmp_path) == ""
    assert alerts.misjudged(OTHERS, recorded, dict.fromkeys(range(60), False), tmp_path) == ""


@pytest.mark.parametrize("process", ["auditor", "compactor", "view"])
def test_another_process_is_reported_after_ten_minutes(process: str, tmp_path: pathlib.Path) -> None:
    recorded = readiness(process, a="1x10 0x60", b="0x70") | readiness("controller", a="1x90")
    expected = {11: False, 20: False, 22: True, 60: True}
    assert alerts.misjudged(OTHERS, recorded, expected, tmp_path) == ""
    assert alerts.misjudged(EXTENDERS, recorded, dict.fromkeys(range(60), False), tmp_path) == ""


@pytest.mark.parametrize("process", metrics.ELECTED)
def test_a_leader_is_reported_although_its_standby_is_ready(process: str, tmp_path: pathlib.Path) -> None:
    recorded = readiness(process, leader="1x10 0x20 1x60", standby="1x90") | readiness("view", a="1x90")
    expected = {11: False, 20: False, 22: True, 30: True, 33: False, 60: False}
    assert alerts.misjudged(OTHERS, recorded, expected, tmp_path) == ""


def test_replicas_that_are_replaced_one_after_another_are_not_reported(tmp_path: pathlib.Path) -> None:
    recorded = readiness("recorder", a="1x10 stale", b="1x14 0x1 stale", c="_x10 0x3 1x60", d="_x15 0x9 1x60")
    assert alerts.misjudged(OTHERS, recorded, dict.fromkeys(range(60), False), tmp_path) == ""


# -- TopologInconsistent -----------------------------------------------------------------------


def test_a_field_of_meta_of_a_later_version_raises_no_alert(tmp_path: pathlib.Path) -> None:
    recorded = {DIFFERENCES.format("unknown"): "1x20"}
    assert alerts.misjudged(INCONSISTENT, recorded, dict.fromkeys(range(20), False), tmp_path) == ""


def test_a_difference_of_another_kind_does(tmp_path: pathlib.Path) -> None:
    recorded = {DIFFERENCES.format("meta"): "0x9 1x10", DIFFERENCES.format("unknown"): "1x20"}
    assert alerts.misjudged(INCONSISTENT, recorded, {5: False, 12: True}, tmp_path) == ""
