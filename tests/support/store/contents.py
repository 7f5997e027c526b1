"""All that the keys of one cluster hold, to see that nothing was written."""

from app.store import stores


def of_cluster(store: stores.Store) -> dict[bytes, bytes | None]:
    """Key -> its value, serialized. Heartbeats of readers are left out: any process writes them.

    The server of a test run holds the clusters of all tests that ran before, so their keys are not read.
    """
    readers = store.keys.readers.encode()
    found = store.client.scan_iter(f"{store.keys.prefix}*", count=10_000)
    return {key: store.client.dump(key) for key in found if key != readers}
