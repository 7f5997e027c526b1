"""Limits of calls: what a call that is not sent leaves to the others."""

import pytest

from app.kube import call_limits, errors
from tests.support.kube import fake_clock

TERM = "term"


def limit(clock: fake_clock.VirtualClock, *, burst: float) -> call_limits.CallLimit:
    return call_limits.CallLimit(clock, term=lambda: TERM, burst=burst, rate=1.0)


def not_sent(limited: call_limits.CallLimit) -> None:
    """A call that is not wanted any more when it is its turn."""
    with pytest.raises(call_limits.NotAdmitted), limited.sending(TERM):
        raise call_limits.NotAdmitted


def test_a_call_that_is_not_sent_takes_nothing_from_the_rate() -> None:
    clock = fake_clock.VirtualClock()
    limited = limit(clock, burst=1.0)
    for _ in range(5):
        not_sent(limited)
    with limited.sending(TERM):
        pass
    assert clock.waits == []
    with limited.sending(TERM):
        pass
    assert sum(clock.waits) == pytest.approx(1.0)


def test_a_call_that_is_not_sent_does_not_end_the_backoff() -> None:
    """It shows nothing of an API server that was busy before."""
    clock = fake_clock.VirtualClock()
    limited = limit(clock, burst=100.0)
    for _ in range(6):
        with pytest.raises(errors.Unreachable), limited.sending(TERM):
            raise errors.Unreachable("no connection")
    not_sent(limited)
    with pytest.raises(errors.Unreachable), limited.sending(TERM):
        raise errors.Unreachable("no connection")
    clock.waits.clear()
    with limited.sending(TERM):
        pass
    assert sum(clock.waits) >= 0.1 * 2**6
