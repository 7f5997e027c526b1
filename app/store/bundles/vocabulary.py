"""The words that a text may keep in a bundle with pseudonyms: those of the source code of the product.

Every word of a published source is public. Any other word of a sentence could be a name, so what is not in
this vocabulary is replaced.
"""

import importlib
import pkgutil
import re
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final

TOKEN: Final = re.compile(r"\w(?:[\w.-]*\w)?")
"""A word of a text. Names, label values and uids consist of one, or of several with other characters between
them."""


def words(packages: Iterable[str]) -> frozenset[str]:
    """The words of all string constants in the modules of the packages, in lower case.

    The modules are read and not imported, so that what is installed beside the product is not run.
    """
    found: set[str] = set()
    for package in packages:
        top = importlib.import_module(package)
        for text in _constants_below(top.__name__, top.__path__ if hasattr(top, "__path__") else ()):
            found.update(word.lower() for word in TOKEN.findall(text))
    return frozenset(found)


def _constants_below(name: str, path: Iterable[str]) -> Iterator[str]:
    for found in pkgutil.iter_modules(list(path), f"{name}."):
        finder: Any = found.module_finder
        spec = finder.find_spec(found.name)
        code = spec.loader.get_code(found.name)
        if code is not None:
            yield from _constants(code.co_consts)
        yield from _constants_below(found.name, spec.submodule_search_locations or ())


def _constants(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple | frozenset):
            yield from _constants(value)
        elif isinstance(value, types.CodeType):
            yield from _constants(value.co_consts)
