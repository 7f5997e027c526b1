"""Declares settings: a dataclass field with its rule in the metadata and its description underneath.

The environment variable, the constrained type and the reference page are derived from the declaration, so
they cannot be out of date.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

T = TypeVar("T")

PREFIX = "TOPOLOG_"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """Constraints on a value beyond its type."""

    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[str, ...] = ()
    pattern: str = ""
    like: str = ""
    """The pattern in words."""
    secret: bool = False
    """The value is never shown: not in an error, in a log line or by ``topolog settings``."""
    quiet: bool = False
    """The value may contain a secret, such as the password in a URL."""
    alias: str = ""
    """Another environment variable for the setting; the derived name takes precedence."""


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
    """Declare a setting of a group; see Rule. The repr of the group omits secret and quiet values."""
    rule = Rule(at_least, at_most, one_of, pattern, like, secret, quiet, alias)
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=lambda: default, metadata={"rule": rule})
    return dataclasses.field(default=default, metadata={"rule": rule}, repr=not (secret or quiet))


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    name: str
    """``store.url``: the path in the file."""
    env: str
    """``TOPOLOG_STORE_URL``: the path in capitals, joined by underscores."""
    default: Any
    kind: Any
    """The declared type."""
    rule: Rule
    group: type
    """The dataclass that declares it."""

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the name."""
        return tuple(self.name.split("."))

    @property
    def constrained(self) -> object:
        """The declared type with the constraints of the rule, as msgspec converts to it."""
        rule = self.rule
        if rule.one_of:
            return Literal[rule.one_of]
        if rule.pattern:
            # msgspec searches, and $ would allow a newline at the end.
            return Annotated[self.kind, msgspec.Meta(pattern=rf"^(?:{rule.pattern})\Z")]
        return Annotated[self.kind, msgspec.Meta(ge=rule.at_least, le=rule.at_most)]

    @property
    def doc(self) -> str:
        """The description under the field; empty where the source code is not installed."""
        return docs(self.group).get(self.path[-1], "")

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        words = _KINDS.get(self.kind, "text")
        if self.rule.one_of:
            return " or ".join(self.rule.one_of)
        if self.rule.like:
            return self.rule.like
        low, high = self.rule.at_least, self.rule.at_most
        if low is not None and high is not None:
            return f"{words} from {low} to {high}"
        return f"{words}, at least {low}" if low is not None else words


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
    """All settings under a root dataclass, in declaration order."""
    kinds = typing.get_type_hints(root)
    for field in dataclasses.fields(root):
        kind, at = kinds[field.name], (*path, field.name)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield from describe(kind, at)
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield Setting(".".join(at), variable(at), default, kind, field.metadata["rule"], root)


@functools.cache
def docs(group: type) -> Mapping[str, str]:
    """Field -> the string under it in the source, as Sphinx and pydantic read attribute docstrings.

    Literals are in single backquotes, as in Markdown. Read only for display: a process loads its settings
    without it.
    """
    try:
        (parsed,) = ast.parse(inspect.getsource(group)).body
    except OSError:
        return {}
    found: dict[str, str] = {}
    for declared, below in itertools.pairwise(parsed.body if isinstance(parsed, ast.ClassDef) else ()):
        match declared, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.replace("``", "`").split())
    return found
