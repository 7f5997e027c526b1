"""Sets of nodes that outlive the call they serve: what was once made of them is remembered.

Domains, their unions and the set of all nodes change with the cluster, while calls come by the
thousand: two such sets are compared once, not for each pod. Any other set is computed with as usual,
and nothing of it is kept.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Self

from app.domain import model

REMEMBERED = 32
"""Results kept of each operation; each may be as large as the cluster has nodes."""

Names = frozenset[model.NodeName]


class Lasting(frozenset[model.NodeName]):
    """A set that is part of the state, or follows from it alone."""

    __slots__ = ()


class Among(frozenset[model.NodeName]):
    """A set that is known to be a part of a lasting one: what holds for all of that holds for it.

    Looking up each name in another large set would fetch most of it from memory.
    """

    __slots__ = ("of",)
    of: Lasting

    def __new__(cls, nodes: Iterable[model.NodeName], of: Lasting) -> Self:
        """``of`` holds every one of the nodes."""
        made = super().__new__(cls, nodes)
        made.of = of
        return made


def minus(nodes: Names, others: Names) -> Names:
    """The nodes that are not among the others."""
    if isinstance(others, Lasting):
        if isinstance(nodes, Lasting):
            return _minus(nodes, others)
        if isinstance(nodes, Among):
            return nodes & _minus(nodes.of, others)
    return nodes - others


def common(nodes: Names, others: Names) -> Names:
    """The nodes that are among the others too; ``nodes`` itself if all are."""
    if isinstance(nodes, Lasting) and isinstance(others, Lasting):
        return _common(nodes, others)
    if isinstance(nodes, Among) and isinstance(others, Lasting) and not _minus(nodes.of, others):
        return nodes
    return nodes if nodes <= others else nodes & others


def union(*several: Names) -> Names:
    """The nodes of all sets."""
    if len(several) == 1:
        return several[0]
    if all(isinstance(one, Lasting) for one in several):
        return _union(several)
    return frozenset().union(*several)


@lru_cache(REMEMBERED)
def _minus(nodes: Lasting, others: Lasting) -> Lasting:
    return Lasting(nodes - others)


@lru_cache(REMEMBERED)
def _common(nodes: Lasting, others: Lasting) -> Lasting:
    return nodes if nodes <= others else Lasting(nodes & others)


@lru_cache(REMEMBERED)
def _union(several: tuple[Names, ...]) -> Lasting:
    return Lasting(frozenset().union(*several))
