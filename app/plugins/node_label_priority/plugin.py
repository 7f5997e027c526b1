"""The NodeLabelPriority plugin: only nodes with a label, those with a higher value first."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from app.domain import model, snapshots, verdicts
from app.framework import cluster_changes, cycles, views
from app.plugins.node_label_priority import endpoints, logic


@dataclass(frozen=True, slots=True)
class NodeLabelPriority:
    """Refuses nodes without the label and scores the others by its value; see README.md."""

    name: ClassVar[str] = "NodeLabelPriority"
    tables: ClassVar[tuple[views.Table, ...]] = endpoints.TABLES
    scheduler_names: tuple[str, ...] = ("i-scheduler-extender",)
    """The plugin concerns only pods of these schedulers (spec.schedulerName)."""
    label: str = "priority.lixueduan.com"
    """Node label key."""

    def interested(self, pod: model.Pod) -> bool:
        return pod.scheduler in self.scheduler_names

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        return logic.refusal(cycle, self.label)

    def hypotheses(
        self, cycle: cycles.Cycle, refusal: verdicts.Refusal
    ) -> Iterable[cluster_changes.Hypothesis]:
        return (logic.labelled(cycle, refusal, self.label),)

    def pod_class(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return self.interested(pod)

    def summed_by(self, namespace: str, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
        """The label alone decides: no sum is needed."""
        return (self.label,)

    def stays_refused(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return True

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        return logic.rating(cycle, self.label)

    def shown(self) -> views.Shown:
        return endpoints.shown(self.label)
