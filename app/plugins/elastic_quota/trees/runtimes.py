"""The runtime quota of every quota of a tree: a pure function of the quotas, the requests and the total.

Requests are summed upwards, each limited to the max of its quota; the total is divided downwards, group by
group (sharing). A resource that the max of a quota does not name is not limited by it: its children divide
what their siblings' parent divides.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.plugins.elastic_quota.quota_model import Amounts
from app.plugins.elastic_quota.trees import forests, sharing

Columns = Mapping[str, Sequence[int]]
"""Resource -> amounts of the pods that belong to each quota itself, in the order of Tree.quotas."""


class Rules(NamedTuple):
    """Arguments of the plugin on which runtimes depend."""

    scale: bool = True
    """Scale the mins down if the total is smaller than their sum."""
    guarantee: bool = False
    """What is used counts as guaranteed, and no quota lends."""


DEFAULTS = Rules()


class Division(NamedTuple):
    """One resource of one parent, divided between its children."""

    group: forests.Group
    total: int
    requests: tuple[int, ...]
    """Of the members, limited to max."""
    guarantees: tuple[int, ...]
    shares: sharing.Shares


class Line(NamedTuple):
    """One resource of a tree, each list in the order of Tree.quotas."""

    total: int
    child_requests: list[int]
    """Own requests and the limited ones of the children."""
    requests: list[int]
    """At least min, if the quota does not lend."""
    limited: list[int]
    """Requests, limited to max."""
    allocated: list[int]
    """Own use and what is guaranteed to the children; zeros unless use is guaranteed."""
    guaranteed: list[int]
    runtimes: list[int | None]
    """None where max does not name the resource."""
    divisions: dict[int, Division]
    """Index of a parent -> how it is divided; -1 is the root."""


class Runtimes:
    """The runtimes of one tree, with their derivation."""

    def __init__(self, tree: forests.Tree, lines: Mapping[str, Line]) -> None:
        self.tree = tree
        self.lines = lines

    def runtime(self, name: str) -> Amounts:
        """The runtime of a quota, in the resources that its max names."""
        return {
            resource: runtime
            for resource, line in self.lines.items()
            if (runtime := line.runtimes[self.tree.index[name]]) is not None
        }

    def division(self, name: str, resource: str) -> tuple[Division, int] | None:
        """How the resource is divided between the quota and its siblings, and its place among them."""
        at = self.tree.index[name]
        found = self.lines[resource].divisions.get(self.tree.parents[at])
        if found is None or at not in found.group.places:
            return None
        return found, found.group.places.index(at)


def derive(
    tree: forests.Tree,
    total: Mapping[str, int],
    requests: Columns,
    used: Columns,
    rules: Rules = DEFAULTS,
) -> Runtimes:
    """The runtimes of all quotas of the tree. ``used`` matters only if use is guaranteed."""
    lines = {
        resource: _line(
            tree,
            resource,
            total.get(resource, 0),
            requests[resource],
            used[resource] if rules.guarantee else (),
            rules,
        )
        for resource in tree.resources
    }
    return Runtimes(tree, lines)


def _line(
    tree: forests.Tree,
    resource: str,
    total: int,
    own: Sequence[int],
    used: Sequence[int],
    rules: Rules,
) -> Line:
    size, parents, column = len(tree.quotas), tree.parents, tree.columns[resource]
    minimums, limits = column.minimums, column.limits
    child_requests, requests, limited = list(own), [0] * size, [0] * size
    allocated, guaranteed = list(used) or [0] * size, [0] * size
    for at in range(size - 1, -1, -1):  # Children before parents.
        request, most, parent = child_requests[at], limits[at], parents[at]
        if request < minimums[at] and not tree.quotas[at].lends:
            request = minimums[at]
        requests[at] = request
        limited[at] = request = request if most is None or request < most else most
        if parent >= 0:
            child_requests[parent] += request
        if rules.guarantee:
            guaranteed[at] = max(allocated[at], minimums[at])
            if parent >= 0:
                allocated[parent] += guaranteed[at]
    runtimes: list[int | None] = [None] * size
    totals = [total] * size
    divisions: dict[int, Division] = {}
    for group in column.groups:
        available = totals[group.parent] if group.parent >= 0 else total
        for at in group.others:
            totals[at] = available
        places = group.places
        if places:
            wanted = tuple([limited[at] for at in places])
            kept = tuple([guaranteed[at] for at in places]) if rules.guarantee else ()
            shares = sharing.divide(available, group.members, wanted, kept, scale=rules.scale)
            divisions[group.parent] = Division(group, available, wanted, kept, shares)
            for at, runtime in zip(places, shares.runtimes, strict=True):
                runtimes[at] = totals[at] = runtime
    return Line(total, child_requests, requests, limited, allocated, guaranteed, runtimes, divisions)
