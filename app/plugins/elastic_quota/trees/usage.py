"""What the quotas of a tree request, use and may use in a snapshot.

Computed once for each state of quotas, counts and nodes, from the latest state of the same quotas and the
counts that changed since: while requests and totals are the same, as between a pod's observation and its
binding, the runtimes are reused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import immutables

from app.domain import model, schema, snapshots
from app.domain.folding import recounts
from app.plugins.elastic_quota import counting, quota_model
from app.plugins.elastic_quota.quota_model import Amounts
from app.plugins.elastic_quota.trees import forests, membership, runtimes

Nodes = immutables.Map[model.NodeName, model.Node]
Counts = immutables.Map[schema.CountKey, int]


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """One tree in one snapshot. Amounts are milli-units of cpu, bytes, or plain numbers."""

    tree: forests.Tree
    total: Amounts
    runtimes: runtimes.Runtimes


class _Own(NamedTuple):
    """Whose count a key is."""

    resource: str
    bits: int
    """Of its counted unit."""
    at: int
    """Index of the quota."""
    pending: bool
    """What its pods without a node request; else what its pods and those of the quotas below it use."""


class _Held(NamedTuple):
    """The runtimes of a state."""

    counts: Counts
    steps: recounts.Steps
    runtimes: runtimes.Runtimes


class _Latest:
    """The runtimes of the latest state. Threads may share it: it is one reference."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: _Held | None = None


class _LatestTotal:
    """The sum over the latest nodes: most snapshots share their nodes."""

    __slots__ = ("derived",)

    def __init__(self) -> None:
        self.derived: tuple[Nodes, Amounts] | None = None


def forest(snapshot: snapshots.Snapshot) -> forests.Forest:
    """The trees of the snapshot's quotas."""
    return membership.forest(snapshot.objects)


def of_tree(snapshot: snapshots.Snapshot, name: str, rules: runtimes.Rules) -> TreeUsage:
    """The tree of an id. Raises KeyError if it has no valid quota."""
    nodes = snapshot.nodes
    key = __name__, name, rules
    known, found = snapshot.derived(key, lambda: (nodes, _of_tree(snapshot, name, rules)))
    return found if known is nodes else _of_tree(snapshot, name, rules)


def with_request(found: TreeUsage, name: str, counted: Amounts) -> runtimes.Runtimes:
    """The runtimes if the pods of a quota itself requested more by these amounts, in counted units."""
    at = found.tree.index[name]
    more = {one: {at: counting.amount(one, count)} for one, count in counted.items()}
    return found.runtimes.changed(found.total, more, {})


def _of_tree(snapshot: snapshots.Snapshot, name: str, rules: runtimes.Rules) -> TreeUsage:
    grown, counts, steps = forest(snapshot), snapshot.counts, snapshot.recounted
    tree = grown.trees[name]
    total = _total(snapshot, grown, tree)
    read = grown.memo.get(("counts", name), lambda: _read(tree))
    latest = grown.memo.get(("latest", name, rules), _Latest)
    held = latest.held
    keys = None if held is None else recounts.between(held.steps, steps)
    if held is None or keys is None:
        requests, used = _changes(tree, read, read, immutables.Map(), counts)
        found = runtimes.derive(tree, total, _columns(tree, requests), _columns(tree, used), rules)
    else:
        requests, used = _changes(tree, read, keys, held.counts, counts)
        found = held.runtimes.changed(total, requests, used if rules.guarantee else {})
    latest.held = _Held(counts, steps, found)
    return TreeUsage(tree, total, found)


def _read(tree: forests.Tree) -> dict[schema.CountKey, _Own]:
    """The counts on which the runtimes of a tree depend."""
    return {
        counting.key(tree.name, name, resource, part): _Own(
            resource, counting.bits(resource), at, pending=bool(part)
        )
        for resource in tree.resources
        for at, name in enumerate(tree.names)
        for part in ("", counting.PENDING)
    }


def _changes(
    tree: forests.Tree,
    read: Mapping[schema.CountKey, _Own],
    keys: Iterable[schema.CountKey],
    before: Counts,
    after: Counts,
) -> tuple[runtimes.Changes, runtimes.Changes]:
    """By how much the pods of each quota itself request and use more; all other keys have equal counts."""
    requests: dict[str, dict[int, int]] = {}
    used: dict[str, dict[int, int]] = {}
    for key in keys:
        own = read.get(key)
        change = 0 if own is None else after.get(key, 0) - before.get(key, 0)
        if own is None or not change:
            continue
        change <<= own.bits
        _add(requests, own.resource, own.at, change)
        if not own.pending:
            _add(used, own.resource, own.at, change)
            parent = tree.parents[own.at]
            if parent >= 0:  # The count of the parent includes this one.
                _add(requests, own.resource, parent, -change)
                _add(used, own.resource, parent, -change)
    return _differing(requests), _differing(used)


def _add(sums: dict[str, dict[int, int]], resource: str, at: int, change: int) -> None:
    column = sums.setdefault(resource, {})
    column[at] = column.get(at, 0) + change


def _differing(sums: dict[str, dict[int, int]]) -> runtimes.Changes:
    return {
        resource: {at: change for at, change in column.items() if change} for resource, column in sums.items()
    }


def _columns(tree: forests.Tree, sums: runtimes.Changes) -> runtimes.Columns:
    size = range(len(tree.quotas))
    return {resource: [sums.get(resource, {}).get(at, 0) for at in size] for resource in tree.resources}


def _total(snapshot: snapshots.Snapshot, grown: forests.Forest, tree: forests.Tree) -> Amounts:
    """What the tree divides: what its root carries, or the nodes without everything that lies outside."""
    if tree.name:
        return tree.total
    return {
        resource: amount - _outside(snapshot, grown, resource)
        for resource, amount in allocatable(snapshot.nodes, grown).items()
    }


def _outside(snapshot: snapshots.Snapshot, grown: forests.Forest, resource: str) -> int:
    """What pods without a valid quota use, and the totals of the other trees."""
    outside = [quota_model.DEFAULT, quota_model.SYSTEM]
    outside += [name for name in grown.errors if grown.chains[name] == (name,)]
    used = sum(counting.count(snapshot, grown, name, resource) for name in outside)
    return counting.amount(resource, used) + sum(
        tree.total.get(resource, 0)
        for tree in grown.trees.values()
        if tree.name and tree.root is not None and not tree.root.ignores_default_tree
    )


def allocatable(nodes: Nodes, grown: forests.Forest) -> Amounts:
    """The sum over all nodes, also over those that are cordoned or not ready."""
    latest = grown.memo.get("allocatable", _LatestTotal)
    known = latest.derived
    if known is None or known[0] is not nodes:
        latest.derived = known = nodes, _sum(nodes)
    return known[1]


def _sum(nodes: Nodes) -> Amounts:
    total: Amounts = {}
    for node in nodes.values():
        for resource, amount in node.allocatable.items():
            total[resource] = total.get(resource, 0) + amount
    return total
