"""Which incarnation a log says it is: an incarnation that no event of the log began is refused.

A new incarnation begins with an event that names it, and a recorder that is elected names the one that it
records in. Whoever opens a store, or would go along to another incarnation, compares that with ``meta``,
where a hand or a script may have written anything.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import redis

from app.domain import events
from app.store import codecs, connecting, errors, images, keys

_Named = events.RecorderElected | events.StoreRewound
_SUBJECTS = ("store:recorder", "store:incarnation")
_BEGINNINGS = (b'"type":"RecorderElected"', b'"type":"StoreRewound"')
_HEAD = 40
"""Bytes of a payload in which its type stands."""
_PAGE = 1000


def prove(client: redis.Redis, names: keys.Keys, incarnation: str) -> None:
    """Return if the log may be of this incarnation. Raises Unbegun or StoreAway."""
    with connecting.translated():
        said = _Lineage(client, names).said()
    if said and incarnation and said != incarnation:
        raise errors.Unbegun(incarnation, said, names.meta)


class _Lineage:
    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client: Any = client  # whose types do not tell bytes from text
        self._names = names

    def said(self) -> str:
        """The incarnation that the log names last; empty if it does not say."""
        versions = self._client.hmget(self._names.versions, _SUBJECTS)
        pointed = [int(version) for version in versions if version is not None and version.isdigit()]
        named = [event for offset in sorted(pointed) for event in self._at(offset)]
        # Versions are a view, which may be damaged, or repaired by an event of its own.
        return named[-1].incarnation if named else self._found()

    def _found(self) -> str:
        """The same, without the view: from the newest checkpoint that the log goes on from."""
        after, said = self._checkpoint()
        while page := self._client.xrange(self._names.log, min=f"({after}-0", max="+", count=_PAGE):
            for _, fields in page:
                for event in _named(fields.get(b"e", b"")):
                    said = event.incarnation
            after = int(page[-1][0].partition(b"-")[0])
        return said

    def _checkpoint(self) -> tuple[int, str]:
        headers = []
        for raw in self._client.hgetall(self._names.checkpoints).values():
            with contextlib.suppress(errors.Damaged):
                headers.append(images.header_of(raw))
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
    if any(one in payload[:_HEAD] for one in _BEGINNINGS):
        with contextlib.suppress(errors.Unreadable):
            event = codecs.decode(payload)
            if isinstance(event, _Named):
                yield event
