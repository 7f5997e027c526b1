"""The kinds that the plugin reads. None has to exist: one that is not served counts as empty."""

from functools import partial
from typing import Any

from app.domain import declared_objects
from app.plugins.coscheduling import decoding, gang_model

_SPEC: declared_objects.Fields = {
    "minMember": {},
    "minResources": {},
    "scheduleTimeoutSeconds": {},
    declared_objects.MORE: {},
}
KOORDINATOR = declared_objects.Kind(
    name="koordinatorpodgroups",
    group="scheduling.sigs.k8s.io",
    versions=("v1alpha1",),
    resource="podgroups",
    manifest="PodGroup",
    type=gang_model.KoordinatorPodGroup,
    decode=decoding.koordinator,
    check=partial(decoding.check, least=1),
    spec=_SPEC,
    optional=True,
)
SIGS = declared_objects.Kind(
    name="sigspodgroups",
    group="scheduling.x-k8s.io",
    versions=("v1alpha1",),
    resource="podgroups",
    manifest="PodGroup",
    type=gang_model.SigsPodGroup,
    alias="podgroups",
    decode=decoding.sigs,
    check=partial(decoding.check, least=1),
    spec=_SPEC,
    optional=True,
)
NATIVE = declared_objects.Kind(
    name="nativepodgroups",
    group="scheduling.k8s.io",
    versions=("v1beta1", "v1alpha3", "v1alpha2"),
    resource="podgroups",
    manifest="PodGroup",
    type=gang_model.NativePodGroup,
    decode=decoding.native,
    check=decoding.check,
    optional=True,
)
WORKLOADS = declared_objects.Kind(
    name="workloads",
    group="scheduling.k8s.io",
    versions=("v1alpha1",),
    resource="workloads",
    manifest="Workload",
    type=gang_model.Workload,
    decode=decoding.workload,
    check=decoding.check_workload,
    optional=True,
)
TOPOLOGIES = declared_objects.Kind(
    name="clusternetworktopologies",
    group="scheduling.koordinator.sh",
    versions=("v1alpha1",),
    resource="clusternetworktopologies",
    manifest="ClusterNetworkTopology",
    type=gang_model.NetworkTopology,
    decode=decoding.topology,
    check=decoding.check_topology,
    namespaced=False,
    optional=True,
)
TOPOLOGY = "default"
"""The only network topology that is used, as in Koordinator."""

OF_FAMILY: dict[str, declared_objects.Kind[Any]] = {
    gang_model.KOORDINATOR: KOORDINATOR,
    gang_model.SIGS: SIGS,
    gang_model.NATIVE: NATIVE,
}
"""Family -> the kind of its PodGroups."""


def declared() -> tuple[declared_objects.Kind[Any], ...]:
    """All kinds of the plugin."""
    return KOORDINATOR, SIGS, NATIVE, WORKLOADS, TOPOLOGIES
