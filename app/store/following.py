"""Following a log: a thread keeps the snapshot at the head, and tells those who listen.

So there is usually nothing left to do for a verb that catches up. What the log tells by itself while it is
waited for is applied like what was asked for.
"""

import functools
import threading
import time

from app import telemetry
from app.domain import snapshots
from app.store import errors, heads, incarnations, tailing

_WAIT_MS = 250
_ABREAST_SECONDS = 0.05
"""Who reads and writes here keeps the snapshot at the head: this thread need not hear of each event too."""
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


class Follower(heads.Head):
    """The latest snapshot of one log, and those who want to hear of each event."""

    _stopping: threading.Event
    _watch: tailing.Tail

    def start(self, *, gather: float = 0.0) -> None:
        """Begin to follow in a thread of its own.

        ``gather``: seconds after which it asks again at the soonest; what comes meanwhile is read together.
        For whoever has no haste: each reading costs this process and the store about the same, be it of
        one event or of twenty. Those who catch up do not wait for it.
        """
        if self._thread is None:
            self._stopping, self._watch = threading.Event(), self._log.tail()
            self._thread = telemetry.loops.Loop(
                "follower",
                functools.partial(self._follow, gather),
                wait=self._stopping.wait,
                longest=_LONGEST_PAUSE_SECONDS,
            ).start()

    def stop(self) -> None:
        """End the thread; the snapshot stays."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join(timeout=5.0)
            self._thread = None
            self._watch.close()
        with self._lock:
            self._asked_at = None
            self._tail.close()
        if self._reader is not None:
            self._reader.leave()

    def attend(self) -> None:
        """Note in the store how far this reader has come, so that it keeps nothing from being trimmed."""
        with self._lock:
            if self._reader is not None:
                self._reader.attend(self._snapshot.offset, at_once=True)

    def _follow(self, gather: float) -> None:
        pause = _PAUSE_SECONDS
        news: heads.News | None = None
        while not self._stopping.is_set():
            try:
                with self._lock:
                    abreast = news is not None and news.here.offset < news.read.head <= self._snapshot.offset
                    if news is None or not self._take(news):
                        self._pull_on()
                    here, known_ms, known = self._snapshot, self._known_ms, self._log.seen
                self.audience.tell()
                if self._reader is not None:
                    self._reader.attend(here.offset)
                self.error = None
                pause = _PAUSE_SECONDS
                rest = max(gather, _ABREAST_SECONDS if abreast else 0.0)
                if rest and self._stopping.wait(rest):
                    return
                news = self._come(here, known_ms, known)
            except errors.StoreError as error:
                # Whoever catches up gets the error, readiness shows it.
                self.error = error
                news = None
                self._stopping.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            except Exception as error:
                self.error = error
                raise

    def _come(
        self, here: snapshots.Snapshot, known_ms: int | None, known: incarnations.Known
    ) -> heads.News | None:
        """What comes behind the snapshot, or after a while nothing; None if a look at the log has to tell."""
        begun = time.monotonic()
        self._watch.incarnation = here.position.incarnation
        try:
            return heads.News(
                begun, here, known, self._watch.come(here.offset, known_ms, milliseconds=_WAIT_MS)
            )
        except (errors.Rewound, errors.Trimmed):
            return None
