"""A store that loses the end of its log, so that history begins again."""

from collections.abc import Mapping

from app.domain import events
from app.store.log import batches, incarnations
from tests.support.extender import api_worlds


def held(world: api_worlds.World) -> dict[bytes, bytes]:
    """Everything that the store holds of the cluster."""
    store = world.store
    return {key: store.client.dump(key) or b"" for key in store.client.scan_iter(f"{store.keys.prefix}*")}


def rewound(world: api_worlds.World, data: Mapping[bytes, bytes], kept: int, last: int) -> str:
    """The store comes back as it was, and a recorder that had seen more begins history again.

    ``kept``: the last offset of that state; ``last``: the last one that was seen. Returns the incarnation.
    """
    store = world.store
    former = store.log.incarnation
    store.client.delete(*store.client.scan_iter(f"{store.keys.prefix}*"))
    for key, value in data.items():
        store.client.restore(key, 0, value, replace=True)
    begun = incarnations.new((former,))
    event = events.StoreRewound(former, kept + 1, last, "a test", relisting=("pods",), incarnation=begun)
    guard = batches.Guard(epoch="9", writer="w")
    assert store.log.rewind(event, begun, found=former, guard=guard)
    store.log.follow(begun)
    return begun
