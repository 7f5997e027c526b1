"""The kinds whose status plugins write: the paths of their objects, and what is kept of them."""

from app.domain import schema as schemas
from app.domain import snapshots
from app.framework import registry
from app.kube.watch import kinds
from workers.controller import statuses


class KindTarget:
    """A watched kind."""

    def __init__(self, kind: kinds.WatchedKind) -> None:
        self._kind = kind

    def paths(self, identity: str) -> tuple[str, ...]:
        """The paths of an object: one for each version, as WatchedKind.paths."""
        return tuple(self._below(collection, identity) for collection in self._kind.paths)

    def _below(self, collection: str, identity: str) -> str:
        if not self._kind.namespaced:
            return f"{collection}/{identity}"
        group, _, resource = collection.rpartition("/")
        namespace, _, name = identity.partition("/")
        return f"{group}/namespaces/{namespace}/{resource}/{name}"

    def decode(self, body: bytes) -> object:
        """The part of an object that is kept in the log. Raises Undecodable."""
        found, _ = self._kind.decode(body)
        return found

    def find(self, snapshot: snapshots.Snapshot, identity: str) -> object | None:
        """The kept part of an object in the snapshot."""
        return self._kind.find(snapshot, identity)


def of(schema: schemas.Schema, plugins: registry.Registry) -> dict[str, statuses.Target]:
    """The kinds that the plugins declare, by name; all are watched (registry_builder.schema_of)."""
    watched = {kind.name: kind for kind in kinds.watched(schema)}
    return {name: KindTarget(watched[name]) for plugin in plugins.reconciles for name in plugin.statuses}
