"""The runtime quota of every quota of a tree: a pure function of the quotas, the requests and the total.

Requests are summed upwards, each limited to the max of its quota; the total is divided downwards, group by
group. A resource that the max of a quota does not name is not limited by it: its children divide
what their siblings' parent divides.

The sums follow each change along the chain of the quota that it concerns. A group is divided when the
runtime of one of its members is asked for, and again only if its total or a member's request changed.
"""

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.plugins.elastic_quota.quota_model import Amounts
from app.plugins.elastic_quota.trees import forests, weighted_shares

Columns = Mapping[str, Sequence[int]]
"""Resource -> amounts of the pods that belong to each quota itself, in the order of Tree.quotas."""
Changes = Mapping[str, Mapping[int, int]]
"""Resource -> index of a quota -> by how much the amount of its own pods changed."""
_NONE: Mapping[int, int] = {}


class RuntimeRules(NamedTuple):
    """Arguments of the plugin on which runtimes depend."""

    scale: bool = True
    """Scale the mins down if the total is smaller than their sum."""
    guarantee: bool = False
    """What is used counts as guaranteed, and no quota lends."""


DEFAULTS = RuntimeRules()


class Division(NamedTuple):
    """One resource of one parent, divided between its children."""

    group: forests.Group
    total: int
    requests: tuple[int, ...]
    """Of the members, limited to max."""
    shares: weighted_shares.Shares


class TreeResource:
    """One resource of a tree, each list in the order of Tree.quotas.

    Nothing of it changes but its divisions, which are kept once they are made; threads may share it.
    """

    __slots__ = (
        "_column",
        "_divisions",
        "_former",
        "_resource",
        "_rules",
        "_tree",
        "allocated",
        "child_requests",
        "guaranteed",
        "limited",
        "requests",
        "total",
    )

    def __init__(self, tree: forests.Tree, resource: str, total: int, rules: RuntimeRules) -> None:
        size = len(tree.quotas)
        self._tree = tree
        self._resource = resource
        self._column = tree.columns[resource]
        self._rules = rules
        self.total = total
        self.child_requests = [0] * size
        """Own requests and the limited ones of the children."""
        self.requests = [0] * size
        """At least min, if the quota does not lend; none does if use is guaranteed."""
        self.limited = [0] * size
        """Requests, limited to max."""
        self.allocated = [0] * size
        """Own use and what is guaranteed to the children; zeros unless use is guaranteed."""
        self.guaranteed = [0] * size
        self._divisions: dict[int, Division] = {}
        """Index of a parent -> how it is divided; -1 is the root."""
        self._former: dict[int, Division] = {}
        """Those of the line before, except where the request or guarantee of a member changed since."""

    def runtime(self, at: int) -> int | None:
        """The runtime of a quota, at most its max; None if its max does not name the resource."""
        spot, most = self._column.spots[at], self._column.limits[at]
        if spot is None or most is None:
            return None
        # A share exceeds max only where more is guaranteed, such as the mins of the children.
        return min(self._division(self._tree.parents[at]).shares.runtimes[spot], most)

    def division(self, at: int) -> tuple[Division, int] | None:
        """How the resource is divided between the quota and its siblings, and its place among them."""
        spot = self._column.spots[at]
        return None if spot is None else (self._division(self._tree.parents[at]), spot)

    def _division(self, parent: int) -> Division:
        made = self._divisions.get(parent)
        if made is None:
            total = self._divided(parent)
            made = self._former.get(parent)
            if made is None or made.total != total:
                made = self._divide(self._column.groups[parent], total)
            self._divisions[parent] = made
        return made

    def _divided(self, at: int) -> int:
        """What the children of a quota divide."""
        while at >= 0:
            runtime = self.runtime(at)
            if runtime is not None:
                return runtime
            at = self._tree.parents[at]
        return self.total

    def _divide(self, group: forests.Group, total: int) -> Division:
        wanted = tuple([self.limited[at] for at in group.places])
        kept = tuple([self.guaranteed[at] for at in group.places]) if self._rules.guarantee else ()
        shares = weighted_shares.divide(total, group.members, wanted, kept, scale=self._rules.scale)
        return Division(group, total, wanted, shares)

    def summed(self, requests: Sequence[int], used: Sequence[int]) -> "TreeResource":
        """The line of these amounts of each quota's own pods; ``used`` only if use is guaranteed."""
        line = TreeResource(self._tree, self._resource, self.total, self._rules)
        line.child_requests[:] = requests
        line.allocated[: len(used)] = used
        parents = self._tree.parents
        for at in range(len(parents) - 1, -1, -1):  # Children before parents.
            line._limit(at)
            parent = parents[at]
            if parent >= 0:
                line.child_requests[parent] += line.limited[at]
            if self._rules.guarantee:
                line._guarantee(at)
                if parent >= 0:
                    line.allocated[parent] += line.guaranteed[at]
        return line

    def changed(self, total: int, requests: Mapping[int, int], used: Mapping[int, int]) -> "TreeResource":
        """The line after changes: index -> by how much the amount of a quota's own pods changed."""
        if total == self.total and not requests and not used:
            return self
        line = self._copied(total)
        for at, change in requests.items():
            line._requested(at, change)
        for at, change in used.items():
            line._used(at, change)
        return line

    def amended(self, tree: forests.Tree, changed: Iterable[int]) -> "TreeResource":
        """The line of the tree, which differs from that of this line in amounts of the changed quotas."""
        column = tree.columns[self._resource]
        if column is self._column:
            return self
        line = self._copied(self.total)
        line._tree, line._column = tree, column
        for at in changed:
            parent = tree.parents[at]
            line._former.pop(parent, None)
            before = line.limited[at]
            line._limit(at)
            line._requested(parent, line.limited[at] - before)
            if self._rules.guarantee:
                before = line.guaranteed[at]
                line._guarantee(at)
                line._used(parent, line.guaranteed[at] - before)
        return line

    def _copied(self, total: int) -> "TreeResource":
        """The line with another total; its divisions are kept as long as they hold."""
        line = TreeResource(self._tree, self._resource, total, self._rules)
        line._column = self._column
        line.child_requests = self.child_requests.copy()
        line.requests = self.requests.copy()
        line.limited = self.limited.copy()
        line.allocated = self.allocated.copy()
        line.guaranteed = self.guaranteed.copy()
        line._former = {**self._former, **self._divisions}
        return line

    def _requested(self, at: int, change: int) -> None:
        """Add to the requests of a quota's own pods, and to those above as far as that changes them."""
        while at >= 0 and change:
            self.child_requests[at] += change
            before = self.limited[at]
            self._limit(at)
            change = self.limited[at] - before
            at = self._tree.parents[at]
            if change:
                self._former.pop(at, None)

    def _used(self, at: int, change: int) -> None:
        """Add to the use of a quota's own pods, and to what is allocated above as far as that changes it."""
        while at >= 0 and change:
            self.allocated[at] += change
            before = self.guaranteed[at]
            self._guarantee(at)
            change = self.guaranteed[at] - before
            at = self._tree.parents[at]
            if change:
                self._former.pop(at, None)

    def _limit(self, at: int) -> None:
        column, request = self._column, self.child_requests[at]
        least, most = column.minimums[at], column.limits[at]
        if request < least and (self._rules.guarantee or not self._tree.quotas[at].lends):
            request = least
        self.requests[at] = request
        self.limited[at] = request if most is None or request < most else most

    def _guarantee(self, at: int) -> None:
        self.guaranteed[at] = max(self.allocated[at], self._column.minimums[at])


class Runtimes:
    """The runtimes of one tree, with their derivation."""

    def __init__(self, tree: forests.Tree, lines: Mapping[str, TreeResource]) -> None:
        self.tree = tree
        self.lines = lines

    def runtime(self, name: str) -> Amounts:
        """The runtime of a quota, in the resources that its max names."""
        at = self.tree.index[name]
        return {
            resource: runtime
            for resource, line in self.lines.items()
            if (runtime := line.runtime(at)) is not None
        }

    def division(self, name: str, resource: str) -> tuple[Division, int] | None:
        """How the resource is divided between the quota and its siblings, and its place among them."""
        return self.lines[resource].division(self.tree.index[name])

    def changed(self, total: Mapping[str, int], requests: Changes, used: Changes) -> "Runtimes":
        """The runtimes after changes. ``used`` is empty unless use is guaranteed."""
        lines = {
            resource: line.changed(
                total.get(resource, 0), requests.get(resource, _NONE), used.get(resource, _NONE)
            )
            for resource, line in self.lines.items()
        }
        return Runtimes(self.tree, lines)

    def amended(self, tree: forests.Tree) -> "Runtimes":
        """The runtimes of the tree, which differs from that of these in amounts alone."""
        differs = map(operator.is_not, self.tree.quotas, tree.quotas)
        changed = tuple(itertools.compress(itertools.count(), differs))
        return Runtimes(tree, {name: line.amended(tree, changed) for name, line in self.lines.items()})


def derive(
    tree: forests.Tree,
    total: Mapping[str, int],
    requests: Columns,
    used: Columns,
    rules: RuntimeRules = DEFAULTS,
) -> Runtimes:
    """The runtimes of all quotas of the tree. ``used`` matters only if use is guaranteed."""
    lines = {
        resource: TreeResource(tree, resource, total.get(resource, 0), rules).summed(
            requests[resource], used[resource] if rules.guarantee else ()
        )
        for resource in tree.resources
    }
    return Runtimes(tree, lines)
