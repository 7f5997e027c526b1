"""The shape of Kubernetes JSON, as far as Topolog reads it.

Decoded by msgspec in one pass: unknown fields are skipped unread, ``null`` stands for absent as
it does in Go. Names and uids are checked here because they end up in keys and log lines.
"""

from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253, pattern=r"\A[-A-Za-z0-9._:]+\Z")]
"""An object name or uid; laxer than DNS-1123 in letter case only, but never a space, brace or newline."""

Word = Annotated[str, msgspec.Meta(max_length=253)]
"""A short text that the API server has checked."""

Quantities = dict[str, str | int | float]


class Wire(msgspec.Struct, rename="camel", gc=False):
    """A part of an object as it travels; lives only while it is decoded."""


class Owner(Wire):
    """metav1.OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Wire):
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


class Requirements(Wire):
    """core/v1 ResourceRequirements."""

    requests: Quantities | None = None


class Container(Wire):
    """core/v1 Container."""

    resources: Requirements | None = None
    restart_policy: str | None = None


class SchedulingGroup(Wire):
    """core/v1 PodSchedulingGroup."""

    pod_group_name: Word | None = None


class PodSpec(Wire):
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


class Condition(Wire):
    """A condition of a pod or a node."""

    type: str = ""
    status: str = ""
    message: str | None = None


class PodStatus(Wire):
    """core/v1 PodStatus."""

    phase: Word | None = None
    nominated_node_name: Word | None = None
    start_time: Word | None = None
    conditions: list[Condition] | None = None


class Pod(Wire):
    """core/v1 Pod."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(Wire):
    """core/v1 Taint."""

    key: str = ""
    effect: str = ""
    value: str | None = None


class NodeSpec(Wire):
    """core/v1 NodeSpec."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Wire):
    """core/v1 NodeStatus."""

    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None


class Node(Wire):
    """core/v1 Node."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Policy(Wire):
    """kosmos.io/v1alpha1 WorkloadPolicy; its specification is judged apart, to show bad ones with reasons."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")


class ListMeta(Wire):
    """metav1.ListMeta."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class PodList(Wire):
    """A page of pods."""

    metadata: ListMeta
    items: list[Pod] | None = None


class RawList(Wire):
    """A page of anything."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Change(Wire):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class LeaseMetadata(Wire):
    """metav1.ObjectMeta, as far as an election reads it."""

    resource_version: Annotated[str, msgspec.Meta(min_length=1)]
    annotations: dict[str, str] | None = None


class LeaseSpec(Wire):
    """coordination/v1 LeaseSpec."""

    holder_identity: str | None = None
    lease_duration_seconds: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None
    lease_transitions: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None


class Lease(Wire):
    """coordination/v1 Lease."""

    metadata: LeaseMetadata
    spec: LeaseSpec | None = None


class AnyIdentity(Wire):
    """Whatever can be read of an object that cannot be decoded."""

    metadata: dict[str, object] | None = None


class Status(Wire):
    """metav1.Status: an answer that is no object."""

    kind: str = ""
    api_version: str = ""
    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
