"""The tree of domains in which a gang is kept together: layers of nodes, from the cluster down to a node.

A domain is the whole path from the top, so a block ``b1`` below two spines is two domains (in Koordinator it
is one).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.domain import model, snapshots
from app.plugins.coscheduling import gang_model, kinds, options

Path = tuple[str, ...]
"""Names of domains from the top; the empty path is the cluster."""
NODES = "NodeTopologyLayer"


class Tree(NamedTuple):
    """Where each node is."""

    layers: tuple[str, ...]
    """Names of the layers, from the top; the nodes themselves are below the last."""
    paths: Mapping[model.NodeName, Path]
    """Node -> its domain: the deepest that is known. A node that is left out has no place in the tree."""


class Demands(NamedTuple):
    """What a gang demands of the domains; depth 0 is the cluster, depth 1 the top layer."""

    tree: Tree
    must: int = 0
    """All members have to be in one domain of this depth."""
    multiples: Mapping[int, int] = {}
    """Depth -> members are placed in a domain by multiples of this number; that of the nodes is one deeper
    than the last layer."""
    problem: str = ""
    """Why the demands cannot be met in any state."""


def demands(
    snapshot: snapshots.Snapshot,
    gather: Sequence[options.Gather],
    topology_keys: Sequence[str],
    usual: tuple[str, ...],
) -> Demands:
    """The domains for a gang with these rules.

    ``topology_keys``: label keys by which all members must be in one domain; ``usual``: label keys from the
    top, for gangs without rules.
    """
    keys = tuple(dict.fromkeys(topology_keys))
    columns = snapshot.topology.columns
    if not gather:
        # The keys that are demanded come first: a domain of theirs may not be split.
        tree = _by_labels(
            snapshot, (*keys, *(key for key in usual if key in columns and key not in keys)), len(keys)
        )
        return Demands(tree, len(keys))
    held = snapshot.get(kinds.TOPOLOGIES, kinds.TOPOLOGY)
    named = {layer.name for layer in held.layers} if held is not None else set[str]()
    rules = [rule for rule in gather if rule.layer != NODES]
    by_label = [rule for rule in rules if "/" in rule.layer and rule.layer not in named]
    if by_label or keys:
        unknown = [rule.layer for rule in rules if rule not in by_label]
        layers = (*keys, *(rule.layer for rule in by_label if rule.layer not in keys))
        tree = _by_labels(snapshot, layers, len(layers) if any(rule.must for rule in by_label) else len(keys))
    else:
        unknown = [rule.layer for rule in rules if rule.layer not in named]
        tree = _by_object(snapshot, held)
    if held is not None and held.errors:
        return Demands(tree, problem=f"the network topology is invalid: {held.errors[0]}")
    if unknown:
        return Demands(tree, problem=f"the network topology has no layer {unknown[0]}")
    depth = {layer: number for number, layer in enumerate(tree.layers, 1)}
    depth[NODES] = len(tree.layers) + 1
    musts = [depth[rule.layer] for rule in gather if rule.must and rule.layer != NODES]
    multiples = {depth[rule.layer]: rule.multiple for rule in gather if rule.multiple > 1}
    return Demands(tree, max([len(keys), *musts]), multiples)


def _by_labels(snapshot: snapshots.Snapshot, keys: tuple[str, ...], required: int) -> Tree:
    """Layers that are labels of nodes. A node without one of the first ``required`` has no place."""

    def path(node: model.Node) -> Path | None:
        found: list[str] = []
        for key in keys:
            value = node.labels.get(key)
            if not value:
                break
            found.append(value)
        return tuple(found) if len(found) >= required else None

    return _kept(snapshot, ("labels", keys, required), keys, path)


def _by_object(snapshot: snapshots.Snapshot, held: gang_model.NetworkTopology | None) -> Tree:
    layers = held.layers if held is not None else ()

    def path(node: model.Node) -> Path | None:
        found: list[str] = []
        for layer in layers:
            value = next((node.labels[key] for key in layer.labels if node.labels.get(key)), "")
            if not value and layer is not layers[-1]:
                return None
            found.append(value or node.name)
        return tuple(found)

    return _kept(snapshot, ("object", layers), tuple(layer.name for layer in layers), path)


def _kept(
    snapshot: snapshots.Snapshot,
    key: tuple[object, ...],
    layers: tuple[str, ...],
    path: Callable[[model.Node], Path | None],
) -> Tree:
    """The tree, computed once for the names and labels of all nodes."""

    def made() -> Tree:
        found = ((name, path(node)) for name, node in snapshot.nodes.items())
        return Tree(layers, {name: at for name, at in found if at is not None})

    return snapshot.topology.derived((__name__, *key), made)


def within(path: Path, domain: Path) -> bool:
    """Whether a domain is inside another, or equal to it."""
    return path[: len(domain)] == domain


def common(one: Path, other: Path) -> int:
    """The depth of the smallest domain that holds both."""
    return next(
        (depth for depth, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
