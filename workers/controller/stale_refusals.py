"""Re-evaluates stale refusals and wakes the pods that would now fit.

kube-scheduler learns of a changed label or an ended pod from its own watch, at the same moment as the
recorder, and may call the extender before the change is in the log. The pod is then refused on an outdated
state, and kube-scheduler, having used its event, would not try it again for minutes. Therefore every refusal
that is older than the head of the log is decided again, over the nodes that were offered. A pod that would
now fit is woken, once for each refusal, and no more pods than there is capacity for: what a pod that was
woken already is going to take is not announced to another one, also if a plugin woke it. Whether that pod
ever takes it is unknown, so after a while it counts no more. A wake-up that was dropped, because too many
waited or its leadership ended, counts as none: the refusal is decided again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from app import clocks, plurals
from app.domain import events, model, node_sets, projections, snapshots
from app.framework import cycles, effects, pipeline, registry
from app.store.decisions import records
from app.store.log import incarnations

MAX_REFUSALS = 10_000
"""Refusals that are kept; beyond that the oldest are dropped."""
MAX_RECORDS = 2_000
"""Records read in one run."""
MAX_DECISIONS = 200
"""Refusals decided again in one run; the others wait for the next runs."""
CLAIM = 15.0
"""Seconds for which a woken pod counts as placed: kube-scheduler's longest backoff (10 s), and a cycle."""


class Records(Protocol):
    """Source of decision records (app.store.decisions.decision_log.DecisionLog)."""

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        """The latest records, newest first."""
        ...

    def since(self, identity: str, *, limit: int = 1000) -> list[records.Decision]:
        """The records after the one with this id, oldest first."""
        ...

    def recent_candidates(self, decision: records.Decision) -> frozenset[str] | None:
        """The nodes that were offered; None if they are not known."""
        ...


Submit = Callable[[effects.Effect, snapshots.Snapshot], None]
"""Carries out an effect computed from the snapshot (executors.Executor.submit)."""


class _Refused(NamedTuple):
    decision: records.Decision
    tried: model.Position
    """The state in which it was last decided."""


class _Claim(NamedTuple):
    """Capacity that was announced to a pod."""

    decision: records.Decision
    """The refusal after which the pod was woken."""
    until: float
    """Monotonic; a pod that is woken again after the same refusal does not claim for longer."""


class StaleRefusals:
    """Decides refusals again; used by one thread."""

    def __init__(
        self,
        records: Records,
        plugins: registry.Registry,
        snapshot: Callable[[], snapshots.Snapshot],
        submit: Submit,
        noted: Callable[[model.Uid], model.Position | None],
        clock: clocks.Clock,
    ) -> None:
        """``noted``: the position of a pod's latest wake-up, for whatever reason; None if it was dropped."""
        self._records = records
        self._plugins = plugins
        self._snapshot = snapshot
        self._submit = submit
        self._noted = noted
        self._clock = clock
        self._refused: OrderedDict[model.Uid, _Refused] = OrderedDict()
        self._claims: dict[model.Uid, _Claim] = {}
        """Of pods that were woken and still wait; an ended one stays until the pod is refused again."""
        self._behind: set[model.Uid] = set()
        """Pods that fit but for claims in the state ``_seen``, in which they are not decided again."""
        self._seen: object = None
        self._last = ""
        """Id of the latest record that was read."""
        self._since: model.Position | None = None
        """The first position seen of this incarnation: which nodes were offered before it is unknown here."""

    def run_once(self) -> int:
        """Decide the refusals that are due; the number of pods woken. Raises StoreAway."""
        snapshot = self._snapshot()
        if self._since is None or self._since.incarnation != snapshot.position.incarnation:
            self._since = snapshot.position
        self._read()
        self._note_claims(snapshot)
        claims = self._active()
        seen = snapshot.position, [one.id for one in claims]
        if seen != self._seen:
            self._seen = seen
            self._behind.clear()
        due = list(islice(self._due(snapshot), MAX_DECISIONS))
        if not due:
            return 0
        due.sort(key=lambda one: one.decision.pod.precedence)
        woken, hypothetical = 0, self._claimed(claims, snapshot)
        for refused in due:
            pod = snapshot.pod(refused.decision.pod.uid) or refused.decision.pod
            self._refused.move_to_end(pod.uid)
            fitting = self._fitting(refused.decision, hypothetical)
            if fitting:
                self._claims[pod.uid] = self._claim(refused.decision)
                # This pod takes the capacity: the next one needs more.
                hypothetical = projections.project(hypothetical, events.placed(pod, min(fitting)))
                message = f"{plurals.counted(len(fitting), 'node')} that refused the pod would take it now"
                self._submit(effects.WakePods((pod,), message, refused=True), snapshot)
                woken += 1
            elif hypothetical is snapshot or not self._fitting(refused.decision, snapshot):
                self._refused[pod.uid] = refused._replace(tried=snapshot.position)
            else:  # It stays due: no event follows if a woken pod does not take what was announced to it.
                self._behind.add(pod.uid)
        return woken

    def _note_claims(self, snapshot: snapshots.Snapshot) -> None:
        """Note which pods have been woken since they were refused, by a plugin too, and forget those that no
        longer wait or whose wake-up was dropped.
        """
        waiting = snapshot.waiting
        self._claims = {
            uid: one for uid, one in self._claims.items() if uid in waiting and self._woken(one.decision)
        }
        for uid, refused in self._refused.items():
            if uid in waiting and uid not in self._claims and self._woken(refused.decision):
                self._claims[uid] = self._claim(refused.decision)

    def _woken(self, refusal: records.Decision) -> bool:
        """Whether the pod has been woken since it was refused, or will be."""
        noted = self._noted(refusal.pod.uid)
        return noted is not None and _before(refusal.position, noted)

    def _claim(self, decision: records.Decision) -> _Claim:
        return _Claim(decision, self._clock.monotonic() + CLAIM)

    def _active(self) -> list[records.Decision]:
        """The refusals of the pods that claim capacity, the most important first, at most MAX_DECISIONS."""
        now = self._clock.monotonic()
        found = [one.decision for one in self._claims.values() if one.until > now]
        return sorted(found, key=lambda one: one.pod.precedence)[:MAX_DECISIONS]

    def _claimed(
        self, claims: Iterable[records.Decision], snapshot: snapshots.Snapshot
    ) -> snapshots.Snapshot:
        """The snapshot with the woken pods where they fit; the snapshot itself if none does."""
        hypothetical = snapshot
        for decision in claims:
            fitting = self._fitting(decision, hypothetical)
            if fitting:
                pod = snapshot.pod(decision.pod.uid) or decision.pod
                hypothetical = projections.project(hypothetical, events.placed(pod, min(fitting)))
        return hypothetical

    def _due(self, snapshot: snapshots.Snapshot) -> Iterator[_Refused]:
        """Refusals of pods that are still pending and were not woken since, not yet decided on this snapshot;
        those of pods that have a node are dropped.
        """
        for uid, refused in list(self._refused.items()):
            if uid in snapshot.waiting:
                known = uid in self._claims or uid in self._behind
                if not known and _before(refused.tried, snapshot.position):
                    yield refused
            elif uid in snapshot.pods or uid in snapshot.placements:
                del self._refused[uid]

    def _fitting(self, decision: records.Decision, snapshot: snapshots.Snapshot) -> node_sets.Names:
        """The nodes that were refused and would now be kept; of all nodes, if it is unknown which were
        offered: too many changes of nodes ago, or in too long a record.
        """
        known = self._since is not None and not _before(decision.position, self._since)
        offered = self._records.recent_candidates(decision) if known else None
        if offered is None:
            offered = frozenset(snapshot.nodes)
        if not offered:
            return node_sets.NONE
        pod = snapshot.pod(decision.pod.uid) or decision.pod
        cycle = cycles.cycle(pod, offered, snapshot, score_max=self._plugins.score_max)
        return pipeline.run_filter(self._plugins, cycle).kept

    def _read(self) -> None:
        """Read the records since the last run: the latest one about each pod counts."""
        if self._last:
            new = self._records.since(self._last, limit=MAX_RECORDS)
        else:
            new = self._records.latest(limit=MAX_RECORDS)[::-1]
        for decision in new:
            uid, filtered = decision.pod.uid, decision.verb.startswith("filter")
            if filtered and decision.outcome == "refused":
                self._refused[uid] = _Refused(decision, decision.position)
                self._claims.pop(uid, None)
            elif filtered or decision.outcome == "bound":
                self._refused.pop(uid, None)
            self._last = decision.id
        while len(self._refused) > MAX_REFUSALS:
            self._refused.popitem(last=False)


def _before(one: model.Position, other: model.Position) -> bool:
    """Whether ``one`` is the earlier position; offsets are comparable within an incarnation only."""
    if one.incarnation == other.incarnation:
        return one.offset < other.offset
    return incarnations.later(other.incarnation, one.incarnation)
