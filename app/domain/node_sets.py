"""Long-lived node sets whose unions, intersections and differences are memoised.

Domains, their unions and the set of all nodes change with the cluster, while calls arrive by the
thousand: an operation on two such sets runs once, not for each pod. The results are held by the first
operand and are dropped with it; a result with any other set is computed as usual and not kept.
"""

import itertools
from collections.abc import Callable, Hashable, Iterable
from typing import Self, TypeVar

from app.domain import memos, model

MAX_RESULTS = 32
"""Results in use that one set holds (memos.Memo); each may be as large as the cluster has nodes."""

MAX_VALUES = 32
"""Other values in use, such as JSON, that a set and the results of its operations hold together: each may
take a hundred bytes for each node."""

Names = frozenset[model.NodeName]
NONE: Names = frozenset()

T = TypeVar("T")

_numbers = itertools.count()


class InternedNodes(frozenset[model.NodeName]):
    """A node set of the state or of records, or computed from such sets, that holds the results of its
    operations and other values that were computed from it.

    It is equal to any set of the same content, and only the functions of this module read and fill the
    results. The operators (``|``, ``&``, ``-``) are those of frozenset: they hold nothing, and their type is
    that of a plain set.
    """

    __slots__ = ("_number", "_results", "_values")
    _number: int
    _results: memos.Memo | None
    _values: memos.Memo | None
    """Shared by a set and the results of its operations; by the numbers of these, as their ids are reused."""

    def __new__(cls, nodes: Iterable[model.NodeName] = ()) -> Self:
        """A set of these nodes with no results yet; sets of equal content do not share results."""
        made = super().__new__(cls, nodes)
        made._number = next(_numbers)
        made._results = made._values = None
        return made

    def result(
        self, operation: str, others: "tuple[InternedNodes, ...]", compute: Callable[[], Names]
    ) -> "InternedNodes":
        """The result of an operation with these very sets, computed once."""
        results = self._results
        if results is None:
            # If two threads get here at once, the results that one of them stores are computed again.
            results = self._results = memos.Memo(MAX_RESULTS)
        # By identity, because equal sets would be compared name by name; held, so that no id is reused.
        _, found = results.get((operation, *map(id, others)), lambda: (others, self._derived(compute())))
        return found

    def value(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A value that depends on the key and on this set alone, such as its JSON; computed once."""
        return self._memo().get((self._number, key), compute)

    def _derived(self, nodes: Names) -> "InternedNodes":
        if nodes is self:
            return self
        made = InternedNodes(nodes)
        made._values = self._memo()
        return made

    def _memo(self) -> memos.Memo:
        values = self._values
        if values is None:
            values = self._values = memos.Memo(MAX_VALUES)
        return values


class Subset(frozenset[model.NodeName]):
    """A set that is known to be part of an interned one, so that results of the latter apply to it.

    Finding each name in another large set would fetch most of that set from memory.
    """

    __slots__ = ("of",)
    of: InternedNodes

    def __new__(cls, nodes: Iterable[model.NodeName], of: InternedNodes) -> Self:
        """``of`` must hold every one of the nodes."""
        made = super().__new__(cls, nodes)
        made.of = of
        return made


def shared(nodes: Names, everywhere: Names) -> Names:
    """The same nodes in the form that shares results with the set of all nodes, if that is an interned one.

    All nodes are ``everywhere`` itself, some of them a Subset of it.
    """
    # Sets of one size are compared by their hashes alone, 64 keyed bits: comparing name by name
    # would load every name from main memory, as other programs have displaced them from the cache.
    if len(nodes) == len(everywhere) and hash(nodes) == hash(everywhere):
        return everywhere
    if isinstance(everywhere, InternedNodes) and nodes <= everywhere:
        return Subset(nodes, everywhere)
    return nodes


def narrowed(nodes: Names, whole: Names) -> Names:
    """``nodes``, which are part of ``whole``, in the form in which ``whole`` shares results."""
    if isinstance(whole, Subset) and not isinstance(nodes, InternedNodes | Subset):
        return Subset(nodes, whole.of)
    return nodes


def minus(nodes: Names, others: Names) -> Names:
    """The nodes that are not among the others."""
    if not others:
        return nodes
    if isinstance(others, InternedNodes):
        if isinstance(nodes, InternedNodes):
            return _minus(nodes, others)
        if isinstance(nodes, Subset):
            return nodes & _minus(nodes.of, others)
    return nodes - others


def common(nodes: Names, others: Names) -> Names:
    """The nodes that are among the others too; ``nodes`` itself if all are."""
    if not nodes:
        return nodes
    if isinstance(others, InternedNodes):
        if isinstance(nodes, InternedNodes):
            return _common(nodes, others)
        if isinstance(nodes, Subset) and not _minus(nodes.of, others):
            return nodes
    return nodes if nodes <= others else nodes & others


def union(*several: Names) -> Names:
    """The nodes of all sets."""
    if len(several) == 1:
        return several[0]
    interned = [one for one in several if isinstance(one, InternedNodes) and one]
    if len(interned) < sum(1 for one in several if one):
        return frozenset().union(*several)
    if len(interned) < 2:
        return interned[0] if interned else NONE
    first, *rest = interned
    return first.result("union", tuple(rest), lambda: first.union(*rest))


def _minus(nodes: InternedNodes, others: InternedNodes) -> InternedNodes:
    # The shared empty set holds no results: it outlives every snapshot.
    if not nodes or not others:
        return nodes
    return nodes.result("minus", (others,), lambda: nodes - others)


def _common(nodes: InternedNodes, others: InternedNodes) -> InternedNodes:
    if not others:
        return others
    return nodes.result("common", (others,), lambda: nodes if nodes <= others else nodes & others)
