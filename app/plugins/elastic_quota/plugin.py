"""The ElasticQuota plugin: quotas of resources, shared between groups of pods."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from app.domain import events, model, snapshots, verdicts
from app.framework import cycles, effects, views
from app.plugins.elastic_quota import admission, endpoints, evictions, families, kinds, status, wakeups
from app.plugins.elastic_quota.questions import operations, raises


@dataclass(frozen=True, slots=True)
class ElasticQuota:
    """Admits pods while their quota has capacity; see README.md."""

    name: ClassVar[str] = "ElasticQuota"
    tables: ClassVar[tuple[views.Table, ...]] = endpoints.TABLES
    statuses: ClassVar[tuple[str, ...]] = status.KINDS
    public_terms: ClassVar[views.Terms] = families.TERMS
    runtime: bool = True
    """Whether the limit of a quota is its runtime, which includes what others lend, or its max."""
    scale_min: bool = True
    """Whether mins are scaled down while the cluster is smaller than their sum."""
    guarantee_usage: bool = False
    """Whether what a quota uses counts as its min; no quota lends then."""
    check_parents: bool = False
    """Whether the quotas above that of a pod limit the pod, too."""
    strict_resources: bool = False
    """Whether a resource over its limit refuses pods that do not request it, as in Koordinator."""
    default_quota: bool = True
    """Whether an object named koordinator-default-quota limits the pods that belong to no other quota."""
    invalid_quota: admission.Missing = "reject"
    """Whether the pods of an invalid quota are refused, or not limited."""
    same_quota_only: bool = False
    """Whether a pod of a quota evicts only preemptible pods of that quota, as in Koordinator."""
    reclaim: bool = False
    """Whether a preemption also evicts pods of its node with which other namespaces exceed their min."""
    quota_preemption: evictions.Action = "report"
    """``evict``: the controller evicts pods for a more important pod that their quota refuses."""
    overuse: evictions.Action = "report"
    """``evict``: the controller evicts pods with which a quota has exceeded its runtime for two minutes."""
    koordinator_annotations: bool = False
    """Whether the controller also writes the annotations that Koordinator's controller keeps on quotas."""
    evicts = property(evictions.requested)
    kinds = staticmethod(kinds.declared)
    counters = staticmethod(families.counters)
    pod_class = staticmethod(families.pod_class)
    operations = staticmethod(operations.declared)
    hypotheses = raises.hypotheses
    reserve = families.plan
    shown = endpoints.shown
    summed_by = staticmethod(families.summed_by)
    stays_refused = families.stays_refused
    soft = families.soft
    exceeded = families.exceeded

    def interested(self, pod: model.Pod) -> bool:
        return True

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return families.limited(snapshot, pod, self)

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        return families.refusal(cycle, self)

    def veto(self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]) -> str | None:
        return families.veto(cycle, victims, self) if self.same_quota_only else None

    def adjust(self, cycle: cycles.Cycle, node: model.NodeName, victims: families.Pods) -> families.Pods:
        return families.beside(cycle, node, victims, self) if self.reclaim else ()

    def wake(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, happened: Sequence[events.AnyEvent]
    ) -> effects.WakePods | None:
        return wakeups.freed_capacity(before, after, happened, self)

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[effects.Effect]:
        yield from status.reconcile(snapshot, changes, self)
        yield from evictions.reconcile(snapshot, changes, self, self.name)
