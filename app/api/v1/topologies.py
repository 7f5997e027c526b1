"""The domain tree: which nodes share a region, a zone, a rack or a policy's domain, and the counts there."""

from collections.abc import Iterator, Sequence

from marshmallow import Schema, fields

from app.api import blueprints, pages, queries, schemas
from app.domain import snapshots, verdicts

routes = blueprints.create("topology", "/apis/v1", "The domains that nodes form, with counts.")
USUAL = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.kubernetes.io/rack")


class DomainCount(Schema):
    """A policy's count in a domain."""

    policy = schemas.text("NAMESPACE/NAME.")
    placed = schemas.number("Pods counted, those in flight included.")
    desired = schemas.anything("The quota, or null if the policy does not list the domain.")


class Domain(Schema):
    """The nodes that share a label value."""

    key = schemas.text("Label key.")
    value = schemas.text("Label value.")
    nodes = schemas.number("Nodes.")
    ready = schemas.number("Nodes that are ready and not cordoned.")
    pods = schemas.number("Pods bound or promised there that are not finished.")
    counts = schemas.nested(DomainCount, "Counts of the policies over this key.", many=True)
    domains = fields.List(
        fields.Nested(lambda: Domain()),
        required=True,
        metadata={"description": "The domains of the next level inside this one."},
    )


@blueprints.get(routes, "/topology", schemas.page_of(Domain), query=queries.Topology)
def topology(query: pages.Query) -> pages.Body:
    """The widest domains by key and value, each with those inside it.

    Without ``levels``: region, zone and rack as far as nodes carry them, and the key of each policy.
    """
    shown = pages.moment(query)
    snapshot = shown.snapshot
    everywhere = frozenset(snapshot.nodes)
    roots = [
        (trail, value)
        for trail in _trails(snapshot, query.get("levels"))
        for value in sorted(snapshot.topology[trail[0]])
    ]
    part, metadata = pages.cut(roots, query, shown)
    items = [_domain(snapshot, trail, value, everywhere) for trail, value in part]
    return {"items": items, "metadata": metadata}


def _trails(snapshot: snapshots.Snapshot, levels: str | None) -> list[tuple[str, ...]]:
    if levels:
        return [tuple(dict.fromkeys(levels.split(",")))]
    usual = tuple(key for key in USUAL if list(snapshot.topology[key]))
    keys = sorted({policy.topology_key for policy in snapshot.policies.values()} - set(usual))
    return [*([usual] if usual else []), *((key,) for key in keys)]


def _domain(
    snapshot: snapshots.Snapshot, trail: Sequence[str], value: str, within: verdicts.Names
) -> pages.Body:
    key = trail[0]
    nodes = snapshot.topology[key][value] & within
    seen = [snapshot.nodes[name] for name in nodes]
    return {
        "key": key,
        "value": value,
        "nodes": len(nodes),
        "ready": sum(node.ready and not node.unschedulable for node in seen),
        "pods": sum(not pod.finished for name in nodes for pod in snapshot.on(name)),
        "counts": list(_counts(snapshot, key, value)),
        "domains": [
            _domain(snapshot, trail[1:], inner, nodes)
            for inner in (sorted(snapshot.topology[trail[1]]) if len(trail) > 1 else ())
            if snapshot.topology[trail[1]][inner] & nodes
        ],
    }


def _counts(snapshot: snapshots.Snapshot, key: str, value: str) -> Iterator[pages.Body]:
    for policy in sorted(snapshot.policies.values(), key=lambda policy: policy.key):
        placed, desired = snapshot.count(policy, value), policy.desired(value)
        if policy.topology_key == key and not policy.errors and (placed or desired is not None):
            yield {"policy": policy.key, "placed": placed, "desired": desired}
