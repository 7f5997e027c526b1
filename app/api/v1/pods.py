"""Pods: their nodes, placements and counts.

Only fields that scheduling depends on are recorded, so that no environment variable or argument can leak.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec
from marshmallow import Schema

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, schemas, services
from app.domain import model, snapshots
from app.domain.fit import quantities
from app.domain.fold import pod_index
from app.framework import registry, views


class Pod(Schema):
    """The fields of a pod that scheduling depends on."""

    namespace = schemas.text("Namespace.")
    name = schemas.text("Name.")
    uid = schemas.text("UID.")
    state = schemas.text("pending, gated, placed, bound, terminating or finished.")
    node = schemas.text("The node that it is bound to or placed on; empty without one.")
    nominated = schemas.text("status.nominatedNodeName.")
    labels = schemas.mapping("Labels.")
    requests = schemas.mapping("Resource requests.")
    priority = schemas.number("Priority.")
    scheduler = schemas.text("spec.schedulerName.")
    owner = schemas.optional("KIND/NAME of its controller.")
    created = schemas.text("When it was created (RFC 3339).")


class Placement(Schema):
    """A placement that the watch has not confirmed yet."""

    node = schemas.text("The node.")
    at = schemas.text("When it was placed (RFC 3339).")
    planned = schemas.truth("Whether it was placed with another pod, and no Binding was sent for it so far.")
    data = schemas.anything("Plugin -> what it decided beside the node.")
    annotations = schemas.mapping("Annotations that its Binding sets.")
    labels = schemas.mapping("Labels that its Binding sets, where the API server takes them over.")


class PodDetail(Pod):
    """A pod with its placement and plugins, and what the plugins show of it."""

    placement = schemas.nested(Placement, "The in-flight placement, or null.", null=True)
    plugins = schemas.texts("The plugins that it concerns.")
    message = schemas.text("The reason that kube-scheduler gives in the condition PodScheduled.")
    generation = schemas.number("The offset of the latest event about the pod.")
    explain = schemas.text("The path that explains it.")


def blueprint(plugins: registry.Registry) -> blueprints.Blueprint:
    """The routes of pods, with the fields of all plugins."""
    routes = blueprints.create("pods", "/apis/v1", "Pods and their nodes.")
    fields = [field for shown in plugins.shown.values() for field in shown.pod_fields]
    more = {field.name: schemas.declared(field.shape, field.about) for field in fields}
    detail = PodDetail.from_dict({**more}, name=PodDetail.__name__)

    @blueprints.get(routes, "/pods", schemas.page_of(Pod), query=queries.Pods)
    def listing(query: pages.Query) -> pages.Body:
        """All pods, or those of a namespace, by namespace and name."""
        at = pages.moment(query)
        snapshot = at.snapshot
        keys = _keys(snapshot, query.get("namespace"))
        return pages.listed(keys, query, at, lambda key: shown(snapshot, known(snapshot, key[-1])))

    @blueprints.get(routes, "/pods/<namespace>/<name>", detail)
    def pod(query: pages.Query, namespace: str, name: str) -> pages.Body:
        """One pod."""
        snapshot = moments.take(query.get("at") or moments.NOW).snapshot
        found = snapshot.pod_named(namespace, name)
        if found is None:
            raise errors.missing("pod", f"{namespace}/{name}")
        return {**_detail(snapshot, found), **_fields(fields, snapshot, found)}

    return routes


def _keys(snapshot: snapshots.Snapshot, namespace: str | None) -> Iterator[tuple[str, str, model.Uid]]:
    """The sort keys of the pods; two of one name, of which one ends, differ in the UID."""
    if namespace is not None:
        uids: Iterable[model.Uid] = snapshot.namespaces.get(namespace, pod_index.NO_PODS)
    else:  # A pod may be placed before the watch shows it.
        uids = chain(snapshot.pods, (uid for uid in snapshot.placements if uid not in snapshot.pods))
    for uid in uids:
        pod = snapshot.pod(uid)
        if pod is not None:
            yield pod.namespace, pod.name, uid


def known(snapshot: snapshots.Snapshot, uid: model.Uid) -> model.Pod:
    """The pod of a uid that the snapshot has. Raises KeyError for another."""
    seen = snapshot.pods.get(uid)
    return snapshot.placements[uid].pod if seen is None else seen


def _detail(snapshot: snapshots.Snapshot, pod: model.Pod) -> pages.Body:
    placement = snapshot.placements.get(pod.uid)
    return {
        **shown(snapshot, pod),
        "placement": _placement(placement) if placement is not None else None,
        "plugins": services.current().registry.concerned(pod, snapshot),
        "message": pod.unscheduled,
        "generation": snapshot.version(f"pod:{pod.uid}"),
        "explain": f"/apis/v1/pods/{pod.namespace}/{pod.name}/explain",
    }


def _fields(fields: Iterable[views.PodField], snapshot: snapshots.Snapshot, pod: model.Pod) -> pages.Body:
    """What the plugins show of the pod."""
    return {
        field.name: [msgspec.to_builtins(item) for item in field.items(snapshot, pod)] for field in fields
    }


def _placement(placement: model.Placement) -> pages.Body:
    return {
        "node": placement.node,
        "at": placement.at,
        "planned": placement.planned,
        "data": placement.data,
        "annotations": placement.annotations,
        "labels": placement.labels,
    }


def shown(snapshot: snapshots.Snapshot, pod: model.Pod) -> pages.Body:
    """The pod as every role may see it."""
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
