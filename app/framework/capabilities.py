"""What a plugin can do, as Protocols: a plugin is a frozen dataclass that has some of these methods.

Plugins are pure and work on sets: they are told the candidates once and return the refused ones
and the scored ones, so that a decision costs what it touches, not plugins times nodes. What they
cannot do themselves (serve HTTP, call the API server) they describe; others mount and run it.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from app.domain import counting, events, model, snapshots, verdicts
from app.framework import cycles


@runtime_checkable
class Plugin(Protocol):
    """The least that every plugin has."""

    @property
    def name(self) -> str:
        """CamelCase name, unique; also in the path of the plugin's endpoints."""
        ...

    def interested(self, pod: model.Pod) -> bool:
        """Whether the plugin has anything to do with the pod; must need nothing but the pod."""
        ...


@runtime_checkable
class Indexes(Plugin, Protocol):
    """Needs pods indexed by label: Snapshot.siblings works for these keys only."""

    def indexed(self) -> tuple[str, ...]:
        """Label keys of pods."""
        ...


@runtime_checkable
class Keeps(Plugin, Protocol):
    """Reads annotations of pods or nodes: those that no plugin reads are dropped when objects are decoded."""

    def annotations(self) -> tuple[str, ...]:
        """Annotation keys, exactly as they are written."""
        ...


@runtime_checkable
class Filters(Plugin, Protocol):
    """Refuses candidates."""

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        """The refused candidates under one sentence, or None if there are none."""
        ...


@runtime_checkable
class Classifies(Plugin, Protocol):
    """Says what its filter reads of a pod, so that pods that agree in it are evaluated once.

    Pods are compared as a whole, their identity and age apart, if a filtering plugin does not say so.
    """

    def pod_class(self, pod: model.Pod) -> Hashable:
        """Equal for pods that ``filter`` answers alike in every cluster.

        Labels that the selectors of policies in the pod's namespace mention need not be part of it.
        """
        ...


@runtime_checkable
class Softens(Plugin, Protocol):
    """Can do without: some of its refusals are wishes, not rules (architecture 16)."""

    def soft(self, pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
        """Whether the pod may pass unfiltered while the store is away; judged on the last known state."""
        ...


@runtime_checkable
class Narrows(Plugin, Protocol):
    """Has an interest that depends on the state; ``interested`` is true of every pod that it may concern."""

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        """Whether the plugin has anything to do with the pod in this state."""
        ...


@runtime_checkable
class Scores(Plugin, Protocol):
    """Prefers candidates."""

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        """The candidates whose score is not 0, in groups of equal score."""
        ...


@runtime_checkable
class Ranks(Plugin, Protocol):
    """Orders candidates of equal score; decides only where a single node is asked for (filter_onlyone)."""

    def rank(self, cycle: cycles.Cycle, nodes: verdicts.Names) -> Mapping[model.NodeName, int]:
        """Rank of each node, lower is better; a missing one has 0."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """What must still be true when a placement is written."""

    subjects: tuple[str, ...] = ()
    """Subjects whose version must be the one in the cycle's snapshot."""
    ceilings: Mapping[counting.CountKey, int] = field(default_factory=dict)
    """Counts that must not exceed a number once the pod is counted."""


@runtime_checkable
class Reserves(Plugin, Protocol):
    """Guards placements: two replicas cannot both give away the last place."""

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> Claim:
        """The conditions under which the pod may be placed on the node."""
        ...


@runtime_checkable
class Preempts(Plugin, Protocol):
    """Has a say in whom an eviction would hurt."""

    def veto(self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]) -> str | None:
        """Why the victims must not be evicted from the node, or None."""
        ...


@runtime_checkable
class Transforms(Plugin, Protocol):
    """Changes a cycle before any plugin filters: restores reserved room, narrows candidates."""

    def transform(self, cycle: cycles.Cycle) -> cycles.Cycle:
        """The cycle to go on with."""
        ...


Key = int | str | tuple[str, ...]
"""What a list is ordered by; all keys of one list are of one of these types."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An endpoint's answer that is a list: only the items of the requested page are rendered."""

    keys: Iterable[Any]
    """A Key for each item, in any order, each once."""
    item: Callable[[Any], object]
    """Renders the item of a key as a JSON-able value."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A read-only view of a plugin, mounted under ``/apis/v1/plugins/NAME/``."""

    path: str
    """Flask rule below the plugin's path, such as ``policies/<namespace>/<name>``."""
    summary: str
    handle: Callable[[snapshots.Snapshot, Mapping[str, str]], object | None]
    """(snapshot, path parameters) -> JSON-able value, Listed, or None for 404."""
    example: object = None


@runtime_checkable
class Serves(Plugin, Protocol):
    """Shows its state over HTTP."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The views, in the order in which they are listed."""
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """Room that kube-scheduler has no event for, and the pending pods that it may concern."""

    pods: tuple[model.Pod, ...]
    """No more than there is room for, the most important first."""
    message: str
    """A sentence for people."""


@runtime_checkable
class Controls(Plugin, Protocol):
    """Tells the controller what an event of the log means for pending pods (architecture 19)."""

    def announce(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, event: events.AnyEvent
    ) -> Room | None:
        """Room that the event makes and that kube-scheduler cannot know of, or None."""
        ...


KNOWN: tuple[type, ...] = (
    Indexes,
    Keeps,
    Filters,
    Classifies,
    Softens,
    Narrows,
    Scores,
    Ranks,
    Reserves,
    Preempts,
    Transforms,
    Serves,
    Controls,
)
"""Every capability beyond Plugin."""
