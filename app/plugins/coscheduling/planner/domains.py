"""The tree of domains in which a gang is kept together: layers of nodes, from the cluster down to a node.

A domain is the whole path from the top, so a block ``b1`` below two spines is two domains (in Koordinator it
is one).
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from app.domain import model, snapshots
from app.plugins.coscheduling import gang_model, kinds, options

Path = tuple[str, ...]
"""Names of domains from the top; the empty path is the cluster."""
NODES = "NodeTopologyLayer"


class Tree(NamedTuple):
    """Where each node is."""

    layers: tuple[str, ...]
    """Names of the layers, from the top; the nodes are below the last, or domains of a layer (NODES)."""
    paths: Mapping[model.NodeName, Path]
    """Node -> its domain: the deepest that is known. A node that is left out has no place in the tree."""

    def holding(self, domain: Path, nodes: Iterable[model.NodeName]) -> Path:
        """The smallest domain that holds this one and the nodes."""
        known = (self.paths[name] for name in nodes if name in self.paths)
        return domain[: min((common(path, domain) for path in known), default=None)]


class Demands(NamedTuple):
    """What a gang demands of the domains; depth 0 is the cluster, depth 1 the top layer."""

    tree: Tree
    must: int = 0
    """All members have to be in one domain of this depth."""
    multiples: Mapping[int, int] = {}
    """Depth -> members are placed in a domain by multiples of this number; that of nodes which are no layer
    is one deeper than the last layer."""
    problem: str = ""
    """Why the demands cannot be met in any state."""

    @property
    def by_multiples(self) -> str:
        """`` by multiples of 2 in LAYER``, for each multiple; empty without any."""
        names = (*self.tree.layers, NODES)
        each = [f"{multiple} in {names[depth - 1]}" for depth, multiple in sorted(self.multiples.items())]
        return f" by multiples of {', '.join(each)}" if each else ""


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
    without = left_out(snapshot, gather)
    gather = [rule for rule in gather if rule.layer not in without or _demanded(rule)]
    if not gather:
        # The keys that are demanded come first: a domain of theirs may not be split.
        columns = snapshot.topology.columns
        below = tuple(key for key in usual if key in columns and key not in keys)
        return Demands(_tree(snapshot, _Shape(keys, below=below)), len(keys))
    held = snapshot.get(kinds.TOPOLOGIES, kinds.TOPOLOGY)
    named = {layer.name for layer in held.layers} if held is not None else set[str]()
    labels = [rule for rule in gather if "/" in rule.layer and rule.layer not in named]
    others = [rule.layer for rule in gather if rule not in labels and rule.layer != NODES]
    above, below = _split(keys, labels)
    shape = _Shape(above, below=below, nodes=any(rule.must and rule.layer == NODES for rule in gather))
    problem = ""
    if others or not (above or below):
        shape = shape._replace(named=held.layers if held is not None else ())
        if held is not None and held.errors:
            problem = f"the network topology is invalid: {held.errors[0]}"
        elif unknown := [layer for layer in others if layer not in named]:
            problem = f"the network topology has no layer {unknown[0]}"
    tree = _tree(snapshot, shape)
    if problem:
        return Demands(tree, problem=problem)
    depth = {NODES: len(tree.layers) + 1} | {layer: number for number, layer in enumerate(tree.layers, 1)}
    musts = [depth[rule.layer] for rule in gather if rule.must]
    multiples = {depth[rule.layer]: rule.multiple for rule in gather if rule.multiple > 1}
    return Demands(tree, max([len(keys), *musts]), multiples)


def left_out(snapshot: snapshots.Snapshot, gather: Sequence[options.Gather]) -> list[str]:
    """The layers that are preferred only, and that the network topology lacks: no gang waits for them."""
    held = snapshot.get(kinds.TOPOLOGIES, kinds.TOPOLOGY)
    if held is not None and held.errors:
        return []
    known = {NODES, *(layer.name for layer in held.layers)} if held is not None else {NODES}
    return [
        rule.layer
        for rule in gather
        if not _demanded(rule) and "/" not in rule.layer and rule.layer not in known
    ]


def _demanded(rule: options.Gather) -> bool:
    return rule.must or rule.multiple > 1


def _split(keys: tuple[str, ...], rules: Sequence[options.Gather]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The label keys down to the last that must be gathered, and those below it.

    A layer above one that must be gathered is gathered with it. So those that are preferred are below, where
    the order of the rules permits it.
    """
    last = max((number for number, rule in enumerate(rules, 1) if rule.must), default=0)
    above = tuple(dict.fromkeys((*keys, *(rule.layer for rule in rules[:last]))))
    return above, tuple(dict.fromkeys(rule.layer for rule in rules[last:] if rule.layer not in above))


class _Shape(NamedTuple):
    """Which layers a tree has, from the top."""

    above: tuple[str, ...] = ()
    """Label keys. A node without one of them has no place."""
    named: tuple[gang_model.Layer, ...] = ()
    """Layers of the network topology."""
    nodes: bool = False
    """Whether each node is a domain of its own."""
    below: tuple[str, ...] = ()
    """Label keys. A node without one of them is in the domain above."""

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers."""
        nodes = (NODES,) if self.nodes else ()
        return (*self.above, *(layer.name for layer in self.named), *nodes, *self.below)

    def path(self, node: model.Node) -> Path | None:
        """The domain of the node; None if it has no place."""
        found = [node.labels.get(key, "") for key in self.above]
        for layer in self.named:
            value = next((node.labels[key] for key in layer.labels if node.labels.get(key)), "")
            # Without a name in the last layer, the node is a domain of its own there.
            found.append(value or (node.name if layer is self.named[-1] else ""))
        if not all(found):
            return None
        if self.nodes:
            found.append(node.name)
        found += itertools.takewhile(bool, (node.labels.get(key, "") for key in self.below))
        return tuple(found)


def _tree(snapshot: snapshots.Snapshot, shape: _Shape) -> Tree:
    """The tree, computed once for the names and labels of all nodes."""

    def made() -> Tree:
        found = ((name, shape.path(node)) for name, node in snapshot.nodes.items())
        return Tree(shape.layers, {name: at for name, at in found if at is not None})

    return snapshot.topology.derived((__name__, shape), made)


def summed(tree: Tree, counted: Mapping[model.NodeName, int]) -> dict[Path, int]:
    """Domain, of any layer -> the sum over its nodes; a node without a place is in the cluster alone."""
    deepest: dict[Path, int] = {}
    for name, count in counted.items():
        path = tree.paths.get(name, ())
        deepest[path] = deepest.get(path, 0) + count
    found: dict[Path, int] = {}
    for path, count in deepest.items():
        for at in range(len(path) + 1):
            found[path[:at]] = found.get(path[:at], 0) + count
    return found


def within(path: Path, domain: Path) -> bool:
    """Whether a domain is inside another, or equal to it."""
    return path[: len(domain)] == domain


def common(one: Path, other: Path) -> int:
    """The depth of the smallest domain that holds both."""
    return next(
        (depth for depth, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def in_multiples(demands: Demands, own: Counter[model.NodeName], seats: Collection[model.NodeName]) -> bool:
    """Whether members come in the multiples to each domain with a seat. ``own``: those that are there.

    A domain without a seat may have any number of members.
    """
    return not any(_over(demands, own, length, seats) for length in demands.multiples)


def complete(
    demands: Demands, own: Counter[model.NodeName], seats: Mapping[model.Uid, model.NodeName]
) -> dict[model.Uid, model.NodeName]:
    """The seats without the last ones of each domain that are too many, or too few, for a multiple."""
    kept = dict(seats)
    while not in_multiples(demands, own, kept.values()):
        for length in demands.multiples:
            over = _over(demands, own, length, kept.values())
            for uid, name in reversed([*kept.items()]):
                domain = _domain(demands, length, name)
                if over.get(domain, 0) > 0:
                    over[domain] -= 1
                    del kept[uid]
    return kept


def _over(
    demands: Demands, own: Counter[model.NodeName], length: int, seats: Collection[model.NodeName]
) -> dict[Path | None, int]:
    """Domain of a depth with a seat -> how many members are there beyond a multiple, if any are."""
    members = Counter(_domain(demands, length, name) for name in seats)
    there = Counter(_domain(demands, length, name) for name in own.elements())
    over = {one: (count + there[one]) % demands.multiples[length] for one, count in members.items()}
    return {one: count for one, count in over.items() if count and one is not None}


def _domain(demands: Demands, length: int, name: model.NodeName) -> Path | None:
    """The domain of a depth that the node is in; None without one."""
    path = demands.tree.paths.get(name, ())
    if length > len(demands.tree.layers):
        return (*path, name)
    return path[:length] if len(path) >= length else None
