"""NodeLabelPriority (seed 001): only nodes with a label, those with a higher value first."""

from dataclasses import dataclass
from typing import ClassVar

from app.domain import model, verdicts
from app.framework import capabilities, cycles
from app.plugins.node_label_priority import logic, serving


@dataclass(frozen=True, slots=True)
class NodeLabelPriority:
    """Nodes without the label are refused, the others score the label's value; see README.md."""

    name: ClassVar[str] = "NodeLabelPriority"
    scheduler_names: tuple[str, ...] = ("i-scheduler-extender",)
    """Only pods of these schedulers (spec.schedulerName) are touched."""
    label: str = "priority.lixueduan.com"
    """Node label key."""

    def interested(self, pod: model.Pod) -> bool:
        return pod.scheduler in self.scheduler_names

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        return logic.refusal(cycle, self.label)

    def pod_class(self, pod: model.Pod) -> bool:
        return self.interested(pod)

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        return logic.rating(cycle, self.label)

    def endpoints(self) -> tuple[capabilities.Endpoint, ...]:
        view = serving.nodes(self.label)
        return (capabilities.Endpoint("nodes", "All nodes by their label", view, serving.EXAMPLE),)
