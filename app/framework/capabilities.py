"""The capabilities of plugins, as Protocols: a plugin is a frozen dataclass that implements some of them.

Plugins are pure and work on sets: they receive all candidates at once and return the refused and the
scored ones, so that a decision costs what it touches, not plugins times nodes. They describe what they
cannot do themselves (serve HTTP, call the API server); other packages mount and run it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from app.domain import declared_objects, events, model, node_sets, schema, snapshots, verdicts
from app.domain.fit import budgets
from app.framework import cluster_changes, cycles, doctor_checks, effects, supposed_operations, views


@runtime_checkable
class Plugin(Protocol):
    """The minimal plugin interface."""

    @property
    def name(self) -> str:
        """Unique CamelCase name, also used in the path of the plugin's endpoints."""
        ...

    def interested(self, pod: model.Pod) -> bool:
        """Whether the pod concerns the plugin, decided from the pod alone."""
        ...


@runtime_checkable
class Owns(Plugin, Protocol):
    """Reads objects of kinds of its own, which the recorder watches whether or not the plugin is enabled."""

    def kinds(self) -> tuple[declared_objects.Kind[Any], ...]:
        """The kinds; independent of the plugin's arguments."""
        ...


@runtime_checkable
class Counts(Plugin, Protocol):
    """Keeps counts over the pods on nodes, written with the events, whether or not the plugin is enabled."""

    def counters(self) -> tuple[schema.Counter, ...]:
        """The families of counts; independent of the plugin's arguments."""
        ...


@runtime_checkable
class Indexes(Plugin, Protocol):
    """Needs pods indexed by label; Snapshot.siblings works for indexed keys only."""

    def indexed(self) -> tuple[str, ...]:
        """Keys of pod labels to index, ``model.annotation`` of those of kept annotations, and model.GROUP."""
        ...


@runtime_checkable
class Keeps(Plugin, Protocol):
    """Reads annotations of pods or nodes, which are kept even if the plugin is not enabled. No others are."""

    def annotations(self) -> tuple[str, ...]:
        """Annotation keys to keep, matched exactly; independent of the plugin's arguments."""
        ...


@runtime_checkable
class Filters(Plugin, Protocol):
    """Refuses candidates."""

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        """The refused candidates and the reason, or None if the plugin refuses none of them."""
        ...


@runtime_checkable
class Classifies(Plugin, Protocol):
    """Declares which properties of a pod its filter reads, so that pods equal in them are evaluated once.

    For a filtering plugin without this capability, pods are compared by all fields but identity and age.
    """

    def pod_class(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> Hashable:
        """A key, equal for pods of a namespace to which ``filter`` refuses the same nodes of the snapshot."""
        ...


@runtime_checkable
class Sums(Plugin, Protocol):
    """Refuses pods by sums over nodes that are alike in some labels: a pod on all of them or on none.

    Sums are counts (schema.Counter) and may include nominated pods; of other pods nothing else is read, but
    for assignments: pods that are placed together with one may be counted on their nodes and not be there.
    It also classifies: pods of a namespace that are equal in ``pod_class`` add the same to its sums. What it
    reserves for them on such nodes, beside assignments, is the same, too.
    """

    def summed_by(self, namespace: str, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
        """The labels of nodes by which pods of the namespace are summed; none for sums of the cluster."""
        ...

    def stays_refused(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        """Whether a pod of the class of this one, once refused, is refused also beside more of them."""
        ...


@runtime_checkable
class Advises(Plugin, Protocol):
    """Proposes changes that may let a pod fit that its filter refuses."""

    def hypotheses(
        self, cycle: cycles.Cycle, refusal: verdicts.Refusal
    ) -> Iterable[cluster_changes.Hypothesis]:
        """Changes to evaluate, in any order: those after which the pod still fits nowhere are dropped.

        ``refusal`` is the plugin's own, of a cycle in which no candidate was kept; nominated pods count as
        placed in the cycle's snapshot. Must depend on nothing of the pod beside what ``pod_class`` declares.
        """
        ...


@runtime_checkable
class Degrades(Plugin, Protocol):
    """Can be skipped while the store is unavailable for pods whose constraints are soft."""

    def soft(self, pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
        """Whether the pod may pass unfiltered then, judged on the last known state."""
        ...


@runtime_checkable
class Narrows(Plugin, Protocol):
    """Concerns only some of the pods for which ``interested`` is true, depending on the state."""

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        """Whether the pod concerns the plugin in this state."""
        ...


@runtime_checkable
class Scores(Plugin, Protocol):
    """Prefers candidates."""

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        """The candidates with a score other than 0, in groups of equal score."""
        ...


@runtime_checkable
class BreaksTies(Plugin, Protocol):
    """Orders candidates of equal score; used only where a single node is requested (filter_onlyone)."""

    def rank(self, cycle: cycles.Cycle, nodes: node_sets.Names) -> Mapping[model.NodeName, int]:
        """Node -> rank, 0 if missing; lower is better. ``nodes``: those that are equal up to this plugin."""
        ...


@dataclass(frozen=True, slots=True)
class Assignment:
    """One pod on one node, and what a plugin decided for it beside."""

    pod: model.Pod
    node: model.NodeName
    data: Mapping[str, Any] = field(default_factory=dict)
    """Any JSON, at most 64 KiB: kept in the log and in ``Placement.data`` under the plugin's name."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Set on the pod by its Binding, in the same write as the node; at most 64 KiB with the labels."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """As the annotations, but only kube-apiserver 1.35 or later takes them over (extender contract, 17)."""
    patience: int = 0
    """Seconds that the controller waits for the bind of a pod placed beside another; 0 for its own limit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a plugin reserves for a pod, and the conditions that must still hold when it is written."""

    assignments: tuple[Assignment, ...] = ()
    """The pod itself, if the plugin decides anything beside its node, and pods to place in the same append.
    One that is on its node already, or placed there, is left as it is."""
    subjects: tuple[str, ...] = ()
    """Subjects whose version must equal that in the cycle's snapshot."""
    ceilings: Mapping[schema.CountKey, int] = field(default_factory=dict)
    """Count -> maximum that it may have once all pods of the plan are counted; any integer below 2**53."""
    claims: tuple[str, ...] = ()
    """Subjects, ``NAME:TEXT``, that the plan expects unchanged and moves on: of two plans that claim one, and
    are decided on the same state, only one is committed."""


@runtime_checkable
class Reserves(Plugin, Protocol):
    """Decides what a pod gets on its node, so that two replicas cannot both assign the last free place."""

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> Plan | verdicts.Refusal:
        """What the pod gets on the node, and under which conditions; or why it gets nothing there.

        Called when the pod is bound, once for each decision: a placement that is in the log is the decision.
        """
        ...


@runtime_checkable
class Preempts(Plugin, Protocol):
    """Vetoes evictions: for plugins that protect victims, such as a gang at its minimum size."""

    def veto(self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]) -> str | None:
        """Why the victims must not be evicted from the node, or None."""
        ...


@runtime_checkable
class Adjusts(Plugin, Protocol):
    """Adds victims to an eviction: for pods that cannot do without a victim."""

    def adjust(
        self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
    ) -> Sequence[model.Pod] | str:
        """The victims to add, or why the node must be dropped.

        Called for every preemption, also by pods that do not concern the plugin. Victims to add must run on
        the node, and be less important than the pod unless an argument allows others: nothing checks it.
        """
        ...


@runtime_checkable
class Budgets(Plugin, Protocol):
    """Provides the PodDisruptionBudgets of the cluster."""

    def budgets(self, snapshot: snapshots.Snapshot) -> Iterable[budgets.DisruptionBudget] | None:
        """All budgets, in any order; None if they were not recorded at that moment."""
        ...


@runtime_checkable
class Consults(Plugin, Protocol):
    """Decides about several pods at once, by the other plugins (cycles.Cycle.peers), without nominations."""

    def others(self, cycle: cycles.Cycle, nominated: Sequence[model.Pod]) -> Sequence[model.Pod]:
        """The nominated pods without those that it decides about together with the pod of the cycle."""
        ...

    def outdated(self, pod: model.Pod, placement: model.Placement) -> str | None:
        """Why a placement does not hold for the pod as it is now, or None. No Binding of it is under way."""
        ...


@runtime_checkable
class Groups(Plugin, Protocol):
    """Places pods that belong together at once, all that are needed or none."""

    def group(
        self, snapshot: snapshots.Snapshot, name: model.NamespacedName
    ) -> supposed_operations.Group | None:
        """The group of that name; None if there is none."""
        ...

    def grouped(
        self, snapshot: snapshots.Snapshot, template: model.Pod, members: int, minimum: int | None
    ) -> supposed_operations.Group:
        """New pods like the template as one group. Raises Impossible for a minimum if it names a group."""
        ...

    def companions(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> Sequence[model.Pod]:
        """The other waiting pods of the state without which the pod, which waits there, is not placed."""
        ...


@runtime_checkable
class Transforms(Plugin, Protocol):
    """Changes a cycle before it is filtered: for plugins that hold capacity or narrow candidates.

    Called for filter, prioritize, bind and preempt, in plugin order, with the cycle of the one before. It may
    have another pod (of the same identity), fewer candidates, or a supposing view at the same position.
    """

    def transform(self, cycle: cycles.Cycle) -> cycles.Cycle | verdicts.Refusal:
        """The cycle that the plugins receive, or why the pod must not be placed on any candidate now."""
        ...


@runtime_checkable
class TransformsNodes(Plugin, Protocol):
    """Shows the other plugins another state on some nodes: for capacity that only some pods may use."""

    def viewed(self, cycle: cycles.Cycle) -> node_sets.Names:
        """The nodes on which the state differs; the cost of a decision follows their number."""
        ...

    def transform_node(self, cycle: cycles.Cycle, node: model.NodeName) -> cycles.Cycle | None:
        """The cycle for the node, its only candidate, with nominated pods on nodes; None if unchanged."""
        ...


@runtime_checkable
class TransformsScores(Plugin, Protocol):
    """Changes a cycle before it is scored."""

    def transform_scores(self, cycle: cycles.Cycle) -> cycles.Cycle:
        """The cycle that is scored; a candidate that it leaves out scores 0."""
        ...


@runtime_checkable
class Shows(Plugin, Protocol):
    """Shows its state to people: over HTTP, and on the command line."""

    tables: ClassVar[tuple[views.Table, ...]]
    """Kinds of ``topolog get``. They belong to the class, because it runs without the plugin's arguments."""

    def shown(self) -> views.Shown:
        """The views."""
        ...


@runtime_checkable
class Measures(Plugin, Protocol):
    """Exposes pods by object and domain as metrics."""

    def measured(self, snapshot: snapshots.Snapshot) -> Sequence[views.Measured]:
        """All objects with their domains, without repetition, in any order."""
        ...

    def measure(self, snapshot: snapshots.Snapshot, key: views.Measured) -> views.Measure:
        """The pods of one of them; computed only for those that are exposed."""
        ...


@runtime_checkable
class Exceeds(Plugin, Protocol):
    """Exposes by how much its objects are above their limits as metrics."""

    def exceeded(self, snapshot: snapshots.Snapshot) -> Mapping[views.Limited, float]:
        """Cores, bytes or a number for each resource of which an object uses more than it may."""
        ...


@runtime_checkable
class Wakes(Plugin, Protocol):
    """Reports pending pods to wake after a run of events: a burst costs one evaluation of its last state."""

    def wake(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, happened: Sequence[events.AnyEvent]
    ) -> effects.WakePods | None:
        """The pods to wake for the capacity that the events free, if kube-scheduler has no event for it."""
        ...


@runtime_checkable
class Supposes(Plugin, Protocol):
    """Declares operations on its own objects that a hypothetical question may name as overrides."""

    def operations(self) -> tuple[type[supposed_operations.Operation], ...]:
        """The operations, independent of the plugin's arguments; names must differ from those of others."""
        ...


@runtime_checkable
class Reconciles(Plugin, Protocol):
    """Brings the cluster in line with the state: writes the status of objects, posts Events, wakes pods."""

    statuses: ClassVar[tuple[str, ...]]
    """Names of the kinds whose status is written. The controller has the right to patch no other."""

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[effects.Effect]:
        """The effects that follow from the snapshot, for the objects that the changes concern.

        Called by the leader about once a second while there are events, so that effects of many events are
        computed once. An effect replaces an earlier one of the same object that was not carried out yet.
        After one that raised, or took over 5 s (effects.PutOff), it is for everything, at least 30 s later.
        """
        ...


@runtime_checkable
class Evicts(Plugin, Protocol):
    """Has pods evicted (effects.EvictPods), if an argument requests it and an operator grants the right."""

    evicts: bool  # whether an argument requests it


@runtime_checkable
class Diagnoses(Plugin, Protocol):
    """Finds mistakes in its objects and in the pods that they concern, for ``topolog doctor policies``."""

    def diagnosis(self) -> doctor_checks.Diagnosis:
        """The checks; their IDs must differ from those of other plugins."""
        ...


@runtime_checkable
class Discloses(Plugin, Protocol):
    """Declares what of its API names nothing of a cluster, so that bundles with pseudonyms keep it."""

    public_terms: ClassVar[views.Terms]
    """A bundle is made without the plugin's arguments, so they belong to the class."""


KNOWN = tuple(one for one in [*globals().values()] if isinstance(one, type) and Plugin in one.__mro__[1:])
"""Every capability beyond Plugin, in the order above."""
