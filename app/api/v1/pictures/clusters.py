"""The figures of the whole cluster at one moment."""

import itertools
from collections.abc import Iterator

import flask
from marshmallow import Schema, fields, validate

from app.api.introspection import blueprints, moments, pages, queries, schemas, services
from app.api.v1.pictures import answers
from app.domain import snapshots
from app.domain.fit import quantities
from app.framework import registry
from app.verbs.pictures import figures

_COLOURS = 50
"""Of one plugin, those that are offered."""

routes = blueprints.create("cluster", "/apis/v1", "The cluster as a whole.")


class ClusterQuery(queries.Moment):
    """The moment, and which quotas."""

    limit = fields.Integer(
        load_default=100,
        validate=validate.Range(1, pages.MAX_LIMIT),
        metadata={"description": "Maximum number of quotas."},
    )
    of = fields.String(
        load_default="",
        metadata={
            "description": "Only the quotas of this object, NAMESPACE/NAME; those of all if it is empty."
        },
    )


class NodeNumbers(Schema):
    """Numbers of nodes."""

    total = schemas.number("Nodes.")
    ready = schemas.number("Ready and not cordoned.")
    cordoned = schemas.number("Cordoned.")
    notReady = schemas.number("Not ready.")


class PodNumbers(Schema):
    """Numbers of pods."""

    known = schemas.number("Pods in the log, whatever their phase.")
    onNodes = schemas.number("Pods that hold resources of a node, those in flight included.")
    waiting = schemas.number("Pods that wait for a node.")
    inFlight = schemas.number("Placed pods that the watch has not confirmed yet.")


class ResourceSum(Schema):
    """The sums of one resource."""

    name = schemas.text("Resource.")
    allocatable = schemas.text("What all nodes offer.")
    requested = schemas.text("What the pods on them request.")
    share = schemas.anything("Requested of allocatable, from 0 to 1; null if nothing is offered.")


class DomainQuota(Schema):
    """The quota of an object in a domain."""

    of = schemas.text("The object that counts, NAMESPACE/NAME.")
    key = schemas.text("Label key of the domain.")
    value = schemas.text("Label value of the domain.")
    placed = schemas.number("Pods counted, those in flight included.")
    desired = schemas.anything("The quota; null if the object has none there.")


class Column(Schema):
    """A column of a list."""

    heading = schemas.text("The heading.")
    field = schemas.text("The field of an item.")


class FollowedKind(Schema):
    """A kind of object of a plugin whose numbers are shown over time."""

    kind = schemas.text("In GET /apis/v1/series?of=KIND:NAMESPACE/NAME, or KIND:NAME.")
    title = schemas.text("Several of them, for people.")
    about = schemas.text("What such objects are.")
    path = schemas.text("The list of them; followed by /NAMESPACE/NAME, or /NAME, one of them.")
    name = schemas.text("The field of an item with NAMESPACE/NAME, or NAME; ``namespace+name`` if it is two.")
    columns = schemas.nested(Column, "The columns of the list, in order.", many=True)


class Cluster(Schema):
    """The figures of a cluster."""

    nodes = schemas.nested(NodeNumbers, "Numbers of nodes.")
    pods = schemas.nested(PodNumbers, "Numbers of pods.")
    resources = schemas.nested(ResourceSum, "Sums of each resource, by name.", many=True)
    quotas = schemas.nested(
        DomainQuota, "The counts of domains, those nearest to their quota first.", many=True
    )
    moreQuotas = schemas.number("Those that are not in quotas.")
    workloads = schemas.nested(FollowedKind, "Kinds of objects that can be followed.", many=True)
    colours = schemas.texts("Colours of the map that plugins declare, as GET /apis/v1/map?color= takes them.")
    unlisted = schemas.texts("Kinds that must be listed before anything is decided.")
    flags = schemas.texts("The debug flags that were set.")
    configurations = schemas.texts("Digests of the recorded configurations, oldest first.")
    metadata = schemas.nested(answers.Shown, "The moment.")


@blueprints.get(routes, "/cluster", Cluster, query=ClusterQuery, tagged=True)
def cluster(query: pages.Query) -> flask.Response:
    """Numbers of nodes and pods, sums of resources, and the fullest quotas."""
    shown = moments.take(query.get("at") or moments.NOW)
    return answers.respond(shown, lambda: _body(shown, int(query["limit"]), str(query["of"])))


def _body(shown: moments.Moment, limit: int, of: str) -> pages.Body:
    snapshot = shown.snapshot
    found = figures.of(snapshot)
    quotas = figures.fullest(figures.quotas(snapshot, answers.counts_of, of))
    offered = quantities.all_written(found.allocatable)
    used = quantities.all_written(found.requested)
    return {
        "nodes": {
            "total": found.nodes,
            "ready": found.ready,
            "cordoned": found.cordoned,
            "notReady": found.unready,
        },
        "pods": {
            "known": found.known,
            "onNodes": found.running,
            "waiting": found.waiting,
            "inFlight": found.in_flight,
        },
        "resources": [
            {
                "name": name,
                "allocatable": offered.get(name, "0"),
                "requested": used.get(name, "0"),
                "share": _share(found.requested.get(name, 0), found.allocatable.get(name, 0)),
            }
            for name in sorted({*offered, *used})
        ],
        "quotas": [
            {"of": one.of, "key": one.key, "value": one.value, "placed": one.placed, "desired": one.desired}
            for one in quotas[:limit]
        ],
        "moreQuotas": max(0, len(quotas) - limit),
        "workloads": list(_workloads(services.current().registry)),
        "colours": list(_colours(services.current().registry, snapshot)),
        "unlisted": sorted(snapshot.unlisted),
        "flags": sorted(snapshot.flags),
        "configurations": [one.digest for one in snapshot.configurations],
        "metadata": answers.shown(shown),
    }


def _colours(plugins: registry.Registry, snapshot: snapshots.Snapshot) -> Iterator[str]:
    for kind, one in plugins.painted.items():
        for name in itertools.islice(one.names(snapshot), _COLOURS):
            yield f"{kind}:{name}"


def _workloads(plugins: registry.Registry) -> Iterator[pages.Body]:
    for name, shown in plugins.shown.items():
        for one in shown.followed:
            yield {
                "kind": one.kind,
                "title": one.title,
                "about": one.table.about,
                "path": f"/apis/v1/plugins/{name}/{one.table.path}",
                "name": one.named_by,
                "columns": [
                    {"heading": heading, "field": path} for heading, path in one.table.columns.items()
                ],
            }


def _share(used: int, offered: int) -> float | None:
    return round(used / offered, 4) if offered else None
