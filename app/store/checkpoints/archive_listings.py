"""Lists an archive, and uses a listing again for some time.

One of an object store has a request for each 1,000 names, one after another.
"""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from app.store import errors
from app.store.checkpoints import archive_files

_SECONDS = 10.0
"""For which a listing is used again, or for as long as it took: else an archive of very many files would be
listed all the time."""
_PATIENCE = 5.0
"""Seconds without a name after which no thread waits for a listing or makes another one: a mounted volume
whose server is gone blocks each of them."""
_PAUSE = 0.1
"""Seconds between two checks of a listing that another thread makes."""


class Listing(NamedTuple):
    """The history of an incarnation (archive_files.history), by offset."""

    segments: list[archive_files.File]
    checkpoints: list[archive_files.File]


class _Held(NamedTuple):
    listing: Listing
    incarnation: str
    number: int
    """Listings that had begun, this one included."""
    changes: int
    """Changes by this process before it began."""
    until: float
    """Monotonic: when it is no longer recent."""


class Listings:
    """The latest listing of one archive; thread-safe, and made by one thread at a time."""

    def __init__(
        self,
        files: Callable[[], list[archive_files.File]],
        incarnation: Callable[[], str],
        silence: Callable[[], float],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``files`` lists the storage; ``silence``: seconds since a listing that is under way had a name."""
        self._files = files
        self._incarnation = incarnation
        self._silence = silence
        self._monotonic = monotonic
        self._making = threading.Lock()
        self._held = _Held(Listing([], []), "", 0, 0, 0.0)
        self._changes = 0
        self.begun = 0
        """How many listings have begun."""

    def changed(self) -> None:
        """This process has written or removed a file: earlier listings are not used again."""
        self._changes += 1

    def recent(self) -> Listing:
        """That of the last seconds, or a new one. Raises ArchiveAway."""
        return self._made(self._is_recent)

    def since(self, begun: int) -> Listing:
        """One that began when ``begun`` others had: it has what was written before. Raises ArchiveAway."""
        return self._made(lambda held: held.number > begun and held.incarnation == self._incarnation())

    def _is_recent(self, held: _Held) -> bool:
        usable = held.incarnation == self._incarnation() and held.changes == self._changes
        return usable and self._monotonic() < held.until

    def _made(self, suffices: Callable[[_Held], bool]) -> Listing:
        """The latest listing if it suffices, or else one that another thread or this one makes."""
        held, begun = self._held, self.begun
        if suffices(held):
            return held.listing
        while True:
            if self._silence() > _PATIENCE:
                raise errors.ArchiveAway(f"the archive cannot be listed: no answer for {_PATIENCE:g} s")
            if self._making.acquire(timeout=_PAUSE):
                break
        try:
            held = self._held
            if suffices(held) or (held.number > begun and held.incarnation == self._incarnation()):
                return held.listing
            return self._list()
        finally:
            self._making.release()

    def _list(self) -> Listing:
        """A new one, used again only if it has a segment of this incarnation: then former ones are final."""
        self.begun += 1
        own, number, changes, began = self._incarnation(), self.begun, self._changes, self._monotonic()
        files = self._files()
        found = Listing(*(archive_files.history(files, own, kind) for kind in ("segment", "checkpoint")))
        ended = self._monotonic()
        final = any(file.incarnation == own for file in found.segments)
        until = ended + max(_SECONDS, ended - began) if final else ended
        self._held = _Held(found, own, number, changes, until)
        return found
