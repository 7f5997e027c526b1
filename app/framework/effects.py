"""Effects: changes that plugins want in the cluster, as data; the elected controller carries them out.

Effects are idempotent: each is computed from the state of the log, and may be computed again by the next
leader. The controller limits their rate, and drops those of a leadership that has ended (decision 24).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import events as domain_events
from app.domain import model, snapshots
from app.framework import cycles


@dataclass(frozen=True, slots=True)
class WakePods:
    """Make kube-scheduler try pending pods again, for capacity that it has no event for."""

    pods: tuple[model.Pod, ...]
    """Pending pods, the most important first, no more than the capacity admits."""
    message: str
    """A sentence for the condition of the woken pods."""
    refused: bool = False
    """Whether every pod is known to be refused, even if its own condition does not show it yet. A pod that
    was not refused yet is woken once it is."""


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write the status of an object, if it differs from the present one.

    The plugin owns the whole status: fields that are left out are removed. The controller adds
    ``observedGeneration``, and ``lastTransitionTime`` to each item of ``conditions``. It writes only if the
    API server still has the object of the snapshot, and in the version that it has just read.
    """

    kind: str
    """The name of the kind, which the plugin declares in ``statuses``."""
    identity: str
    """The identity of the object in the snapshot."""
    status: Mapping[str, object]
    """JSON-serialisable."""
    generation: bool = True
    """Whether ``observedGeneration`` is added. Where the definition of the kind does not have that field, the
    API server drops it, and each comparison would find a difference."""
    stamped: tuple[str, ...] = ()
    """Fields of the status that hold when they were first written: the controller adds and keeps the time."""
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """Annotations of the object to set, or to remove (None); all others are left as they are. They need the
    right to patch the object itself; without it the status alone is written."""


@dataclass(frozen=True, slots=True)
class Involved:
    """An object other than a pod that an Event is about."""

    api_version: str
    kind: str
    """As in manifests."""
    namespace: str
    name: str
    uid: model.Uid

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return model.key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class PostEvent:
    """Post a Kubernetes Event about a pod or another namespaced object. Equal Events are one with a count."""

    about: model.Pod | Involved
    reason: str
    """CamelCase, for programs."""
    message: str
    """A sentence for people."""
    warning: bool = True


@dataclass(frozen=True, slots=True)
class ReleasePlacements:
    """Look up in-flight placements at once, and release those that can no longer be bound.

    Only the API server is evidence (decision 20): the controller fences each Binding first, and a pod that is
    bound keeps its placement. A planned placement has no Binding (decision 23).

    With ``renewed`` the planned ones are not looked up, and go together or not at all: they are released in
    one append, in a state in which no other is left, if the plugin wants their release in that state.
    """

    pods: tuple[model.Uid, ...]
    """Pods with a placement."""
    reason: str
    """A sentence for the log line, and for the events of those that go together."""
    plugin: str = ""
    """The plugin that ``renewed`` belongs to."""
    after: float = 0.0
    """Seconds until those that go together are released, if that is wanted then; nothing is looked up."""
    awaited: model.Uid = ""
    """The pod whose placement would keep those that go together; empty for none. Of releases of a plugin that
    go together, those with the same reason that await the same pod are one: the latest request decides."""
    subjects: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What ``renewed`` has read beside the placements: an event about one of them, between its answer and the
    append, makes it compute its answer again."""
    renewed: "Callable[[snapshots.Snapshot], ReleasePlacements | None] | None" = field(
        default=None, compare=False, repr=False
    )
    """The release as of a later state, None if it is not wanted there."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Pods to evict for one purpose, one after the other.

    The state in which they are wanted may be past when their turn comes: the pod that waits has a node or is
    deleted, or a quota has capacity again. ``renewed`` therefore computes the eviction once more.
    """

    subject: str
    """What they are evicted for, unique in its plugin: ``elastic quota team-a``."""
    pods: tuple[model.Pod, ...]
    """In the order in which they are evicted."""
    message: str
    """A sentence for the Event of an evicted pod."""
    after: float = 0.0
    """Seconds for which the subject must have been wanted without interruption."""
    together: bool = True
    """Whether all of them stay if a plugin protects one; otherwise only those stay that are protected."""
    unsupported: tuple[model.Pod, ...] = ()
    """Pods that would go as well, but that have several PodDisruptionBudgets: the Eviction API supports one.
    Their eviction is not requested, and an Event of each reports that."""
    renewed: "Callable[[snapshots.Snapshot], Eviction | None] | None" = field(
        default=None, compare=False, repr=False
    )
    """The eviction for this subject as of a later state, None if it is not wanted there. Called before each
    pod is evicted; without it the eviction holds until an effect without it."""


@dataclass(frozen=True, slots=True)
class EvictPods:
    """Evict pods through the Eviction API, which refuses while a PodDisruptionBudget does not allow it.

    An effect has all evictions that its plugin wants, and replaces the former one: what it no longer has is
    not carried out. At most one pod of a plugin is evicted at a time, and the next one by an effect that was
    computed from a state in which it terminates. A plugin with this effect declares it (capabilities.Evicts).
    """

    plugin: str
    wanted: tuple[Eviction, ...] = ()
    """The most urgent first."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """Call ``reconcile`` again, also without an event: a call that takes too long would pause the plugin.

    The next call gets what was put off (Changes.left), unless events may have been missed (Changes.missed).
    """

    left: object
    """What the plugin has put off, in a form of its own."""


Effect = WakePods | PatchStatus | PostEvent | ReleasePlacements | EvictPods | PutOff

Objection = Callable[[snapshots.Snapshot, model.Pod, model.NodeName, Sequence[model.Pod]], str | None]
"""Why a pod would not get onto a node of a state by the eviction of these pods from it: one of them is
protected, or some plugin would still refuse the pod. None if all plugins would admit it."""


Protection = Callable[[snapshots.Snapshot, Sequence[model.Pod]], Collection[model.Uid]]
"""Those of the pods that plugins protect, as far as the others go one after the other."""

Companions = Callable[[snapshots.Snapshot, model.Pod], Sequence[model.Pod]]
"""The other waiting pods without which a pod, which waits, is not placed, such as members of its gang."""


def _no_objection(*_: object) -> None:
    return None


def _no_pods(*_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened since the former call of ``reconcile``."""

    before: snapshots.Snapshot | None = None
    """The state before the events; None: anything may have changed, and all objects must be reconciled."""
    events: tuple[domain_events.AnyEvent, ...] = ()
    """The events since then, in order; empty without ``before``."""
    missed: bool = False
    """Whether events may have passed that no call has, as without a leader: then pods must be woken for all
    present capacity.
    """
    left: object = field(default=None, compare=False, repr=False)
    """What the former call has put off (PutOff); None if it has finished."""
    objection: Objection = field(default=_no_objection, compare=False, repr=False)
    """What all plugins answer to an eviction, before a plugin wants it; by default they have no objection."""
    protection: Protection = field(default=_no_pods, compare=False, repr=False)
    """Which pods all plugins keep from an eviction; by default none."""
    companions: Companions = field(default=_no_pods, compare=False, repr=False)
    """With which others a pod is placed, by all plugins; by default alone."""
    peers: cycles.Peers = field(default=cycles.ALONE, compare=False, repr=False)
    """The other plugins, for a plugin that consults them (capabilities.Consults)."""
