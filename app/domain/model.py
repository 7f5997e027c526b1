"""Frozen structs for nodes, pods and placements, with the fields that scheduling depends on.

Field names follow the Kubernetes API in snake case. Quantities are integers: milli-units for
cpu, bytes for memory, plain numbers for everything else. Times are RFC 3339 strings as the API
server wrote them; they are compared and displayed, and nothing expires by them.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

_encoder = msgspec.json.Encoder(order="deterministic")

Uid = str
NodeName = str
NamespacedName = str
"""``namespace/name`` of an object."""


def key(namespace: str, name: str) -> str:
    """The identity of an object by its names; that of a cluster-scoped object is its name."""
    return f"{namespace}/{name}" if namespace else name


class Frozen(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A value: compared by content, never changed."""


class Taint(Frozen, frozen=True):
    """A node taint (core/v1)."""

    key: str
    effect: str
    value: str = ""


class Node(Frozen, frozen=True):
    """A node as last observed at the API server."""

    name: NodeName
    uid: Uid
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    """Only those that a plugin reads."""
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, int] = {}
    unschedulable: bool = False
    ready: bool = False
    created: str = ""


class Owner(Frozen, frozen=True):
    """An owner reference (metav1)."""

    kind: str
    name: str
    uid: Uid
    controller: bool = False


class Toleration(Frozen, frozen=True):
    """A toleration (core/v1). Its ``tolerationSeconds`` do not affect where a pod may be scheduled."""

    key: str = ""
    """Empty for every key."""
    operator: str = "Equal"
    """Equal or Exists; Gt or Lt, which compare whole numbers. A taint is not tolerated by any other."""
    value: str = ""
    effect: str = ""
    """Empty for every effect."""


class Requirement(Frozen, frozen=True):
    """One matchExpressions entry of a label selector (metav1) or of a node selector (core/v1)."""

    key: str
    operator: str
    """In, NotIn, Exists or DoesNotExist, for nodes also Gt and Lt; anything else makes the selector
    invalid."""
    values: tuple[str, ...] = ()


class Selector(Frozen, frozen=True):
    """A label selector (metav1): every part must match; an empty selector selects every pod."""

    labels: dict[str, str] = {}
    expressions: tuple[Requirement, ...] = ()


class NodeTerm(Frozen, frozen=True):
    """A node selector term (core/v1): every requirement must be met; an empty term selects no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    """matchFields; ``metadata.name`` is the only field that Kubernetes admits."""


class HostPort(Frozen, frozen=True):
    """A port of the node that a container uses."""

    port: int
    protocol: str = "TCP"
    ip: str = ""
    """Empty for every address of the node."""


class PodTerm(Frozen, frozen=True):
    """A term of required pod affinity (core/v1): some selected pod must run in the pod's topology domain."""

    topology_key: str
    selector: Selector | None = None
    """None selects no pod."""
    namespaces: tuple[str, ...] = ()
    """Empty for the pod's own namespace."""
    any_namespace: bool = False
    """A namespaceSelector is given. Namespaces are not watched, so it is taken to select all of them."""


STANDARD_TOLERATIONS = (
    Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
    Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute"),
)
"""Those that the admission plugin DefaultTolerationSeconds adds to nearly every pod."""


class Constraints(Frozen, frozen=True):
    """The conditions that a pod's specification sets on its node; equal for the pods of a template."""

    tolerations: tuple[Toleration, ...] = STANDARD_TOLERATIONS
    node_selector: dict[str, str] = {}
    node_terms: tuple[NodeTerm, ...] | None = None
    """Required node affinity: one of the terms must match. None for none; no node matches an empty tuple."""
    host_ports: tuple[HostPort, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    """Required pod affinity."""
    others: tuple[str, ...] = ()
    """Names of the fields of the specification whose rules Topolog does not apply (domain.fit)."""


STANDARD = Constraints()
"""Of a pod that may run on every node without taints."""


GROUP = ":group"
"""The key under which pods are indexed by their group (Pod.indexed); no label has this key."""
_ANNOTATION = ":annotation:"


def annotation(key: str) -> str:
    """The key under which pods are indexed by this annotation, whatever label of the same key they have."""
    return f"{_ANNOTATION}{key}"


FINISHED = frozenset(("Succeeded", "Failed"))
"""Phases of pods that have run to their end."""


class Pod(Frozen, frozen=True):
    """A pod as last observed at the API server, or as kube-scheduler sent it."""

    uid: Uid
    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    """Only those that a plugin reads."""
    owners: tuple[Owner, ...] = ()
    requests: dict[str, int] = {}
    node: NodeName = ""
    """spec.nodeName; empty while the pod is not bound."""
    nominated: NodeName = ""
    """status.nominatedNodeName."""
    phase: str = "Pending"
    terminating: bool = False
    """metadata.deletionTimestamp is set."""
    gated: bool = False
    """spec.schedulingGates is not empty: kube-scheduler does not schedule the pod yet."""
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    scheduler: str = "default-scheduler"
    created: str = ""
    started: str = ""
    unscheduled: str = ""
    """Message of the condition PodScheduled=False; empty if there is none."""
    disrupted: bool = False
    """The condition DisruptionTarget is true: the pod is being preempted or drained."""
    group: str = ""
    """spec.schedulingGroup.podGroupName: the PodGroup that kube-scheduler places the pod with. In Kubernetes
    1.35 spec.workloadRef instead, as ``WORKLOAD/GROUP`` or ``WORKLOAD/GROUP/REPLICA``."""
    preempted: bool = False
    """DisruptionTarget is true because kube-scheduler preempts the pod (reason PreemptionByScheduler)."""
    constraints: Constraints | None = STANDARD
    """None if an earlier version recorded the pod without them, until it is listed again."""

    @property
    def key(self) -> NamespacedName:
        """The pod's ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def indexed(self, key: str) -> str | None:
        """The value under which an index holds the pod; None if it has none.

        It is that of the label, and for a pod without it that of the annotation of the same key. No label has
        the key GROUP, nor one of ``annotation``.
        """
        if key == GROUP:
            return self.group or None
        if key.startswith(_ANNOTATION):
            return self.annotations.get(key.removeprefix(_ANNOTATION))
        value = self.labels.get(key)
        return self.annotations.get(key) if value is None else value

    @property
    def finished(self) -> bool:
        """The pod has run to its end and holds no resources."""
        return self.phase in FINISHED

    @property
    def counted(self) -> bool:
        """The pod counts towards quotas once it is on a node: not terminating, not finished (WP-3, WP-4).

        What the pod still occupies is another question: a terminating pod holds its resources until it is
        gone (domain.fold.node_sums).
        """
        return not (self.terminating or self.phase in FINISHED)

    @property
    def pending(self) -> bool:
        """The pod is waiting to be scheduled."""
        return not (self.node or self.terminating or self.finished or self.gated)

    @property
    def precedence(self) -> tuple[int, str, Uid]:
        """The key that sorts pods by priority, the highest first, then by age."""
        return -self.priority, self.created, self.uid

    @property
    def holds_nomination(self) -> bool:
        """The pod is nominated for a node and not bound yet."""
        return bool(self.nominated) and not self.node and self.counted


class DeclaredObject(Frozen, frozen=True):
    """An object of a declared kind (``declared_objects.Kind``): the base of what its plugin keeps of it."""

    uid: Uid
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str

    @property
    def key(self) -> str:
        """The object's identity: ``namespace/name``, or the name of a cluster-scoped object."""
        return key(self.namespace, self.name)

    def encode(self) -> msgspec.Raw:
        """The object as JSON, in one canonical form."""
        return msgspec.Raw(_encoder.encode(self))


class UnknownObject(DeclaredObject, frozen=True):
    """An object of a kind that this version does not have. It is kept and counts nothing."""

    data: bytes
    """Its kept part as JSON, as it was recorded."""

    @classmethod
    def of(cls, named: DeclaredObject, data: bytes) -> "UnknownObject":
        """The object of a kept part, of which ``named`` is what every kind has."""
        return cls(uid=named.uid, namespace=named.namespace, name=named.name, data=data)

    def encode(self) -> msgspec.Raw:
        """The kept part, as it was recorded."""
        return msgspec.Raw(self.data)


class Placement(Frozen, frozen=True):
    """The node chosen for a pod, from the commitment until the watch shows the pod bound."""

    pod: Pod
    """The pod at the time of the placement; it counts even before the watch shows it."""
    node: NodeName
    at: str = ""
    """RFC 3339 time of the placement, for display and for later checks at the API server."""
    offset: int = 0
    """Offset of its event in this incarnation; it identifies the placement, a repeated one has another."""
    resource_version: str = ""
    """resourceVersion that its Binding requires; the API server refuses it for any other version."""
    planned: bool = False
    """Committed by the bind of another pod; the pod's own bind commits it again before it sends a Binding."""
    patience: int = 0
    """Seconds for which it is kept while it is planned; 0 for the controller's own limit."""
    data: dict[str, Any] = {}
    """Plugin -> what it decided beside the node, such as devices, as JSON in the plugin's own format."""
    annotations: dict[str, str] = {}
    """Annotations that its Binding sets on the pod."""
    labels: dict[str, str] = {}
    """Labels that its Binding sets on the pod, where the API server takes them over."""

    def written(self, pod: Pod) -> Pod:
        """The pod with the annotations that the Binding sets; that pod itself if it sets none."""
        return annotated(pod, self.annotations)


def annotated(pod: Pod, more: Mapping[str, str]) -> Pod:
    """The pod with further annotations, which replace its own; the pod itself if there are none."""
    return msgspec.structs.replace(pod, annotations={**pod.annotations, **more}) if more else pod


class Flag(Frozen, frozen=True):
    """A debug flag; it affects output only, never a decision."""

    name: Literal["s", "f", "v", "d"]
    value: str
    pod: NamespacedName = ""
    """Limits the flag to one pod; empty for all."""
    until: str = ""
    """RFC 3339 end; empty for no end."""


class Configuration(Frozen, frozen=True):
    """By what a process decides: the settings ``plugins``, complete with the defaults of its version."""

    digest: str
    """Identifies the configuration: equal digests mean equal decisions. Decision records name it."""
    enabled: tuple[str, ...]
    """The plugins, in order."""
    weights: dict[str, int] = {}
    score_max: int = 10
    args: dict[str, dict[str, Any]] = {}
    """Plugin -> argument -> value as JSON."""


class Shadow(Frozen, frozen=True):
    """What would be decided by: compared with every decision, enforced for none."""

    name: str
    overrides: tuple[dict[str, Any], ...] = ()
    """Operations on objects of declared kinds, as they were sent."""
    configuration: dict[str, Any] | None = None
    """Plugin settings other than those in force, as they were sent; None for those in force."""
    until: str = ""
    """RFC 3339 end in UTC, by the store's clock; empty for no end."""
    note: str = ""
    by: str = ""
    """Who set it."""


class Position(Frozen, frozen=True):
    """A position in the log. Offsets of different incarnations cannot be compared."""

    incarnation: str = ""
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.incarnation}/{self.offset}"
