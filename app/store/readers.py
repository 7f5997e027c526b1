"""Who reads the log, and how far each has come: nothing is trimmed that a living reader still needs.

A reader says now and then where it is; the store's clock says when that was. One that has said nothing
for as long as the compactor's patience counts as dead, and what it had not read may go. It learns of
that by an error, and begins again from a checkpoint.
"""

import contextlib
import os
import secrets
import socket
import time
from typing import NamedTuple

import redis

from app.store import connecting, errors, keys

EVERY_SECONDS = 5.0
"""How often a reader says where it is."""
SOON_SECONDS = 0.5
"""How often one does that has read much since: what it has read may be trimmed only once it says so."""
_MUCH = 64


class Seen(NamedTuple):
    """What is known of one reader."""

    reader: str
    offset: int
    at_ms: int
    """When it last said so, by the store's clock."""


class Reader:
    """One reader in the eyes of the store; used by one thread at a time."""

    def __init__(self, client: redis.Redis, names: keys.Keys, identity: str = "") -> None:
        """``identity`` names it to people; host, process and a few random letters if it is empty."""
        self._wire = connecting.Wire(client)
        self._key = names.readers
        self.identity = identity or f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(3)}"
        self._due = self._soon = 0.0
        self._attended = False
        self._offset = 0

    def attend(self, offset: int, *, at_once: bool = False) -> None:
        """Say where it is, if it is time to, or ``at_once``; a store that is away hears of it later."""
        now = time.monotonic()
        if at_once or now >= self._due or (now >= self._soon and offset - self._offset >= _MUCH):
            self._due, self._soon, self._offset = now + EVERY_SECONDS, now + SOON_SECONDS, offset
            with contextlib.suppress(errors.StoreAway):
                self._say(str(offset))
                self._attended = True

    def leave(self) -> None:
        """Say that it reads no more."""
        if self._attended:
            self._attended, self._due = False, 0.0
            with contextlib.suppress(errors.StoreAway):
                self._say("")
        self._wire.close()

    def _say(self, offset: str) -> None:
        packed = self._wire.pack("FCALL", keys.function("attend"), 1, self._key, self.identity, offset)
        self._wire.ask(packed)


def seen(client: redis.Redis, names: keys.Keys) -> list[Seen]:
    """All readers that were ever heard of and have not left, the slowest first."""
    with connecting.translated():
        fields = client.hgetall(names.readers)
    found = []
    for reader, said in fields.items():
        offset, _, at_ms = connecting.text(said).partition(" ")
        if offset.isdigit() and at_ms.isdigit():
            found.append(Seen(connecting.text(reader), int(offset), int(at_ms)))
    return sorted(found, key=lambda one: (one.offset, one.reader))
