"""Operations of the simulated API server: create, replace, patch, delete, and the pod subresources.

They follow the rules of the real server that clients depend on: optimistic concurrency, preconditions, status
as a subresource, graceful deletion of running pods, and the exact refusals of a Binding.
"""

import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from app.kube.objects import merge_patches
from app.simulation.apiserver import objects, patches, status_replies

Json = dict[str, Any]

PATCHES: dict[str, Callable[[object, object], object]] = {
    "application/merge-patch+json": merge_patches.merge,
    "application/strategic-merge-patch+json": patches.merge_strategically,
}

_DEFAULT_GRACE = 30
_POD_SPEC = {
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
}


def parsed(body: bytes) -> Json:
    """The body as an object with metadata. Raises StatusError."""
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError) as problem:
        raise status_replies.bad(f"couldn't decode the body: {problem}") from problem
    if not isinstance(found, dict):
        raise status_replies.bad("the body is not an object")
    return found


def create(store: objects.Objects, resource: objects.Resource, namespace: str, body: bytes) -> bytes:
    """POST to a collection."""
    made = parsed(body)
    metadata = made.setdefault("metadata", {})
    if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        raise status_replies.bad("the namespace of the provided object does not match the request")
    if not metadata.get("name"):
        prefix = metadata.get("generateName")
        if not prefix:
            raise status_replies.invalid(
                resource.kind, "", "metadata.name: Required value: name or generateName is required"
            )
        metadata["name"] = f"{prefix}{uuid.uuid4().hex[:5]}"
    made.setdefault("apiVersion", resource.version)
    made.setdefault("kind", resource.kind)
    metadata.pop("resourceVersion", None)
    metadata.pop("uid", None)
    if resource.custom and resource.status:
        made.pop("status", None)
    if resource.name == "pods":
        made["spec"] = _POD_SPEC | made.get("spec", {})
        made["status"] = {"phase": "Pending", **made.get("status", {})}
    return store.create(resource.name, made)


def replace(
    store: objects.Objects, resource: objects.Resource, key: objects.Key, body: bytes, *, status: bool
) -> bytes:
    """PUT of an object or of its status."""
    wanted = parsed(body)

    def edit(current: Json) -> Json:
        uid = wanted.get("metadata", {}).get("uid")
        if uid not in (None, "", current["metadata"]["uid"]):
            # In a whole object the uid is a precondition; in a patch it is a change of an immutable field.
            raise status_replies.conflict(resource.name, key[1], _uids(uid, current))
        _refuse_unmet(resource, key, wanted.get("metadata", {}), current)
        return _kept(resource, current, wanted, status=status)

    return store.change(resource.name, key, edit)


def patch(
    store: objects.Objects,
    resource: objects.Resource,
    key: objects.Key,
    body: bytes,
    *,
    content: str,
    status: bool,
) -> bytes:
    """PATCH of an object or of its status."""
    apply = PATCHES.get(content)
    if apply is None:
        raise status_replies.StatusError(
            415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content}"
        )
    change = parsed(body)

    def edit(current: Json) -> Json:
        _refuse_unmet(resource, key, change.get("metadata", {}), current)
        patched = apply(current, change)
        if not isinstance(patched, dict):
            raise status_replies.bad("the patch does not result in an object")
        return _kept(resource, current, patched, status=status)

    return store.change(resource.name, key, edit)


def delete(store: objects.Objects, resource: objects.Resource, key: objects.Key, body: bytes) -> bytes:
    """DELETE: at once, or with grace for a pod on a node; its kubelet then removes it."""
    options = parsed(body) if body else {}
    with store.changed:
        current = store.get(resource.name, key)
        refuse_unmet(resource, current, options)
        if resource.name != "pods":
            return store.remove(resource.name, key)
        forced = options.get("gracePeriodSeconds") == 0
        grace = options.get("gracePeriodSeconds", _DEFAULT_GRACE) if _occupies(current) else 0

        def mark(pod: Json) -> Json:
            pod["metadata"].setdefault("deletionTimestamp", objects.now())
            pod["metadata"].setdefault("deletionGracePeriodSeconds", grace)
            return pod

        # The real server marks a pod before it removes it, even without a grace period.
        if not forced:
            marked = store.change(resource.name, key, mark)
            if grace:
                return marked
        return store.remove(resource.name, key)


def refuse_unmet(resource: objects.Resource, current: Json, options: Json) -> None:
    """Raise StatusError (409) unless the object has the uid in the preconditions of a deletion."""
    metadata, wanted = current["metadata"], (options.get("preconditions") or {}).get("uid")
    if wanted not in (None, metadata["uid"]):
        why = f"the UID in the precondition ({wanted}) does not match the UID in record"
        raise status_replies.conflict(resource.kind, metadata["name"], why)


def bind(store: objects.Objects, key: objects.Key, body: bytes) -> bytes:
    """POST of a Binding, with the refusals of the real server."""
    wanted = parsed(body)
    metadata = wanted.get("metadata", {})
    node = wanted.get("target", {}).get("name")
    if not node:
        raise status_replies.invalid("Binding", key[1], "target.name: Required value")

    def edit(pod: Json) -> Json:
        why = _unmet(metadata, pod)
        if why:
            raise status_replies.conflict("pods", key[1], why)
        why = _unbindable(pod)
        if why:
            raise status_replies.conflict("pods/binding", key[1], why)
        pod["spec"]["nodeName"] = node
        for field in ("annotations", "labels"):
            # In the same write as the node; the real server takes labels over from 1.35 on.
            if metadata.get(field):
                pod["metadata"][field] = (pod["metadata"].get(field) or {}) | metadata[field]
        status = pod["status"]
        status.pop("nominatedNodeName", None)
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": objects.now()}
        others = [one for one in status.get("conditions", []) if one.get("type") != "PodScheduled"]
        status["conditions"] = [*others, scheduled]
        return pod

    store.change("pods", key, edit)
    return status_replies.SUCCESS


def _unmet(wanted: Json, pod: Json) -> str:
    """The precondition that the pod does not meet; empty if it meets all."""
    mine, uid, version = pod["metadata"], wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != mine["uid"]:
        return _uids(uid, pod)
    if version and version != mine["resourceVersion"]:
        return (
            f"Precondition failed: ResourceVersion in precondition: {version},"
            f" ResourceVersion in object meta: {mine['resourceVersion']}"
        )
    return ""


def _unbindable(pod: Json) -> str:
    name = pod["metadata"]["name"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _occupies(pod: Json) -> bool:
    finished = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return bool(pod.get("spec", {}).get("nodeName")) and not finished


def _uids(wanted: str, current: Json) -> str:
    mine = current["metadata"]["uid"]
    return f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {mine}"


def _refuse_unmet(resource: objects.Resource, key: objects.Key, metadata: Json, current: Json) -> None:
    mine = current["metadata"]
    if metadata.get("uid") not in (None, "", mine["uid"]):
        why = f'metadata.uid: Invalid value: "{metadata["uid"]}": field is immutable'
        raise status_replies.invalid(resource.kind, key[1], why)
    if metadata.get("resourceVersion") not in (None, "", mine["resourceVersion"]):
        raise status_replies.conflict(
            resource.name,
            key[1],
            "the object has been modified; please apply your changes to the latest version and try again",
        )


def _kept(resource: objects.Resource, current: Json, wanted: Json, *, status: bool) -> Json:
    """Limits a write to the status or to everything else, and never to the identity."""
    if status:
        return current | {"status": wanted.get("status", {})}
    kept = (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "deletionTimestamp",
        "generation",
    )
    metadata = wanted.get("metadata", {}) | {
        k: current["metadata"][k] for k in kept if k in current["metadata"]
    }
    after = wanted | {"metadata": metadata, "apiVersion": resource.version, "kind": resource.kind}
    if resource.status:
        after.pop("status", None)
        if "status" in current:
            after["status"] = current["status"]
    if resource.custom and _specified(resource, after) != _specified(resource, current):
        after["metadata"]["generation"] = current["metadata"].get("generation", 0) + 1
    return after


def _specified(resource: objects.Resource, found: Json) -> Json:
    """What the generation of a custom object counts: everything but its metadata and its subresource."""
    unspecified = ("metadata", "status") if resource.status else ("metadata",)
    return {key: value for key, value in found.items() if key not in unspecified}
