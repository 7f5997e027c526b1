"""The WorkloadPolicy plugin: quotas of pods of a workload per value of a node label."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec

from app.domain import events, model, node_sets, snapshots, verdicts
from app.framework import capabilities, cycles, effects, views
from app.plugins.workload_policy import (
    advice,
    diagnosis,
    endpoints,
    kinds,
    limits,
    logic,
    policy_counts,
    status,
    tie_breaks,
    wakeups,
)


@dataclass(frozen=True, slots=True)
class WorkloadPolicy:
    """Enforces Required quotas and prefers nodes by Preferred ones; see README.md."""

    name: ClassVar[str] = "WorkloadPolicy"
    statuses: ClassVar[tuple[str, ...]] = (status.KIND,)
    tables: ClassVar[tuple[views.Table, ...]] = endpoints.TABLES
    missing_policy: limits.Missing = "reject"
    """Whether a pod whose policy is missing or invalid is refused everywhere, or placed without quotas."""
    enforce: limits.Enforce = "named"
    """Which pods a Required policy limits: those that name it, or all that its selector selects."""
    max_woken: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Upper limit of pending pods woken at once, also where no quota limits their number."""

    def interested(self, pod: model.Pod) -> bool:
        return logic.concerned(pod) or self.enforce == "selected"

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return logic.concerned(pod) or bool(limits.required(snapshot, pod, self))

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        return limits.refusal(cycle, self)

    indexed = staticmethod(logic.indexed)
    kinds = staticmethod(kinds.declared)
    counters = staticmethod(policy_counts.declared)
    pod_class = staticmethod(logic.pod_class)
    summed_by = staticmethod(logic.summed_by)
    stays_refused = staticmethod(logic.stays_refused)
    soft = limits.soft
    hypotheses = staticmethod(advice.hypotheses)
    operations = staticmethod(advice.operations)
    diagnosis = staticmethod(diagnosis.declared)

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        return logic.rating(cycle) if limits.prefers(cycle.pod, self) else verdicts.Rating({})

    def rank(self, cycle: cycles.Cycle, nodes: node_sets.Names) -> Mapping[model.NodeName, int]:
        return tie_breaks.ranks(cycle, nodes) if limits.prefers(cycle.pod, self) else {}

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan:
        return limits.plan(cycle, node, self)

    def wake(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, happened: Sequence[events.AnyEvent]
    ) -> effects.WakePods | None:
        return wakeups.freed_capacity(before, after, happened, rules=self, limit=self.max_woken)

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterator[effects.Effect]:
        return status.reconcile(snapshot, changes, rules=self, limit=self.max_woken)

    measured = staticmethod(endpoints.measured)
    measure = staticmethod(endpoints.measure)

    def shown(self) -> views.Shown:
        return endpoints.shown(self)
