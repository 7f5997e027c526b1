"""What the store materialises beside the log: counts and versions, as plain commands read them."""

from app.store import stores
from app.store.server import connections


def counts(store: stores.Store) -> dict[str, int]:
    """The live counts, without zeros. Raises StoreError, and ValueError if those of another form are live."""
    with connections.translated():
        live = connections.text(store.client.hget(store.keys.meta, "counts") or b"")
    if live not in ("", store.keys.counts):
        raise ValueError(f"the live counts are {live}, not {store.keys.counts}")
    return _numbers(store, store.keys.counts)


def versions(store: stores.Store) -> dict[str, int]:
    """Subject -> offset of its latest event. Raises StoreError."""
    return _numbers(store, store.keys.versions)


def _numbers(store: stores.Store, key: str) -> dict[str, int]:
    with connections.translated():
        found = store.client.hgetall(key)
    return {connections.text(field): int(value) for field, value in found.items()}
