"""One kind of objects as a stream of changes, for as long as it takes: list, then watch, for ever.

The rules are client-go's (tools/cache/reflector.go): lists in pages; watches with bookmarks and a
random timeout of 5 to 10 minutes; 410 means a new list; growing pauses after errors. Two are
stricter here: an error that is not 410 resumes the watch where it stood instead of listing again,
because a resumed watch misses nothing; and a kind that the server does not know is an empty kind
that is asked for again, so that its definition may come later.

Readers get a list in parts, each true when it was read, and then ``Listed`` with the identities of
everything in it: whatever they know beyond that is gone.
"""

import http
import random
import threading
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from app.kube import backoffs, clients, decoding, errors, kinds, versions, wire

Poison = kinds.Poison

_LONGEST_LINE = 32 * 1024 * 1024
_ABSENT_CAP = 8.0
"""Longest pause, in seconds before jitter, between two questions for a kind that is not served."""

_UNREADABLE = "(unreadable line)"

_change = msgspec.json.Decoder(wire.Change)
_status = msgspec.json.Decoder(wire.Status)


class Part(NamedTuple):
    """Objects of a list that is not complete yet."""

    kind: kinds.Kind
    objects: list[decoding.Object]


class Listed(NamedTuple):
    """A list is complete: every part was handed out before, and nothing else of the kind exists."""

    kind: kinds.Kind
    identities: frozenset[str]
    version: str
    """resourceVersion of the list; empty if the kind is not served."""
    since: str
    """The version known before; empty at the first list."""
    reason: str


class Seen(NamedTuple):
    """An object is as shown."""

    kind: kinds.Kind
    object: decoding.Object
    version: str


class Gone(NamedTuple):
    """An object was deleted."""

    kind: kinds.Kind
    uid: str
    namespace: str
    name: str
    version: str


class Bookmark(NamedTuple):
    """Everything up to this version was handed out; also says that the watch stands."""

    kind: kinds.Kind
    version: str


Change = Part | Listed | Seen | Gone | Bookmark | Poison


class Reflector:
    """Follows one kind. ``changes`` is read by one thread; ``stop`` may be called by any."""

    def __init__(
        self,
        client: clients.Client,
        kind: kinds.Kind,
        *,
        since: str = "",
        reason: str = "first list",
        clock: backoffs.Clock | None = None,
        die: random.Random | None = None,
        silence: float = 150.0,
        page: int = kinds.PAGE,
    ) -> None:
        """``since``: version to resume from, ``reason``: why a list is due without one; ``silence``: seconds
        without a byte until a watch is stalled.
        """
        self.kind = kind
        self.trouble = ""
        """What stands in the way now, for people; empty if nothing does."""
        self._client = client
        self._clock = clock or backoffs.RealClock()
        self._die = die or random.Random()
        self._silence = silence
        self._page = page
        self._version = since
        """Where a watch goes on; empty if a list is due."""
        self._reason = reason
        self._since = since
        self._absent = False
        self._floor = since
        """Everything up to here was handed out."""
        self._handed: dict[str, str] = {}
        """uid -> version handed out since the floor: what is not newer is told twice or too late."""
        self._backoff = backoffs.Backoff(self._clock, die=self._die)
        self._absence = backoffs.Backoff(self._clock, cap=_ABSENT_CAP, die=self._die)
        self._stopped = threading.Event()
        self._wanted = ""
        """Why somebody wants a list; empty if nobody does."""
        self._stream: clients.Stream | None = None

    def stop(self) -> None:
        """Let ``changes`` end soon: the stream is closed, and waiting on the own clock is called off."""
        self._stopped.set()
        if isinstance(self._clock, backoffs.RealClock):
            self._clock.stop()
        stream = self._stream
        if stream is not None:
            stream.close()

    def relist(self, reason: str) -> None:
        """Have the kind listed anew soon; may be called by any thread."""
        self._wanted = reason
        stream = self._stream
        if stream is not None:
            stream.close()

    def changes(self) -> Iterator[Change]:
        """Everything that happens to the kind; ends only when stopped."""
        while not self._stopped.is_set():
            least = 0.0
            if self._wanted:
                reason, self._wanted = self._wanted, ""
                self._relist(reason)
            try:
                if not self._version:
                    yield from self._list()
                if self._version:
                    yield from self._watch()
                    continue
                pause = self._absence.pause()
            except (errors.ApiError, errors.Unreachable, errors.Undecodable) as problem:
                if self._stopped.is_set():
                    return
                self.trouble = str(problem)
                if isinstance(problem, errors.ApiError):
                    least = problem.retry_after
                    self._judge(problem)
                pause = self._backoff.pause(least=least)
            if self._clock.wait(pause):
                return

    def _judge(self, problem: errors.ApiError) -> None:
        """A watch that cannot be resumed has to begin with a new list."""
        if problem.status in (http.HTTPStatus.GONE, http.HTTPStatus.NOT_FOUND, http.HTTPStatus.BAD_REQUEST):
            self._relist(f"{problem.status} {problem.reason}: {problem.message}")

    def _relist(self, reason: str) -> None:
        self._since, self._version = self._version or self._since, ""
        self._reason = reason

    # -- list --------------------------------------------------------------------------------

    def _list(self) -> Iterator[Change]:
        identities: set[str] = set()
        parameters = {"limit": str(self._page)}
        while True:
            page = self._read_page(parameters)
            if page is None:
                yield from self._not_served()
                return
            identities.update(self.kind.identity(sight.object) for sight in page.sights)
            identities.update(poison.identity for poison in page.poisons)
            yield from page.poisons
            if page.sights:
                yield Part(self.kind, [sight.object for sight in page.sights])
            if self._stopped.is_set():
                return
            if not page.continuation:
                break
            parameters = {"limit": str(self._page), "continue": page.continuation}
        reason = self._reason
        if versions.older(page.version, self._since):
            reason = f"went back: resourceVersion {self._since} before, {page.version} now; {reason}"
        self._handed.clear()
        self._absent, self._version, self._floor, self.trouble = False, page.version, page.version, ""
        yield Listed(self.kind, frozenset(identities), page.version, self._since, reason)

    def _read_page(self, parameters: dict[str, str]) -> kinds.Page | None:
        """The next page; None if the server does not know the kind."""
        try:
            return self.kind.page(self._client.get(self.kind.path, parameters, timeout=60.0))
        except errors.ApiError as problem:
            if problem.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def _not_served(self) -> Iterator[Change]:
        self.trouble = ""
        if not self._absent:
            self._absent = True
            yield Listed(
                self.kind, frozenset(), "", self._since, "not served: the API server does not know this kind"
            )

    # -- watch -------------------------------------------------------------------------------

    def _watch(self) -> Iterator[Change]:
        parameters = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._die.randint(300, 600)),
        }
        opened, began = self._clock.monotonic(), self._version
        understood = False
        # Nothing older is sent from here on. A server without bookmarks never says so.
        self._floor = self._version
        self._handed.clear()
        with self._client.stream(self.kind.path, parameters, silence=self._silence) as stream:
            self._stream = stream
            if self._stopped.is_set() or self._wanted:
                return
            self.trouble = ""
            yield Bookmark(self.kind, self._version)
            for line in _lines(stream):
                for change in self._take(line):
                    if not understood and isinstance(change, kinds.Poison) and change.name == _UNREADABLE:
                        raise errors.Undecodable(self.kind.name, "(watch)", change.reason)
                    yield change
                understood = True
                if self._stopped.is_set() or self._wanted:
                    return
                if not self._version:
                    break
        if self._version == began and not self._wanted and self._clock.monotonic() - opened < 1.0:
            raise errors.Unreachable("the watch was closed at once, without news")

    def _take(self, line: bytes) -> Iterator[Change]:
        try:
            change = _change.decode(line)
        except (ValueError, RecursionError) as problem:
            yield Poison(self.kind.name, _UNREADABLE, str(problem))
            return
        match change.type:
            case "ADDED" | "MODIFIED":
                yield from self._seen(change.object)
            case "DELETED":
                yield from self._gone(change.object)
            case "BOOKMARK":
                yield from self._marked(decoding.version(change.object))
            case "ERROR":
                raise clients.refusal(_code(change.object), bytes(change.object))
            case _:
                yield Poison(self.kind.name, "(unknown change)", f"type {change.type[:40]!r}")

    def _seen(self, raw: msgspec.Raw) -> Iterator[Change]:
        try:
            found, version = self.kind.decode(raw)
        except errors.Undecodable as bad:
            yield self.kind.poison(raw, bad)
            self._advance(decoding.identity(raw)[2], decoding.version(raw))
            return
        if self._advance(found.uid, version):
            yield Seen(self.kind, found, version)

    def _gone(self, raw: msgspec.Raw) -> Iterator[Change]:
        namespace, name, uid = decoding.identity(raw)
        version = decoding.version(raw)
        if not (name and uid):
            yield Poison(self.kind.name, "(unreadable object)", "deleted, without a name and a uid")
        elif self._advance(uid, version):
            yield Gone(self.kind, uid, namespace, name, version)

    def _marked(self, version: str) -> Iterator[Change]:
        if versions.older(version, self._floor):
            self._relist(f"went back: bookmark {version} after {self._floor}")
        elif version:
            self._version = self._floor = version
            self._handed.clear()
            yield Bookmark(self.kind, version)

    def _advance(self, uid: str, version: str) -> bool:
        """Whether this version of the object is news."""
        if not versions.newer(version, self._handed.get(uid, self._floor)):
            return False
        self._handed[uid] = version
        if version and versions.newer(version, self._version):
            self._version = version
        return True


def _code(status: msgspec.Raw) -> int:
    """The HTTP code of an error in a watch; one of another shape is a fault of the server."""
    try:
        return _status.decode(status).code or http.HTTPStatus.INTERNAL_SERVER_ERROR
    except (ValueError, RecursionError):
        return http.HTTPStatus.INTERNAL_SERVER_ERROR


def _lines(stream: clients.Stream) -> Iterator[bytes]:
    rest = b""
    for piece in stream:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line for line in whole if line)
        if len(rest) > _LONGEST_LINE:
            raise errors.Unreachable(f"a line of the watch is longer than {_LONGEST_LINE} bytes")
