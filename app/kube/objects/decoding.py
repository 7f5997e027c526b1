"""Decodes Kubernetes JSON into the model.

Watches, lists and kube-scheduler's calls all use this module, so that a pod has one meaning whatever its
source. Objects share equal label sets, owners and requests.
"""

import sys
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from app import shared_texts
from app.domain import declared_objects, model
from app.framework import manifests
from app.kube import errors
from app.kube.objects import bounds, interning, pod_constraints, pod_requests, schema

Json = bytes | msgspec.Raw
Object = model.Pod | model.Node | model.DeclaredObject
T = TypeVar("T", bound=model.DeclaredObject)

_kept: tuple[str, ...] = ()
"""The annotations that are kept, for all objects that this process decodes."""

_pod = msgspec.json.Decoder(schema.Pod)
_node = msgspec.json.Decoder(schema.Node)
_identity = msgspec.json.Decoder(schema.AnyIdentity)


def keep(annotations: frozenset[str]) -> None:
    """Set the annotations of pods and nodes to keep: those that plugins read (plugins.Catalog)."""
    global _kept
    _kept = tuple(sorted(annotations))


def kept() -> tuple[str, ...]:
    """The annotations of pods and nodes that are kept, sorted."""
    return _kept


class Observed(NamedTuple):
    """An observation: an object and its version."""

    object: Object
    version: str
    """metadata.resourceVersion."""


def pod(raw: Json) -> model.Pod:
    """A core/v1 Pod; raises Undecodable."""
    return pod_seen(raw)[0]


def node(raw: Json) -> model.Node:
    """A core/v1 Node; raises Undecodable."""
    return node_seen(raw)[0]


def pod_seen(raw: Json) -> tuple[model.Pod, str]:
    """A pod and its version; raises Undecodable."""
    try:
        return _pod_of(_pod.decode(raw))
    except (ValueError, RecursionError) as problem:
        raise undecodable("pods", raw, problem) from problem


def node_seen(raw: Json) -> tuple[model.Node, str]:
    """A node and its version; raises Undecodable."""
    try:
        return _node_of(_node.decode(raw))
    except (ValueError, RecursionError) as problem:
        raise undecodable("nodes", raw, problem) from problem


def declared_seen(kind: declared_objects.Kind[T], raw: Json) -> tuple[T, str]:
    """An object of a declared kind and its version; raises Undecodable if it cannot be identified."""
    try:
        return kind.decode(raw), version(raw)
    except (ValueError, RecursionError) as problem:
        raise undecodable(kind.name, raw, problem) from problem


def pods_seen(items: Iterable[schema.Pod]) -> list[Observed]:
    """The pods of a page that msgspec has decoded as a whole; raises ValueError if a pod is invalid."""
    return [Observed(*_pod_of(item)) for item in items]


def undecodable(kind: str, raw: Json, problem: Exception) -> errors.Undecodable:
    """The error for an object, with its name as far as it is readable."""
    namespace, name, _ = identity(raw)
    meaning = errors.Oversized if isinstance(problem, bounds.Exceeded) else errors.Undecodable
    reason = manifests.shortened(str(problem), bounds.REASON)
    return meaning(kind, f"{namespace}/{name}" if namespace else name, reason)


def identity(raw: Json) -> tuple[str, str, str]:
    """Namespace, name and uid of an object of any shape; empty where unreadable or not printable."""
    try:
        metadata = _identity.decode(raw).metadata or {}
    except (ValueError, RecursionError):
        return "", "", ""
    return _clean(metadata.get("namespace")), _clean(metadata.get("name")), _clean(metadata.get("uid"))


def version(raw: Json) -> str:
    """resourceVersion of an object of any shape; empty if unreadable."""
    try:
        return _clean((_identity.decode(raw).metadata or {}).get("resourceVersion"))
    except (ValueError, RecursionError):
        return ""


def _clean(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 253 and value.isprintable() else ""


def _pod_of(seen: schema.Pod) -> tuple[model.Pod, str]:
    metadata, spec, status = seen.metadata, seen.spec or _NO_POD_SPEC, seen.status or _NO_POD_STATUS
    message, disrupted, preempted = "", False, False
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            message = manifests.shortened(condition.message or "", bounds.MESSAGE)
        elif condition.type == "DisruptionTarget" and condition.status == "True":
            disrupted, preempted = True, condition.reason == "PreemptionByScheduler"
    owners = metadata.owner_references
    found = model.Pod(
        uid=metadata.uid,
        namespace=sys.intern(metadata.namespace),
        name=metadata.name,
        labels=_labels(tuple(metadata.labels.items())) if metadata.labels else _NO_STRINGS,
        annotations=_annotations(metadata.annotations) if metadata.annotations else _NO_STRINGS,
        owners=_owners(tuple([(o.kind, o.name, o.uid, bool(o.controller)) for o in owners]))
        if owners
        else (),
        requests=pod_requests.effective(spec),
        node=sys.intern(spec.node_name or ""),
        nominated=status.nominated_node_name or "",
        phase=sys.intern(status.phase or "Pending"),
        terminating=metadata.deletion_timestamp is not None,
        gated=bool(spec.scheduling_gates),
        priority=spec.priority or 0,
        preemption_policy=sys.intern(spec.preemption_policy or "PreemptLowerPriority"),
        scheduler=sys.intern(spec.scheduler_name or "default-scheduler"),
        created=metadata.creation_timestamp or "",
        started=status.start_time or "",
        unscheduled=message,
        disrupted=disrupted,
        group=_group(spec),
        preempted=preempted,
        constraints=pod_constraints.effective(spec),
    )
    return found, metadata.resource_version


def _group(spec: schema.PodSpec) -> str:
    """The group that kube-scheduler places the pod with, in the form of any version of Kubernetes."""
    if spec.scheduling_group is not None:
        return spec.scheduling_group.pod_group_name or ""
    found = spec.workload_ref
    if found is None or not (found.name and found.pod_group):
        return ""
    return "/".join(filter(None, (found.name, found.pod_group, found.pod_group_replica_key)))


def _node_of(seen: schema.Node) -> tuple[model.Node, str]:
    metadata, spec, status = seen.metadata, seen.spec or schema.NodeSpec(), seen.status or schema.NodeStatus()
    taints = tuple(model.Taint(t.key, t.effect, t.value or "") for t in spec.taints or ())
    bounds.check("taints", (t.key + t.effect + t.value for t in taints), bounds.TAINTS)
    found = model.Node(
        name=sys.intern(metadata.name),
        uid=metadata.uid,
        labels=_checked(tuple(metadata.labels.items()), bounds.NODE_LABELS)
        if metadata.labels
        else _NO_STRINGS,
        annotations=_annotations(metadata.annotations) if metadata.annotations else _NO_STRINGS,
        taints=taints,
        allocatable=pod_requests.amounts(tuple((status.allocatable or {}).items())),
        unschedulable=bool(spec.unschedulable),
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions or ()),
        created=metadata.creation_timestamp or "",
    )
    return found, metadata.resource_version


_NO_STRINGS: dict[str, str] = {}
_NO_POD_SPEC = schema.PodSpec()
_NO_POD_STATUS = schema.PodStatus()


def _checked(items: tuple[tuple[str, str], ...], limit: int) -> dict[str, str]:
    """Labels as a dict. Control characters are invalid, because labels are part of counts and log lines."""
    for key, value in items:
        if len(key) > 317 or len(value) > 63 or not (key.isprintable() and value.isprintable()):
            raise ValueError(f"invalid label {key[:80]!r}={value[:80]!r}")
    bounds.check("labels", (key + value for key, value in items), limit)
    return {shared_texts.shared(key): shared_texts.shared(value) for key, value in items}


def _labels_of(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return _checked(items, bounds.POD_LABELS)


_labels = interning.Shared(_labels_of, weigh=lambda items: sum(len(key) + len(value) for key, value in items))


def _owners_of(items: tuple[tuple[str, str, str, bool], ...]) -> tuple[model.Owner, ...]:
    bounds.check("owners", (kind + name + uid for kind, name, uid, _ in items), bounds.OWNERS)
    return tuple(model.Owner(kind, name, uid, controller) for kind, name, uid, controller in items)


_owners = interning.Shared(
    _owners_of, weigh=lambda items: sum(len(kind) + len(name) + len(uid) for kind, name, uid, _ in items)
)


def _annotations(annotations: dict[str, str]) -> dict[str, str]:
    kept = {key: annotations[key] for key in _kept if key in annotations}
    if not kept:
        return _NO_STRINGS
    bounds.check("annotations", kept.values(), bounds.ANNOTATIONS)
    return kept
