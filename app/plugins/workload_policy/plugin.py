"""WorkloadPolicy (seed 003): so many pods of a workload for each value of a node label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec

from app.domain import counting, events, model, snapshots, verdicts
from app.framework import capabilities, cycles
from app.plugins.workload_policy import announcing, logic, ranking, serving


@dataclass(frozen=True, slots=True)
class WorkloadPolicy:
    """Keeps Required quotas, prefers Preferred ones; see README.md for why and how."""

    name: ClassVar[str] = "WorkloadPolicy"
    missing_policy: Literal["reject", "ignore"] = "reject"
    """What becomes of a pod whose policy is absent or invalid: nowhere to go, or no quotas to keep."""
    announced_most: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """So many pending pods are woken at once where there is no quota to tell how many."""

    def interested(self, pod: model.Pod) -> bool:
        return logic.concerned(pod)

    def indexed(self) -> tuple[str, ...]:
        return logic.LABEL, logic.ALIAS

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        return logic.refusal(cycle, ignoring=self.missing_policy == "ignore")

    pod_class = staticmethod(logic.pod_class)

    def soft(self, pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
        policy = logic.followed(last_known, pod)
        return isinstance(policy, model.WorkloadPolicy) and not logic.limits(policy)

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        return logic.rating(cycle)

    def rank(self, cycle: cycles.Cycle, nodes: verdicts.Names) -> Mapping[model.NodeName, int]:
        return ranking.ranks(cycle, nodes)

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Claim:
        policy, known = logic.followed(cycle.snapshot, cycle.pod), cycle.snapshot.nodes.get(node)
        if isinstance(policy, logic.Objection) or not policy.required or known is None:
            return capabilities.Claim()
        domain = known.labels.get(policy.topology_key, "")
        ceiling = {counting.key(policy, domain): policy.desired(domain) or 0}
        return capabilities.Claim(subjects=(f"policy:{policy.key}",), ceilings=ceiling)

    def announce(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, event: events.AnyEvent
    ) -> capabilities.Room | None:
        ignoring = self.missing_policy == "ignore"
        return announcing.room(before, after, event, ignoring=ignoring, most=self.announced_most)

    def endpoints(self) -> tuple[capabilities.Endpoint, ...]:
        return serving.ENDPOINTS
