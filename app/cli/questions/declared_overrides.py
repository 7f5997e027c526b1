"""Options for the overrides that installed plugins declare (supposed_operations): one for each.

The first value of an option is the first field of the operation, the second one has the others. An operation
without fields has no option, and neither has one that is called like an option of the command: --override
takes them. No two have one name, or one option: plugins that declare such are refused (registry_builder).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import click

from app import plugins
from app.framework import supposed_operations

F = TypeVar("F", bound=Callable[..., None])
Value: TypeAlias = Any
"""The value of an option, as click converts it; or one of JSON."""


class _Declared(click.Option):
    """An option of a plugin."""


class Question(click.Command):
    """A command with such options: its own ones keep their names."""

    def __init__(self, *, params: Sequence[click.Parameter], **given: Value) -> None:
        own = {name for one in params if not isinstance(one, _Declared) for name in one.opts}
        own |= {"-h", "--help"}
        kept = [one for one in params if not isinstance(one, _Declared) or own.isdisjoint(one.opts)]
        super().__init__(params=kept, **given)


DECLARED: Final = tuple(map(supposed_operations.described, plugins.catalog().operations))
"""The operations of all plugins, whether or not they are enabled where the question is asked."""


def _with_option() -> Iterator[supposed_operations.Described]:
    return (one for one in DECLARED if one.fields)


def options() -> Iterator[Callable[[F], F]]:
    """The options, in plugin order."""
    for one in _with_option():
        yield click.option(
            one.option,
            _parameter(one),
            cls=_Declared,
            multiple=True,
            nargs=min(2, len(one.fields)),
            metavar=one.metavar,
            help=one.about,
        )


Spelled: TypeAlias = tuple[str, dict[str, Any]]
"""An override, and the option that it was given by."""


def taken(given: dict[str, Value]) -> list[Spelled]:
    """The overrides of the options, which are taken out of ``given``."""
    found = []
    for one in _with_option():
        for values in given.pop(_parameter(one), ()):
            override = _override(one, values if isinstance(values, tuple) else (values,))
            found.append((one.option, override))
    return found


def _parameter(one: supposed_operations.Described) -> str:
    return f"override_{one.op.lower()}"


def _override(one: supposed_operations.Described, values: Sequence[str]) -> dict[str, Any]:
    first, *rest = one.fields
    found: dict[str, Any] = {"op": one.op, first.name: _value(first, values[0], one.option)}
    if len(rest) == 1:
        found[rest[0].name] = _value(rest[0], values[1], one.option)
    elif rest:
        for path, text in _pairs(values[1], one.option):
            name, _, key = path.partition(".")
            field = next((each for each in rest if each.name == name), None)
            if field is None:
                known = ", ".join(each.name for each in rest)
                raise click.BadParameter(f"there is no field {name}; known: {known}", param_hint=one.option)
            if field.shape != "map":
                found[name] = _value(field, text, one.option)
            elif not key:
                raise click.BadParameter(f"{name} needs a key: {name}.KEY={text}", param_hint=one.option)
            else:
                found.setdefault(name, {})[key] = _part(field, text)
    return found


def _value(field: supposed_operations.Field, text: str, option: str) -> Value:
    if field.shape == "map":
        return {key: _part(field, part) for key, part in _pairs(text, option)}
    if field.shape == "list":
        return [_part(field, part) for part in text.split(",")]
    return _part(field, text)


def _part(field: supposed_operations.Field, text: str) -> Value:
    """Text where it is allowed; else JSON, or text that the server refuses with the type that it requires."""
    if field.text:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _pairs(text: str, option: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, value = part.rpartition("=")
        if not equals or not name:
            raise click.BadParameter(f"{part} is not NAME=VALUE", param_hint=option)
        yield name, value
