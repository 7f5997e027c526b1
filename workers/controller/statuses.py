"""Carries out PatchStatus: writes the statuses of objects, each object at most once a second, and only if
it differs.

A status describes the object that its plugin saw in the snapshot. The controller therefore reads the object
before its first write, and writes nothing if the API server has another one: the recorder then appends the
change, and the plugin computes the status again. The write itself is guarded by the resourceVersion that
was read, so that a leader whose leadership has ended in between overwrites nothing (decision 24). A status is
not kept in the log: its own echo in the watch is not an event. The same holds for the annotations that an
effect has beside the status: they are a second patch, of the object itself.
"""

import http
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from app import clocks, telemetry
from app.domain import snapshots
from app.framework import effects
from app.kube import call_limits, errors
from app.kube.client import clients
from app.kube.writes import status_patches

EVERY = 1.0
"""Seconds between two writes of the status of one object."""
MAX_KNOWN = 5_000
"""Objects whose version is remembered; others are read again before each write."""

Key = tuple[str, str]
"""Kind and identity."""


class Target(Protocol):
    """One kind of objects at the API server."""

    def paths(self, identity: str) -> Sequence[str]:
        """The paths of an object: one for each version that this process understands."""
        ...

    def decode(self, body: bytes) -> object:
        """The part of an object that is kept in the log. Raises Undecodable."""
        ...

    def find(self, snapshot: snapshots.Snapshot, identity: str) -> object | None:
        """The kept part of an object in the snapshot."""
        ...


class _Wanted(NamedTuple):
    found: effects.PatchStatus
    described: object
    """The object that the status describes, as in the snapshot."""
    term: str


class _Known(NamedTuple):
    """An object as it was read or written last, in one leadership."""

    current: status_patches.CurrentObject
    described: object
    term: str
    written: effects.PatchStatus
    """The effect that the present status was made of; the API server may keep only a part of it."""


class StatusWriter:
    """Writes statuses. ``submit`` and ``verify`` are thread-safe, ``run_once`` is for one thread."""

    def __init__(
        self,
        client: clients.Client,
        targets: Mapping[str, Target],
        limit: call_limits.CallLimit,
        clock: clocks.Clock,
        *,
        now: Callable[[], str],
    ) -> None:
        """``targets``: by kind, those whose status a plugin writes."""
        self._client = client
        self._targets = targets
        self._limit = limit
        self._clock = clock
        self._now = now
        self._queue: OrderedDict[Key, _Wanted] = OrderedDict()
        """The latest status of each object that is not written yet."""
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, _Known] = OrderedDict()
        self._next: dict[Key, float] = {}
        """When an object may be written again (monotonic); those of the past are removed."""
        self._suspended: set[str] = set()
        """Kinds whose status cannot be written, until ``verify``."""
        self._unannotated: set[str] = set()
        """Kinds whose annotations may not be written, until ``verify``."""
        self._plain: set[str] = set()
        """Kinds without a status subresource: the status is written with the annotations."""
        self._versions: dict[str, int] = {}
        """Kind -> which of its paths the API server serves, once another one than the first was found."""
        self._unverified = False

    def submit(self, found: effects.PatchStatus, snapshot: snapshots.Snapshot, term: str) -> None:
        """Write the status soon, in place of an earlier one that was not written yet."""
        target = self._targets.get(found.kind)
        described = target.find(snapshot, found.identity) if target is not None else None
        if described is None:
            self._count(found, "gone" if target is not None else "undeclared")
            if target is None:
                telemetry.log.warning("a plugin writes an undeclared status", kind=found.kind)
            return
        with self._lock:
            self._queue[found.kind, found.identity] = _Wanted(found, described, term)

    def verify(self) -> None:
        """Read every object again before its next status is written, and try suspended kinds again."""
        with self._lock:
            self._unverified = True

    def run_once(self) -> int:
        """Write the statuses that are due; how many were taken from the queue."""
        taken = 0
        while (wanted := self._take()) is not None:
            taken += 1
            self._count(wanted.found, self._carried_out(wanted))
        return taken

    def _take(self) -> _Wanted | None:
        """The first status in the queue whose object may be written; None if there is none now."""
        now = self._clock.monotonic()
        self._next = {key: at for key, at in self._next.items() if at > now}
        with self._lock:
            if self._unverified:
                self._unverified = False
                self._known.clear()
                self._suspended.clear()
                self._unannotated.clear()
                self._plain.clear()
            key = next((key for key in self._queue if key not in self._next), None)
            return self._queue.pop(key) if key is not None else None

    def _carried_out(self, wanted: _Wanted) -> str:
        """Write one status; returns the outcome for the metric."""
        found = wanted.found
        if found.kind in self._suspended:
            return "suspended"
        key = (found.kind, found.identity)
        known = self._known.get(key)
        if known is not None and (known.term, known.described) != (wanted.term, wanted.described):
            known = None
        if known is not None and known.written == found:
            return "unchanged"
        self._known.pop(key, None)
        try:
            return self._found_and_written(wanted, known.current if known is not None else None)
        except call_limits.NotAdmitted:
            return "ended"
        except errors.Undecodable:
            return "outdated"
        except errors.KubeError as problem:
            return self._failed(wanted, problem)

    def _found_and_written(self, wanted: _Wanted, current: status_patches.CurrentObject | None) -> str:
        """``_written``, or what follows from its 404. Raises KubeError or NotAdmitted."""
        try:
            return self._written(wanted, current)
        except errors.ApiError as problem:
            if problem.status != http.HTTPStatus.NOT_FOUND:
                raise
        return self._missing(wanted)

    def _written(self, wanted: _Wanted, current: status_patches.CurrentObject | None) -> str:
        """Read the object unless it is known, and write what differs. Raises KubeError."""
        found, target = wanted.found, self._targets[wanted.found.kind]
        path = target.paths(found.identity)[self._versions.get(found.kind, 0)]
        if current is None:
            with self._limit.sending(wanted.term):
                current = status_patches.read(self._client, path)
            if target.decode(current.body) != wanted.described:
                return "outdated"
        status = status_patches.completed(
            found.status,
            current,
            now=self._now(),
            generation=found.generation,
            stamped=found.stamped,
        )
        read = current
        current = self._annotated(wanted, path, current, status)
        if status != current.status:
            self._next[found.kind, found.identity] = self._clock.monotonic() + EVERY
            with self._limit.sending(wanted.term):
                current = status_patches.patch(self._client, path, current, status)
        self._remember(wanted, current)
        return "unchanged" if current is read else "patched"

    def _annotated(
        self,
        wanted: _Wanted,
        path: str,
        current: status_patches.CurrentObject,
        status: Mapping[str, Any],
    ) -> status_patches.CurrentObject:
        """Write the annotations that differ, and with them the status of a kind without the subresource."""
        found = wanted.found
        annotations = status_patches.changed(found.annotations, current)
        if found.kind in self._unannotated or not found.annotations:
            return current
        if not annotations and (found.kind not in self._plain or status == current.status):
            return current
        self._next[found.kind, found.identity] = self._clock.monotonic() + EVERY
        try:
            with self._limit.sending(wanted.term):
                return status_patches.annotate(self._client, path, current, annotations, status)
        except errors.ApiError as problem:
            if problem.status != http.HTTPStatus.FORBIDDEN:
                raise
            self._unannotated.add(found.kind)
            telemetry.log.warning(
                "cannot write annotations", kind=found.kind, object=found.identity, problem=str(problem)
            )
            return current

    def _remember(self, wanted: _Wanted, current: status_patches.CurrentObject) -> None:
        found = wanted.found
        self._known[found.kind, found.identity] = _Known(
            current._replace(body=b""), wanted.described, wanted.term, found
        )
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def _failed(self, wanted: _Wanted, problem: errors.KubeError) -> str:
        """What follows from an error; returns the outcome for the metric."""
        kind = wanted.found.kind
        if call_limits.busy(problem):
            self._again(wanted)
            return "failed"
        match problem:
            case errors.ApiError(status=http.HTTPStatus.CONFLICT):
                self._again(wanted)
                return "conflict"
            case errors.ApiError(status=http.HTTPStatus.FORBIDDEN):
                self._suspended.add(kind)
        return self._refused(wanted, str(problem))

    def _missing(self, wanted: _Wanted) -> str:
        """What follows from a 404: the object is gone, or its version or its subresource is not served.

        Returns the outcome for the metric. Raises KubeError or NotAdmitted if it cannot be read which.
        """
        kind = wanted.found.kind
        version = self._version_of(wanted)
        if version is None:
            return "gone"
        if version != self._versions.get(kind, 0):
            self._versions[kind] = version
            self._again(wanted)
            return "failed"
        if wanted.found.annotations and not {kind} & (self._unannotated | self._plain):
            self._plain.add(kind)
            self._again(wanted)
            return "failed"
        self._suspended.add(kind)
        return self._refused(wanted, "the resource definition has no status subresource")

    @staticmethod
    def _refused(wanted: _Wanted, why: str) -> str:
        found = wanted.found
        telemetry.log.warning("cannot write a status", kind=found.kind, object=found.identity, problem=why)
        return "refused"

    def _again(self, wanted: _Wanted) -> None:
        """Write the status later, unless a newer one is waiting."""
        key = (wanted.found.kind, wanted.found.identity)
        self._next[key] = self._clock.monotonic() + EVERY
        with self._lock:
            self._queue.setdefault(key, wanted)

    def _version_of(self, wanted: _Wanted) -> int | None:
        """In which of its paths the API server has the object, the present one first; None: in none of them.

        Raises KubeError or NotAdmitted.
        """
        kind, identity = wanted.found.kind, wanted.found.identity
        paths, present = self._targets[kind].paths(identity), self._versions.get(kind, 0)
        for at in sorted(range(len(paths)), key=lambda at: at != present):
            try:
                with self._limit.sending(wanted.term):
                    status_patches.read(self._client, paths[at])
                return at
            except errors.ApiError as problem:
                if problem.status != http.HTTPStatus.NOT_FOUND:
                    raise
        return None

    @staticmethod
    def _count(found: effects.PatchStatus, outcome: str) -> None:
        telemetry.metrics.STATUS_PATCHES.labels(found.kind, outcome).inc()
