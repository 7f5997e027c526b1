"""Two versions of a plugin's kind, and the store as processes of either version open it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from app import settings
from app.domain import events, model, schema
from app.framework import manifests
from app.kube.watch import kinds
from app.store import schemas, stores
from app.store.log import batches
from app.store.server import connections
from tests.support import declared
from tests.support.store import writers


class Narrow(model.DeclaredObject, frozen=True):
    """What the former version keeps of a limit."""

    per_node: int = 0


class Wide(model.DeclaredObject, frozen=True):
    """What the present version keeps of it: a field was added with a default."""

    per_node: int = 0
    protected: bool = False


OF_NARROW = manifests.kind(Narrow, "example.com/v1", "podlimits")
OF_WIDE = manifests.kind(Wide, "example.com/v1", "podlimits")
FORMER, PRESENT = (
    schema.Schema((*declared.SCHEMA.kinds, one), declared.SCHEMA.counters) for one in (OF_NARROW, OF_WIDE)
)
Opened: TypeAlias = Callable[[schema.Schema], stores.Store]


@contextmanager
def opening(url: str, cluster: str) -> Iterator[Opened]:
    """Opens the store as a process of the version with a schema does."""
    with connections.connect(url) as client:
        schemas.migrate(client, declared.names(cluster), FORMER)
    found: list[stores.Store] = []

    def of(version: schema.Schema) -> stores.Store:
        found.append(stores.open_store(settings.Store(url=url), schema=version, cluster=cluster))
        return found[-1]

    try:
        yield of
    finally:
        for one in found:
            one.close()


def record(store: stores.Store, kind: kinds.WatchedKind, *facts: events.AnyEvent) -> None:
    """Append what a recorder that keeps this form of the kind has observed, and others' events."""
    pods = [writers.seen(f"u{number}") for number in range(6)]
    store.log.append(batches.Batch(events=(*facts, *pods), marks={kind.mark: kind.marked("9")}))
