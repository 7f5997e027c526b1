"""A simulated cluster whose processes a test runs one step at a time."""

import random

from app.domain import events
from app.store import schemas, stores
from app.store.log import codecs
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.simulation import processes, virtual_time
from tests.support.simulation.cluster import api_client, cluster_objects
from tests.support.simulation.oracle import watchdog


class World:
    """A cluster, a store on a server of its own, and the processes that a test starts."""

    def __init__(self, server: embedded.Server) -> None:
        self.clock = virtual_time.Clock()
        self.cluster = cluster_objects.Cluster()
        for name, role in cluster_objects.NODES.items():
            self.cluster.node(name, role=role)
        self.cluster.policy({"host": 1, "member": 1})
        self.server = server
        self.direct = connections.connect(server.url)
        self.direct.flushdb()
        names = declared.names("found")
        schemas.migrate(self.direct, names, declared.SCHEMA)
        self.watchdog = watchdog.Watchdog(self.direct, names, self.cluster)
        self._stores: list[stores.Store] = []

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self.direct.close()

    def way(self) -> api_client.Client:
        return api_client.Client(self.cluster, self.clock, api_client.Faults(random.Random(0), 0.0))

    def store(self, *, emptied: bool = False) -> stores.Store:
        self._stores.append(processes.opened(self.server.url, "found", emptied=emptied))
        return self._stores[-1]

    def extender(self) -> processes.Extender:
        return processes.extender(self.store(), self.way(), self.clock, "extender")

    def recorder(self, name: str = "recorder") -> processes.Recorder:
        """One that leads and has recorded everything."""
        recorder = processes.Recorder(self.store(), self.way(), self.clock, random.Random(0), name)
        self.clock.advance(1.0)
        assert recorder.begin()
        self.observe(recorder)
        return recorder

    def listen(self, recorder: processes.Recorder) -> None:
        """The recorder observes every change of the cluster."""
        for kind in cluster_objects.EVERY:
            while getattr(recorder.observe(kind), "version", "") != str(self.cluster.objects.version):
                pass

    def observe(self, recorder: processes.Recorder) -> None:
        """And is recorded."""
        self.listen(recorder)
        assert recorder.run_once() is None

    def empty(self) -> None:
        """The store loses everything."""
        self.watchdog.compare()
        self.direct.flushdb()
        self.watchdog.failed_over()

    def events(self) -> list[events.AnyEvent]:
        """All that is in the log."""
        self.watchdog.compare()
        return [codecs.decode(entry.payload) for entry in self.watchdog.entries]
