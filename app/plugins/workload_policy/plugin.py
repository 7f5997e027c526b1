"""WorkloadPolicy (seed 003): so many pods of a workload for each value of a node label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec

from app.domain import events, model, snapshots, verdicts
from app.framework import capabilities, cycles
from app.plugins.workload_policy import announcing, limiting, logic, ranking, serving


@dataclass(frozen=True, slots=True)
class WorkloadPolicy:
    """Keeps Required quotas, prefers Preferred ones; see README.md for why and how."""

    name: ClassVar[str] = "WorkloadPolicy"
    missing_policy: limiting.Missing = "reject"
    """What becomes of a pod whose policy is absent or invalid: nowhere to go, or no quotas to keep."""
    enforce: limiting.Enforce = "named"
    """Whom a Required policy limits: the pods that name it, or every pod that its selector selects."""
    announced_most: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """So many pending pods are woken at once where there is no quota to tell how many."""

    def interested(self, pod: model.Pod) -> bool:
        return logic.concerned(pod) or self.enforce == "selected"

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return logic.concerned(pod) or bool(limiting.required(snapshot, pod, self))

    def indexed(self) -> tuple[str, ...]:
        return logic.LABEL, logic.ALIAS

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        return limiting.refusal(cycle, self)

    pod_class = staticmethod(logic.pod_class)

    def soft(self, pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
        return limiting.soft(last_known, pod, self)

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        return logic.rating(cycle) if limiting.prefers(cycle.pod, self) else verdicts.Rating({})

    def rank(self, cycle: cycles.Cycle, nodes: verdicts.Names) -> Mapping[model.NodeName, int]:
        return ranking.ranks(cycle, nodes) if limiting.prefers(cycle.pod, self) else {}

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Claim:
        return limiting.claim(cycle, node, self)

    def announce(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, event: events.AnyEvent
    ) -> capabilities.Room | None:
        return announcing.room(before, after, event, rules=self, most=self.announced_most)

    def endpoints(self) -> tuple[capabilities.Endpoint, ...]:
        return serving.ENDPOINTS
