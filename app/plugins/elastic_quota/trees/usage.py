"""What the quotas of a tree request, use and may use in a snapshot.

Computed once for each state of quotas, counts and nodes; while requests and totals are the same, as between
a pod's observation and its binding, the runtimes are reused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import immutables

from app.domain import model, schema, snapshots
from app.plugins.elastic_quota import counting, quota_model
from app.plugins.elastic_quota.quota_model import Amounts
from app.plugins.elastic_quota.trees import forests, membership, runtimes


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """One tree in one snapshot. Amounts are milli-units of cpu, bytes, or plain numbers."""

    tree: forests.Tree
    total: Amounts
    own_used: Mapping[str, list[int]]
    """Resource -> what the pods of each quota itself use, in the order of Tree.quotas."""
    own_requests: Mapping[str, list[int]]
    runtimes: runtimes.Runtimes


class _Keys(NamedTuple):
    """The counts of one resource that a tree reads, in the order of Tree.quotas."""

    used: list[schema.CountKey]
    pending: list[schema.CountKey]
    below: list[list[schema.CountKey]]
    """Of the valid children: their use is part of the parent's count."""


Nodes = immutables.Map[model.NodeName, model.Node]
_Given = tuple[Amounts, dict[str, list[int]], dict[str, list[int]]]


class _Latest:
    """The runtimes of the latest requests. Threads may share it: it is one reference."""

    __slots__ = ("derived",)

    def __init__(self) -> None:
        self.derived: tuple[_Given, runtimes.Runtimes] | None = None


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


def _of_tree(snapshot: snapshots.Snapshot, name: str, rules: runtimes.Rules) -> TreeUsage:
    grown, counts = forest(snapshot), snapshot.counts
    tree = grown.trees[name]
    used: dict[str, list[int]] = {}
    requests: dict[str, list[int]] = {}
    for resource, keys in grown.memo.get(("keys", name), lambda: _keys(tree)).items():
        bits = counting.bits(resource)
        whole = [counts.get(key, 0) for key in keys.used]
        own = [
            (amount - sum([counts.get(key, 0) for key in below])) << bits
            for amount, below in zip(whole, keys.below, strict=True)
        ]
        used[resource] = own
        pending = keys.pending
        requests[resource] = [
            amount + (counts.get(key, 0) << bits) for amount, key in zip(own, pending, strict=True)
        ]
    total = _total(snapshot, grown, tree)
    given = total, requests, used if rules.guarantee else {}
    latest = grown.memo.get(("latest", name, rules), _Latest)
    if latest.derived is None or latest.derived[0] != given:
        latest.derived = derived = given, runtimes.derive(tree, *given, rules)
    else:
        derived = latest.derived
    return TreeUsage(tree, total, used, requests, derived[1])


def _keys(tree: forests.Tree) -> dict[str, _Keys]:
    names = tree.names
    return {
        resource: _Keys(
            [counting.key(tree.name, name, resource) for name in names],
            [counting.key(tree.name, name, resource, counting.PENDING) for name in names],
            [
                [counting.key(tree.name, names[child], resource) for child in children]
                for children in tree.children
            ],
        )
        for resource in tree.resources
    }


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
