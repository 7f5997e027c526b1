"""Compares every object in the log with the API server, without being misled by changes under way.

A list is read page by page, for a second in each run, and compared with the replayed state. An object that
differs is only a suspect: the watch may be behind or ahead. Once the recorder has recorded everything up to
the version of the list, the changes under way have arrived; a suspect that still differs, and has not changed
at the API server since it was listed, is reported.
"""

import http
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from app.domain import model, snapshots
from app.domain.audit import attribution, findings
from app.kube import errors
from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.watch import discovery, kinds, resource_versions

SECONDS = 1.0
"""How long one run reads pages of a list, and the longest pause between two such runs: the API server forgets
a list after five minutes, in which a million objects can be read."""
MAX_SUSPECTS = 1000
"""Suspects of one list that are kept."""


@dataclass
class Comparison:
    """The comparison of one kind with one list, under way."""

    kind: kinds.WatchedKind
    held: frozenset[str]
    """Identities that the log had when the list began."""
    placements: Mapping[str, model.Placement]
    """Placements in the log when the list began."""
    version: str = ""
    """resourceVersion of the list."""
    continuation: str = ""
    began: bool = False
    complete: bool = False
    identities: set[str] = field(default_factory=set)
    suspects: dict[str, decoding.Observed] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Identities that the log had and the list lacks."""
        return sorted(identity for identity in self.held if identity not in self.identities)


class ClusterDiff:
    """Compares the kinds one after another; used by one thread."""

    def __init__(
        self,
        client: clients.Client,
        board: findings.Board,
        *,
        watched: tuple[kinds.WatchedKind, ...],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._monotonic = monotonic
        self._board = board
        self._kinds = watched
        self._paths: dict[str, str] = {}
        """Kind -> the path of the version that is served."""
        self._comparison: Comparison | None = None
        self._orphaned: frozenset[str] = frozenset()
        """Placements of pods that the last list of pods lacked."""
        self.compared: dict[str, int] = {}
        """Kind -> offset at which its last comparison was completed."""
        self.listings = 0
        """Comparisons that were completed."""
        self.waiting = "not started"
        """Why the present comparison is not complete."""

    @property
    def idle(self) -> bool:
        """No comparison is under way."""
        return self._comparison is None

    @property
    def reading(self) -> bool:
        """A list is under way, and its next page can be read."""
        return self._comparison is not None and not self._comparison.complete

    @property
    def complete(self) -> bool:
        """Every kind was compared at least once."""
        return all(kind.name in self.compared for kind in self._kinds)

    def forget(self) -> None:
        """Start again: another incarnation of the log has begun."""
        self._comparison, self.compared, self._orphaned = None, {}, frozenset()

    def begin(self, kind: kinds.WatchedKind, snapshot: snapshots.Snapshot) -> None:
        """Begin to list and compare a kind."""
        placements = dict(snapshot.placements) if kind is kinds.PODS else {}
        self._comparison = Comparison(kind, frozenset(attribution.held(snapshot, kind.name)), placements)

    def run_once(self, snapshot: snapshots.Snapshot, marks: Mapping[str, str]) -> str:
        """Continue the comparison; the name of its kind once it is complete, else empty.

        ``marks``: where the watches resume at the offset of the snapshot, by WatchedKind.mark.
        """
        underway = self._comparison
        if underway is None:
            return ""
        try:
            end = self._monotonic() + SECONDS
            while not underway.complete:
                self._read_page(underway, snapshot)
                if self._monotonic() >= end:
                    break
            if underway.complete and (
                not self._suspicious(underway, snapshot) or self._arrived(underway, marks)
            ):
                self._report(underway, snapshot)
                self.compared[underway.kind.name] = snapshot.offset
                self.listings += 1
                self._comparison, self.waiting = None, ""
                return underway.kind.name
        except errors.ApiError as problem:
            # The continuation token of a slow list has expired: list again in a later run.
            self._comparison, self.waiting = None, str(problem)
        except (errors.Unreachable, errors.Undecodable) as problem:
            self._comparison, self.waiting = None, str(problem)
        return ""

    # -- the list --------------------------------------------------------------------------

    def _read_page(self, underway: Comparison, snapshot: snapshots.Snapshot) -> None:
        kind = underway.kind
        parameters = {"limit": str(kinds.PAGE)}
        if underway.continuation:
            parameters["continue"] = underway.continuation
        page = self._page(underway, parameters)
        if page is None:
            underway.complete = True  # The API server does not serve the kind: it has no objects.
            return
        underway.began = True
        underway.version = underway.version or page.version
        objects = {kind.identity(shown.object): shown for shown in page.observed}
        underway.identities.update(objects)
        underway.identities.update(bad.identity for bad in page.undecodable)
        listed = ((identity, shown.object) for identity, shown in objects.items())
        for identity in attribution.differing(snapshot, kind.name, listed):
            if len(underway.suspects) < MAX_SUSPECTS:
                underway.suspects[identity] = objects[identity]
        underway.continuation = page.continuation
        underway.complete = not page.continuation

    def _page(self, underway: Comparison, parameters: Mapping[str, str]) -> kinds.Page | None:
        """The next page of the version that is served; None if no version is."""
        kind = underway.kind
        if underway.began:
            return kind.page(self._client.get(self._paths[kind.name], parameters))
        for path in kind.paths:
            try:
                page = kind.page(self._client.get(path, parameters))
            except errors.ApiError as problem:
                if problem.status != http.HTTPStatus.NOT_FOUND or discovery.serves(self._client, path):
                    raise
            else:
                self._paths[kind.name] = path
                return page
        return None

    def _suspicious(self, underway: Comparison, snapshot: snapshots.Snapshot) -> bool:
        """Whether any object still differs: changes that were under way may have arrived."""
        known = attribution.held(snapshot, underway.kind.name)
        suspects = underway.suspects.items()
        underway.suspects = {at: shown for at, shown in suspects if known.get(at) != shown.object}
        return bool(underway.suspects) or any(identity in known for identity in underway.missing)

    def _arrived(self, underway: Comparison, marks: Mapping[str, str]) -> bool:
        """Whether the recorder has recorded everything up to the version of the list."""
        mark = underway.kind.resumed(marks)
        if not underway.version or (mark == underway.version):
            return True
        if resource_versions.comparable(mark) and resource_versions.newer(mark, underway.version):
            return True
        name, version = underway.kind.name, underway.version
        self.waiting = f"{name} were listed at version {version}; the recorder is at {mark or 'none'}"
        return False

    # -- the verdict -----------------------------------------------------------------------

    def _report(self, underway: Comparison, snapshot: snapshots.Snapshot) -> None:
        kind = underway.kind
        known, confirmed = attribution.held(snapshot, kind.name), set()
        for identity, shown in underway.suspects.items():
            recorded = known.get(identity)
            if recorded != shown.object and self._unchanged(kind, shown):
                difference = _stale(kind, identity, snapshot, recorded, shown)
                confirmed.add(difference.key)
                self._board.put(difference)
        for identity in underway.missing[:MAX_SUSPECTS]:
            recorded = known.get(identity)
            if recorded is not None and self._absent(kind, recorded):
                difference = _missing(kind, identity, snapshot, recorded)
                confirmed.add(difference.key)
                self._board.put(difference)
        for one in self._board.of("fact"):
            if one.key.startswith(kind.subject("")) and one.key not in confirmed:
                self._board.settle("fact", one.key)
        if kind is kinds.PODS:
            self._report_orphaned(underway, snapshot)

    def _report_orphaned(self, underway: Comparison, snapshot: snapshots.Snapshot) -> None:
        """Report placements of missing pods that two lists have found: others are released soon."""
        orphaned = frozenset(
            uid
            for uid, placement in underway.placements.items()
            if uid not in underway.identities and snapshot.placements.get(uid) == placement
        )
        confirmed, shown = set(), {one.key for one in self._board.of("placement")}
        # Those on the board first, which stay there only if they are confirmed.
        twice = sorted(orphaned & self._orphaned, key=lambda uid: (f"pod:{uid}" not in shown, uid))
        for uid in twice[:MAX_SUSPECTS]:
            placement = snapshot.placements[uid]
            if self._absent(kinds.PODS, placement.pod):
                confirmed.add(f"pod:{uid}")
                self._board.put(_orphan(uid, placement, snapshot))
        self._board.keep("placement", confirmed)
        self._orphaned = orphaned

    def _unchanged(self, kind: kinds.WatchedKind, shown: decoding.Observed) -> bool:
        """Whether the API server still has the object in the version that was listed."""
        found = self._found(kind, shown.object)
        return found is not None and found.version == shown.version

    def _absent(self, kind: kinds.WatchedKind, known: attribution.Object) -> bool:
        found = self._found(kind, known)
        return found is None or found.object.uid != known.uid

    def _found(self, kind: kinds.WatchedKind, wanted: attribution.Object) -> decoding.Observed | None:
        path = kind.path_of(self._paths.get(kind.name, kind.paths[0]), wanted)
        try:
            return decoding.Observed(*kind.decode(self._client.get(path)))
        except errors.ApiError as problem:
            if problem.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise


def subjects(board: findings.Board, kind: kinds.WatchedKind) -> Iterator[str]:
    """The subjects of a kind that differ between the log and the API server."""
    return (one.key for one in board.of("fact") if one.key.startswith(kind.subject("")))


def _stale(
    kind: kinds.WatchedKind,
    identity: str,
    snapshot: snapshots.Snapshot,
    recorded: attribution.Object | None,
    shown: decoding.Observed,
) -> findings.Difference:
    key = kind.subject(identity)
    if recorded is None:
        return findings.Difference(
            kind="fact",
            key=key,
            expected=f"{_named(shown.object)} at version {shown.version}",
            found="not in the log",
            first=1,
            last=snapshot.offset,
            blame="the API server has it, the recorder has recorded everything up to this version, and the"
            " log does not have it: its event was lost, or the log was changed",
        )
    fields = attribution.fields_apart(recorded, shown.object)
    offset = snapshot.version(key)
    return findings.Difference(
        kind="fact",
        key=key,
        expected="; ".join(f"{name}={_short(getattr(shown.object, name, None))}" for name in fields),
        found="; ".join(f"{name}={_short(getattr(recorded, name, None))}" for name in fields),
        first=offset,
        last=snapshot.offset,
        offset=offset,
        blame=f"event {offset}, the latest on it, differs from the API server in {', '.join(fields)}: the"
        " event is wrong, or a later one was lost",
    )


def _missing(
    kind: kinds.WatchedKind, identity: str, snapshot: snapshots.Snapshot, recorded: attribution.Object
) -> findings.Difference:
    key = kind.subject(identity)
    offset = snapshot.version(key)
    return findings.Difference(
        kind="fact",
        key=key,
        expected="not in the cluster",
        found=_named(recorded),
        first=offset,
        last=snapshot.offset,
        offset=offset,
        blame=f"event {offset} is the latest on it, and the API server does not have it: it never existed, or"
        " the event of its end was lost",
    )


def _orphan(uid: str, placement: model.Placement, snapshot: snapshots.Snapshot) -> findings.Difference:
    return findings.Difference(
        kind="placement",
        key=f"pod:{uid}",
        expected="no placement",
        found=f"{placement.pod.key} is placed on node {placement.node}",
        first=placement.offset,
        last=snapshot.offset,
        offset=placement.offset,
        blame=f"event {placement.offset} placed a pod that the API server does not have, and the controller"
        " has not released the placement",
    )


def _named(known: attribution.Object) -> str:
    return known.name if isinstance(known, model.Node) else f"{known.namespace}/{known.name}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
