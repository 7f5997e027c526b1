"""Bundles of a world, and worlds of a bundle."""

import contextlib
import gzip
import io
import secrets
import tarfile
from collections.abc import Iterator
from typing import Any

from app import settings
from app.store import stores
from app.store.bundles import restoring
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.extender import api_worlds, random_histories

SEED, LENGTH = 11, 300


def lived(store: stores.Store, *, configured: settings.Settings | None = None) -> api_worlds.World:
    """A world with a random past, in which pods were decided about every 20 events."""
    made = api_worlds.world(store, configured=configured)
    happened = random_histories.history(SEED, LENGTH)
    for start in range(0, len(happened), 20):
        made.append(*happened[start : start + 20])
        snapshot = made.store.follower.catch_up()
        pods = sorted(snapshot.pods.values(), key=lambda pod: pod.name)
        new = api_worlds.pod(f"new-{start}")
        api_worlds.decide(made, *[pod for pod in pods if not pod.node][:3], new)
    return made


def exported(world: api_worlds.World, query: str = "") -> bytes:
    """The bundle of a world."""
    reply = world.client.get(f"/apis/v1/export{query}")
    assert reply.status_code == 200, reply.text
    assert reply.mimetype == "application/x-tar"
    return bytes(reply.data)


def restored(server: embedded.Server, data: bytes) -> str:
    """The name of another cluster of the server, filled with the bundle."""
    cluster = f"b{secrets.token_hex(6)}"
    with contextlib.closing(connections.connect(server.url)) as client:
        restoring.restore(io.BytesIO(data), client, declared.names(cluster), declared.SCHEMA)
    return cluster


@contextlib.contextmanager
def opened(server: embedded.Server, data: bytes) -> Iterator[api_worlds.World]:
    """The world of a bundle."""
    cluster = restored(server, data)
    store = stores.open_store(
        settings.Store(url=server.url),
        schema=declared.SCHEMA,
        cluster=cluster,
        indexed=api_worlds.plugins_of_the_seeds().indexed(),
    )
    store.start()
    try:
        yield api_worlds.world(store)
    finally:
        store.close()


def members(data: bytes) -> dict[str, bytes]:
    """Name -> content of each member, expanded."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            content: Any = tar.extractfile(member)
            raw = content.read()
            found[member.name] = gzip.decompress(raw) if member.name.endswith(".gz") else raw
    return found
