"""The kept part of gangs: PodGroups of three families, Workloads, and the network topology."""

import msgspec

from app.domain import model

KOORDINATOR, SIGS, NATIVE = "koordinator", "sigs", "native"
Amounts = dict[str, int]
Texts = dict[str, str]
FAMILIES = (KOORDINATOR, SIGS, NATIVE)
"""The forms in which a gang is declared; a pod with the marks of several belongs to the first of them."""

LARGEST = 1_000
"""Members of a gang, and of all gangs that are placed together: they are placed in one append."""


class PodGroup(model.DeclaredObject, frozen=True):
    """A PodGroup of any family."""

    created: str = ""
    minimum: int = 0
    """Members that must be placed together; 0 if the object demands none."""
    timeout: int = 0
    """Seconds to wait for members; 0 if the object does not set it."""
    resources: Amounts = msgspec.field(default_factory=dict)
    """minResources: what the cluster must have free for the gang."""
    topology_key: str = ""
    """Label key of the nodes: all members must be in one domain."""
    options: Texts = msgspec.field(default_factory=dict)
    """Koordinator's annotations, as on pods."""
    errors: tuple[str, ...] = ()
    disrupted_whole: bool = False
    """kube-scheduler evicts all members or none (disruptionMode)."""


class KoordinatorPodGroup(PodGroup, frozen=True):
    """podgroups.scheduling.sigs.k8s.io."""


class SigsPodGroup(PodGroup, frozen=True):
    """podgroups.scheduling.x-k8s.io."""


class NativePodGroup(PodGroup, frozen=True):
    """podgroups.scheduling.k8s.io, of Kubernetes 1.36 and later."""


class Workload(model.DeclaredObject, frozen=True):
    """workloads.scheduling.k8s.io as in Kubernetes 1.35, where it holds the groups themselves."""

    created: str = ""
    groups: Amounts = msgspec.field(default_factory=dict)
    """Group -> members that must be placed together; 0 for none."""
    errors: tuple[str, ...] = ()


class Layer(model.Frozen, frozen=True):
    """A layer of the network topology."""

    name: str
    labels: tuple[str, ...] = ()
    """Label keys of nodes: the first that has a value names the domain."""


class NetworkTopology(model.DeclaredObject, frozen=True):
    """clusternetworktopologies.scheduling.koordinator.sh."""

    layers: tuple[Layer, ...] = ()
    """From the top to the one above the nodes."""
    errors: tuple[str, ...] = ()
