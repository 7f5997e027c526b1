"""The nouns of a cluster, as frozen structs that hold only what scheduling depends on.

Field names follow the Kubernetes API in snake case. Quantities are integers: milli-units for
cpu, bytes for memory, plain numbers for everything else. Times are RFC 3339 strings as the API
server wrote them; they order and display, they never expire anything.
"""

from typing import Literal

import msgspec

Uid = str
NodeName = str
NamespacedName = str
"""``namespace/name``, the key under which people and policies speak of an object."""

KINDS = frozenset(("nodes", "pods", "workloadpolicies"))
"""The kinds that are watched: nothing is decided before each of them was listed completely."""


class Frozen(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A value: compared by content, never changed."""


class Taint(Frozen, frozen=True):
    """A node taint (core/v1)."""

    key: str
    effect: str
    value: str = ""


class Node(Frozen, frozen=True):
    """A node as the API server last showed it."""

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


class Pod(Frozen, frozen=True):
    """A pod as the API server last showed it, or as kube-scheduler sent it."""

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
    """spec.schedulingGates is not empty: kube-scheduler does not look at the pod yet."""
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
    """spec.schedulingGroup.podGroupName: the PodGroup that kube-scheduler places the pod with."""

    @property
    def key(self) -> NamespacedName:
        """The pod's ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """The pod has run to its end and holds nothing any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def counted(self) -> bool:
        """A pod on a node takes room there unless it is finished or on its way out (Kosmos, WP-3, WP-4)."""
        return not (self.terminating or self.finished)

    @property
    def pending(self) -> bool:
        """The pod waits for a scheduler."""
        return not (self.node or self.terminating or self.finished or self.gated)

    @property
    def holds_nomination(self) -> bool:
        """A node is kept free for the pod, which is not bound yet."""
        return bool(self.nominated) and not self.node and self.counted


class Requirement(Frozen, frozen=True):
    """One matchExpressions entry of a label selector (metav1)."""

    key: str
    operator: str
    """In, NotIn, Exists or DoesNotExist; anything else makes the selector invalid."""
    values: tuple[str, ...] = ()


class Selector(Frozen, frozen=True):
    """A label selector (metav1): every part must hold; an empty one selects every pod."""

    labels: dict[str, str] = {}
    expressions: tuple[Requirement, ...] = ()


class Allocation(Frozen, frozen=True):
    """One entry of spec.allocationPolicy: a value of the topology key and its quota."""

    name: str
    replicas: int


class WorkloadPolicy(Frozen, frozen=True):
    """A kosmos.io/v1alpha1 WorkloadPolicy: quotas of one workload over the values of a node label."""

    uid: Uid
    namespace: str
    name: str
    topology_key: str = ""
    selector: Selector = Selector()
    allocations: tuple[Allocation, ...] = ()
    type: str = "Preferred"
    """Preferred or Required."""
    method: str = "Balance"
    """Balance or Fill."""
    strict_domains: bool = False
    """Annotation topolog.io/strict-domains: a Preferred policy refuses unlisted nodes, as Kosmos does."""
    errors: tuple[str, ...] = ()
    """Why the policy cannot be followed; empty if it is valid."""
    created: str = ""

    @property
    def key(self) -> NamespacedName:
        """The policy's ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def required(self) -> bool:
        """The quotas are hard."""
        return self.type == "Required"

    def desired(self, domain: str) -> int | None:
        """The quota of a domain, or None if the policy does not list it."""
        return next((a.replicas for a in self.allocations if a.name == domain), None)


class Placement(Frozen, frozen=True):
    """A node promised to a pod and not yet shown by the watch."""

    pod: Pod
    """The pod as it was when it was placed; it counts even if the watch has not shown it yet."""
    node: NodeName
    at: str = ""
    """When it was promised: for people, and for asking the API server again; it releases nothing."""
    offset: int = 0
    """Where in the log of this incarnation it was promised: a promise made anew is another one."""
    resource_version: str = ""
    """Precondition of its Binding, which cannot be carried out any more on a pod of another version."""


class Flag(Frozen, frozen=True):
    """A debug flag: it changes what is shown, never what is decided."""

    name: Literal["s", "f", "v", "d"]
    value: str
    pod: NamespacedName = ""
    """Limits the flag to one pod; empty for all."""
    until: str = ""
    """RFC 3339 end; empty for no end."""


class Position(Frozen, frozen=True):
    """A place in the log. Offsets of different incarnations cannot be compared."""

    incarnation: str = ""
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.incarnation}/{self.offset}"
