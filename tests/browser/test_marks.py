"""Changes, plans and repairs on the time axis, in a window with more of them than an answer lists."""

import pathlib
import secrets

import pytest

from app.domain import events, model
from app.store.server import embedded
from tests.support.browser import browsers, scripts, shown, viewers
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser


def test_the_whole_window_is_marked_and_the_latest_marks_are_listed(
    store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    cluster = f"marks{secrets.token_hex(4)}"
    with api_worlds.processes(store_server, cluster) as start:
        world = api_worlds.filled(start())
        seats = tuple(model.Placement(api_worlds.pod(f"gang-{at}"), f"host-{at}") for at in (1, 2))
        edits = [api_worlds.policy(host=1 + at % 5) for at in range(200)]
        world.append(*edits)
        plan = world.append(*edits, events.PlacementsCommitted(placements=seats))
        last = world.append(*edits)
        with (
            viewers.running(store_server.url, cluster, tmp_path) as viewer,
            browsers.browser(viewer.url, tmp_path / "profile") as page,
        ):
            seen = shown.Shown(world, viewer)
            page.open("/dashboard/")
            page.settled(f"/{seen.head}")
            page.until(lambda: "plan" in page.text(".track .legend"), "the kinds of marks")
            assert "change" in page.text(".track .legend")
            parts = [(20, 120), (plan - 20, plan + 20), (last - 100, last)]
            assert [min(1, count) for count in page.run(scripts.read("marks"), "--text", parts)] == [1, 1, 1]
            assert [min(1, count) for count in page.run(scripts.read("marks"), "--focus", parts)] == [0, 1, 0]
            page.open("/dashboard/health")
            page.until(lambda: f"{last:,}" in page.text("#gaps"), "the latest mark")
            # The policy of the world itself is a change, too.
            assert f"… and {1 + 3 * len(edits) + 1 - 12} more marks" in page.text("#gaps")
