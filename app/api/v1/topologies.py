"""The domain tree: which nodes share a region, a zone, a rack or a policy's domain, and the counts there."""

from collections.abc import Iterator, Sequence

from marshmallow import Schema, fields

from app.api import errors
from app.api.introspection import blueprints, pages, queries, schemas, services
from app.domain import node_sets, snapshots
from app.verbs.pictures import layouts

routes = blueprints.create("topology", "/apis/v1", "The domains that nodes form, with counts.")
UNLABELLED = "-"
"""In ``within``, the nodes without a value of the label: no label has this value."""


class DomainCount(Schema):
    """A policy's count in a domain."""

    policy = schemas.text("NAMESPACE/NAME.")
    placed = schemas.number("Pods counted, those in flight included.")
    desired = schemas.anything("The quota, or null if the policy does not list the domain.")


class Domain(Schema):
    """The nodes that share a label value."""

    key = schemas.text("Label key.")
    value = schemas.text("Label value; empty for the nodes without one.")
    nodes = schemas.number("Nodes.")
    ready = schemas.number("Nodes that are ready and not cordoned.")
    pods = schemas.number("Pods bound to or placed on these nodes that are not finished.")
    counts = schemas.nested(DomainCount, "Counts of the policies over this key.", many=True)
    domains = fields.List(
        fields.Nested(lambda: Domain()),
        required=True,
        metadata={"description": "The domains of the next level inside this one."},
    )


@blueprints.get(routes, "/topology", schemas.page_of(Domain), query=queries.Topology)
def topology(query: pages.Query) -> pages.Body:
    """The widest domains by key and value, each with those inside it.

    Without ``levels``: region, zone and rack if nodes have these labels, and the key of each policy.
    ``limit`` counts the domains of all levels; each page repeats the domains around its first one. With
    ``within``, ``items`` has the widest domain around the one that it names, with only that one inside. Nodes
    without a value of the label are in no domain of its level, but for one that ``within`` names.
    """
    shown = pages.moment(query)
    tree = _Tree(shown.snapshot, query.get("levels"), _within(query))
    rendering = _Rendering(tree)
    metadata = pages.first(tree.paths(), query, shown, rendering.add)
    return {"items": rendering.roots, "metadata": metadata}


Path = tuple[str, ...]
"""The number of a trail of label keys, and a value of each of its keys from the widest on."""


def _within(query: pages.Query) -> tuple[str, ...]:
    """The values that ``within`` names. Raises Problem 400 if there are not as many levels."""
    values = tuple(query["within"].split(",")) if "within" in query else ()
    keys = tuple(dict.fromkeys(query["levels"].split(","))) if "levels" in query else ()
    if len(values) > len(keys):
        raise errors.bad(f"within: {len(values)} values, and levels has {len(keys)} label keys")
    return values


class _Tree:
    """The domains of one snapshot, computed from the widest to the narrowest and never held as a whole."""

    def __init__(self, snapshot: snapshots.Snapshot, levels: str | None, within: Sequence[str]) -> None:
        """``within``: values of the first levels; empty for all domains."""
        self._snapshot = snapshot
        self._within = within
        plugins = services.current().registry
        self._counted = [shown.domain_counts(snapshot, "") for shown in plugins.shown.values()]
        """For each plugin: label key -> (value -> counts of the domain)."""
        self._trails = _trails(snapshot, levels, {key for counts in self._counted for key in counts})

    def paths(self) -> Iterator[Path]:
        """All domains in order, each before those inside it."""
        for number, trail in enumerate(self._trails):
            yield from self._inside((f"{number:06}",), trail, self._snapshot.topology.everywhere)

    def _inside(self, path: Path, trail: Sequence[str], nodes: node_sets.Names) -> Iterator[Path]:
        if not trail:
            return
        key, *inner = trail
        labels = (self._snapshot.nodes[name].labels for name in nodes)
        values = sorted({held[key] for held in labels if key in held})
        depth = len(path)
        if wanted := self._within[depth - 1 : depth]:
            values = [value for value in values if value in wanted]
            if UNLABELLED in wanted and self._common(nodes, key, UNLABELLED):
                values = [UNLABELLED]
        for value in values:
            if depth >= len(self._within):
                yield (*path, value)
            if inner:
                yield from self._inside((*path, value), inner, self._common(nodes, key, value))

    def _common(self, nodes: node_sets.Names, key: str, value: str) -> node_sets.Names:
        column = self._snapshot.topology[key]
        if value == UNLABELLED:
            return nodes - column.union(tuple(filter(None, column)))
        domain = column[value]
        return domain if domain <= nodes else domain & nodes

    def domain(self, path: Path, domains: list[pages.Body]) -> pages.Body:
        """The domain at a path, which contains ``domains``."""
        keys = self._trails[int(path[0])][: len(path) - 1]
        snapshot = self._snapshot
        nodes: node_sets.Names = snapshot.topology.everywhere
        for key, value in zip(keys, path[1:], strict=True):
            nodes = self._common(nodes, key, value)
        key, value = keys[-1], "" if path[-1] == UNLABELLED else path[-1]
        return {
            "key": key,
            "value": value,
            "nodes": len(nodes),
            "ready": sum((node := snapshot.nodes[name]).ready and not node.unschedulable for name in nodes),
            "pods": sum(not pod.finished for name in nodes for pod in snapshot.on(name)),
            "counts": list(self._counts(key, value)),
            "domains": domains,
        }

    def _counts(self, key: str, value: str) -> Iterator[pages.Body]:
        for counts in self._counted:
            for one in counts[key](value) if key in counts else ():
                yield {"policy": one.of, "placed": one.placed, "desired": one.desired}


class _Rendering:
    """The domains of a page as a tree, with those around them."""

    def __init__(self, tree: _Tree) -> None:
        self.roots: list[pages.Body] = []
        self._tree = tree
        self._inside: dict[Path, list[pages.Body]] = {}

    def add(self, path: Path) -> pages.Body | None:
        """Add a domain and those around it; returns the widest that is new, with the others inside it."""
        widest: pages.Body | None = None
        for end in range(2, len(path) + 1):
            if path[:end] not in self._inside:
                found: list[pages.Body] = []
                domain = self._tree.domain(path[:end], found)
                (self.roots if end == 2 else self._inside[path[: end - 1]]).append(domain)
                self._inside[path[:end]] = found
                widest = widest or domain
        return widest


def _trails(snapshot: snapshots.Snapshot, levels: str | None, counted: set[str]) -> list[tuple[str, ...]]:
    if levels:
        return [tuple(dict.fromkeys(levels.split(",")))]
    usual = tuple(key for key in layouts.USUAL if list(snapshot.topology[key]))
    return [*([usual] if usual else []), *((key,) for key in sorted(counted - set(usual)))]
