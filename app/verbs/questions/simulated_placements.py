"""Places pods in a situation: one with its whole trace, or many, one after the other."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from app.domain import events, model, node_sets, snapshots, verdicts
from app.domain.fit import fitting_nodes
from app.framework import cycles, pipeline, plans, registry, supposed_operations
from app.verbs.explain import explanations
from app.verbs.questions import errors, manifests, operations, question_schema, situations

Running = Callable[[], bool]
"""Whether the question may continue: False when its budget is spent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """The answer without the overrides and with the configuration of the process."""

    kept: int
    summary: str


@dataclasses.dataclass(frozen=True, slots=True)
class One:
    """The decision about one pod."""

    explanation: explanations.Explanation
    chosen: model.NodeName
    """The node that filter_onlyone would return; empty if none is kept."""
    baseline: Baseline


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """What became of one of several pods."""

    pod: model.NamespacedName
    node: model.NodeName
    """Empty if it was refused."""
    reason: str
    """One sentence; empty if it was placed."""


@dataclasses.dataclass(frozen=True, slots=True)
class CountChange:
    """A count before and after the placements."""

    count: str
    before: int
    after: int


@dataclasses.dataclass(frozen=True, slots=True)
class Several:
    """What became of several pods, in the order in which they were placed."""

    results: tuple[Placed, ...]
    counts: tuple[CountChange, ...]
    left: int
    """Pods that were not reached within the budget."""
    snapshot: snapshots.Snapshot
    """The situation with all placements."""

    @property
    def placed(self) -> int:
        """How many were placed."""
        return sum(bool(one.node) for one in self.results)


def introduced(
    asked: Iterable[str | Mapping[str, Any]], snapshot: snapshots.Snapshot, path: str
) -> tuple[list[model.Uid], list[events.AnyEvent]]:
    """The uids of the pods that are asked about, and the events that add those given as manifests.

    A pod of a manifest waits, whatever its status: one of the same name that exists is asked about as the
    manifest shows it. Raises Mistake and Missing.
    """
    uids: list[model.Uid] = []
    added: list[events.AnyEvent] = []
    for at, one in enumerate(asked):
        where = path if path == "pod" else f"{path}[{at}]"
        if isinstance(one, str):
            uids.append(named(one, snapshot, where).uid)
            continue
        try:
            found = manifests.pod(one, where)
        except supposed_operations.Impossible as error:
            raise errors.Mistake(error.field, error.text) from error
        known = snapshot.pod_named(found.namespace, found.name)
        uid = known.uid if known is not None else found.uid
        waiting = operations.waiting(found, uid)
        if known is not None and snapshot.node_of(uid):
            added.append(events.gone(known))
        added.append(events.PodSeen(pod=waiting))
        uids.append(uid)
    if len(set(uids)) != len(uids):
        raise errors.Mistake(path, "a pod is named twice")
    return uids, added


def unscheduled(pods: Iterable[model.Pod], snapshot: snapshots.Snapshot) -> list[str]:
    """Sentences about pods that kube-scheduler does not schedule as they are, or that another one may."""
    first: dict[str, str] = {}
    schedulers: set[str] = set()
    for pod in pods:
        schedulers.add(pod.scheduler)
        if node := snapshot.node_of(pod.uid):
            first.setdefault("on a node", f"pod {pod.key} is on node {node}")
        elif pod.terminating:
            first.setdefault("terminating", f"pod {pod.key} is terminating")
        elif pod.gated:
            first.setdefault("gated", f"pod {pod.key} has a scheduling gate")
    found = [f"{text}: kube-scheduler does not schedule it as it is" for text in first.values()]
    if len(schedulers) > 1:
        names = ", ".join(sorted(schedulers)[:5])
        found.append(f"the pods are of several schedulers ({names}), which need not all call Topolog")
    return found


def unadmitted(
    asked: Iterable[str | Mapping[str, Any]], supposed: Iterable[supposed_operations.Operation]
) -> list[str]:
    """Sentences about what pods of manifests lack: those that are asked about, and those of operations."""
    given = [one for one in asked if not isinstance(one, str)]
    added = [one.pod for one in supposed if isinstance(one, operations.AddPods) and one.pod is not None]
    return manifests.limits([*given, *added])


def named(name: str, snapshot: snapshots.Snapshot, path: str) -> model.Pod:
    """The pod NAMESPACE/NAME. Raises Mistake for another form, Missing if it does not exist."""
    namespace, slash, own = name.partition("/")
    if not (namespace and slash and own) or "/" in own:
        raise errors.Mistake(path, f"{name[:80]!r} is not NAMESPACE/NAME")
    found = snapshot.pod_named(namespace, own)
    if found is None:
        raise errors.Missing(f"cannot find pod {name} at {snapshot.position}")
    return found


def waiting(asked: question_schema.WaitingPods, snapshot: snapshots.Snapshot) -> list[model.Uid]:
    """The pods that wait, in the scheduler's order: priority, age, uid."""
    found = [pod for uid in snapshot.waiting if (pod := snapshot.pod(uid)) is not None]
    wanted = [
        pod
        for pod in found
        if asked.namespace in ("", pod.namespace) and asked.selector.items() <= pod.labels.items()
    ]
    wanted.sort(key=lambda pod: pod.precedence)
    return [pod.uid for pod in wanted[: asked.most]]


def one(
    resolved: situations.Resolved,
    uid: model.Uid,
    before: node_sets.Names,
    offered: node_sets.Names,
    plugins: registry.Registry,
) -> One:
    """The decision about one pod, as filter and prioritize would take it, and the one without overrides.

    ``before`` and ``offered``: the candidates without and with the overrides; ``plugins``: those of the
    process. Raises Missing if the situation deletes the pod.
    """
    pod = _asked(resolved.snapshot, uid)
    cycle = cycles.cycle(pod, offered, resolved.snapshot, score_max=resolved.plugins.score_max)
    explanation = explanations.of_cycle(cycle, resolved.plugins)
    unchanged, summary = explanation.trace, explanation.summary
    if resolved.snapshot is not resolved.base or resolved.plugins is not plugins:
        unchanged_pod = resolved.base.pod(uid) or pod
        start = cycles.cycle(unchanged_pod, before, resolved.base, score_max=plugins.score_max)
        unchanged = pipeline.run_filter(plugins, start)
        summary = explanations.nowhere(start) or explanations.summary(unchanged)
    node = chosen(resolved.plugins, cycle, explanation.trace)
    return One(explanation, node, Baseline(len(unchanged.kept), summary))


def several(
    snapshot: snapshots.Snapshot,
    uids: Sequence[model.Uid],
    candidates: frozenset[model.NodeName] | None,
    plugins: registry.Registry,
    running: Running,
) -> Several:
    """Place the pods in order, each on the state that the ones before left, by the rule of filter_onlyone.

    What plugins place beside a pod is placed with it, as its bind would commit it. ``candidates``: of every
    pod, in the situation; None for the nodes that it fits on (roomy).
    """
    placing = _Placing(snapshot, candidates, plugins)
    results: list[Placed] = []
    for uid in uids:
        if results and not running():
            break
        results.append(placing.place(uid))
    state = placing.state
    return Several(tuple(results), changed_counts(snapshot, state), len(uids) - len(results), state)


class _Placing:
    """Places pods one after the other."""

    def __init__(
        self,
        snapshot: snapshots.Snapshot,
        candidates: frozenset[model.NodeName] | None,
        plugins: registry.Registry,
    ) -> None:
        self.state = snapshot
        self._candidates = candidates
        self._fitting = fitting_nodes.FittingNodes(snapshot) if candidates is None else None
        self._plugins = plugins
        self._seats: dict[model.Uid, model.Placement] = {}
        """Pod -> its placement, of those that were placed beside another one."""

    def place(self, uid: model.Uid) -> Placed:
        """Decide about one pod, and commit what its bind would."""
        pod = _asked(self.state, uid)
        seat = self._seats.get(uid)
        if seat is not None:
            return self._seated(pod, seat)
        names = self._candidates if self._fitting is None else self._fitting.of(pod)
        cycle = cycles.cycle(pod, names or frozenset(), self.state, score_max=self._plugins.score_max)
        trace = pipeline.run(self._plugins, cycle)
        node = chosen(self._plugins, cycle, trace)
        if not node:
            return Placed(pod.key, "", self._reason(cycle, trace))
        made = self._commitment(cycle, node)
        if isinstance(made, str):
            return Placed(pod.key, "", made)
        for placement in made:
            self._seats[placement.pod.uid] = placement
            if self._fitting is not None:
                self._fitting.place(placement.pod, placement.node)
        if len(made) > 1:
            self.state = situations.fold(self.state, (events.PlacementsCommitted(placements=made),))
        return self._bound(pod, made[0])

    def _reason(self, cycle: cycles.Cycle, trace: verdicts.Trace) -> str:
        """Why the pod is refused, in one sentence."""
        if cycle.candidates or self._fitting is None:
            return explanations.nowhere(cycle) or explanations.summary(trace)
        return self._fitting.nowhere(cycle.pod)

    def _seated(self, pod: model.Pod, seat: model.Placement) -> Placed:
        """The pod has its node already, unless kube-scheduler does not offer that node."""
        if self._candidates is not None and seat.node not in self._candidates:
            text = f"it is placed with others on node {seat.node}, which is not among the candidates"
            return Placed(pod.key, "", text)
        return self._bound(pod, seat)

    def _bound(self, pod: model.Pod, placement: model.Placement) -> Placed:
        """The pod is observed as the Binding of its placement makes it, with what plugins assign to it."""
        seen = situations.bound(placement.written(pod), placement.node)
        self.state = situations.fold(self.state, (seen,))
        return Placed(pod.key, placement.node, "")

    def _commitment(self, cycle: cycles.Cycle, node: model.NodeName) -> tuple[model.Placement, ...] | str:
        """What the bind of the pod commits, or why it is refused."""
        one = dataclasses.replace(cycle, candidates=frozenset((node,)))
        try:
            made = plans.commitment(self._plugins, one, node)
        except (plans.InvalidPlan, cycles.HookFailed) as failed:
            return str(failed)
        return made.reason if isinstance(made, verdicts.Refusal) else made.placements


def chosen(plugins: registry.Registry, cycle: cycles.Cycle, trace: verdicts.Trace) -> model.NodeName:
    """The node that filter_onlyone would return; empty if none is kept."""
    if not trace.kept:
        return ""
    kept = dataclasses.replace(cycle, candidates=trace.kept)
    return pipeline.best(plugins, kept, trace) or ""


def changed_counts(before: snapshots.Snapshot, after: snapshots.Snapshot) -> tuple[CountChange, ...]:
    """The counts that differ, by name."""
    if before.counts is after.counts:
        return ()
    keys = {
        key
        for one, other in ((before, after), (after, before))
        for key, number in one.counts.items()
        if other.counts.get(key, 0) != number
    }
    return tuple(
        CountChange(key, before.counts.get(key, 0), after.counts.get(key, 0)) for key in sorted(keys)
    )


def _asked(snapshot: snapshots.Snapshot, uid: model.Uid) -> model.Pod:
    pod = snapshot.pod(uid)
    if pod is None:
        raise errors.Missing("the pod of the question does not exist in the situation")
    return pod
