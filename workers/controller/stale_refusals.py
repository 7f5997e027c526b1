"""Re-evaluates stale refusals and wakes the pods that would now fit.

kube-scheduler learns of a changed label or an ended pod from its own watch, at the same moment as the
recorder, and may call the extender before the change is in the log. The pod is then refused on an outdated
state, and kube-scheduler, having used its event, would not try it again for minutes. Therefore every refusal
that is older than the head of the log is decided again, over the nodes that were offered. A pod that would
now fit is woken, once for each refusal, and no more pods than there is capacity for.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from app.domain import events, model, node_sets, projecting, snapshots
from app.framework import cycles, effects, pipeline, registry
from app.store.decisions import records
from app.store.log import incarnations

MAX_REFUSALS = 10_000
"""Refusals that are kept; beyond that the oldest are dropped."""
MAX_RECORDS = 2_000
"""Records read in one run."""
MAX_DECISIONS = 200
"""Refusals decided again in one run; the others wait for the next runs."""


class Records(Protocol):
    """Source of decision records (app.store.decisions.decision_log.Decisions)."""

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        """The latest records, newest first."""
        ...

    def since(self, identity: str, *, limit: int = 1000) -> list[records.Decision]:
        """The records after the one with this id, oldest first."""
        ...

    def recent_candidates(self, decision: records.Decision) -> frozenset[str] | None:
        """The nodes that were offered; None if they are not known yet."""
        ...


Submit = Callable[[effects.Effect, snapshots.Snapshot], None]
"""Carries out an effect computed from the snapshot (executors.Executor.submit)."""


class _Refused(NamedTuple):
    decision: records.Decision
    tried: model.Position
    """The state in which it was last decided."""


class StaleRefusals:
    """Decides refusals again; used by one thread."""

    def __init__(
        self,
        records: Records,
        plugins: registry.Registry,
        snapshot: Callable[[], snapshots.Snapshot],
        submit: Submit,
        noted: Callable[[model.Uid], model.Position | None],
    ) -> None:
        """``noted``: the position of a pod's latest wake-up, for whatever reason."""
        self._records = records
        self._plugins = plugins
        self._snapshot = snapshot
        self._submit = submit
        self._noted = noted
        self._refused: OrderedDict[model.Uid, _Refused] = OrderedDict()
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
        due = list(islice(self._due(snapshot), MAX_DECISIONS))
        due.sort(key=lambda one: (-one.decision.pod.priority, one.decision.pod.created, one.decision.pod.uid))
        woken, hypothetical = 0, snapshot
        for refused in due:
            pod = snapshot.pod(refused.decision.pod.uid) or refused.decision.pod
            fitting = self._fitting(refused.decision, hypothetical)
            if not fitting:
                self._refused[pod.uid] = refused._replace(tried=snapshot.position)
                self._refused.move_to_end(pod.uid)
                continue
            del self._refused[pod.uid]
            # This pod takes the capacity: the next one needs more.
            placed = events.placed(pod, min(fitting))
            hypothetical = projecting.project(hypothetical, placed)
            nodes = "1 node" if len(fitting) == 1 else f"{len(fitting)} nodes"
            message = f"{nodes} that refused the pod would take it now"
            self._submit(effects.WakePods((pod,), message, refused=True), snapshot)
            woken += 1
        return woken

    def _due(self, snapshot: snapshots.Snapshot) -> Iterator[_Refused]:
        """Refusals of pods that are still pending, not yet decided on this snapshot; others are dropped."""
        for uid, refused in list(self._refused.items()):
            if uid in snapshot.waiting:
                woken = self._noted(uid)
                already = woken is not None and _before(refused.decision.position, woken)
                if _before(refused.tried, snapshot.position) and not already:
                    yield refused
            elif uid in snapshot.pods or uid in snapshot.placements:
                del self._refused[uid]

    def _fitting(self, decision: records.Decision, snapshot: snapshots.Snapshot) -> node_sets.Names:
        """The nodes that were refused and would now be kept."""
        if self._since is None or _before(decision.position, self._since):
            offered: frozenset[str] | None = frozenset(snapshot.nodes)
        else:
            offered = self._records.recent_candidates(decision)
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
