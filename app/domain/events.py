"""The events of the log: facts observed in the cluster, and decisions.

The log stores the stable ``tag`` of an event, never a Python path. Readers refuse unknown tags and newer
versions; events of older versions are converted by migrations.upcasters.
"""

from typing import Literal

import msgspec

from app.domain import model


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", gc=False):
    """An entry of the log. ``at`` is wall-clock time for display (RFC 3339, may be empty)."""

    @property
    def subject(self) -> str:
        """The object of the event: ``pod:UID``, ``node:NAME``, ``flag:NAME``, ``shadow:NAME``,
        ``kind:NAME``, ``relist:KIND``, ``store:ASPECT``, or that of a declared kind (``policy:NS/NAME``).
        """
        raise NotImplementedError


class PodSeen(Event, frozen=True, tag="PodSeen"):
    """A pod was observed in the state ``pod``."""

    pod: model.Pod

    @property
    def subject(self) -> str:
        return f"pod:{self.pod.uid}"


class PodGone(Event, frozen=True, tag="PodGone"):
    """A pod was deleted. ``assumed``: the deletion was not watched but inferred from a list."""

    uid: model.Uid
    namespace: str
    name: str
    assumed: bool = False

    @property
    def subject(self) -> str:
        return f"pod:{self.uid}"


def gone(pod: model.Pod) -> PodGone:
    """The end of a pod."""
    return PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name)


class NodeSeen(Event, frozen=True, tag="NodeSeen"):
    """A node was observed in the state ``node``."""

    node: model.Node

    @property
    def subject(self) -> str:
        return f"node:{self.node.name}"


class NodeGone(Event, frozen=True, tag="NodeGone"):
    """A node was deleted."""

    name: model.NodeName
    uid: model.Uid
    assumed: bool = False

    @property
    def subject(self) -> str:
        return f"node:{self.name}"


class ObjectObserved(Event, frozen=True, tag="ObjectObserved"):
    """An object of a kind that a plugin declares was observed."""

    kind: str
    identity: str
    """``namespace/name``, or the name of a cluster-scoped object."""
    uid: model.Uid
    data: msgspec.Raw
    """The kept part of the object as JSON. It contains uid, namespace and name."""
    subjects: tuple[str, ...] = ()
    """The object's own subject, then those that its changes move on; empty for ``KIND:IDENTITY`` alone. They
    are part of the event so that a process without the kind keeps the same versions."""

    @property
    def subject(self) -> str:
        return self.subjects[0] if self.subjects else f"{self.kind}:{self.identity}"


class ObjectGone(Event, frozen=True, tag="ObjectGone"):
    """An object of a kind that a plugin declares was deleted."""

    kind: str
    identity: str
    uid: model.Uid
    assumed: bool = False
    subjects: tuple[str, ...] = ()
    """As in ObjectObserved."""

    @property
    def subject(self) -> str:
        return self.subjects[0] if self.subjects else f"{self.kind}:{self.identity}"


class Relisted(Event, frozen=True, tag="Relisted"):
    """A kind was listed again: changes between the two resourceVersions were not watched."""

    kind: str
    since: str
    """resourceVersion last observed before the list; empty at the first list."""
    until: str
    """resourceVersion of the list."""
    reason: str

    @property
    def subject(self) -> str:
        return f"kind:{self.kind}"


class Quarantined(Event, frozen=True, tag="Quarantined"):
    """A watched object could not be decoded and was skipped; the watch continued."""

    kind: str
    object: str
    """``namespace/name``, as far as it could be decoded."""
    reason: str

    @property
    def subject(self) -> str:
        return f"kind:{self.kind}"


class PlacementsCommitted(Event, frozen=True, tag="PlacementsCommitted"):
    """Nodes were chosen for one or more pods; written whole, before any Binding for it is sent."""

    placements: tuple[model.Placement, ...]
    """At least one, of different pods; the first is that of the pod whose bind commits them. ``at`` and
    ``offset`` are empty: those of the event apply."""
    at: str = ""
    by: str = ""
    """Identity of the process that placed the pods."""
    claims: tuple[str, ...] = ()
    """Further subjects that it moves on: of two commitments that claim one, the later is decided again."""

    @property
    def subject(self) -> str:
        return f"pod:{self.placements[0].pod.uid}"


def placed(pod: model.Pod, node: model.NodeName) -> PlacementsCommitted:
    """The commitment of one placement without further contents."""
    return PlacementsCommitted(placements=(model.Placement(pod=pod, node=node),))


Cause = Literal["refused", "superseded", "unbound", "gone"]
"""Why a placement was released. ``refused``: the API server refused the Binding; ``superseded``: the pod was
placed again and never bound there; ``unbound``: the pod is still unbound long after the placement, or when it
is being deleted or the pods that were planned with it are given up; ``gone``: the pod no longer exists."""


class PlacementReleased(Event, frozen=True, tag="PlacementReleased"):
    """A placement was released on evidence from the API server (Cause)."""

    uid: model.Uid
    namespace: str
    name: str
    node: model.NodeName
    reason: str
    """Explanation for operators."""
    cause: Cause

    @property
    def subject(self) -> str:
        return f"pod:{self.uid}"


def not_placed(pod: model.Pod, node: model.NodeName) -> PlacementReleased:
    """The inverse of ``placed``, for a placement that is only supposed: it is folded, and never appended."""
    return PlacementReleased(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, node=node, reason="", cause="superseded"
    )


class FlagSet(Event, frozen=True, tag="FlagSet"):
    """An operator changed a debug flag."""

    flag: model.Flag
    by: str = ""

    @property
    def subject(self) -> str:
        return f"flag:{self.flag.name}"


class ConfigurationApplied(Event, frozen=True, tag="ConfigurationApplied"):
    """A process decides by this configuration, which no earlier event of the log holds."""

    configuration: model.Configuration
    by: str = ""
    """The process."""

    @property
    def subject(self) -> str:
        return "store:configuration"


SHADOWS = "store:shadows"
"""Moved on by every change of a shadow, so that a writer can bound their number."""


class ShadowSet(Event, frozen=True, tag="ShadowSet"):
    """An operator set a shadow, or replaced one: decisions from here on are compared with it."""

    shadow: model.Shadow

    @property
    def subject(self) -> str:
        return f"shadow:{self.shadow.name}"


class ShadowGone(Event, frozen=True, tag="ShadowGone"):
    """An operator deleted a shadow."""

    name: str
    by: str = ""

    @property
    def subject(self) -> str:
        return f"shadow:{self.name}"


class RecorderElected(Event, frozen=True, tag="RecorderElected"):
    """A recorder was elected: it writes all facts from here to the next such event, under this epoch."""

    by: str
    epoch: str
    incarnation: str = ""
    """Incarnation of the log that it writes to."""
    unwatched: tuple[str, ...] = ()
    """Kinds that an earlier recorder listed and that this one lacks: from here on they are not listed."""

    @property
    def subject(self) -> str:
        return "store:recorder"


INCARNATION = "store:incarnation"
"""The subject of the event that began an incarnation."""


class StoreRewound(Event, frozen=True, tag="StoreRewound"):
    """The store lost acknowledged events and began a new incarnation after the events that it still held.

    The lost range is given in offsets of the former incarnation, some of which may be in use again since.
    """

    from_incarnation: str
    lost_from: int
    lost_to: int
    """Lower than ``lost_from`` if no lost event is known."""
    reason: str
    by: str = ""
    relisting: tuple[str, ...] = ()
    """Kinds that must be listed again before anything is decided."""
    incarnation: str = ""
    """The new incarnation."""

    @property
    def subject(self) -> str:
        return INCARNATION


RUN = "store:run"
"""Every placement expects its version, so that a decision taken before a restart is taken again."""


class StoreRestarted(Event, frozen=True, tag="StoreRestarted"):
    """The store's server process was restarted since a recorder last verified the log.

    Its latest events may be lost without any reader missing them, because a power failure may have ended the
    readers as well. So every kind is listed again before anything is decided.
    """

    by: str
    before: str
    """``run_id`` of the server process when a recorder last verified the log."""
    after: str
    """``run_id`` of the current server process."""

    @property
    def subject(self) -> str:
        return RUN


class EpochAdopted(Event, frozen=True, tag="EpochAdopted"):
    """An operator began a new generation of epochs, because the versions of Leases had decreased."""

    by: str
    from_epoch: str
    to_epoch: str

    @property
    def subject(self) -> str:
        return "store:epoch"


class ViewsRepaired(Event, frozen=True, tag="ViewsRepaired"):
    """The auditor corrected stored counts or versions that differed from the log.

    It describes the store, not the cluster: the fold of the log is unaffected.
    """

    by: str
    counts: dict[str, int] = {}
    """Count -> change of the stored value."""
    moved: tuple[str, ...] = ()
    """Existing subjects whose stored version was wrong: this is now their latest event."""
    ended: tuple[str, ...] = ()
    """Subjects with a stored version that do not exist."""
    reason: str = ""

    @property
    def subject(self) -> str:
        return "store:views"


class RelistRequested(Event, frozen=True, tag="RelistRequested"):
    """The auditor found that the API server and the log differ; the recorder must list the kind again."""

    kind: str
    reason: str
    by: str = ""

    @property
    def subject(self) -> str:
        return f"relist:{self.kind}"


AnyEvent = (
    PodSeen
    | PodGone
    | NodeSeen
    | NodeGone
    | ObjectObserved
    | ObjectGone
    | Relisted
    | Quarantined
    | PlacementsCommitted
    | PlacementReleased
    | FlagSet
    | ConfigurationApplied
    | ShadowSet
    | ShadowGone
    | RecorderElected
    | StoreRewound
    | StoreRestarted
    | EpochAdopted
    | ViewsRepaired
    | RelistRequested
)
"""All events; codecs and projections are exhaustive over this union."""


OPERATIONAL = (
    Relisted,
    Quarantined,
    FlagSet,
    ConfigurationApplied,
    ShadowSet,
    ShadowGone,
    RecorderElected,
    EpochAdopted,
    RelistRequested,
)
"""Events about the processes and the log itself: none of them changes an object, a placement or a count."""
