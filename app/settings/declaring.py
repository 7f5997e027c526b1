"""How a setting is declared: a dataclass field with its range in the metadata and its meaning underneath.

Everything else is derived from the declaration: the name of the environment variable, what is
allowed, the schema that checks it, and the reference page. So none of them can be out of date.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

PREFIX = "TOPOLOG_"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """What a value must keep to beyond its type."""

    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[str, ...] = ()
    pattern: str = ""
    like: str = ""
    """The pattern in words."""
    secret: bool = False
    """The value is never shown: not in an error, not in a log line, not by ``topolog settings``."""
    quiet: bool = False
    """The value may hold a secret among other things, such as the password in a URL."""
    alias: str = ""
    """Another environment variable that is also read; the derived name wins."""


def setting(
    default: T,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    one_of: tuple[str, ...] = (),
    pattern: str = "",
    like: str = "",
    secret: bool = False,
    quiet: bool = False,
    alias: str = "",
) -> T:
    """Declare one setting of a group; see Rule. Secret and quiet values are not in the repr of the group."""
    rule = Rule(at_least, at_most, one_of, pattern, like, secret, quiet, alias)
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=lambda: default, metadata={"rule": rule})
    return dataclasses.field(default=default, metadata={"rule": rule}, repr=not (secret or quiet))


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting as people see it."""

    name: str
    """``store.url``: the path in the file."""
    env: str
    """``TOPOLOG_STORE_URL``: the path in capitals, dots and all else as underscores."""
    default: Any
    doc: str
    kind: Any
    """The declared type."""
    rule: Rule

    @property
    def path(self) -> tuple[str, ...]:
        """The name's parts."""
        return tuple(self.name.split("."))

    @property
    def allowed(self) -> str:
        """What a value may be, in words."""
        words = _KINDS.get(self.kind, "text")
        if self.rule.one_of:
            return " or ".join(self.rule.one_of)
        if self.rule.like:
            return self.rule.like
        least, most = self.rule.at_least, self.rule.at_most
        if least is not None and most is not None:
            return f"{words} from {least} to {most}"
        return f"{words}, at least {least}" if least is not None else words


_KINDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: "a list of texts (in a variable: separated by commas)",
    Mapping[str, int]: "an object of whole numbers (in a variable: JSON or YAML)",
    Mapping[str, Mapping[str, Any]]: "an object of objects (in a variable: JSON or YAML)",
}


def variable(path: tuple[str, ...]) -> str:
    """The environment variable of a setting."""
    return PREFIX + "_".join(path).upper()


def describe(root: type, path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """All settings under a root dataclass, in the order in which they are declared."""
    kinds = typing.get_type_hints(root)
    docs = _docs(root)
    for field in dataclasses.fields(root):
        kind, at = kinds[field.name], (*path, field.name)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield from describe(kind, at)
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        rule = field.metadata["rule"]
        yield Setting(".".join(at), variable(at), default, docs[field.name], kind, rule)


@functools.cache
def _docs(group: type) -> Mapping[str, str]:
    """The string under each field of a dataclass."""
    (parsed,) = ast.parse(inspect.getsource(group)).body
    if not isinstance(parsed, ast.ClassDef):
        return {}
    docs: dict[str, str] = {}
    for declared, below in itertools.pairwise(parsed.body):
        match declared, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(text.split())
    return docs
