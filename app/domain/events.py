"""Everything that can enter the log: facts seen in the cluster, and decisions taken here.

An event's name in the log is its stable ``tag``, never a Python path. A reader that meets an
unknown tag or a newer version refuses; older versions pass through migrations.upcasters.
"""

from typing import Literal

import msgspec

from app.domain import model


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", gc=False):
    """Something that happened; ``at`` is wall-clock time for people (RFC 3339, may be empty)."""

    @property
    def subject(self) -> str:
        """What it is about: ``pod:UID``, ``node:NAME``, ``policy:NS/NAME``, ``flag:NAME``, ``kind:NAME``,
        ``relist:KIND`` or ``store:ASPECT``.
        """
        raise NotImplementedError


class PodSeen(Event, frozen=True, tag="PodSeen"):
    """A pod is as ``pod`` says."""

    pod: model.Pod

    @property
    def subject(self) -> str:
        return f"pod:{self.pod.uid}"


class PodGone(Event, frozen=True, tag="PodGone"):
    """A pod is no more. ``assumed``: its end was not watched but found by a new list."""

    uid: model.Uid
    namespace: str
    name: str
    assumed: bool = False

    @property
    def subject(self) -> str:
        return f"pod:{self.uid}"


class NodeSeen(Event, frozen=True, tag="NodeSeen"):
    """A node is as ``node`` says."""

    node: model.Node

    @property
    def subject(self) -> str:
        return f"node:{self.node.name}"


class NodeGone(Event, frozen=True, tag="NodeGone"):
    """A node is no more."""

    name: model.NodeName
    uid: model.Uid
    assumed: bool = False

    @property
    def subject(self) -> str:
        return f"node:{self.name}"


class PolicySeen(Event, frozen=True, tag="PolicySeen"):
    """A WorkloadPolicy is as ``policy`` says, valid or not."""

    policy: model.WorkloadPolicy

    @property
    def subject(self) -> str:
        return f"policy:{self.policy.key}"


class PolicyGone(Event, frozen=True, tag="PolicyGone"):
    """A WorkloadPolicy is no more."""

    namespace: str
    name: str
    uid: model.Uid
    assumed: bool = False

    @property
    def subject(self) -> str:
        return f"policy:{self.namespace}/{self.name}"


class Relisted(Event, frozen=True, tag="Relisted"):
    """A kind was listed anew: what came and went between the two versions was not watched."""

    kind: str
    since: str
    """resourceVersion last seen before; empty at the first list."""
    until: str
    """resourceVersion of the list."""
    reason: str

    @property
    def subject(self) -> str:
        return f"kind:{self.kind}"


class Quarantined(Event, frozen=True, tag="Quarantined"):
    """An object of the watch could not be understood and was set aside; the stream went on."""

    kind: str
    object: str
    """namespace/name as far as it could be read."""
    reason: str

    @property
    def subject(self) -> str:
        return f"kind:{self.kind}"


class PodPlaced(Event, frozen=True, tag="PodPlaced"):
    """A pod was promised a node: written before the Binding is asked for."""

    pod: model.Pod
    node: model.NodeName
    at: str = ""
    by: str = ""
    """Identity of the process that placed it."""
    resource_version: str = ""
    """The pod's, which the Binding carries as its precondition; empty if it carries none."""

    @property
    def subject(self) -> str:
        return f"pod:{self.pod.uid}"


Cause = Literal["refused", "superseded", "unbound", "gone"]
"""Why a promise was taken back: the Binding was refused; the pod is placed anew and was never bound there;
the API server shows the pod unbound long after the promise; it has no such pod any more."""


class PlacementReleased(Event, frozen=True, tag="PlacementReleased"):
    """A promise was taken back on evidence: the Binding was refused, or the pod was seen to need none."""

    uid: model.Uid
    namespace: str
    name: str
    node: model.NodeName
    reason: str
    """For people."""
    cause: Cause

    @property
    def subject(self) -> str:
        return f"pod:{self.uid}"


class FlagSet(Event, frozen=True, tag="FlagSet"):
    """A debug flag was changed by an operator."""

    flag: model.Flag
    by: str = ""

    @property
    def subject(self) -> str:
        return f"flag:{self.flag.name}"


class RecorderElected(Event, frozen=True, tag="RecorderElected"):
    """A recorder began to write facts, under this epoch; all that follow are its own until the next one."""

    by: str
    epoch: str
    incarnation: str = ""
    """Of the log that it writes to."""

    @property
    def subject(self) -> str:
        return "store:recorder"


class StoreRewound(Event, frozen=True, tag="StoreRewound"):
    """The store lost events that it had acknowledged; what precedes this is what it still held.

    The range is of offsets of the former incarnation; some of it may have been written anew since.
    """

    from_incarnation: str
    lost_from: int
    lost_to: int
    """Lower than ``lost_from`` if nobody knew of any."""
    reason: str
    by: str = ""
    relisting: tuple[str, ...] = ()
    """Kinds that are to be listed anew before anything is decided."""
    incarnation: str = ""
    """The one that begins here."""

    @property
    def subject(self) -> str:
        return "store:incarnation"


RUN = "store:run"
"""Whoever places a pod expects its version: what was decided before a restart is decided again after it."""


class StoreRestarted(Event, frozen=True, tag="StoreRestarted"):
    """The store's server is another process than the one that the log was last vouched for in.

    Its latest events may be lost although nobody misses any: a power failure takes those who knew them too.
    So every kind is listed again before anything is decided.
    """

    by: str
    before: str
    """``run_id`` of the server in which a recorder last vouched for the log."""
    after: str
    """``run_id`` of the present server."""

    @property
    def subject(self) -> str:
        return RUN


class EpochAdopted(Event, frozen=True, tag="EpochAdopted"):
    """An operator opened a new era of epochs: the versions of Leases had gone back."""

    by: str
    from_epoch: str
    to_epoch: str

    @property
    def subject(self) -> str:
        return "store:epoch"


class ViewsRepaired(Event, frozen=True, tag="ViewsRepaired"):
    """The auditor had found counts or versions that were not those of the log, and they were made so again.

    What this says of the cluster is nothing: the fold had been right all the time.
    """

    by: str
    counts: dict[str, int] = {}
    """By how much each stored count was changed."""
    moved: tuple[str, ...] = ()
    """Subjects that exist and whose stored version was wrong: this is now their latest event."""
    ended: tuple[str, ...] = ()
    """Subjects that had a stored version and do not exist."""
    reason: str = ""

    @property
    def subject(self) -> str:
        return "store:views"


class RelistRequested(Event, frozen=True, tag="RelistRequested"):
    """The auditor saw the API server and the log differ: the recorder is to list the kind anew."""

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
    | PolicySeen
    | PolicyGone
    | Relisted
    | Quarantined
    | PodPlaced
    | PlacementReleased
    | FlagSet
    | RecorderElected
    | StoreRewound
    | StoreRestarted
    | EpochAdopted
    | ViewsRepaired
    | RelistRequested
)
"""The closed list; codecs and projections are exhaustive over it."""
