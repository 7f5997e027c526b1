"""Placements that are on disk before they count as written (store.placements: fsync).

A server with ``appendfsync always`` syncs before it answers. That it does is asked behind each placement, on
the same connection: a failover leads to another server, and settings can be changed. WAITAOF is not asked;
why not is in docs/decisions/0011.
"""

from collections.abc import Iterable

from app.domain import events
from app.store import connecting, errors

_SYNCED = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}


def check(wire: connecting.Wire, timeout: float) -> None:
    """Return if what was written over the connection is on disk.

    Raises StoreAway if that is not known: it may be lost although it was appended.
    """
    reply = wire.ask(wire.pack("CONFIG", "GET", *_SYNCED), timeout=timeout)
    found = _configuration(reply)
    wrong = [
        f"{name} is {found.get(name, 'unknown')}"
        for name, needed in _SYNCED.items()
        if found.get(name) != needed
    ]
    if wrong:
        raise errors.StoreAway(
            f"the placement was appended, but is not known to be on disk: {', '.join(wrong)}, and"
            " store.placements is fsync; run CONFIG SET appendfsync always"
        )


def _configuration(reply: connecting.Reply) -> dict[str, str]:
    if isinstance(reply, list):  # as it is with RESP2
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    if not isinstance(reply, dict):
        return {}
    return {connecting.text(name): connecting.text(value) for name, value in reply.items()}


def places(batch: Iterable[events.AnyEvent]) -> bool:
    """Whether there is a placement among the events, which a Binding follows."""
    return any(type(event) is events.PodPlaced for event in batch)
