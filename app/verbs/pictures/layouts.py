"""The order of the nodes on a map, and the nested domains around them.

Nodes are sorted by the values of the levels, then by name, so that every domain is one run of nodes and a
node keeps its place while only pods change.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from app.domain import model, snapshots

USUAL = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.kubernetes.io/rack")


class Domain(NamedTuple):
    """A run of nodes that share the value of one level."""

    value: str
    """Empty for nodes without the label."""
    parent: int
    """The index of the domain around it; -1 at the widest level."""
    first: int
    """The index of its first node."""
    nodes: int
    """How many nodes it has."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes of a map in their order, and the domains in preorder."""

    levels: tuple[str, ...]
    names: tuple[model.NodeName, ...]
    domains: tuple[Domain, ...]
    digest: str
    """Equal for equal layouts."""


def levels_of(snapshot: snapshots.Snapshot, counted: Iterable[str]) -> tuple[str, ...]:
    """The levels of a map if none are requested.

    Those of region, zone and rack that nodes have, else the first key of ``counted`` that nodes have.
    """
    usual = tuple(key for key in USUAL if list(snapshot.topology[key]))
    if usual:
        return usual
    return tuple(key for key in sorted(counted) if list(snapshot.topology[key]))[:1]


def arranged(labels: Mapping[model.NodeName, Mapping[str, str]], levels: tuple[str, ...]) -> Layout:
    """The layout of nodes with these labels."""
    rows = sorted((*(held.get(level, "") for level in levels), name) for name, held in labels.items())
    names = tuple(row[-1] for row in rows)
    domains = tuple(_domains(rows, len(levels)))
    content = msgspec.json.encode((levels, names, domains))
    return Layout(levels, names, domains, hashlib.sha256(content).hexdigest()[:16])


def of(snapshot: snapshots.Snapshot, levels: tuple[str, ...]) -> Layout:
    """The layout of the nodes of one snapshot, made once while their labels are the same."""
    return snapshot.topology.derived(
        (__name__, levels),
        lambda: arranged({name: node.labels for name, node in snapshot.nodes.items()}, levels),
    )


def _domains(rows: list[tuple[str, ...]], depth: int) -> Iterator[Domain]:
    found: list[list[int]] = []
    """For each domain in preorder: parent, first, count."""
    values: list[str] = []
    open_at: list[int] = []
    path: tuple[str, ...] = ()
    for at, row in enumerate(rows):
        here = row[:depth]
        shared = 0
        while shared < len(open_at) and here[shared] == path[shared]:
            shared += 1
        del open_at[shared:]
        for level in range(shared, depth):
            found.append([open_at[-1] if open_at else -1, at, 0])
            values.append(here[level])
            open_at.append(len(found) - 1)
        for index in open_at:
            found[index][2] += 1
        path = here
    return (Domain(value, *each) for value, each in zip(values, found, strict=True))
