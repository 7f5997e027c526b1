"""Refusals that would not be repeated: the pods concerned are woken.

kube-scheduler hears of a changed label or an ended pod by its own watch, at the same moment as the
recorder, and may ask before the log has it. The refusal is then founded on what was true a moment
ago, and kube-scheduler, whose event is spent, would not ask again for minutes. Therefore every
refusal that is older than the log's head is decided anew, over the nodes that were offered; a pod that
would be let in now is told, once for each refusal, and no more pods than there is room for.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from app.domain import events, model, projecting, snapshots, verdicts
from app.framework import cycles, registry, running
from app.store import incarnations, records

MOST = 10_000
"""Refusals that are remembered."""
READ = 2_000
"""Records read in one turn."""
TRIED = 200
"""Refusals decided anew in one turn; the others have theirs in the next ones."""


class Records(Protocol):
    """Where refusals are read (store.decisions.Decisions)."""

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        """The latest records, newest first."""
        ...

    def since(self, identity: str, *, limit: int = 1000) -> list[records.Decision]:
        """The records behind the one with this id, oldest first."""
        ...

    def recent_candidates(self, decision: records.Decision) -> frozenset[str] | None:
        """The nodes that were offered; None if it is too early to say."""
        ...


class Teller(Protocol):
    """Who wakes pods (announcing.Announcer)."""

    def note(self, pods: tuple[model.Pod, ...], message: str, position: model.Position) -> None:
        """Have the pods told soon; ``position`` is that of the state that they are told of."""
        ...

    def noted(self, uid: model.Uid) -> model.Position | None:
        """The position of what the pod was told last."""
        ...


class _Refused(NamedTuple):
    decision: records.Decision
    tried: model.Position
    """The state in which it was last decided."""


class Reconsiderer:
    """Decides refusals anew; used by one thread."""

    def __init__(
        self,
        records: Records,
        plugins: registry.Registry,
        snapshot: Callable[[], snapshots.Snapshot],
        teller: Teller,
    ) -> None:
        """``teller`` wakes pods, these and others."""
        self._records = records
        self._plugins = plugins
        self._snapshot = snapshot
        self._teller = teller
        self._refused: OrderedDict[model.Uid, _Refused] = OrderedDict()
        self._last = ""
        """Id of the latest record that was looked at."""
        self._since: model.Position | None = None
        """Where this incarnation was first looked at: of what was offered before, nothing is known here."""

    def turn(self) -> int:
        """Decide once what has to be decided anew; the number of pods woken. Raises StoreAway."""
        snapshot = self._snapshot()
        if self._since is None or self._since.incarnation != snapshot.position.incarnation:
            self._since = snapshot.position
        self._read()
        due = list(islice(self._due(snapshot), TRIED))
        due.sort(key=lambda one: (-one.decision.pod.priority, one.decision.pod.created, one.decision.pod.uid))
        woken, supposed = 0, snapshot
        for refused in due:
            pod = snapshot.pod(refused.decision.pod.uid) or refused.decision.pod
            fitting = self._fitting(refused.decision, supposed)
            if not fitting:
                self._refused[pod.uid] = refused._replace(tried=snapshot.position)
                self._refused.move_to_end(pod.uid)
                continue
            del self._refused[pod.uid]
            # The place is this pod's now: the next one has to find another.
            placed = events.PodPlaced(pod=pod, node=min(fitting))
            supposed = projecting.project(supposed, placed)
            nodes = "1 node" if len(fitting) == 1 else f"{len(fitting)} nodes"
            self._teller.note((pod,), f"{nodes} that refused the pod would take it now", snapshot.position)
            woken += 1
        return woken

    def _due(self, snapshot: snapshots.Snapshot) -> Iterator[_Refused]:
        """Refusals of pods that still wait, not yet decided on this snapshot; others are forgotten."""
        for uid, refused in list(self._refused.items()):
            if uid in snapshot.waiting:
                told = self._teller.noted(uid)
                asked_again = told is not None and _before(refused.decision.position, told)
                if _before(refused.tried, snapshot.position) and not asked_again:
                    yield refused
            elif uid in snapshot.pods or uid in snapshot.placements:
                del self._refused[uid]

    def _fitting(self, decision: records.Decision, snapshot: snapshots.Snapshot) -> verdicts.Names:
        """The nodes that were refused and would be kept now."""
        if self._since is None or _before(decision.position, self._since):
            offered: frozenset[str] | None = frozenset(snapshot.nodes)
        else:
            offered = self._records.recent_candidates(decision)
        if not offered:
            return verdicts.NONE
        pod = snapshot.pod(decision.pod.uid) or decision.pod
        cycle = cycles.cycle(pod, offered, snapshot, score_max=self._plugins.score_max)
        return running.run_filter(self._plugins, cycle).kept

    def _read(self) -> None:
        """Take the records since the last turn: the latest word about each pod counts."""
        if self._last:
            news = self._records.since(self._last, limit=READ)
        else:
            news = self._records.latest(limit=READ)[::-1]
        for decision in news:
            uid, asked = decision.pod.uid, decision.verb.startswith("filter")
            if asked and decision.outcome == "refused":
                self._refused[uid] = _Refused(decision, decision.position)
            elif asked or decision.outcome == "bound":
                self._refused.pop(uid, None)
            self._last = decision.id
        while len(self._refused) > MOST:
            self._refused.popitem(last=False)


def _before(one: model.Position, other: model.Position) -> bool:
    """Whether the log came by the one first; offsets say so within an incarnation only."""
    if one.incarnation == other.incarnation:
        return one.offset < other.offset
    return incarnations.later(other.incarnation, one.incarnation)
