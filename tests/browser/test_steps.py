"""Steps by decision, beside more decisions than a list is read of."""

import pytest

from tests.support.browser import browsers, scripts

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("held", "shown", "direction", "leads"),
    [
        ([(offset, 1) for offset in range(1, 30_001)], 100, 1, (101, 1)),
        ([(offset, 1) for offset in range(1, 30_001)], 29_000, -1, (28_999, 1)),
        ([(5, 1), (900, 30_000)], 1_000, -1, (900, 1)),
        ([(5, 1), (900, 1)], 10, 1, (900, 6)),
        # Pods that wait are tried again while nothing happens.
        ([(112, 1), (120, 25_000)], 100, 1, (112, 21)),
        ([(100, 1)], 100, -1, (None, 1)),
        ([(100, 1)], 100, 1, (None, 11)),
    ],
)
def test_a_step_leads_to_the_next_decision_however_many_there_are(
    on_small: browsers.Browser,
    held: list[tuple[int, int]],
    shown: int,
    direction: int,
    leads: tuple[int | None, int],
) -> None:
    """Where it leads, and after how many requests."""
    on_small.open("/dashboard/health")
    assert on_small.later(scripts.read("stepped"), held, shown, direction, 30_000) == [*leads]
