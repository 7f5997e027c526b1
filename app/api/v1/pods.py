"""Pods: where they are, what they were promised, and which counts they are in.

Shown redacted: only what scheduling depends on is known here, so there is no env and no args to leak.
"""

from marshmallow import Schema

from app.api import blueprints, errors, moments, pages, quantities, schemas, services
from app.domain import counting, model, selecting, snapshots

routes = blueprints.create("pods", "/apis/v1", "Pods: where they are and why.")


class Pod(Schema):
    """A pod, redacted."""

    namespace = schemas.text("Namespace.")
    name = schemas.text("Name.")
    uid = schemas.text("UID.")
    state = schemas.text("pending, gated, placed, bound, terminating or finished.")
    node = schemas.text("Where it is bound or promised to be; empty if nowhere.")
    nominated = schemas.text("status.nominatedNodeName.")
    labels = schemas.mapping("Labels.")
    requests = schemas.mapping("What it asks for.")
    priority = schemas.number("Priority.")
    scheduler = schemas.text("spec.schedulerName.")
    owner = schemas.optional("KIND/NAME of its controller.")
    created = schemas.text("When it was created (RFC 3339).")


class Placement(Schema):
    """A promise that the watch has not confirmed yet."""

    node = schemas.text("The promised node.")
    at = schemas.text("When it was promised.")


class PolicyOfPod(Schema):
    """A WorkloadPolicy that selects the pod."""

    policy = schemas.text("NAMESPACE/NAME.")
    valid = schemas.truth("The policy can be followed.")
    count = schemas.optional("The count that the pod adds one to, POLICY|DOMAIN; null if it is in none.")


class PodDetail(Pod):
    """A pod, and what the scheduler knows about it."""

    placement = schemas.nested(Placement, "The promise that is in flight, or null.", null=True)
    policies = schemas.nested(PolicyOfPod, "The policies that select it.", many=True)
    plugins = schemas.texts("The plugins that have anything to do with it.")
    message = schemas.text("Why kube-scheduler says that it could not be scheduled.")
    generation = schemas.number("The offset of the latest event about the pod.")
    explain = schemas.text("Where to ask why.")


@blueprints.get(routes, "/pods/<namespace>/<name>", PodDetail)
def pod(query: pages.Query, namespace: str, name: str) -> pages.Body:
    """One pod."""
    snapshot = moments.take(query.get("at") or moments.NOW).snapshot
    found = snapshot.pod_named(namespace, name)
    if found is None:
        raise errors.missing("pod", f"{namespace}/{name}")
    placement = snapshot.placements.get(found.uid)
    return {
        **shown(snapshot, found),
        "placement": {"node": placement.node, "at": placement.at} if placement is not None else None,
        "policies": _policies(snapshot, found),
        "plugins": services.current().registry.concerned(found, snapshot),
        "message": found.unscheduled,
        "generation": snapshot.version(f"pod:{found.uid}"),
        "explain": f"/apis/v1/pods/{namespace}/{name}/explain",
    }


def shown(snapshot: snapshots.Snapshot, pod: model.Pod) -> pages.Body:
    """The pod as anybody may see it."""
    owner = next((one for one in pod.owners if one.controller), None)
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "state": _state(snapshot, pod),
        "node": snapshot.node_of(pod.uid),
        "nominated": pod.nominated,
        "labels": pod.labels,
        "requests": quantities.all_written(pod.requests),
        "priority": pod.priority,
        "scheduler": pod.scheduler,
        "owner": f"{owner.kind}/{owner.name}" if owner is not None else None,
        "created": pod.created,
    }


def _state(snapshot: snapshots.Snapshot, pod: model.Pod) -> str:
    if pod.finished:
        return "finished"
    if pod.terminating:
        return "terminating"
    if pod.node:
        return "bound"
    if pod.uid in snapshot.placements:
        return "placed"
    return "gated" if pod.gated else "pending"


def _policies(snapshot: snapshots.Snapshot, pod: model.Pod) -> list[pages.Body]:
    node = snapshot.nodes.get(snapshot.node_of(pod.uid))
    selected = [
        policy
        for policy in snapshot.policies_of(pod.namespace)
        if selecting.matches(policy.selector, pod.labels)
    ]
    return [
        {
            "policy": policy.key,
            "valid": not policy.errors,
            "count": next(iter(counting.contributions(pod, node, (policy,))), None),
        }
        for policy in sorted(selected, key=lambda policy: policy.key)
    ]
