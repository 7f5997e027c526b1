"""Waits until placements are on disk (store.placements: fsync).

A server with ``appendfsync always`` syncs before it replies. The setting is read after each placement, on
the same connection: a failover leads to another server, and settings can be changed. docs/decisions/0011
explains why WAITAOF is not used.
"""

from collections.abc import Iterable

from app.domain import events
from app.store import errors
from app.store.server import connections

_SYNCED = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}


def check(wire: connections.Wire, timeout: float) -> None:
    """Return once the writes of the connection are on disk.

    Raises StoreAway if that is unknown: they may be lost although they were appended.
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


def _configuration(reply: connections.Reply) -> dict[str, str]:
    if isinstance(reply, list):  # as it is with RESP2
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    if not isinstance(reply, dict):
        return {}
    return {connections.text(name): connections.text(value) for name, value in reply.items()}


def places(batch: Iterable[events.AnyEvent]) -> bool:
    """Whether the events contain a placement, which a Binding follows."""
    return any(type(event) is events.PlacementsCommitted for event in batch)
