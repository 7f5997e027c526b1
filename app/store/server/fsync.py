"""Waits until placements are on disk (store.placements: fsync).

A server with ``appendfsync always`` syncs before it replies. The setting is read after each placement, on
the same connection: a failover leads to another server, and settings can be changed. docs/decisions/0011
explains why WAITAOF is not used.
"""

from app.store import errors
from app.store.server import connections

_SYNCED = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}


def check(wire: connections.Wire, timeout: float) -> None:
    """Return if what the server has acknowledged is on its disk.

    Raises Unsynced if that is unknown: it may be lost although it was appended; StoreAway if no reply arrives
    within the timeout (seconds).
    """
    reply = wire.ask(wire.pack("CONFIG", "GET", *_SYNCED), timeout=timeout)
    found = _configuration(reply)
    wrong = [name for name, needed in _SYNCED.items() if found.get(name) != needed]
    if wrong:
        are = ", ".join(f"{name} is {found.get(name, 'unknown')}" for name in wrong)
        needed = " ".join(f"{name} {_SYNCED[name]}" for name in wrong)
        raise errors.Unsynced(
            f"an appended placement is not known to be on disk: {are}, and store.placements is fsync;"
            f" run CONFIG SET {needed}"
        )


def _configuration(reply: connections.Reply) -> dict[str, str]:
    if isinstance(reply, list):  # as it is with RESP2
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    if not isinstance(reply, dict):
        return {}
    return {connections.text(name): connections.text(value) for name, value in reply.items()}
