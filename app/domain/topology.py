"""Nodes indexed by label: for each label key, the nodes that carry each value.

Persistent: a changed node replaces only the domains that it leaves and enters. Every other domain and
column is shared with the former snapshot, together with the node sets that it has already computed.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

import immutables

from app.domain import memos, model, node_sets

MAX_UNIONS = 64
"""Unions in use that one column holds (memos.Memo); each may be as large as the cluster has nodes."""

MAX_DERIVED = 4
"""Derived values in use that one topology holds (memos.Memo); each may have a part for every node."""

T = TypeVar("T")

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Domain:
    """The nodes that share one value of one label key."""

    __slots__ = ("_nodes", "members")

    def __init__(self, members: "immutables.Map[model.NodeName, None]") -> None:
        self.members = members
        self._nodes: node_sets.InternedNodes | None = None

    @property
    def nodes(self) -> node_sets.InternedNodes:
        """The members as a set, made once for each version of the domain."""
        nodes = self._nodes
        if nodes is None:
            nodes = self._nodes = node_sets.InternedNodes(self.members)
        return nodes

    def __len__(self) -> int:
        return len(self.members)


_EMPTY = Domain(immutables.Map())


class Column:
    """One label key: its values and their domains."""

    __slots__ = ("_unions", "domains")

    def __init__(self, domains: "immutables.Map[str, Domain]") -> None:
        self.domains = domains
        self._unions: memos.Memo | None = None

    def __getitem__(self, value: str) -> node_sets.InternedNodes:
        """The nodes with that value of the key; empty if no node has it."""
        return self.domains.get(value, _EMPTY).nodes

    def union(self, values: tuple[str, ...]) -> node_sets.InternedNodes:
        """The nodes with any of the values of the key, computed once for each version of the column."""
        if len(values) == 1:
            return self[values[0]]
        if not values or not self.domains:
            return _EMPTY.nodes
        unions = self._unions
        if unions is None:
            unions = self._unions = memos.Memo(MAX_UNIONS)
        return unions.get(
            values, lambda: node_sets.InternedNodes(frozenset().union(*(self[value] for value in values)))
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.domains)


_NO_COLUMN = Column(immutables.Map())


class Topology:
    """All label keys of all nodes, at one offset."""

    __slots__ = ("_all", "_derived", "columns")

    def __init__(self, columns: "immutables.Map[str, Column]", everywhere: Domain) -> None:
        self.columns = columns
        self._all = everywhere
        self._derived: memos.Memo | None = None

    @property
    def everywhere(self) -> node_sets.InternedNodes:
        """All nodes: the same set until a node is added or removed."""
        return self._all.nodes

    def __getitem__(self, key: str) -> Column:
        """The column of a label key; empty if no node carries it."""
        return self.columns.get(key, _NO_COLUMN)

    def derived(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value that ``compute`` derives from the names and labels of all nodes alone.

        It is computed once and held until a node is added, removed or gets other labels.
        """
        held = self._derived
        if held is None:
            # If two threads get here at once, the value that one of them stores is computed again.
            held = self._derived = memos.Memo(MAX_DERIVED)
        return held.get(key, compute)

    def moved(self, changes: "Iterable[tuple[model.Node | None, model.Node | None]]") -> "Topology":
        """The topology after nodes, each named once, changed from one form to another; None is absence."""
        everywhere: dict[model.NodeName, bool] = {}
        columns: dict[str, dict[str, dict[model.NodeName, bool]]] = {}
        for before, after in changes:
            node = after or before
            if node is None:
                continue
            if before is None or after is None:
                everywhere[node.name] = after is not None
            old = before.labels if before else _NO_LABELS
            new = after.labels if after else _NO_LABELS
            for key, value in old.items():
                if new.get(key) != value:
                    columns.setdefault(key, {}).setdefault(value, {})[node.name] = False
            for key, value in new.items():
                if old.get(key) != value:
                    columns.setdefault(key, {}).setdefault(value, {})[node.name] = True
        if not everywhere and not columns:
            return self
        found = self.columns.mutate()
        for key, values in columns.items():
            domains = self[key].domains.mutate()
            for value, names in values.items():
                members = _changed(self[key].domains.get(value, _EMPTY).members, names)
                if members:
                    domains[value] = Domain(members)
                else:
                    domains.pop(value, None)
            left = domains.finish()
            if left:
                found[key] = Column(left)
            else:
                found.pop(key, None)
        return Topology(
            found.finish(), Domain(_changed(self._all.members, everywhere)) if everywhere else self._all
        )


EMPTY = Topology(immutables.Map(), _EMPTY)


def of(nodes: Iterable[model.Node]) -> Topology:
    """The topology of all these nodes at once."""
    found: dict[str, dict[str, dict[model.NodeName, None]]] = {}
    everywhere: dict[model.NodeName, None] = {}
    for node in nodes:
        everywhere[node.name] = None
        for key, value in node.labels.items():
            found.setdefault(key, {}).setdefault(value, {})[node.name] = None
    return Topology(
        immutables.Map(
            {
                key: Column(immutables.Map({value: Domain(immutables.Map(held)) for value, held in values}))
                for key, values in ((key, column.items()) for key, column in found.items())
            }
        ),
        Domain(immutables.Map(everywhere)),
    )


def _changed(
    members: "immutables.Map[model.NodeName, None]", names: Mapping[model.NodeName, bool]
) -> "immutables.Map[model.NodeName, None]":
    """The members with the names that are true, and without the others."""
    found = members.mutate()
    for name, member in names.items():
        if member:
            found[name] = None
        else:
            found.pop(name, None)
    return found.finish()
