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
from app.kube.client import fast_client
from app.kube.writes import binding
from app.store import schemas, stores
from app.store.server import connections, embedded
from tests.support import bind_times, declared
from tests.support.simulation import processes, virtual_time
from tests.support.simulation.cluster import api_client, cluster_objects
from tests.support.simulation.store import lossy_calls
from workers.controller.placements import orphaned_placements

HOUR = 3600.0
NAME = "away"


class Deployment:
    """A recorder, an extender and a controller over one store, all of which can be started again."""

    def __init__(self, server: embedded.Server) -> None:
        self.server = server
        self.clock = virtual_time.Clock()
        self.cluster = cluster_objects.Cluster()
        for name, role in cluster_objects.NODES.items():
            self.cluster.node(name, role=role)
        self.cluster.policy({"host": 1, "member": 1})
        self.stores: list[stores.Store] = []
        self.direct = connections.connect(server.url)
        schemas.migrate(self.direct, declared.names(NAME), declared.SCHEMA)
        self.start()

    def start(self) -> None:
        """Every process, restarted: only the contents of the store are left."""
        self.stop()
        self.recorder = processes.Recorder(
            self._store(), self._way(), self.clock, random.Random(0), "recorder"
        )
        self.extender = processes.extender(self._store(), self._way(), self.clock, "extender")
        self.settler: orphaned_placements.OrphanedPlacements = processes.settler(self.extender, self.clock)

    def stop(self) -> None:
        for store in self.stores:
            store.close()
        self.stores.clear()

    def observe(self) -> None:
        """The recorder leads, and observes every change."""
        while not self.recorder.leads:
            self.clock.advance(processes.TERMS.retry)
            self.recorder.begin()
        for kind in cluster_objects.EVERY:
            while getattr(self.recorder.observe(kind), "version", "") != str(self.cluster.objects.version):
                pass
        assert self.recorder.run_once() is None

    def away(self, seconds: float) -> None:
        """The API server is away for so long from now on; the store is not."""
        self.cluster.away_until = self.clock.now + seconds

    def bind(self, name: str, node: str) -> str:
        pod = self.cluster.objects.get("pods", (cluster_objects.NAMESPACE, name))
        self.extender.offer(pod)
        return self.extender.bind(cluster_objects.NAMESPACE, name, pod["metadata"]["uid"], node)

    def place(self, name: str, node: str) -> None:
        """A bind whose Binding never arrives, and the extender dies without its outcome."""
        self.cluster.pod(name)
        self.observe()

        def killed(*_: object, **__: object) -> fast_client.Reply:
            raise lossy_calls.Crashed("before the Binding")

        with (
            mock.patch.object(api_client.Client, "exchange", killed),
            contextlib.suppress(lossy_calls.Crashed),
        ):
            self.bind(name, node)
        assert [one.node for one in self.snapshot().placements.values()] == [node]

    def counts(self) -> dict[str, int]:
        """As a process sees them that has just read the log."""
        return {key.rpartition("=")[2]: n for key, n in self.snapshot().counts.items()}

    def snapshot(self) -> snapshots.Snapshot:
        return self.extender.store.follower.catch_up()

    def _store(self) -> stores.Store:
        self.stores.append(processes.opened(self.server.url, NAME))
        return self.stores[-1]

    def _way(self) -> api_client.Client:
        return api_client.Client(self.cluster, self.clock, api_client.Faults(random.Random(0), 0.0))


@pytest.fixture
def deployed(own: embedded.Server) -> Iterator[Deployment]:
    with testing.capture_logs():
        made = Deployment(own)
        with virtual_time.installed(made.clock):
            yield made
            made.stop()
            made.direct.flushdb()
            made.direct.close()


def test_a_placement_in_flight_survives_the_restart_of_everything(deployed: Deployment) -> None:
    deployed.place("web-0", "h1")
    for _ in range(3):
        deployed.start()
        assert deployed.counts() == {"host": 1}
    deployed.cluster.pod("web-1")
    deployed.observe()
    assert "no capacity" in deployed.bind("web-1", "h2")
    # A later bind may still use it, once no Binding of the former process can be in flight.
    assert "try again" in deployed.bind("web-0", "h1")
    deployed.clock.advance(binding.UNFENCED)
    assert deployed.bind("web-0", "h1") == ""
    deployed.observe()
    assert deployed.counts() == {"host": 1}
    assert not deployed.snapshot().placements


def test_without_the_api_server_no_placement_is_released_for_an_hour(deployed: Deployment) -> None:
    """Nor when everything is started again meanwhile: time is no evidence."""
    deployed.place("web-0", "h1")
    began = deployed.clock.now
    deployed.away(HOUR)
    for number in range(70):
        assert deployed.settler.run_once() == 0
        deployed.clock.advance(50.0)
        if number == 35:
            deployed.start()
        assert deployed.counts() == {"host": 1}
    assert began + HOUR - 120.0 < deployed.clock.now < began + HOUR
    # The API server is back, and shows the pod unbound; once its placement is known to be old it is fenced.
    deployed.clock.advance(120.0)
    deployed.start()
    assert deployed.settler.run_once() == 0
    deployed.clock.advance(bind_times.OLD)
    assert deployed.settler.run_once() == 1
    assert deployed.counts() == {}


def test_what_was_bound_before_the_hour_stays_counted_through_it(deployed: Deployment) -> None:
    """The watch has not shown it yet: the placement stays, and every reader counts it."""
    deployed.cluster.pod("web-0")
    deployed.observe()
    assert deployed.bind("web-0", "h1") == ""
    deployed.away(HOUR)
    for _ in range(10):
        deployed.clock.advance(300.0)
        assert deployed.settler.run_once() == 0
        assert deployed.counts() == {"host": 1}
    deployed.clock.advance(HOUR)
    assert deployed.settler.run_once() == 0
    deployed.start()
    deployed.observe()
    assert deployed.counts() == {"host": 1}
    assert not deployed.snapshot().placements


def test_a_bind_during_the_hour_is_an_error_and_leaves_the_place_free(deployed: Deployment) -> None:
    """A refused connection carried no Binding: its placement is released at once."""
    deployed.cluster.pod("web-0")
    deployed.observe()
    deployed.away(HOUR)
    assert "not bound" in deployed.bind("web-0", "h1")
    assert deployed.counts() == {}
    deployed.clock.advance(HOUR)
    assert deployed.bind("web-0", "h1") == ""
    assert deployed.counts() == {"host": 1}


def test_pods_that_go_during_the_hour_free_their_places_after_it(deployed: Deployment) -> None:
    deployed.place("web-0", "h1")
    deployed.away(HOUR)
    deployed.cluster.objects.remove("pods", (cluster_objects.NAMESPACE, "web-0"))
    deployed.clock.advance(HOUR / 2)
    assert deployed.counts() == {"host": 1}
    deployed.clock.advance(HOUR)
    deployed.start()
    deployed.observe()
    assert deployed.counts() == {}
