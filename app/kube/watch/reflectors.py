"""Lists and watches one kind of objects, and yields every change until it is stopped.

The rules are those of client-go (tools/cache/reflector.go): lists in pages, watches with bookmarks and a
random timeout of 5 to 10 minutes, a new list after 410, growing pauses after errors. Three rules are
stricter. After any other error the watch resumes at its last version instead of listing again, because a
resumed watch misses nothing. Of several versions of a kind, the first that the API server serves is listed
and watched. After a watch that received nothing, the version of the list is compared with its own: where etcd
was restored, the API server sends nothing to a watch until its version is passed. A kind that the API server
does not serve, by its own account (discovery), counts as empty and is requested again, because its definition
may be created later.

A list arrives in parts, each true when it was read, followed by ``Listed`` with the identities of all its
objects: an object that is known and not among them is gone.
"""

import http
import random
import threading
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from app import clocks, telemetry
from app.kube import backoffs, errors
from app.kube.client import clients
from app.kube.objects import decoding, schema
from app.kube.watch import discovery, kinds, resource_versions

_MAX_LINE_BYTES = 32 * 1024 * 1024
_ABSENT_CAP = 8.0
"""Longest pause between two requests for a kind that is not served, in seconds before jitter."""
_UNREADABLE = "(unreadable object)"

_change = msgspec.json.Decoder(schema.Change)
_status = msgspec.json.Decoder(schema.Status)


class Part(NamedTuple):
    """Some objects of a list that is not complete yet."""

    kind: kinds.WatchedKind
    objects: list[decoding.Object]


class Listed(NamedTuple):
    """A list is complete: all its parts were yielded before, and no other object of the kind exists."""

    kind: kinds.WatchedKind
    identities: frozenset[str]
    version: str
    """resourceVersion of the list; empty if the kind is not served."""
    since: str
    """The version before the list; empty at the first list."""
    reason: str


class Seen(NamedTuple):
    """An object was added or modified."""

    kind: kinds.WatchedKind
    object: decoding.Object
    version: str


class Gone(NamedTuple):
    """An object was deleted."""

    kind: kinds.WatchedKind
    uid: str
    namespace: str
    name: str
    version: str


class Bookmark(NamedTuple):
    """Every change up to this version was yielded. The first one also means that the watch is open."""

    kind: kinds.WatchedKind
    version: str


Change = Part | Listed | Seen | Gone | Bookmark | kinds.UndecodableObject


class Reflector:
    """Follows one kind. One thread reads ``changes``; any thread may call ``stop`` and ``relist``."""

    def __init__(
        self,
        client: clients.Client,
        kind: kinds.WatchedKind,
        *,
        since: str = "",
        reason: str = "first list",
        clock: clocks.Clock | None = None,
        rng: random.Random | None = None,
        silence: float = 150.0,
        page: int = kinds.PAGE,
    ) -> None:
        """``since``: version to resume the watch from; ``reason``: why a list is due if it is empty;
        ``silence``: seconds without a byte after which a watch counts as stalled; ``page``: objects per page.
        """
        self.kind = kind
        self.problem = ""
        """The current problem, for people; empty if there is none."""
        self._reported = False
        """A problem was logged, and no watch has received anything since."""
        self.absent = False
        """Whether the API server does not serve the kind, as far as it is known."""
        self._client = client
        self._clock = clock or clocks.RealClock()
        self._rng = rng or random.Random()
        self._silence = silence
        self._page = page
        self._path = kind.paths[0]
        """Of the version that is served, as far as it is known."""
        self._found = False
        """The API server has served this version."""
        self._version = since
        """Version at which the watch resumes; empty if a list is due."""
        self._reason = reason
        self._since = since
        self._silent = False
        """The last watch was open and received nothing."""
        self._floor = since
        """Every change up to this version was yielded."""
        self._yielded: dict[str, str] = {}
        """uid -> version yielded since the floor: one that is not newer is a duplicate or out of order."""
        self._backoff = backoffs.Backoff(self._clock, rng=self._rng)
        self._absence = backoffs.Backoff(self._clock, cap=_ABSENT_CAP, rng=self._rng)
        self._stopped = threading.Event()
        self._requested = ""
        """Why a new list was requested; empty if none was."""
        self._stream: clients.Stream | None = None

    def stop(self) -> None:
        """End ``changes`` soon: close the stream, and interrupt the waits on the default clock."""
        self._stopped.set()
        if isinstance(self._clock, clocks.RealClock):
            self._clock.stop()
        stream = self._stream
        if stream is not None:
            stream.close()

    def relist(self, reason: str) -> None:
        """Request a new list of the kind; any thread may call it."""
        self._requested = reason
        stream = self._stream
        if stream is not None:
            stream.close()

    def changes(self) -> Iterator[Change]:
        """Every change of the kind; ends only after ``stop``."""
        while not self._stopped.is_set():
            least = 0.0
            if self._requested:
                reason, self._requested = self._requested, ""
                self._relist(reason)
            try:
                if self._silent:
                    self._compare()
                if not self._version:
                    yield from self._list()
                if self._version:
                    yield from self._watch()
                    continue
                pause = self._absence.pause()
            except (errors.ApiError, errors.Unreachable, errors.Undecodable) as problem:
                if self._stopped.is_set():
                    return
                self._failed(problem)
                if isinstance(problem, errors.ApiError):
                    least = problem.retry_after
                    self._judge(problem)
                pause = self._backoff.pause(least=least)
            if self._clock.wait(pause):
                return

    def _failed(self, problem: errors.KubeError) -> None:
        if not self._reported:
            telemetry.log.warning("cannot watch", kind=self.kind.name, problem=str(problem))
        self.problem, self._reported = str(problem), True

    def _received(self) -> None:
        """A watch that opens may be closed at once, again and again; one that receives a change works."""
        if self._reported:
            telemetry.log.info("watch restored", kind=self.kind.name)
        self._reported = False

    def _judge(self, problem: errors.ApiError) -> None:
        """Request a new list if the error means that the watch cannot be resumed."""
        if problem.status in (http.HTTPStatus.GONE, http.HTTPStatus.NOT_FOUND, http.HTTPStatus.BAD_REQUEST):
            self._relist(f"{problem.status} {problem.reason}: {problem.message}")

    def _relist(self, reason: str) -> None:
        self._since, self._version = self._version or self._since, ""
        self._reason = reason

    def _compare(self) -> None:
        """Request a new list if the API server's versions are older than that of the watch."""
        self._silent = False
        if self._version:
            page = self._read_page({"limit": "1"})
            if page is None or resource_versions.older(page.version, self._version):
                self._relist("the watch received nothing")

    # -- list --------------------------------------------------------------------------------

    def _list(self) -> Iterator[Change]:
        identities: set[str] = set()
        parameters = {"limit": str(self._page)}
        while True:
            first = "continue" not in parameters
            page = self._first_page(parameters) if first else self._read_page(parameters)
            if page is None:
                yield from self._not_served()
                return
            identities.update(self.kind.identity(one.object) for one in page.observed)
            identities.update(bad.identity for bad in page.undecodable)
            yield from page.undecodable
            if page.observed:
                yield Part(self.kind, [one.object for one in page.observed])
            if self._stopped.is_set():
                return
            if not page.continuation:
                break
            parameters = {"limit": str(self._page), "continue": page.continuation}
        reason = self._reason
        if resource_versions.older(page.version, self._since):
            reason = f"went back: resourceVersion {self._since} before, {page.version} now; {reason}"
        self._yielded.clear()
        self.absent, self._version, self._floor = False, page.version, page.version
        self.problem = ""
        yield Listed(self.kind, frozenset(identities), page.version, self._since, reason)

    def _first_page(self, parameters: dict[str, str]) -> kinds.Page | None:
        """The first page of the first version that is served; None if the API server serves no version."""
        for path in self.kind.paths:
            self._path = path
            page = self._read_page(parameters)
            if page is not None:
                self._found = True
                return page
        return None

    def _read_page(self, parameters: dict[str, str]) -> kinds.Page | None:
        """The next page; None if the API server does not serve the version."""
        try:
            return self.kind.page(self._client.get(self._path, parameters, timeout=60.0))
        except errors.ApiError as problem:
            missing = problem.status == http.HTTPStatus.NOT_FOUND
            if missing and (self.absent or not discovery.serves(self._client, self._path)):
                return None
            raise

    def _not_served(self) -> Iterator[Change]:
        self.problem = ""
        if not self.absent:
            self.absent = True
            yield Listed(
                self.kind, frozenset(), "", self._since, "not served: the API server does not have this kind"
            )

    # -- watch -------------------------------------------------------------------------------

    def _watch(self) -> Iterator[Change]:
        parameters = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(300, 600)),
        }
        opened, start = self._clock.monotonic(), self._version
        decoded = False
        # The server sends only newer versions from here on, and without bookmarks nothing else confirms it.
        self._floor = self._version
        self._yielded.clear()
        with self._opened(parameters) as stream:
            self._stream, self._found = stream, True
            if self._stopped.is_set() or self._requested:
                return
            self._silent = True
            self.problem = ""
            yield Bookmark(self.kind, self._version)
            for line in _lines(stream):
                self._silent = False
                try:
                    change = _change.decode(line)
                except (ValueError, RecursionError) as problem:
                    if decoded:
                        yield from self._lost("(unreadable line)", str(problem))
                    # Not a watch, but the page of a proxy.
                    raise errors.Undecodable(self.kind.name, "(watch)", str(problem)) from problem
                decoded = True
                yield from self._take(change)
                self._received()
                if self._stopped.is_set() or self._requested:
                    return
                if not self._version:
                    break
        if self._version == start and not self._requested and self._clock.monotonic() - opened < 1.0:
            raise errors.Unreachable("the watch was closed at once, without a change")

    def _opened(self, parameters: dict[str, str]) -> clients.Stream:
        """The watch, in the first version that is served if it resumes before any list."""
        while True:
            try:
                return self._client.stream(self._path, parameters, silence=self._silence)
            except errors.ApiError as problem:
                at = self.kind.paths.index(self._path) + 1
                missing = problem.status == http.HTTPStatus.NOT_FOUND and not self._found
                if not missing or at == len(self.kind.paths) or discovery.serves(self._client, self._path):
                    raise
                self._path = self.kind.paths[at]

    def _take(self, change: schema.Change) -> Iterator[Change]:
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
                yield from self._lost("(unknown change)", f"type {change.type[:40]!r}")

    def _lost(self, name: str, reason: str) -> Iterator[Change]:
        """A change of an unknown object: the watch does not repeat it, so a list has to.

        Raises Undecodable.
        """
        yield kinds.UndecodableObject(self.kind.name, name, reason)
        self._relist(f"{name} in the watch: {reason}")
        raise errors.Undecodable(self.kind.name, name, reason)

    def _seen(self, raw: msgspec.Raw) -> Iterator[Change]:
        try:
            found, version = self.kind.decode(raw)
        except errors.Undecodable as bad:
            _, name, uid = decoding.identity(raw)
            if not (name and uid):
                yield from self._lost(_UNREADABLE, bad.reason)
            yield self.kind.undecodable(raw, bad)
            self._advance(uid, decoding.version(raw))
            return
        if self._advance(found.uid, version):
            yield Seen(self.kind, found, version)

    def _gone(self, raw: msgspec.Raw) -> Iterator[Change]:
        namespace, name, uid = decoding.identity(raw)
        version = decoding.version(raw)
        if not (name and uid):
            yield from self._lost(_UNREADABLE, "deleted, without a name and a uid")
        elif self._advance(uid, version):
            yield Gone(self.kind, uid, namespace, name, version)

    def _marked(self, version: str) -> Iterator[Change]:
        if resource_versions.older(version, self._floor):
            self._relist(f"went back: bookmark {version} after {self._floor}")
        elif version:
            self._version = self._floor = version
            self._yielded.clear()
            yield Bookmark(self.kind, version)

    def _advance(self, uid: str, version: str) -> bool:
        """Whether this version of the object is new; if so, records it."""
        if not resource_versions.newer(version, self._yielded.get(uid, self._floor)):
            return False
        self._yielded[uid] = version
        if version and resource_versions.newer(version, self._version):
            self._version = version
        return True


def _code(status: msgspec.Raw) -> int:
    """The HTTP code of an ERROR in a watch; 500 if it is not a metav1.Status."""
    try:
        return _status.decode(status).code or http.HTTPStatus.INTERNAL_SERVER_ERROR
    except (ValueError, RecursionError):
        return http.HTTPStatus.INTERNAL_SERVER_ERROR


def _lines(stream: clients.Stream) -> Iterator[bytes]:
    rest = b""
    for piece in stream:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line for line in whole if line)
        if len(rest) > _MAX_LINE_BYTES:
            raise errors.Unreachable(f"a line of the watch is longer than {_MAX_LINE_BYTES} bytes")
