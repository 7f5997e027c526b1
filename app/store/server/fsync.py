"""Waits until placements are on disk (store.placements: fsync).

A server with ``appendfsync always`` syncs before it replies. The setting is read after each placement, on
the same connection: a failover leads to another server, and settings can be changed. docs/decisions/0011
explains why WAITAOF is not used.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from app.store import errors
from app.store.server import connections

_SYNCED = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}


@dataclass(frozen=True, slots=True)
class Difference:
    """The settings by which a server replies before it syncs, or may do so."""

    are: str
    """Each with its value, as a clause."""
    fix: str
    """What to run to change them."""


def difference(config: Mapping[str, str]) -> Difference | None:
    """How a server's configuration differs from one that syncs before it replies; None if it does not."""
    wrong = [name for name, needed in _SYNCED.items() if config.get(name) != needed]
    if not wrong:
        return None
    return Difference(
        ", ".join(f"{name} is {config.get(name, 'unknown')}" for name in wrong),
        f"CONFIG SET {' '.join(f'{name} {_SYNCED[name]}' for name in wrong)}, then CONFIG REWRITE;"
        " the bundled store: config.store.placements of the chart, or the patch of docs/how-to/install.md",
    )


def check(wire: connections.Wire, timeout: float) -> None:
    """Return if what the server has acknowledged is on its disk.

    Raises Unsynced if that is unknown: it may be lost although it was appended; StoreAway if no reply arrives
    within the timeout (seconds).
    """
    reply = wire.ask(wire.pack("CONFIG", "GET", *_SYNCED), timeout=timeout)
    found = difference(_configuration(reply))
    if found is not None:
        raise errors.Unsynced(
            f"an appended placement is not known to be on disk: {found.are}, and store.placements is fsync;"
            f" run {found.fix}"
        )


def _configuration(reply: connections.Reply) -> dict[str, str]:
    if isinstance(reply, list):  # as it is with RESP2
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    if not isinstance(reply, dict):
        return {}
    return {connections.text(name): connections.text(value) for name, value in reply.items()}
