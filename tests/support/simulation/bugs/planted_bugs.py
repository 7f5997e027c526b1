"""Planted bugs, which show whether the simulation would find real ones.

Each replaces one piece of text, in the Redis function or in the source of one Python function, while a
context lasts. If the text no longer exists, planting fails: adapt the bug to the code.
"""

import contextlib
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from unittest import mock

from app.store import schemas

LUA = "lua"


@dataclass(frozen=True)
class Bug:
    """One plausible mistake."""

    name: str
    where: str
    """``lua``, or ``module:function``."""
    old: str
    new: str


class Stale(LookupError):
    """The code that the bug changes has changed."""


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The code has the bug while the context lasts."""
    if bug.where == LUA:
        text = _changed(bug, schemas.library())
        with mock.patch.object(schemas, "library", return_value=text):
            yield
        return
    name, _, path = bug.where.partition(":")
    module = importlib.import_module(name)
    *outer, last = path.split(".")
    owner: object = module
    for part in outer:
        owner = getattr(owner, part)
    function = _code(getattr(owner, last))
    source = _changed(bug, textwrap.dedent(inspect.getsource(function)))
    made: dict[str, object] = {}
    exec(compile(source, f"<{bug.name}>", "exec"), vars(module), made)
    changed = _code(made[last])
    if isinstance(function, FunctionType) and isinstance(changed, FunctionType):
        # In place: declarations of plugins hold the function itself.
        former, function.__code__ = function.__code__, changed.__code__
        try:
            yield
        finally:
            function.__code__ = former
        return
    with mock.patch.object(owner, last, changed):
        yield


def _code(found: object) -> Callable[..., object]:
    """The function of a property, or the function itself."""
    function = found.fget if isinstance(found, property) else found
    assert callable(function)
    return function


def _changed(bug: Bug, text: str) -> str:
    if text.count(bug.old) != 1:
        raise Stale(f"bug {bug.name!r}: {bug.old!r} is {text.count(bug.old)} times in {bug.where}")
    return text.replace(bug.old, bug.new)
