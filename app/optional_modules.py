"""Imports of packages without the optional dependencies of their unused parts.

The package ``kubernetes`` imports its dynamic client, and that imports kubernetes-validate where it is
installed, as it is beside the tests. kubernetes-validate imports jsonschema, which builds an Earley parser
for IRIs: more than a second of CPU time in every process, for a client that Topolog does not use.

The package ``structlog`` imports rich where it is installed, for tracebacks that Topolog does not print: half
of the time of its import.
"""

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import cast


@contextlib.contextmanager
def hidden(name: str) -> Iterator[None]:
    """Within it, an import of the module ``name`` fails as if it were not installed, unless it is loaded."""
    if name in sys.modules:
        yield
        return
    # The import of a module whose entry is None raises ModuleNotFoundError.
    sys.modules[name] = cast("ModuleType", None)
    try:
        yield
    finally:
        del sys.modules[name]
