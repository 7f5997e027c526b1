"""Stores that lose the end of their log, and logs that have grown again since."""

from typing import Any

from app import settings
from app.store import keys, stores
from app.store.log import batches
from tests.support import declared
from tests.support.store import writers


def cut(store: stores.Store, head: int) -> None:
    """Lose everything after an offset, as a server does that loses the end of its file."""
    client: Any = store.client
    names = store.keys
    if head:
        client.xdel(names.log, *(entry[0] for entry in client.xrange(names.log, min=f"{head + 1}-0")))
        at = client.xrange(names.log, min=f"{head}-0", count=1)[0][1][b"t"]
        client.hset(names.meta, mapping={keys.HEAD: head, "at": at})
    else:
        client.delete(names.log)
        client.hset(names.meta, keys.HEAD, "0")
        client.hdel(names.meta, "at")
    for session in list(client.scan_iter(names.session("*").replace("{", "[{]"), count=1000)):
        client.delete(session)


def grow_again(store: stores.Store, count: int, *, after: batches.Appended) -> None:
    """Lose all entries, and append others with another process, later than the former ones."""
    cut(store, 0)
    other = another(store)
    while store.client.time()[0] * 1000 + store.client.time()[1] // 1000 <= after.at_ms:
        pass  # the same millisecond would be the same moment
    other.log.append(batches.Batch(events=[writers.seen(f"other-{i}") for i in range(count)]))
    other.close()


def another(store: stores.Store) -> stores.Store:
    """The store as another process opens it."""
    return stores.open_store(
        settings.Store(url=store_url(store)), schema=declared.SCHEMA, cluster=cluster_of(store)
    )


def store_url(store: stores.Store) -> str:
    return f"unix://{store.client.connection_pool.connection_kwargs['path']}"


def cluster_of(store: stores.Store) -> str:
    return store.keys.prefix.partition("{")[2].partition("}")[0]
