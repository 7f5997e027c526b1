"""Writing a cluster into a store, through the one door that the recorder uses too."""

import itertools
from collections.abc import Iterable, Iterator

from app import settings
from app.domain import events, projections, snapshots
from app.store import schemas, stores
from app.store.log import batches
from app.store.server import connections
from tests.support import declared


def fill(url: str, cluster: str, facts: Iterable[events.AnyEvent]) -> snapshots.Snapshot:
    """Bring a cluster's part of the store to the current schema and append the facts; return the result."""
    prepare(url, cluster)
    store = stores.open_store(settings.Store(url=url), schema=declared.SCHEMA, cluster=cluster)
    try:
        snapshot = snapshots.empty(schema=declared.SCHEMA, incarnation=store.log.incarnation)
        for batch in _batches(facts):
            projection = projections.Projection(snapshot)
            for event in batch:
                projection.apply(event)
            store.log.append(batches.Batch(events=batch, increments=_changes(projection.increments)))
            snapshot = projection.finish()
        return snapshot
    finally:
        store.close()


def prepare(url: str, cluster: str) -> None:
    """Bring a cluster's part of the store to the current schema."""
    client = connections.connect(url)
    schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    client.close()


def _batches(facts: Iterable[events.AnyEvent]) -> Iterator[list[events.AnyEvent]]:
    rest = iter(facts)
    while batch := list(itertools.islice(rest, batches.MAX_EVENTS)):
        yield batch


def _changes(increments: dict[str, int]) -> dict[str, int]:
    return {key: by for key, by in increments.items() if by}
