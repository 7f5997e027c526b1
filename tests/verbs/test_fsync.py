"""A Binding is not sent before its placement is on disk."""

from pathlib import Path

from app.kube.writes import binding
from app.store.server import embedded
from tests.support.extender import replicas


def test_nothing_is_bound_before_its_placement_is_on_disk(tmp_path: Path, cluster: str) -> None:
    server = embedded.Server(tmp_path, append_only=True)
    try:
        with replicas.cluster(server.url, cluster, placements="fsync") as shop:
            shop.node("h1", role="host")
            shop.policy({"host": 1})
            first, second = shop.pod("first"), shop.pod("second")
            shop.see()
            replica = shop.replica(state=1.0, bind=2.0)
            assert "not known to be on disk" in replica.bind(first, "h1")
            assert shop.asked("/binding") == 0
            # It is in the log: no other pod gets the place meanwhile.
            assert replica.count("host") == 1
            assert "no capacity" in replica.bind(second, "h1")
            replica.store.client.config_set("appendfsync", "always")
            # As after a bind that ended in between: the same place again, once nothing of it is under way.
            assert "another call" in replica.bind(first, "h1")
            replica.clock.ahead += binding.UNFENCED
            assert replica.bind(first, "h1") == ""
            assert shop.bound(first) == "h1"
            assert replica.count("host") == 1
    finally:
        server.stop()
