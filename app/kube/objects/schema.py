"""The fields of Kubernetes objects that Topolog reads.

msgspec decodes them in one pass (framework.manifests).
"""

from typing import Annotated

import msgspec

from app.framework import manifests

Quantities = dict[str, str | int | float]

ABSENT = msgspec.Raw(b"null")
"""A part that is decoded elsewhere, and is missing."""


class Requirements(manifests.ApiStruct):
    """core/v1 ResourceRequirements."""

    requests: Quantities | None = None


class Container(manifests.ApiStruct):
    """core/v1 Container."""

    resources: Requirements | None = None
    restart_policy: str | None = None
    ports: msgspec.Raw = ABSENT


class Volume(manifests.ApiStruct):
    """core/v1 Volume: the sources that kube-scheduler has rules for; no other field is read."""

    persistent_volume_claim: msgspec.Raw = ABSENT
    ephemeral: msgspec.Raw = ABSENT
    csi: msgspec.Raw = ABSENT
    gce_persistent_disk: msgspec.Raw = ABSENT
    aws_elastic_block_store: msgspec.Raw = ABSENT
    rbd: msgspec.Raw = ABSENT
    iscsi: msgspec.Raw = ABSENT


class SchedulingGroup(manifests.ApiStruct):
    """core/v1 PodSchedulingGroup."""

    pod_group_name: manifests.Word | None = None


class WorkloadReference(manifests.ApiStruct):
    """core/v1 WorkloadReference, of Kubernetes 1.35 alone."""

    name: manifests.Word | None = None
    pod_group: manifests.Word | None = None
    pod_group_replica_key: manifests.Word | None = None


class PodSpec(manifests.ApiStruct):
    """core/v1 PodSpec."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Requirements | None = None
    node_name: manifests.Word | None = None
    priority: int | None = None
    preemption_policy: manifests.Word | None = None
    scheduler_name: manifests.Word | None = None
    scheduling_gates: list[msgspec.Raw] | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    tolerations: msgspec.Raw = ABSENT
    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT
    resource_claims: msgspec.Raw = ABSENT
    volumes: list[Volume] | None = None


class Condition(manifests.ApiStruct):
    """A condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(manifests.ApiStruct):
    """core/v1 PodStatus."""

    phase: manifests.Word | None = None
    nominated_node_name: manifests.Word | None = None
    start_time: manifests.Word | None = None
    conditions: list[Condition] | None = None


class Pod(manifests.ApiStruct):
    """core/v1 Pod."""

    metadata: manifests.Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(manifests.ApiStruct):
    """core/v1 Taint."""

    key: str = ""
    effect: str = ""
    value: str | None = None


class NodeSpec(manifests.ApiStruct):
    """core/v1 NodeSpec."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(manifests.ApiStruct):
    """core/v1 NodeStatus."""

    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None


class Node(manifests.ApiStruct):
    """core/v1 Node."""

    metadata: manifests.Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class ListMeta(manifests.ApiStruct):
    """metav1.ListMeta."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class PodList(manifests.ApiStruct):
    """A page of pods."""

    metadata: ListMeta
    items: list[Pod] | None = None


class RawList(manifests.ApiStruct):
    """A page of objects of any kind."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Change(manifests.ApiStruct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class LeaseMetadata(manifests.ApiStruct):
    """metav1.ObjectMeta, the fields that an election reads."""

    resource_version: Annotated[str, msgspec.Meta(min_length=1)]
    annotations: dict[str, str] | None = None


class LeaseSpec(manifests.ApiStruct):
    """coordination/v1 LeaseSpec."""

    holder_identity: str | None = None
    lease_duration_seconds: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None
    lease_transitions: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None


class Lease(manifests.ApiStruct):
    """coordination/v1 Lease."""

    metadata: LeaseMetadata
    spec: LeaseSpec | None = None


class Secret(manifests.ApiStruct):
    """v1 Secret."""

    metadata: manifests.Metadata
    type: str = ""
    data: dict[str, str] | None = None
    """Key -> value in base64."""


class AnyIdentity(manifests.ApiStruct):
    """The metadata of an object that may be undecodable otherwise."""

    metadata: dict[str, object] | None = None


class Status(manifests.ApiStruct):
    """metav1.Status: the result of a request that returns no object."""

    kind: str = ""
    api_version: str = ""
    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
