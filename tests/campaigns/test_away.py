"""Placements in flight survive restarts of everything, and an hour without the API server: evidence only.

The hour is virtual; the store is real.
"""

import contextlib
import random
from collections.abc import Iterator
from unittest import mock

import pytest
from structlog import testing

from app.domain import snapshots
from app.kube import binding
from app.kube import connecting as kube_connecting
from app.store import connecting, embedded, keys, opening
from tests.campaigns import clocks, clusters, parts, wires
from workers import settling

HOUR = 3600.0
NAME = "away"


class Deployment:
    """A recorder, an extender and a controller over one store, all of which can be started again."""

    def __init__(self, server: embedded.Server) -> None:
        self.server = server
        self.clock = clocks.Clock()
        self.cluster = clusters.Cluster()
        for name, role in clusters.NODES.items():
            self.cluster.node(name, role=role)
        self.cluster.policy({"host": 1, "member": 1})
        self.stores: list[opening.Store] = []
        self.direct = connecting.connect(server.url)
        opening.migrate(self.direct, keys.Keys(NAME))
        self.start()

    def start(self) -> None:
        """Every process, anew: nothing is left but what the store holds."""
        self.stop()
        self.recorder = parts.Recorder(self._store(), self._way(), self.clock, random.Random(0), "recorder")
        self.extender = parts.extender(self._store(), self._way(), self.clock, "extender")
        self.settler: settling.Settler = parts.settler(self.extender, self.clock)

    def stop(self) -> None:
        for store in self.stores:
            store.close()
        self.stores.clear()

    def hear(self) -> None:
        """The recorder leads, and hears everything."""
        while not self.recorder.leads:
            self.clock.advance(parts.TERMS.retry)
            self.recorder.begin()
        for kind in clusters.RESOURCES:
            while getattr(self.recorder.hear(kind), "version", "") != str(self.cluster.objects.version):
                pass
        assert self.recorder.turn() is None

    def away(self, seconds: float) -> None:
        """The API server is away for so long from now on; the store is not."""
        self.cluster.away_until = self.clock.now + seconds

    def bind(self, name: str, node: str) -> str:
        pod = self.cluster.objects.get("pods", (clusters.NAMESPACE, name))
        self.extender.offer(pod)
        return self.extender.bind(clusters.NAMESPACE, name, pod["metadata"]["uid"], node)

    def promise(self, name: str, node: str) -> None:
        """A bind whose Binding never arrives, and the extender dies without having heard of it."""
        self.cluster.pod(name)
        self.hear()

        def killed(*_: object, **__: object) -> kube_connecting.Reply:
            raise wires.Crashed("before the Binding")

        with mock.patch.object(clusters.Client, "exchange", killed), contextlib.suppress(wires.Crashed):
            self.bind(name, node)
        assert [one.node for one in self.snapshot().placements.values()] == [node]

    def counts(self) -> dict[str, int]:
        """As a process sees them that has just read the log."""
        return {key.rpartition("=")[2]: n for key, n in self.snapshot().counts.items()}

    def snapshot(self) -> snapshots.Snapshot:
        return self.extender.store.follower.catch_up()

    def _store(self) -> opening.Store:
        self.stores.append(parts.opened(self.server.url, NAME))
        return self.stores[-1]

    def _way(self) -> clusters.Client:
        return clusters.Client(self.cluster, self.clock, clusters.Faults(random.Random(0), 0.0))


@pytest.fixture(scope="module")
def own() -> Iterator[embedded.Server]:
    server = embedded.Server()
    yield server
    server.stop()


@pytest.fixture
def deployed(own: embedded.Server) -> Iterator[Deployment]:
    with testing.capture_logs():
        made = Deployment(own)
        with clocks.installed(made.clock):
            yield made
            made.stop()
            made.direct.flushdb()
            made.direct.close()


def test_a_placement_in_flight_survives_the_restart_of_everything(deployed: Deployment) -> None:
    deployed.promise("web-0", "h1")
    for _ in range(3):
        deployed.start()
        assert deployed.counts() == {"host": 1}
    deployed.cluster.pod("web-1")
    deployed.hear()
    assert "no room" in deployed.bind("web-1", "h2")
    # Whoever comes back to it may still keep it, once no Binding of the former process can be under way.
    assert "try again" in deployed.bind("web-0", "h1")
    deployed.clock.advance(binding.UNFENCED)
    assert deployed.bind("web-0", "h1") == ""
    deployed.hear()
    assert deployed.counts() == {"host": 1}
    assert not deployed.snapshot().placements


def test_without_the_api_server_no_promise_is_taken_back_for_an_hour(deployed: Deployment) -> None:
    """Nor when everything is started again meanwhile: time is no evidence."""
    deployed.promise("web-0", "h1")
    began = deployed.clock.now
    deployed.away(HOUR)
    for number in range(70):
        assert deployed.settler.turn() == 0
        deployed.clock.advance(50.0)
        if number == 35:
            deployed.start()
        assert deployed.counts() == {"host": 1}
    assert began + HOUR - 120.0 < deployed.clock.now < began + HOUR
    # The API server is back, and shows the pod unbound: that is evidence, once it is known to be old.
    deployed.clock.advance(120.0)
    deployed.start()
    assert deployed.settler.turn() == 0
    deployed.clock.advance(binding.UNFENCED)
    assert deployed.settler.turn() == 1
    assert deployed.counts() == {}


def test_what_was_bound_before_the_hour_stays_counted_through_it(deployed: Deployment) -> None:
    """The watch has not told of it yet: the promise stands for it, whoever looks."""
    deployed.cluster.pod("web-0")
    deployed.hear()
    assert deployed.bind("web-0", "h1") == ""
    deployed.away(HOUR)
    for _ in range(10):
        deployed.clock.advance(300.0)
        assert deployed.settler.turn() == 0
        assert deployed.counts() == {"host": 1}
    deployed.clock.advance(HOUR)
    assert deployed.settler.turn() == 0
    deployed.start()
    deployed.hear()
    assert deployed.counts() == {"host": 1}
    assert not deployed.snapshot().placements


def test_a_bind_during_the_hour_is_an_error_and_leaves_the_place_free(deployed: Deployment) -> None:
    """A connection that is refused carried no Binding: what was promised for it is taken back at once."""
    deployed.cluster.pod("web-0")
    deployed.hear()
    deployed.away(HOUR)
    assert "not bound" in deployed.bind("web-0", "h1")
    assert deployed.counts() == {}
    deployed.clock.advance(HOUR)
    assert deployed.bind("web-0", "h1") == ""
    assert deployed.counts() == {"host": 1}


def test_pods_that_go_during_the_hour_free_their_places_after_it(deployed: Deployment) -> None:
    deployed.promise("web-0", "h1")
    deployed.away(HOUR)
    deployed.cluster.objects.remove("pods", (clusters.NAMESPACE, "web-0"))
    deployed.clock.advance(HOUR / 2)
    assert deployed.counts() == {"host": 1}
    deployed.clock.advance(HOUR)
    deployed.start()
    deployed.hear()
    assert deployed.counts() == {}
