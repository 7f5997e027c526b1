"""The fields of Kubernetes objects that Topolog reads.

msgspec decodes them in one pass: unknown fields are skipped, and ``null`` means absent, as in Go. Names and
uids are checked here because they become parts of keys and log lines.
"""

from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253, pattern=r"\A[-A-Za-z0-9._:]+\Z")]
"""An object name or uid; as DNS-1123, but upper case, ``_`` and ``:`` are allowed too."""

Word = Annotated[str, msgspec.Meta(max_length=253)]
"""A short text that the API server has checked."""

Quantities = dict[str, str | int | float]

ABSENT = msgspec.Raw(b"null")
"""A part that is decoded elsewhere, and is missing."""


class ApiStruct(msgspec.Struct, rename="camel", gc=False):
    """A part of an object in its JSON form; exists only while the object is decoded."""


class Owner(ApiStruct):
    """metav1.OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(ApiStruct):
    """metav1.ObjectMeta."""

    name: Name
    uid: Name
    namespace: Annotated[str, msgspec.Meta(max_length=63, pattern=r"\A[-A-Za-z0-9._]*\Z")] = ""
    resource_version: Word = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    creation_timestamp: Word | None = None
    deletion_timestamp: Word | None = None


class Requirements(ApiStruct):
    """core/v1 ResourceRequirements."""

    requests: Quantities | None = None


class Container(ApiStruct):
    """core/v1 Container."""

    resources: Requirements | None = None
    restart_policy: str | None = None
    ports: msgspec.Raw = ABSENT


class Volume(ApiStruct):
    """core/v1 Volume: the sources that kube-scheduler has rules for; no other field is read."""

    persistent_volume_claim: msgspec.Raw = ABSENT
    ephemeral: msgspec.Raw = ABSENT
    csi: msgspec.Raw = ABSENT
    gce_persistent_disk: msgspec.Raw = ABSENT
    aws_elastic_block_store: msgspec.Raw = ABSENT
    rbd: msgspec.Raw = ABSENT
    iscsi: msgspec.Raw = ABSENT


class SchedulingGroup(ApiStruct):
    """core/v1 PodSchedulingGroup."""

    pod_group_name: Word | None = None


class PodSpec(ApiStruct):
    """core/v1 PodSpec."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Requirements | None = None
    node_name: Word | None = None
    priority: int | None = None
    preemption_policy: Word | None = None
    scheduler_name: Word | None = None
    scheduling_gates: list[msgspec.Raw] | None = None
    scheduling_group: SchedulingGroup | None = None
    tolerations: msgspec.Raw = ABSENT
    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT
    resource_claims: msgspec.Raw = ABSENT
    volumes: list[Volume] | None = None


class Condition(ApiStruct):
    """A condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(ApiStruct):
    """core/v1 PodStatus."""

    phase: Word | None = None
    nominated_node_name: Word | None = None
    start_time: Word | None = None
    conditions: list[Condition] | None = None


class Pod(ApiStruct):
    """core/v1 Pod."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(ApiStruct):
    """core/v1 Taint."""

    key: str = ""
    effect: str = ""
    value: str | None = None


class NodeSpec(ApiStruct):
    """core/v1 NodeSpec."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(ApiStruct):
    """core/v1 NodeStatus."""

    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None


class Node(ApiStruct):
    """core/v1 Node."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Policy(ApiStruct):
    """kosmos.io/v1alpha1 WorkloadPolicy; its specification is validated separately (policies)."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")


class ListMeta(ApiStruct):
    """metav1.ListMeta."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class PodList(ApiStruct):
    """A page of pods."""

    metadata: ListMeta
    items: list[Pod] | None = None


class RawList(ApiStruct):
    """A page of objects of any kind."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Change(ApiStruct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class LeaseMetadata(ApiStruct):
    """metav1.ObjectMeta, the fields that an election reads."""

    resource_version: Annotated[str, msgspec.Meta(min_length=1)]
    annotations: dict[str, str] | None = None


class LeaseSpec(ApiStruct):
    """coordination/v1 LeaseSpec."""

    holder_identity: str | None = None
    lease_duration_seconds: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None
    lease_transitions: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None


class Lease(ApiStruct):
    """coordination/v1 Lease."""

    metadata: LeaseMetadata
    spec: LeaseSpec | None = None


class AnyIdentity(ApiStruct):
    """The metadata of an object that may be undecodable otherwise."""

    metadata: dict[str, object] | None = None


class Status(ApiStruct):
    """metav1.Status: the result of a request that returns no object."""

    kind: str = ""
    api_version: str = ""
    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
