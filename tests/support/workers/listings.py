"""Complete lists of a cluster, turned into batches as the recorder does it, without a store."""

from collections.abc import Iterable, Iterator, Mapping

from app.domain import events, model, projections, snapshots
from app.kube.objects import decoding
from app.kube.watch import kinds, reflectors
from tests.support import declared
from workers.recorder import batch_builder

Lists = Mapping[kinds.WatchedKind, Iterable[decoding.Object]]


def of(snapshot: snapshots.Snapshot) -> Lists:
    """The lists that the API server would return if the cluster were as in the snapshot."""
    found: dict[kinds.WatchedKind, Iterable[decoding.Object]] = {kinds.NODES: snapshot.nodes.values()}
    found |= {kinds.declared(kind): snapshot.all(kind).values() for kind in declared.SCHEMA.kinds}
    found[kinds.PODS] = snapshot.pods.values()
    assert {kind.name for kind in found} == declared.SCHEMA.names
    return found


def batches(before: snapshots.Snapshot, lists: Lists) -> Iterator[list[events.AnyEvent]]:
    """The events of each batch, if no other writer appends."""
    snapshot = before
    for kind, listed in lists.items():
        objects = list(listed)
        identities = frozenset(kind.identity(one) for one in objects)
        for change in (
            reflectors.Part(kind, objects),
            reflectors.Listed(kind, identities, "1", "", "a test"),
        ):
            waiting = list(batch_builder.steps(change, snapshot))
            at = 0
            while at < len(waiting):
                builder = batch_builder.BatchBuilder(snapshot)
                at = builder.fill(waiting, at)
                yield builder.facts
                snapshot = projections.project_all(snapshot, builder.facts)


def facts(before: snapshots.Snapshot, lists: Lists) -> list[events.AnyEvent]:
    """The events of all batches but the notes that a list was complete."""
    found = [event for batch in batches(before, lists) for event in batch]
    return [event for event in found if not isinstance(event, events.Relisted)]


def gone(kind: kinds.WatchedKind, one: decoding.Object) -> reflectors.Gone:
    """The watch shows that the object was deleted."""
    namespace = "" if isinstance(one, model.Node) else one.namespace
    return reflectors.Gone(kind, one.uid, namespace, one.name, "1")
