"""Computes what the quotas of a tree request, use and may use in a snapshot.

It is computed once for each state of quotas, counts and nodes, from the latest state of the same quotas and
by how much counts changed since: while requests and totals are the same, as between a pod's observation and
its binding, the runtimes are reused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import immutables

from app.domain import model, schema, snapshots
from app.domain.fold import recounts
from app.plugins.elastic_quota import quota_counts, quota_model
from app.plugins.elastic_quota.quota_model import Amounts
from app.plugins.elastic_quota.trees import forests, membership, runtimes

Nodes = immutables.Map[model.NodeName, model.Node]


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """One tree in one snapshot. Amounts are milli-units of cpu, bytes, or plain numbers."""

    tree: forests.Tree
    total: Amounts
    runtimes: runtimes.Runtimes


class Supposed(NamedTuple):
    """Quotas of one tree with other amounts, in a snapshot that is otherwise the same."""

    forest: forests.Forest
    tree: TreeUsage | None
    """None if the quotas are in no tree: the built-in ones."""


class _Own(NamedTuple):
    """Whose count a key is. A slot is a resource of a quota: the place of the resource among those of the
    tree, times the number of quotas, and the index of the quota.
    """

    slot: int
    above: int
    """The slot of the nearest quota above whose max names the resource: its count includes this one; -1
    without such a quota.
    """
    bits: int
    """Of the counted unit."""
    pending: bool
    """What its pods without a node request; else what its pods and those of the quotas below it use."""


class _Capacity(NamedTuple):
    """One resource of the nodes."""

    resource: str
    amount: int
    """The sum over all nodes, without the totals of the other trees."""
    bits: int
    """Of the counted unit."""
    outside: tuple[schema.CountKey, ...]
    """The counts of what pods without a valid quota use."""


class _NodeSums(NamedTuple):
    """What follows from nodes, and from the totals that trees claim of them."""

    nodes: Nodes
    claimed: tuple[Amounts, ...]
    total: Amounts
    capacities: tuple[_Capacity, ...]


class _LatestCapacity:
    """What follows from the latest nodes: most snapshots share their nodes."""

    __slots__ = ("derived",)

    def __init__(self) -> None:
        self.derived: _NodeSums | None = None


def forest(snapshot: snapshots.Snapshot) -> forests.Forest:
    """The trees of the snapshot's quotas."""
    return membership.forest(snapshot.objects)


def of_tree(snapshot: snapshots.Snapshot, name: str, rules: runtimes.RuntimeRules) -> TreeUsage:
    """The tree of an id. Raises KeyError if it has no valid quota."""
    nodes = snapshot.nodes
    key = __name__, name, rules
    known, found = snapshot.derived(key, lambda: (nodes, _of_tree(snapshot, name, rules)))
    return found if known is nodes else _of_tree(snapshot, name, rules)


def supposed(
    grown: forests.Forest, found: TreeUsage | None, quotas: Mapping[str, quota_model.Quota]
) -> Supposed:
    """The state if these quotas, by name, replaced those of the tree, from which they differ in amounts.

    No max gains or loses a resource, so that pods count as before.
    """
    forest = grown.amended(quotas.values())
    assert forest is not None, "more than amounts differs"
    if found is None:
        return Supposed(forest, None)
    tree = forest.trees[found.tree.name]
    total = tree.total if tree.name else found.total
    return Supposed(forest, TreeUsage(tree, total, found.runtimes.amended(tree).changed(total, {}, {})))


def with_request(found: TreeUsage, name: str, counted: Amounts) -> runtimes.Runtimes:
    """The runtimes if the pods of a quota itself requested more by these amounts, in counted units."""
    at = found.tree.index[name]
    more = {one: {at: quota_counts.amount(one, count)} for one, count in counted.items()}
    return found.runtimes.changed(found.total, more, {})


def _of_tree(snapshot: snapshots.Snapshot, name: str, rules: runtimes.RuntimeRules) -> TreeUsage:
    grown, counts, steps = forest(snapshot), snapshot.counts, snapshot.recounted
    tree = grown.trees[name]
    total = _total(snapshot, grown, tree)
    read = grown.shared.get(("counts", name), lambda: _read(tree))
    latest = grown.shared.get(("latest", name, rules), recounts.Latest[runtimes.Runtimes])
    former, held = latest.held or ((), None)
    changes = recounts.between(former, steps)
    if held is None or changes is None:
        requests, used = _own_changes(tree, read, {key: counts.get(key, 0) for key in read})
        found = runtimes.derive(tree, total, _columns(tree, requests), _columns(tree, used), rules)
    else:
        requests, used = _own_changes(tree, read, changes)
        found = held if held.tree is tree else held.amended(tree)
        found = found.changed(total, requests, used if rules.guarantee else {})
    latest.held = steps, found
    return TreeUsage(tree, total, found)


def _read(tree: forests.Tree) -> dict[schema.CountKey, _Own]:
    """The counts on which the runtimes of a tree depend, as many as the maxes of its quotas have amounts.

    A quota whose max does not name a resource counts what those below it do, and nothing of its own pods.
    """
    size, found = len(tree.quotas), dict[schema.CountKey, _Own]()
    for place, resource in enumerate(tree.resources):
        limits, bits = tree.columns[resource].limits, quota_counts.bits(resource)
        nearest: list[int] = []
        """Index of each quota, or of the nearest one above it, that names the resource; -1 without one."""
        for at, (name, parent) in enumerate(zip(tree.names, tree.parents, strict=True)):
            above = nearest[parent] if parent >= 0 else -1
            nearest.append(above if limits[at] is None else at)
            if limits[at] is None:
                continue
            for part in ("", quota_counts.PENDING):
                key = quota_counts.key(tree.name, name, resource, part)
                slot, over = place * size + at, place * size + above if above >= 0 else -1
                found[key] = _Own(slot, over, bits, pending=bool(part))
    return found


def _own_changes(
    tree: forests.Tree, read: Mapping[schema.CountKey, _Own], changes: recounts.Changes
) -> tuple[runtimes.Changes, runtimes.Changes]:
    """By how much the pods of each quota itself request and use more, by the changes of counts."""
    waiting: dict[int, int] = {}
    using: dict[int, int] = {}
    for key, counted in changes.items():
        own = read.get(key) if counted else None
        if own is None:
            continue
        slot, above, bits, pending = own
        change = counted << bits
        if pending:
            waiting[slot] = waiting.get(slot, 0) + change
        else:
            using[slot] = using.get(slot, 0) + change
            if above >= 0:
                using[above] = using.get(above, 0) - change
    used = {slot: change for slot, change in using.items() if change}
    for slot, change in used.items():
        waiting[slot] = waiting.get(slot, 0) + change
    return _by_resource(tree, waiting), _by_resource(tree, used)


def _by_resource(tree: forests.Tree, slots: Mapping[int, int]) -> runtimes.Changes:
    found: dict[str, dict[int, int]] = {}
    for slot, change in slots.items():
        if change:
            place, at = divmod(slot, len(tree.quotas))
            found.setdefault(tree.resources[place], {})[at] = change
    return found


def _columns(tree: forests.Tree, sums: runtimes.Changes) -> runtimes.Columns:
    size = range(len(tree.quotas))
    return {resource: [sums.get(resource, {}).get(at, 0) for at in size] for resource in tree.resources}


def _total(snapshot: snapshots.Snapshot, grown: forests.Forest, tree: forests.Tree) -> Amounts:
    """What the tree divides: what its root carries, or the nodes without everything that lies outside."""
    if tree.name:
        return tree.total
    counts = snapshot.counts
    return {
        resource: amount - (sum([counts.get(key, 0) for key in outside]) << bits)
        for resource, amount, bits, outside in _capacity(snapshot.nodes, grown).capacities
    }


def allocatable(nodes: Nodes, grown: forests.Forest) -> Amounts:
    """The sum over all nodes, also over those that are cordoned or not ready."""
    return _capacity(nodes, grown).total


def _capacity(nodes: Nodes, grown: forests.Forest) -> _NodeSums:
    latest = grown.shared.get("capacity", _LatestCapacity)
    known = latest.derived
    if known is None or known.nodes is not nodes or known.claimed is not grown.claimed:
        total = _sum(nodes) if known is None or known.nodes is not nodes else known.total
        known = _NodeSums(nodes, grown.claimed, total, tuple(_capacities(total, grown)))
        latest.derived = known
    return known


def _sum(nodes: Nodes) -> Amounts:
    total: Amounts = {}
    for node in nodes.values():
        for resource, amount in node.allocatable.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _capacities(total: Amounts, grown: forests.Forest) -> Iterator[_Capacity]:
    """What the default tree may divide, with the counts of what lies outside of it."""
    names = [quota_model.DEFAULT, quota_model.SYSTEM, *grown.outside()]
    for resource, amount in total.items():
        yield _Capacity(
            resource=resource,
            amount=amount - sum(other.get(resource, 0) for other in grown.claimed),
            bits=quota_counts.bits(resource),
            outside=tuple(
                quota_counts.key(quota_counts.tree_of(grown, name), name, resource) for name in names
            ),
        )
