"""A changing cluster on a real store, and the same store as other processes open it."""

import contextlib
from collections.abc import Iterator

import redis

from app import settings
from app.domain import events, model, projections, snapshots
from app.store import snapshot_format, stores
from app.store.log import batches, incarnations
from app.store.server import embedded
from tests.support import declared
from tests.support.store import writers


@contextlib.contextmanager
def reopened(store: stores.Store, server: embedded.Server, archive: str = "") -> Iterator[stores.Store]:
    """The same store as another process sees it, perhaps with an archive."""
    opened = stores.open_store(
        settings.Store(url=server.url),
        schema=declared.SCHEMA,
        cluster=store.keys.cluster,
        indexed=("app", "rl-job-group"),
        archive=archive,
    )
    try:
        yield opened
    finally:
        opened.close()


class Backup:
    """What a store holds of a cluster at one moment."""

    def __init__(self, store: stores.Store) -> None:
        self._prefix = store.keys.prefix
        self._saved = {key: store.client.dump(key) for key in self._present(store.client)}

    def restore(self, client: redis.Redis) -> None:
        """Replace what a server holds of the cluster."""
        for key in self._present(client):
            client.delete(key)
        for key, value in self._saved.items():
            assert value is not None
            client.restore(key, 0, value)

    def _present(self, client: redis.Redis) -> list[bytes]:
        return list(client.scan_iter(self._prefix + "*", count=1000))


class History:
    """A cluster that changes, and its state at every offset."""

    def __init__(self, store: stores.Store) -> None:
        self._store = store
        self.states: list[snapshots.Snapshot] = [store.follower.catch_up()]

    def go_on(self, count: int) -> None:
        for _ in range(count):
            number = len(self.states)
            event: events.AnyEvent = writers.seen(f"u{number % 17}", f"n{number % 3}" if number % 2 else "")
            if number % 5 == 0:
                event = events.NodeSeen(node=model.Node(name=f"n{number % 3}", uid="n", labels={"zone": "a"}))
            if number % 11 == 0:
                event = events.PodGone(f"u{number % 17}", "blue", f"pod-u{number % 17}")
            writers.facts(self._store.log, self.states[-1], [event])
            self.states.append(projections.project(self.states[-1], event))
        self._store.client.delete(self._store.keys.readers)

    def digests(self, *offsets: int) -> list[str]:
        return [snapshot_format.digest(self.states[offset]) for offset in offsets]

    def misread(self, store: stores.Store) -> list[int]:
        """The offsets, of every seventh one, at which the store's history has another state."""
        found = range(0, len(self.states), 7)
        read = (snapshot_format.digest(store.histories.at(offset)) for offset in found)
        return [at for at, one, other in zip(found, read, self.digests(*found), strict=True) if one != other]

    def lose(self, offset: int, store: stores.Store) -> None:
        """Continue by another process from an earlier offset, behind which the store has lost everything."""
        del self.states[offset + 1 :]
        self._store = store

    def begin_incarnation(self, lost_to: int) -> None:
        """Begin a new incarnation at the head, as a recorder does."""
        log, former = self._store.log, self._store.log.incarnation
        begun, head = incarnations.new((former,)), log.head().offset
        event = events.StoreRewound(
            from_incarnation=former,
            lost_from=head + 1,
            lost_to=lost_to,
            reason="r",
            by="b",
            relisting=(),
            incarnation=begun,
        )
        assert log.rewind(event, begun, found=former, guard=batches.Guard(epoch="7", writer="w"))
        log.follow(begun)
        self.states.append(projections.project(self.states[-1], event))
