"""Details for people, computed only if somebody looks: the scheduler never does.

A decision over thousands of nodes must not pay for what only explain shows. What is computed later
must depend on nothing that changes, so it is handed immutable parts of the snapshot.
"""

from collections.abc import Callable, Iterator, Mapping

from app.domain import verdicts


class Details(Mapping[str, verdicts.Names]):
    """Detail -> nodes, as ``compute`` gives it, at most once; equal to a dict of the same content."""

    __slots__ = ("_compute", "_computed")

    def __init__(self, compute: Callable[[], Mapping[str, verdicts.Names]]) -> None:
        self._compute = compute
        self._computed: Mapping[str, verdicts.Names] | None = None

    @property
    def _content(self) -> Mapping[str, verdicts.Names]:
        computed = self._computed
        if computed is None:
            computed = self._computed = self._compute()
        return computed

    def __getitem__(self, detail: str) -> verdicts.Names:
        return self._content[detail]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return repr(dict(self._content))
