"""The Coscheduling plugin: gangs are placed whole, or not at all."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from app.domain import model, snapshots, verdicts
from app.framework import capabilities, cluster_changes, cycles, effects, views
from app.plugins.coscheduling import (
    admission,
    endpoints,
    gangs,
    kinds,
    membership,
    options,
    questions,
    status,
)
from app.plugins.coscheduling.planner import nominations
from app.plugins.coscheduling.seats import protection

USUAL_LAYERS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


@dataclass(frozen=True, slots=True)
class Coscheduling:
    """Places all members of a gang in one commitment, in as few domains as they fit in; see README.md."""

    name: ClassVar[str] = gangs.NAME
    tables: ClassVar[tuple[views.Table, ...]] = endpoints.TABLES
    public_terms: ClassVar[views.Terms] = options.TERMS
    statuses: ClassVar[tuple[str, ...]] = tuple(status.WRITTEN.values())
    layers: tuple[str, ...] = USUAL_LAYERS
    """Label keys of nodes, from the largest domains to the smallest: a gang without rules of its own is
    placed in as few of them as it fits in."""

    def interested(self, pod: model.Pod) -> bool:
        return True

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return admission.concerned(pod, snapshot)

    kinds = staticmethod(kinds.declared)
    soft = staticmethod(admission.soft)
    others = staticmethod(nominations.others)
    outdated = staticmethod(admission.outdated)
    group = staticmethod(questions.group)
    grouped = staticmethod(questions.grouped)
    companions = staticmethod(admission.companions)
    operations = staticmethod(questions.operations)

    def pod_class(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> Hashable:
        return admission.pod_class(pod, snapshot, self)

    def indexed(self) -> tuple[str, ...]:
        return membership.INDEXED

    def annotations(self) -> tuple[str, ...]:
        return options.ANNOTATIONS

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        return admission.refusal(cycle, self)

    def hypotheses(
        self, cycle: cycles.Cycle, refusal: verdicts.Refusal
    ) -> Iterable[cluster_changes.Hypothesis]:
        return questions.hypotheses(cycle, refusal, self)

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan | verdicts.Refusal:
        return admission.reserve(cycle, node, self)

    def veto(self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]) -> str | None:
        return protection.veto(cycle.snapshot, victims) or admission.elsewhere(cycle, node, self)

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[effects.Effect]:
        return status.reconcile(snapshot, changes, self)

    def shown(self) -> views.Shown:
        return endpoints.shown(self)
