"""Details computed lazily, for ``explain`` only.

A decision over thousands of nodes must not pay for details that only ``explain`` shows. A later
computation must not depend on anything that changes, so it holds immutable parts of the snapshot.
"""

from collections.abc import Callable, Iterator, Mapping

from app.domain import node_sets


class Details(Mapping[str, node_sets.Names]):
    """Detail -> nodes, computed by ``compute`` at first use; equal to a dict of the same content."""

    __slots__ = ("_compute", "_computed")

    def __init__(self, compute: Callable[[], Mapping[str, node_sets.Names]]) -> None:
        self._compute = compute
        self._computed: Mapping[str, node_sets.Names] | None = None

    @property
    def _content(self) -> Mapping[str, node_sets.Names]:
        computed = self._computed
        if computed is None:
            computed = self._computed = self._compute()
        return computed

    def __getitem__(self, detail: str) -> node_sets.Names:
        return self._content[detail]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return repr(dict(self._content))
