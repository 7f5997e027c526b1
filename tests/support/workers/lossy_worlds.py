"""A store server that can lose data, the recorders on it, and an extender's follower."""

from pathlib import Path

from app import settings
from app.store import errors, schemas, stores
from app.store.log import logs
from app.store.server import connections
from tests.support import declared
from tests.support.store import crash_safe_server, materialised
from tests.support.workers import clusters, leadership_events, recordings

ALL_KINDS = set(declared.SCHEMA.names)


class World:
    """A separate server that can lose data, a recorder and an extender's follower."""

    def __init__(self, directory: Path, cluster: clusters.Cluster) -> None:
        self.cluster = cluster
        self.server = crash_safe_server.CrashSafeServer(directory, append_only=True)
        client = connections.connect(self.server.url)
        schemas.migrate(client, declared.names("own"), declared.SCHEMA)
        client.close()
        self.stores: list[stores.Store] = []
        self.recordings: list[recordings.Recording] = []
        self.extender = self.open()
        self.extender.follower.start()

    def open(self, archive: str = "") -> stores.Store:
        url = self.server.url
        chosen = settings.Store(url=url, socket_timeout=1.0)
        opened = stores.open_store(
            chosen, schema=declared.SCHEMA, cluster="own", archive=archive, emptied=True
        )
        self.stores.append(opened)
        return opened

    def record(self, *, settle: float = 0.05) -> recordings.Recording:
        self.recordings.append(recordings.Recording(self.open(), self.cluster, settle=settle))
        return self.recordings[-1]

    def close(self) -> None:
        for recording in self.recordings:
            recording.recorder.stop()
            recording.thread.join(recordings.LIMIT)
        for store in self.stores:
            store.close()
        self.server.stop()

    def cut(self, size: int) -> None:
        """Let the server die and lose the end of its file from that byte on."""
        self.server.cut(size)

    @property
    def size(self) -> int:
        """Bytes of the append-only file with every acknowledged write."""
        return self.server.size

    @property
    def log(self) -> logs.Log:
        return self.extender.log

    def healed(self) -> None:
        """Wait until the extender's state equals the cluster."""

        def holds() -> bool:
            try:
                snapshot = self.extender.follower.catch_up()
            except errors.StoreError:
                return False
            nodes = {one["metadata"]["name"] for one in self.cluster.server.objects.all("nodes")}
            pods = {one["metadata"]["uid"] for one in self.cluster.server.objects.all("pods")}
            return (
                not snapshot.unlisted
                and set(snapshot.listed) == ALL_KINDS
                and set(snapshot.nodes) == nodes
                and set(snapshot.pods) == pods
            )

        recordings.eventually(holds, "the extender has the cluster again")
        leadership_events.check_epochs(self.log)
        snapshot = self.extender.follower.catch_up()
        assert materialised.counts(self.extender) == dict(snapshot.counts)
        assert materialised.versions(self.extender) == dict(snapshot.versions)
        assert [one.offset for one in self.log.read(0, limit=10_000)] == list(range(1, snapshot.offset + 1))


def filled(own: World, pods: int = 12) -> recordings.Recording:
    """A recorder that has recorded a small cluster."""
    for at in range(3):
        own.cluster.node(f"n{at}", zone="host")
    own.cluster.policy("p", host=100)
    for at in range(pods):
        own.cluster.pod(f"p{at}", node=f"n{at % 3}", app="x")
    recording = own.record().ready()
    own.healed()
    return recording
