"""Nodes: what they offer, what their pods request, and what remains.

``nodes/{name}`` keeps the field names of Koordinator's scheduler with
quantities as text and pods without their specs.
"""

import heapq

from marshmallow import Schema, fields

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, schemas
from app.api.v1 import pods
from app.domain import model, snapshots
from app.domain.fit import quantities
from app.domain.fold import node_sums

routes = blueprints.create("nodes", "/apis/v1", "Nodes as the scheduler sees them.")


class Node(Schema):
    """One node of the list."""

    name = schemas.text("Name.")
    labels = schemas.mapping("Labels.")
    ready = schemas.truth("Whether the condition Ready is true.")
    unschedulable = schemas.truth("Whether it is cordoned.")
    taints = fields.List(fields.Dict(), required=True, metadata={"description": "Taints."})
    allocatable = schemas.mapping("Allocatable resources.")
    requested = schemas.mapping("Requests of its pods, including those in flight.")
    remaining = schemas.mapping("Allocatable minus requested.")
    pods = schemas.number("Pods that hold resources there.")


class NodeDetail(Schema):
    """One node, in Koordinator's fields."""

    node = schemas.anything("The fields of the node that scheduling depends on: metadata, spec and status.")
    pods = schemas.nested(
        pods.Pod, "Pods bound to or placed on the node; the first 1,000, or 1 MiB.", many=True
    )
    requested = schemas.mapping("Requests of its pods, including those in flight.")
    allocatable = schemas.mapping("Allocatable resources.")
    remaining = schemas.mapping("Allocatable minus requested.")
    generation = schemas.number("The offset of the latest event about the node.")


@blueprints.get(routes, "/nodes", schemas.page_of(Node), query=queries.Nodes)
def nodes(query: pages.Query) -> pages.Body:
    """All nodes, by name."""
    shown = pages.moment(query)
    snapshot = shown.snapshot
    return pages.listed(snapshot.nodes, query, shown, lambda name: _row(snapshot, snapshot.nodes[name]))


@blueprints.get(routes, "/nodes/<name>", NodeDetail)
def node(query: pages.Query, name: str) -> pages.Body:
    """One node with its pods."""
    snapshot = moments.take(query.get("at") or moments.NOW).snapshot
    found = snapshot.nodes.get(name)
    if found is None:
        raise errors.missing("node", name)
    residents = heapq.nsmallest(pages.MAX_LIMIT, snapshot.on(name), key=lambda pod: pod.key)
    shown, _ = pages.filled(pods.shown(snapshot, pod) for pod in residents)
    return {
        "node": _manifest(found),
        "pods": shown,
        **_amounts(snapshot, found),
        "generation": snapshot.version(f"node:{name}"),
    }


def _row(snapshot: snapshots.Snapshot, node: model.Node) -> pages.Body:
    return {
        "name": node.name,
        "labels": node.labels,
        "ready": node.ready,
        "unschedulable": node.unschedulable,
        "taints": [_taint(taint) for taint in node.taints],
        **_amounts(snapshot, node),
        "pods": snapshot.used(node.name).get(node_sums.PODS, 0),
    }


def _amounts(snapshot: snapshots.Snapshot, node: model.Node) -> pages.Body:
    # A terminating pod holds its resources until it is gone; it no longer counts in a quota.
    requested = {node_sums.PODS: 0, **snapshot.used(node.name)}
    remaining = {key: amount - requested.get(key, 0) for key, amount in node.allocatable.items()}
    return {
        "allocatable": quantities.all_written(node.allocatable),
        "requested": quantities.all_written(requested),
        "remaining": quantities.all_written(remaining),
    }


def _manifest(node: model.Node) -> pages.Body:
    return {
        "metadata": {
            "name": node.name,
            "uid": node.uid,
            "labels": node.labels,
            "annotations": node.annotations,
            "creationTimestamp": node.created or None,
        },
        "spec": {"unschedulable": node.unschedulable, "taints": [_taint(taint) for taint in node.taints]},
        "status": {
            "allocatable": quantities.all_written(node.allocatable),
            "conditions": [{"type": "Ready", "status": "True" if node.ready else "False"}],
        },
    }


def _taint(taint: model.Taint) -> pages.Body:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}
