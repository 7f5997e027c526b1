"""A minimal plugin for each capability."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from app.domain import declared_objects, events, model, node_sets, schema, snapshots, verdicts
from app.domain.fit import budgets
from app.framework import (
    capabilities,
    cluster_changes,
    cycles,
    doctor_checks,
    effects,
    supposed_operations,
    views,
)
from tests.support import gadgets


@dataclass(frozen=True, slots=True)
class Idle:
    """Interested in pods with its label, or in all pods; has no capability."""

    name: str = "Idle"
    label: str = ""

    def interested(self, pod: model.Pod) -> bool:
        return not self.label or self.label in pod.labels


@dataclass(frozen=True, slots=True)
class Owning(Idle):
    name: str = "Owning"

    def kinds(self) -> tuple[declared_objects.Kind[Any], ...]:
        return (gadgets.GADGETS,)


@dataclass(frozen=True, slots=True)
class Counting(Idle):
    name: str = "Counting"

    def counters(self) -> tuple[schema.Counter, ...]:
        return gadgets.SIZES, gadgets.SHARES


@dataclass(frozen=True, slots=True)
class Indexing(Idle):
    name: str = "Indexing"

    def indexed(self) -> tuple[str, ...]:
        return ("fake-index",)


@dataclass(frozen=True, slots=True)
class Keeping(Idle):
    name: str = "Keeping"

    def annotations(self) -> tuple[str, ...]:
        return ("fake.example/read",)


@dataclass(frozen=True, slots=True)
class Filtering(Idle):
    """Refuses these nodes, or nodes that hold pods."""

    name: str = "Filtering"
    refused: node_sets.Names = node_sets.NONE
    reason: str = "refused"
    crowded: bool = False
    lonely: bool = False

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        held = {node for node in cycle.candidates if any(True for _ in cycle.snapshot.on(node))}
        refused = self.refused & cycle.candidates
        if self.crowded:
            refused |= held
        if self.lonely:
            refused |= cycle.candidates - held
        return verdicts.Refusal(f"{self.reason} ({len(held)} held)", refused, {self.reason: refused})


@dataclass(frozen=True, slots=True)
class Classifying(Filtering):
    """Puts all pods into one class."""

    name: str = "Classifying"

    def pod_class(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return self.interested(pod)


@dataclass(frozen=True, slots=True)
class Summing(Filtering):
    """Refuses by sums."""

    name: str = "Summing"

    def summed_by(self, namespace: str, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
        return ()

    def stays_refused(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Advising(Filtering):
    """Refuses these nodes, and proposes these changes."""

    name: str = "Advising"
    proposed: tuple[cluster_changes.Hypothesis, ...] = ()

    def hypotheses(
        self, cycle: cycles.Cycle, refusal: verdicts.Refusal
    ) -> tuple[cluster_changes.Hypothesis, ...]:
        return self.proposed


@dataclass(frozen=True, slots=True)
class Softening(Filtering):
    name: str = "Softening"

    def soft(self, pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Narrowing(Idle):
    """Concerns only pods in the snapshot."""

    name: str = "Narrowing"

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return snapshot.pod(pod.uid) is not None


@dataclass(frozen=True, slots=True)
class Scoring(Idle):
    name: str = "Scoring"
    given: Mapping[int, node_sets.Names] = field(default_factory=dict)

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        return verdicts.Rating({score: nodes & cycle.candidates for score, nodes in self.given.items()})


@dataclass(frozen=True, slots=True)
class Ranking(Idle):
    name: str = "Ranking"
    order: Mapping[model.NodeName, int] = field(default_factory=dict)

    def rank(self, cycle: cycles.Cycle, nodes: node_sets.Names) -> Mapping[model.NodeName, int]:
        return {node: rank for node, rank in self.order.items() if node in nodes}


@dataclass(frozen=True, slots=True)
class RankingFirst(Idle):
    """Prefers the first node by name of those that it is asked about, and ranks no other one."""

    name: str = "RankingFirst"

    def rank(self, cycle: cycles.Cycle, nodes: node_sets.Names) -> Mapping[model.NodeName, int]:
        return {min(nodes): -1}


@dataclass(frozen=True, slots=True)
class Reserving(Idle):
    name: str = "Reserving"
    made: capabilities.Plan | verdicts.Refusal = field(default_factory=capabilities.Plan)

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan | verdicts.Refusal:
        return self.made


@dataclass(frozen=True, slots=True)
class Preempting(Idle):
    name: str = "Preempting"
    reason: str | None = "no"

    def veto(self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]) -> str | None:
        return self.reason


@dataclass(frozen=True, slots=True)
class Adjusting(Idle):
    name: str = "Adjusting"
    added: tuple[model.Pod, ...] = ()

    def adjust(
        self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
    ) -> Sequence[model.Pod] | str:
        return self.added


@dataclass(frozen=True, slots=True)
class Budgeting(Idle):
    name: str = "Budgeting"
    known: tuple[budgets.DisruptionBudget, ...] = ()

    def budgets(self, snapshot: snapshots.Snapshot) -> tuple[budgets.DisruptionBudget, ...]:
        return self.known


@dataclass(frozen=True, slots=True)
class Consulting(Idle):
    """Refuses what any other plugin refuses, and remembers nothing."""

    name: str = "Consulting"

    def others(self, cycle: cycles.Cycle, nominated: Sequence[model.Pod]) -> Sequence[model.Pod]:
        return [pod for pod in nominated if pod.group != cycle.pod.group]

    def outdated(self, pod: model.Pod, placement: model.Placement) -> str | None:
        return None

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        if not cycle.peers.concerned(cycle.pod, cycle.snapshot):
            return None
        refusals = cycle.peers.refusals(cycle.pod, cycle.candidates, cycle.snapshot)
        nodes = node_sets.union(*(refusal.nodes for refusal in refusals)) if refusals else node_sets.NONE
        return verdicts.Refusal("refused by others", nodes) if nodes else None


@dataclass(frozen=True, slots=True)
class Transforming(Idle):
    name: str = "Transforming"
    dropped: node_sets.Names = node_sets.NONE

    def transform(self, cycle: cycles.Cycle) -> cycles.Cycle:
        return replace(cycle, candidates=cycle.candidates - self.dropped)


@dataclass(frozen=True, slots=True)
class TransformingNodes(Idle):
    name: str = "TransformingNodes"

    def viewed(self, cycle: cycles.Cycle) -> node_sets.Names:
        return node_sets.NONE

    def transform_node(self, cycle: cycles.Cycle, node: model.NodeName) -> cycles.Cycle | None:
        return None


@dataclass(frozen=True, slots=True)
class TransformingScores(Idle):
    name: str = "TransformingScores"
    dropped: node_sets.Names = node_sets.NONE

    def transform_scores(self, cycle: cycles.Cycle) -> cycles.Cycle:
        return replace(cycle, candidates=cycle.candidates - self.dropped)


@dataclass(frozen=True, slots=True)
class Showing(Idle):
    name: str = "Showing"
    tables: ClassVar[tuple[views.Table, ...]] = ()

    def shown(self) -> views.Shown:
        return views.Shown((views.Endpoint("things", "All things", lambda snapshot, _: snapshot.offset),))


@dataclass(frozen=True, slots=True)
class Measuring(Idle):
    name: str = "Measuring"
    keys: tuple[views.Measured, ...] = ()

    def measured(self, snapshot: snapshots.Snapshot) -> tuple[views.Measured, ...]:
        return self.keys

    def measure(self, snapshot: snapshots.Snapshot, key: views.Measured) -> views.Measure:
        return views.Measure(len(key.name), len(key.domain))


@dataclass(frozen=True, slots=True)
class Exceeding(Idle):
    name: str = "Exceeding"
    found: tuple[views.Limited, ...] = ()

    def exceeded(self, snapshot: snapshots.Snapshot) -> dict[views.Limited, float]:
        return {key: len(key.name) / 2 for key in self.found}


@dataclass(frozen=True, slots=True)
class Waking(Idle):
    name: str = "Waking"

    def wake(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, happened: Sequence[events.AnyEvent]
    ) -> effects.WakePods | None:
        return None


class Paint(supposed_operations.Operation, frozen=True, tag="paint"):
    """Changes nothing."""


@dataclass(frozen=True, slots=True)
class Supposing(Idle):
    name: str = "Supposing"

    def operations(self) -> tuple[type[supposed_operations.Operation], ...]:
        return (Paint,)


@dataclass(frozen=True, slots=True)
class Grouping(Idle):
    name: str = "Grouping"

    def group(
        self, snapshot: snapshots.Snapshot, name: model.NamespacedName
    ) -> supposed_operations.Group | None:
        return None

    def grouped(
        self, snapshot: snapshots.Snapshot, template: model.Pod, members: int, minimum: int | None
    ) -> supposed_operations.Group:
        return supposed_operations.Group(
            model.NamespacedName(f"{template.namespace}/new"), (template,) * members, minimum or members
        )

    def companions(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> tuple[model.Pod, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Reconciling(Idle):
    name: str = "Reconciling"
    statuses: ClassVar[tuple[str, ...]] = ()

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> tuple[effects.Effect, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Evicting(Idle):
    name: str = "Evicting"
    evicts: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Diagnosing(Idle):
    name: str = "Diagnosing"

    def diagnosis(self) -> doctor_checks.Diagnosis:
        return doctor_checks.Diagnosis((), lambda _: ())


@dataclass(frozen=True, slots=True)
class Disclosing(Idle):
    name: str = "Disclosing"
    public_terms: ClassVar[views.Terms] = views.Terms(
        frozenset(("fake-default",)),
        frozenset(("fake.example/mode",)),
        {"fake.example/document": frozenset(("kind", "mode"))},
    )
