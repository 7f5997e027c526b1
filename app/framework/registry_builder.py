"""Builds the plugin registry from the settings: enabled plugins, their order and their arguments."""

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from app import converters
from app.domain import declared_objects, model, schema
from app.framework import capabilities, registry, supposed_operations, views


def build(
    known: Sequence[type[Any]],
    *,
    enabled: Sequence[str],
    weights: Mapping[str, int],
    score_max: int,
    args: Mapping[str, Mapping[str, Any]],
    controllers: Sequence[str] = ("*",),
) -> registry.Registry:
    """The registry of the enabled plugins, created from the known classes with their arguments.

    ``controllers``: which of them reconcile (registry.reconciling).

    Raises ConfigurationRefused for an unknown plugin, an unknown argument, or a value of the wrong type.
    """
    classes = {kind.name: kind for kind in known}
    named = (one.removeprefix("-") for one in controllers if one != "*")
    unknown = [name for name in (*enabled, *args, *named) if name not in classes]
    if unknown:
        raise registry.ConfigurationRefused(
            f"unknown plugin {unknown[0]}; allowed: {', '.join(sorted(classes))}"
        )
    plugins = tuple(_made(classes[name], args.get(name, {})) for name in enabled)
    return registry.Registry(plugins, weights=weights, score_max=score_max, controllers=controllers)


def rebuild(known: Sequence[type[Any]], recorded: model.Configuration) -> registry.Registry:
    """The registry of a recorded configuration. Raises ConfigurationRefused.

    Its digest is another one if a plugin has other arguments or defaults in this version.
    """
    return build(
        known,
        enabled=recorded.enabled,
        weights=recorded.weights,
        score_max=recorded.score_max,
        args=recorded.args,
    )


class PluginUnusable(registry.ConfigurationRefused):
    """A plugin of a distribution cannot be used; the message names the distribution and what to do."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(
            f"the plugin of the distribution {source} cannot be loaded: {reason}; install a version of it"
            " that fits this Topolog, or uninstall it"
        )


def schema_of(classes: Sequence[type[Any]]) -> schema.Schema:
    """The kinds and counters that plugins declare, each with its default arguments.

    Raises ConfigurationRefused if a plugin cannot be made without arguments, or if declarations contradict
    each other.
    """
    plugins = [_made(kind, {}) for kind in classes]
    kinds = [(one.name, kind) for one in plugins for kind in _kinds(one)]
    counters = [(one.name, counter) for one in plugins for counter in _counters(one)]
    try:
        found = schema.Schema((kind for _, kind in kinds), (counter for _, counter in counters))
    except schema.InvalidSchema as invalid:
        names = [name for name, one in (*kinds, *counters) if any(one is each for each in invalid.declared)]
        cure = _CURE.format("name") if len(names) > 1 else "correct it, or uninstall its distribution"
        raise registry.ConfigurationRefused(f"{invalid} ({' and '.join(names)}); {cure}") from invalid
    for one in plugins:
        for name in one.statuses if isinstance(one, capabilities.Reconciles) else ():
            if name not in found.names:
                raise registry.ConfigurationRefused(
                    f"plugin {one.name} writes the status of {name}, which is not watched; allowed:"
                    f" {', '.join(sorted(found.names))}"
                )
    return found


def _kinds(plugin: capabilities.Plugin) -> tuple[declared_objects.Kind[Any], ...]:
    return plugin.kinds() if isinstance(plugin, capabilities.Owns) else ()


def _counters(plugin: capabilities.Plugin) -> tuple[schema.Counter, ...]:
    return plugin.counters() if isinstance(plugin, capabilities.Counts) else ()


def examine(kind: type[Any]) -> None:
    """Request all that a class declares by itself, as each process does, so that its error has one source.

    Raises ConfigurationRefused, InvalidSchema, and whatever the class raises.
    """
    made = _made(kind, {})
    registry.Registry([made])
    kinds, counters = _kinds(made), _counters(made)
    others = {needed.kind for one in counters for needed in one.depends_on}.difference(kinds)
    schema.Schema((*kinds, *others), counters)
    if isinstance(made, capabilities.Diagnoses):
        made.diagnosis()
    for declared in (annotations_of, operations_of, tables_of, terms_of):
        declared((kind,))


def annotations_of(classes: Sequence[type[Any]]) -> frozenset[str]:
    """The annotations of pods and nodes that plugins read. Raises ConfigurationRefused."""
    made = [_made(kind, {}) for kind in classes]
    return frozenset(key for one in made if isinstance(one, capabilities.Keeps) for key in one.annotations())


def tables_of(classes: Sequence[type[Any]]) -> tuple[tuple[str, views.Table], ...]:
    """The tables that plugins declare, each with the name of its plugin.

    Raises ConfigurationRefused, too if two have one name: only one of them could be asked for.
    """
    made = [_made(kind, {}) for kind in classes]
    shown = [one for one in made if isinstance(one, capabilities.Shows)]
    found = tuple((one.name, table) for one in shown for table in one.tables)
    owners: dict[str, str] = {}
    for plugin, table in found:
        if table.name in owners:
            raise registry.ConfigurationRefused(
                f"plugins {owners[table.name]} and {plugin} both declare the table {table.name};"
                f" {_CURE.format('name')}"
            )
        owners[table.name] = plugin
    return found


def operations_of(classes: Sequence[type[Any]]) -> tuple[type[supposed_operations.Operation], ...]:
    """The operations that plugins declare. Raises ConfigurationRefused.

    Of two with one name in any case, or with one option of commands, only one could be asked for: they are
    refused, and so is one with the name of an operation that needs no plugin.
    """
    made = [_made(kind, {}) for kind in classes]
    found = [
        (one.name, each)
        for one in made
        if isinstance(one, capabilities.Supposes)
        for each in one.operations()
    ]
    for _, each in found:
        converters.Converter(each)  # Two questions that enable the plugin would examine it concurrently.
    _refuse_clashes((plugin, supposed_operations.described(each)) for plugin, each in found)
    return tuple(each for _, each in found)


def _refuse_clashes(declared: Iterable[tuple[str, supposed_operations.Described]]) -> None:
    """Refuse operations of which one would take the place of another; each with the name of its plugin."""
    reserved = {name.lower() for name in supposed_operations.RESERVED}
    names: dict[str, str] = {}
    options: dict[str, str] = {}
    for plugin, one in declared:
        name, option = one.op.lower(), one.option
        if name in reserved:
            raise registry.ConfigurationRefused(
                f"plugin {plugin} declares the override {one.op}, which exists without a plugin; give it"
                " another name, or uninstall the distribution of the plugin"
            )
        if name in names:
            raise registry.ConfigurationRefused(
                f"plugins {names[name]} and {plugin} both declare the override {one.op};"
                f" {_CURE.format('name')}"
            )
        names[name] = plugin
        if not one.fields:
            continue
        if option in options:
            raise registry.ConfigurationRefused(
                f"plugins {options[option]} and {plugin} both declare overrides with the option {option};"
                f" {_CURE.format('option')}"
            )
        options[option] = plugin


_CURE = "give that of one of them another {}, or uninstall its distribution"


def terms_of(classes: Sequence[type[Any]]) -> views.Terms:
    """The terms of all plugins; of a key that two declare, the fields that both do.

    Raises ConfigurationRefused.
    """
    words, values = set[str](), set[str]()
    documents: dict[str, frozenset[str]] = {}
    for made in (_made(kind, {}) for kind in classes):
        if isinstance(made, capabilities.Discloses):
            declared = made.public_terms
            words |= declared.words
            values |= declared.values
            for key, fields in declared.documents.items():
                documents[key] = documents.get(key, fields) & fields
    return views.Terms(frozenset(words), frozenset(values), documents)


def _made(kind: type[Any], args: Mapping[str, Any]) -> capabilities.Plugin:
    try:
        allowed = [field.name for field in dataclasses.fields(kind) if field.init]
    except TypeError as error:
        raise registry.ConfigurationRefused(f"{kind.__name__} is not a dataclass") from error
    for name in args:
        if name not in allowed:
            raise registry.ConfigurationRefused(
                f"unknown argument plugins.args.{kind.name}.{name};"
                f" allowed: {', '.join(allowed) or 'no argument'}"
            )
        _refuse_other_literals(kind, name, args[name])
    try:
        # The catalog makes each plugin once before threads start, which examines its arguments.
        made: object = converters.Converter(kind).convert(dict(args))
    except (msgspec.ValidationError, ValueError) as error:
        raise registry.ConfigurationRefused(f"plugins.args.{kind.name}: {error}") from error
    if not isinstance(made, capabilities.Plugin):
        raise registry.ConfigurationRefused(
            f"{kind.__name__} is not a plugin: it has no name or no method interested"
        )
    return made


def _refuse_other_literals(kind: type[Any], name: str, value: object) -> None:
    """Refuse a value that is not one of the argument's literals, and name all of them."""
    declared = typing.get_type_hints(kind)[name]
    words = typing.get_args(declared)
    if typing.get_origin(declared) is typing.Literal and value not in words:
        raise registry.ConfigurationRefused(
            f"plugins.args.{kind.name}.{name} is {value!r}; allowed: {', '.join(words)}"
        )
