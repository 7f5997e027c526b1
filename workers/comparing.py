"""The log and the API server side by side: every object, not misled by what is under way.

A list is read page by page, a few at each turn, and compared with the fold as it comes. Who differs is
suspected, no more: the watch may be behind, or ahead. Once the recorder says that it has recorded
everything up to the version of the list, whatever was under way has arrived; who still differs then, and
has not changed at the API server since it was listed, is different indeed.
"""

import http
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.domain import auditing, consistency, model, snapshots
from app.kube import clients, decoding, errors, kinds, versions

PAGES = 4
"""Pages of a list that one turn reads."""
SUSPECTS = 1000
"""Suspects of one list that are remembered."""
_MARK: Final = "rv:{}"


@dataclass
class Round:
    """One list of one kind on its way."""

    kind: kinds.Kind
    held: frozenset[str]
    """Identities that the log knew when the list began."""
    promised: Mapping[str, model.Placement]
    """Promises that the log held when it began."""
    version: str = ""
    """resourceVersion of the list."""
    continuation: str = ""
    began: bool = False
    complete: bool = False
    identities: set[str] = field(default_factory=set)
    suspects: dict[str, decoding.Sight] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """What the log knew and the list does not have."""
        return sorted(identity for identity in self.held if identity not in self.identities)


class Facts:
    """Compares the kinds one after another; used by one thread."""

    def __init__(
        self, client: clients.Client, board: consistency.Board, *, watched: tuple[kinds.Kind, ...] = kinds.ALL
    ) -> None:
        self._client = client
        self._board = board
        self._kinds = watched
        self._round: Round | None = None
        self._haunting: frozenset[str] = frozenset()
        """Promises to pods that the last list of pods did not have."""
        self.compared: dict[str, int] = {}
        """Kind -> offset at which its last comparison was complete."""
        self.listings = 0
        """Comparisons that were complete."""
        self.waiting = "not begun"
        """Why the present round is not complete."""

    @property
    def idle(self) -> bool:
        """No list is under way."""
        return self._round is None

    @property
    def complete(self) -> bool:
        """Every kind was compared at least once."""
        return all(kind.name in self.compared for kind in self._kinds)

    def forget(self) -> None:
        """The log is another one."""
        self._round, self.compared, self._haunting = None, {}, frozenset()

    def begin(self, kind: kinds.Kind, snapshot: snapshots.Snapshot) -> None:
        """List a kind anew."""
        promised = dict(snapshot.placements) if kind is kinds.PODS else {}
        self._round = Round(kind, frozenset(auditing.held(snapshot, kind.name)), promised)

    def turn(self, snapshot: snapshots.Snapshot, marks: Mapping[str, str]) -> str:
        """Go on with the round; the name of the kind whose comparison is complete now, or empty.

        ``marks`` are those of the snapshot's own offset.
        """
        underway = self._round
        if underway is None:
            return ""
        try:
            for _ in range(PAGES):
                if not underway.complete:
                    self._read_page(underway, snapshot)
            if underway.complete and (
                not self._suspicious(underway, snapshot) or self._arrived(underway, marks)
            ):
                self._judge(underway, snapshot)
                self.compared[underway.kind.name] = snapshot.offset
                self.listings += 1
                self._round, self.waiting = None, ""
                return underway.kind.name
        except errors.ApiError as problem:
            # The token of a list that took too long: begin anew at the next occasion.
            self._round, self.waiting = None, str(problem)
        except (errors.Unreachable, errors.Undecodable) as problem:
            self._round, self.waiting = None, str(problem)
        return ""

    # -- the list --------------------------------------------------------------------------

    def _read_page(self, underway: Round, snapshot: snapshots.Snapshot) -> None:
        kind = underway.kind
        parameters = {"limit": str(kinds.PAGE)}
        if underway.continuation:
            parameters["continue"] = underway.continuation
        try:
            page = kind.page(self._client.get(kind.path, parameters))
        except errors.ApiError as problem:
            if problem.status != http.HTTPStatus.NOT_FOUND or underway.began:
                raise
            underway.complete = True  # The API server does not know the kind: it has no objects.
            return
        underway.began = True
        underway.version = underway.version or page.version
        sights = {kind.identity(sight.object): sight for sight in page.sights}
        underway.identities.update(sights)
        underway.identities.update(poison.identity for poison in page.poisons)
        listed = ((identity, sight.object) for identity, sight in sights.items())
        for identity in auditing.differing(snapshot, kind.name, listed):
            if len(underway.suspects) < SUSPECTS:
                underway.suspects[identity] = sights[identity]
        underway.continuation = page.continuation
        underway.complete = not page.continuation

    def _suspicious(self, underway: Round, snapshot: snapshots.Snapshot) -> bool:
        """Whether anybody still differs: what was under way may have arrived."""
        known = auditing.held(snapshot, underway.kind.name)
        suspects = underway.suspects.items()
        underway.suspects = {at: sight for at, sight in suspects if known.get(at) != sight.object}
        return bool(underway.suspects) or any(identity in known for identity in underway.missing)

    def _arrived(self, underway: Round, marks: Mapping[str, str]) -> bool:
        """Whether the recorder has recorded everything up to the version of the list."""
        mark = marks.get(_MARK.format(underway.kind.name), "")
        if not underway.version or (mark == underway.version):
            return True
        if versions.comparable(mark) and versions.newer(mark, underway.version):
            return True
        name, version = underway.kind.name, underway.version
        self.waiting = f"{name} were listed at version {version}; the recorder is at {mark or 'none'}"
        return False

    # -- the judgement ---------------------------------------------------------------------

    def _judge(self, underway: Round, snapshot: snapshots.Snapshot) -> None:
        kind = underway.kind
        known, standing = auditing.held(snapshot, kind.name), set()
        for identity, sight in underway.suspects.items():
            mine = known.get(identity)
            if mine != sight.object and self._unchanged(kind, sight):
                difference = _stale(kind, identity, snapshot, mine, sight)
                standing.add(difference.key)
                self._board.put(difference)
        for identity in underway.missing[:SUSPECTS]:
            mine = known.get(identity)
            if mine is not None and self._absent(kind, mine):
                difference = _ghost(kind, identity, snapshot, mine)
                standing.add(difference.key)
                self._board.put(difference)
        for one in self._board.of("fact"):
            if _kind_of(one.key) == kind.name and one.key not in standing:
                self._board.settle("fact", one.key)
        if kind is kinds.PODS:
            self._judge_promises(underway, snapshot)

    def _judge_promises(self, underway: Round, snapshot: snapshots.Snapshot) -> None:
        """A promise to a pod that is gone is taken back soon; one that two lists find standing is not."""
        haunting = frozenset(
            uid
            for uid, placement in underway.promised.items()
            if uid not in underway.identities and snapshot.placements.get(uid) == placement
        )
        standing = set()
        for uid in sorted(haunting & self._haunting):
            placement = snapshot.placements[uid]
            if self._absent(kinds.PODS, placement.pod):
                standing.add(f"pod:{uid}")
                self._board.put(_haunted(uid, placement, snapshot))
        self._board.keep("placement", standing)
        self._haunting = haunting

    def _unchanged(self, kind: kinds.Kind, sight: decoding.Sight) -> bool:
        """Whether the API server still shows the object in the version that was listed."""
        found = self._found(kind, sight.object)
        return found is not None and found.version == sight.version

    def _absent(self, kind: kinds.Kind, known: auditing.Object) -> bool:
        found = self._found(kind, known)
        return found is None or found.object.uid != known.uid

    def _found(self, kind: kinds.Kind, wanted: auditing.Object) -> decoding.Sight | None:
        collection, _, resource = kind.path.rpartition("/")
        path = f"{collection}/{resource}/{wanted.name}"
        if not isinstance(wanted, model.Node):
            path = f"{collection}/namespaces/{wanted.namespace}/{resource}/{wanted.name}"
        try:
            return decoding.Sight(*kind.decode(self._client.get(path)))
        except errors.ApiError as problem:
            if problem.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise


def _kind_of(key: str) -> str:
    return {"pod": "pods", "node": "nodes"}.get(key.partition(":")[0], "workloadpolicies")


def subjects(board: consistency.Board, kind: kinds.Kind) -> Iterator[str]:
    """The subjects of a kind of which the log and the API server say different things."""
    return (one.key for one in board.of("fact") if _kind_of(one.key) == kind.name)


def _stale(
    kind: kinds.Kind,
    identity: str,
    snapshot: snapshots.Snapshot,
    mine: auditing.Object | None,
    sight: decoding.Sight,
) -> consistency.Difference:
    key = auditing.subject(kind.name, identity)
    if mine is None:
        return consistency.Difference(
            kind="fact",
            key=key,
            expected=f"{_named(sight.object)} at version {sight.version}",
            found="not in the log",
            first=1,
            last=snapshot.offset,
            blame="the API server has it, the recorder says that it has recorded everything up to then, and"
            " the log does not have it: its event was lost, or the log was changed",
        )
    fields = auditing.fields_apart(mine, sight.object)
    offset = snapshot.version(key)
    return consistency.Difference(
        kind="fact",
        key=key,
        expected="; ".join(f"{name}={_short(getattr(sight.object, name, None))}" for name in fields),
        found="; ".join(f"{name}={_short(getattr(mine, name, None))}" for name in fields),
        first=offset,
        last=snapshot.offset,
        offset=offset,
        blame=f"event {offset}, the latest on it, says something else than the API server in"
        f" {', '.join(fields)}: it says so wrongly, or a later one was lost",
    )


def _ghost(
    kind: kinds.Kind, identity: str, snapshot: snapshots.Snapshot, mine: auditing.Object
) -> consistency.Difference:
    key = auditing.subject(kind.name, identity)
    offset = snapshot.version(key)
    return consistency.Difference(
        kind="fact",
        key=key,
        expected="not in the cluster",
        found=_named(mine),
        first=offset,
        last=snapshot.offset,
        offset=offset,
        blame=f"event {offset} is the latest on it, and the API server does not have it: it never had, or the"
        " event of its end was lost",
    )


def _haunted(uid: str, placement: model.Placement, snapshot: snapshots.Snapshot) -> consistency.Difference:
    return consistency.Difference(
        kind="placement",
        key=f"pod:{uid}",
        expected="no promise",
        found=f"{placement.pod.key} is promised node {placement.node}",
        first=placement.offset,
        last=snapshot.offset,
        offset=placement.offset,
        blame=f"event {placement.offset} promised a node to a pod that the API server does not have, and the"
        " controller has not taken it back",
    )


def _named(known: auditing.Object) -> str:
    return known.name if isinstance(known, model.Node) else f"{known.namespace}/{known.name}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
