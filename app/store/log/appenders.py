"""Calls the store's functions that write: each call is carried out at most once.

A call of ``append`` carries a session and a sequence number; the store remembers the last call of each
session and its reply. A call whose reply was lost can therefore be repeated. Several sessions, each with
a connection, let threads append side by side.
"""

import time
from collections.abc import Sequence

import redis

from app import telemetry
from app.domain import events
from app.store import errors, keys
from app.store.log import batches, codecs, incarnations, readers, sessions
from app.store.server import connections, fsync, pools, retries

_SESSIONS = 32
"""Threads that can append at the same time; connections are opened when first needed."""
_SECONDS = telemetry.metrics.STORE_SECONDS.labels("append")


class Appender:
    """The writing functions for one log; thread-safe."""

    def __init__(
        self,
        client: redis.Redis,
        names: keys.Keys,
        followed: incarnations.Followed,
        *,
        timeout: float,
        synced: bool,
    ) -> None:
        """``timeout`` (seconds) and ``synced``: see ``logs.Log``."""
        self._names = names
        self._followed = followed
        self._timeout = timeout
        self._synced = synced
        self._sessions = pools.Pool(lambda: sessions.Session(client, names), _SESSIONS)

    def append(
        self, batch: batches.Batch, guard: batches.Guard, *, timeout: float | None = None
    ) -> batches.Appended:
        """Append the batch if the guard holds and no known entry is lost; raises as ``Log.append``."""
        arguments = batches.arguments(batch, guard)
        deadline = retries.RetryDeadline(self._timeout if timeout is None else timeout)
        names = self._names
        with self._sessions.borrowed(deadline.left) as session:
            session.sequence += 1
            seen = self._followed.seen
            if guard.incarnation not in ("", seen.incarnation):
                raise errors.Rewound(
                    f"decided in incarnation {guard.incarnation}, but the log is {seen.incarnation} now:"
                    " decide again"
                )
            packed = session.wire.pack(
                *("FCALL", keys.function("append"), 5),
                *(names.log, names.meta, names.versions, names.counts, session.key),
                *(seen.incarnation, seen.offset, "" if seen.at_ms is None else seen.at_ms, session.sequence),
                *arguments,
            )
            doubted = self._followed.in_doubt
            began = time.perf_counter()
            try:
                reply = _accepted(session.ask(packed, timeout=deadline.left), "OK", "REPEATED")
            except errors.Rewound:
                self._followed.doubt(seen.incarnation)
                raise
            except errors.Conflict:
                telemetry.metrics.CONFLICTS.labels("version").inc()
                raise
            except errors.CeilingReached:
                telemetry.metrics.CONFLICTS.labels("ceiling").inc()
                raise
            finally:
                _SECONDS.observe(time.perf_counter() - began)
            # The reply to a call that was repeated may be that of a run before.
            if doubted and reply[0] == b"OK":
                self._followed.trust(seen.incarnation, int(reply[2]))
            if self._synced and _syncs(batch):
                fsync.check(session.wire, deadline.left)
        appended = batches.Appended(
            first=int(reply[1]), last=int(reply[2]), repeated=reply[0] == b"REPEATED", at_ms=int(reply[3])
        )
        telemetry.metrics.APPENDS.inc()
        if appended.last >= appended.first:
            telemetry.metrics.EVENTS.inc(appended.last - appended.first + 1)
            self._followed.note(incarnations.Watermark(seen.incarnation, appended.last, appended.at_ms))
        return appended

    def trim(self, keep: int, checkpoint: int, *, reader_timeout: float) -> int:
        """Remove the entries below ``keep``; how many were removed. Raises as ``Log.trim``."""
        names = self._names
        # Repeating it removes nothing more.
        reply = self._call(
            "trim",
            (names.log, names.meta, names.checkpoints, names.readers),
            (self._followed.seen.incarnation, keep, checkpoint, int(reader_timeout * 1000)),
        )
        return int(_accepted(reply, "OK")[1])

    def report_loss(self, known: incarnations.Watermark) -> bool:
        """Report an entry that was in the log; true if the log still holds it."""
        reply = self._call("doubt", (self._names.log, self._names.meta), known.as_args)
        return reply[0] == b"OK"

    def rewind(
        self, event: events.StoreRewound, incarnation: str, *, found: str, guard: batches.Guard
    ) -> bool:
        """Begin an incarnation if the store's is still ``found``; raises as ``Log.rewind``."""
        names = self._names
        reply = self._call(
            "rewind",
            (names.log, names.meta, names.versions, names.counts),
            (
                *(found, incarnation, event.from_incarnation, guard.epoch, guard.writer),
                *(codecs.encode(event), event.subject),
            ),
        )
        if reply[0] == b"CHANGED":
            # A call whose reply was lost is repeated: then the store's incarnation is the new one.
            return reply[1] == incarnation.encode()
        _accepted(reply, "OK")
        return True

    def close(self) -> None:
        """Close the connections that are idle."""
        self._sessions.close()

    def _call(
        self, function: str, names: Sequence[str], arguments: Sequence[str | bytes | int]
    ) -> list[bytes | int]:
        """Call a function that may be called twice."""
        with self._sessions.borrowed(self._timeout) as session:
            packed = session.wire.pack("FCALL", keys.function(function), len(names), *names, *arguments)
            reply = session.ask(packed, timeout=self._timeout)
        if not isinstance(reply, list):
            raise errors.StoreError(f"the store answered to {function} with {reply!r}")
        if reply[0] == b"SCHEMA":
            readers.refuse(reply)
        return reply


def _accepted(reply: connections.Reply, *words: str) -> list[bytes | int]:
    if not isinstance(reply, list):
        readers.refuse([str(reply).encode()])
    if connections.text(reply[0]) not in words:
        readers.refuse(reply)
    return reply


def _syncs(batch: batches.Batch) -> bool:
    """Whether the batch has to be on disk: one with a placement, which a Binding follows.

    One that changes nothing only asks whether the store accepts others, such as placements.
    """
    return not (batch.events or batch.marks) or any(
        type(event) is events.PlacementsCommitted for event in batch.events
    )
