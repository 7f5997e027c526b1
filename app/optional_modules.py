"""Imports of packages without the optional dependencies of their unused parts.

The package ``kubernetes`` imports its dynamic client, and that imports kubernetes-validate where it is
installed, as it is beside the tests. kubernetes-validate imports jsonschema, which builds an Earley parser
for IRIs: more than a second of CPU time in every process, for a client that Topolog does not use.

It also imports requests for tokens of OpenID Connect and for streams, and pydantic for its own answers: two
thirds of the time of its import, and 15 MiB in each process. Only a kubeconfig with such tokens needs them.

The package ``structlog`` imports rich where it is installed, for tracebacks that Topolog does not print: half
of the time of its import.
"""

import contextlib
import importlib
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


@contextlib.contextmanager
def deferred(module: str, name: str) -> Iterator[None]:
    """Within it, ``from module import name`` imports nothing, unless the module is loaded.

    It binds a function that imports the module when it is called, and passes the call on. Only for a name
    that its importer does no more than call.
    """
    if module in sys.modules:
        yield
        return

    def called(*arguments: object, **options: object) -> object:
        return getattr(importlib.import_module(module), name)(*arguments, **options)

    placeholder = ModuleType(module)
    setattr(placeholder, name, called)
    sys.modules[module] = placeholder
    try:
        yield
    finally:
        del sys.modules[module]
