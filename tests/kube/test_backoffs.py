"""Backoff as in client-go, and the order of resourceVersions."""

import random

from app.kube import backoffs
from app.kube.watch import resource_versions
from tests.support.kube import fake_clock


def test_pauses_double_up_to_the_cap_and_are_stretched() -> None:
    clock = fake_clock.VirtualClock()
    backoff = backoffs.Backoff(clock, rng=random.Random(1))
    pauses = [backoff.pause() for _ in range(8)]
    for pause, least in zip(pauses, (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0), strict=True):
        assert least <= pause <= 2 * least
    assert len(set(pauses)) == 8


def test_two_quiet_minutes_restart_the_series() -> None:
    clock = fake_clock.VirtualClock()
    backoff = backoffs.Backoff(clock, jitter=0.0)
    first = [backoff.pause() for _ in range(3)]
    clock.now += 119
    assert backoff.pause() == 6.4
    clock.now += 121
    assert [backoff.pause() for _ in range(3)] == first


def test_the_retry_after_of_the_server_is_the_minimum() -> None:
    assert backoffs.Backoff(fake_clock.VirtualClock()).pause(least=17.0) == 17.0


def test_versions_compare_by_length_then_text() -> None:
    assert resource_versions.older("9", "10")
    assert resource_versions.older("99999999999999999998", "99999999999999999999")
    assert not resource_versions.older("10", "9")
    assert not resource_versions.older("10", "10")


def test_versions_that_are_not_numbers_are_only_equal_or_different() -> None:
    for one, other in (("a", "b"), ("010", "11"), ("", "1"), ("-1", "1"), ("٣", "4")):
        assert not resource_versions.older(one, other)
        assert resource_versions.newer(one, other)
    assert not resource_versions.newer("a", "a")
