"""Imports of the official client without the optional dependencies of its unused parts.

The package ``kubernetes`` imports its dynamic client, and that imports kubernetes-validate where it is
installed, as it is beside the tests. kubernetes-validate imports jsonschema, which builds an Earley parser
for IRIs: more than a second of CPU time in every process, for a client that Topolog does not use.
"""

import contextlib
import importlib.abc
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType


class _Hidden(importlib.abc.MetaPathFinder):
    """Refuses one module, as if it were not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raise ModuleNotFoundError for the hidden module; leave all others to the usual finders."""
        if fullname == self._name:
            raise ModuleNotFoundError(f"{fullname} is hidden", name=fullname)


@contextlib.contextmanager
def hidden(name: str) -> Iterator[None]:
    """Within it, the first import of the top-level module ``name`` fails as if it were not installed."""
    finder = _Hidden(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
