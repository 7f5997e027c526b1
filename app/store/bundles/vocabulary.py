"""The words that a text may keep in a bundle with pseudonyms: those of the source code of the product.

Every word of a published source is public. Any other word of a sentence could be a name, so what is not in
this vocabulary is replaced. The words of a plugin of another distribution stay because decisions are repeated
by them: they are the keys and modes of its arguments, and its reasons, which are compared with recorded ones.
Reasons may be those of a base class, wherever that is.
"""

import importlib
import pkgutil
import re
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import machinery
from typing import Any, Final

TOKEN: Final = re.compile(r"\w(?:[\w.-]*\w)?")
"""A word of a text. Names, label values and uids consist of one, or of several with other characters between
them."""
PRODUCT: Final = ("app", "workers")
"""The top-level packages of the product."""
_BETWEEN: Final = re.compile(r"[._-]+")


def words(packages: Iterable[str]) -> frozenset[str]:
    """The words of all string constants in the modules of the packages, in lower case.

    The modules are read and not imported, so that what is installed beside the product is not run.
    """
    found: set[str] = set()
    for package in packages:
        top = importlib.import_module(package)
        for text in (*_constants_of(top.__spec__), *_constants_below(top.__name__, _path(top))):
            found.update(word.lower() for word in TOKEN.findall(text))
    return frozenset(found)


def of_plugin(module: str) -> frozenset[str]:
    """The words of the folder of a plugin of another distribution, or of its module where that is in none.

    ``module``: the one that has its class.
    """
    folder = module if _path(importlib.import_module(module)) else module.rpartition(".")[0]
    return words((folder or module,))


def of_module(module: str) -> frozenset[str]:
    """The words of one imported module, without those of the modules below a package."""
    texts = _constants_of(sys.modules[module].__spec__)
    return frozenset(word.lower() for text in texts for word in TOKEN.findall(text))


def base_modules(kind: type) -> frozenset[str]:
    """The modules of the base classes of a plugin, without those of the product and of Python."""
    names = {base.__module__ for base in kind.__mro__[1:] if base.__module__ in sys.modules}
    public = {*PRODUCT, *sys.stdlib_module_names}
    return frozenset(name for name in names if name.partition(".")[0] not in public)


def without_packages(
    found: Iterable[str], modules: Iterable[str], product: Collection[str]
) -> frozenset[str]:
    """The words that contain neither the name of a module's top-level package nor a part of one.

    They may be that of who runs the cluster, but not a part that is a word of the product.
    """
    packages = {module.partition(".")[0].lower() for module in modules}
    parts = {part for package in packages for part in _BETWEEN.split(package) if part not in product}
    names = {_spelled(name) for name in packages | parts if name}
    return frozenset(word for word in found if not any(name in _spelled(word) for name in names))


def _spelled(word: str) -> str:
    """The word as its parts, whatever is between them."""
    return f"-{_BETWEEN.sub('-', word.lower())}-"


def _path(module: types.ModuleType) -> Sequence[str]:
    """The folders of the module; none if it is a single file."""
    return list(getattr(module, "__path__", ()))


def _constants_below(name: str, path: Iterable[str]) -> Iterator[str]:
    for found in pkgutil.iter_modules(list(path), f"{name}."):
        finder: Any = found.module_finder
        spec = finder.find_spec(found.name)
        yield from _constants_of(spec)
        yield from _constants_below(found.name, spec.submodule_search_locations or ())


def _constants_of(spec: machinery.ModuleSpec | None) -> Iterator[str]:
    """Those of the module itself; none where it has no code, as an extension in C."""
    if spec is None:
        return
    loader: Any = spec.loader
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    if code is not None:
        yield from _constants(code.co_consts)


def _constants(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple | frozenset):
            yield from _constants(value)
        elif isinstance(value, types.CodeType):
            yield from _constants(value.co_consts)
