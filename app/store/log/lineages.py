"""Verifies that an event of the log began the incarnation in its metadata.

A new incarnation begins with an event that names it, and each elected recorder appends an event that names
its incarnation. A process that opens a store, or switches to another incarnation, compares it with
``meta``, where an operator or a script may have written anything.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import redis

from app.domain import events
from app.store import errors, keys, snapshot_format
from app.store.log import codecs
from app.store.server import connections

_Named = events.RecorderElected | events.StoreRewound
_SUBJECTS = ("store:recorder", "store:incarnation")
_TYPES = (b'"type":"RecorderElected"', b'"type":"StoreRewound"')
_HEAD = 40
"""Bytes of a payload that contain its type."""
_PAGE = 1000


def prove(client: redis.Redis, names: keys.Keys, incarnation: str) -> None:
    """Return unless the log names another incarnation than ``meta``. Raises Unbegun or StoreAway.

    ``incarnation``: what ``meta`` held. If another one was begun since it was read, nothing is wrong.
    """
    with connections.translated():
        begun = _Lineage(client, names).incarnation()
        if not begun or not incarnation or begun == incarnation:
            return
        present = client.hget(names.meta, "incarnation")
    if connections.text(present or b"") == incarnation:
        raise errors.Unbegun(incarnation, begun, names.meta)


class _Lineage:
    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client: Any = client  # redis-py's types do not distinguish bytes and text
        self._names = names

    def incarnation(self) -> str:
        """The incarnation that the log names last; empty if it names none."""
        versions = self._client.hmget(self._names.versions, _SUBJECTS)
        pointed = [int(version) for version in versions if version is not None and version.isdigit()]
        named = [event for offset in sorted(pointed) for event in self._at(offset)]
        # The view of versions may be damaged, or point to the event of a repair.
        return named[-1].incarnation if named else self._found()

    def _found(self) -> str:
        """The same without the view: read from the newest checkpoint that the log continues."""
        after, latest = self._checkpoint()
        while page := self._client.xrange(self._names.log, min=f"({after}-0", max="+", count=_PAGE):
            for _, fields in page:
                for event in _named(fields.get(b"e", b"")):
                    latest = event.incarnation
            after = int(page[-1][0].partition(b"-")[0])
        return latest

    def _checkpoint(self) -> tuple[int, str]:
        headers = []
        for raw in self._client.hgetall(self._names.checkpoints).values():
            with contextlib.suppress(errors.Damaged):
                headers.append(snapshot_format.header_of(raw))
        oldest = self._client.xrange(self._names.log, min="-", max="+", count=1)
        first = int(oldest[0][0].partition(b"-")[0]) if oldest else 1
        for header in sorted(headers, key=lambda one: one.offset, reverse=True):
            entry = self._entry(header.offset)
            if header.offset < first or entry.get(b"t") == b"%d" % header.at_ms:
                return header.offset, header.incarnation
        return 0, ""

    def _at(self, offset: int) -> Iterator[_Named]:
        return _named(self._entry(offset).get(b"e", b""))

    def _entry(self, offset: int) -> Mapping[bytes, bytes]:
        found = self._client.xrange(self._names.log, min=f"{offset}-0", max=f"{offset}-0")
        fields: Mapping[bytes, bytes] = found[0][1] if found else {}
        return fields


def _named(payload: bytes) -> Iterator[_Named]:
    if any(one in payload[:_HEAD] for one in _TYPES):
        with contextlib.suppress(errors.Unreadable):
            event = codecs.decode(payload)
            if isinstance(event, _Named):
                yield event
