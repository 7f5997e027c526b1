"""The plugins of this version: those in the tree, and those of installed distributions.

Each plugin is a folder: plugin.py declares its capabilities, logic.py computes, README.md documents it.
Plugins are pure, and independent of one another.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple, Protocol

from app.domain import schema
from app.framework import registry, registry_builder, supposed_operations, views
from app.plugins.coscheduling import plugin as coscheduling
from app.plugins.elastic_quota import plugin as elastic_quota
from app.plugins.job_affinity import plugin as job_affinity
from app.plugins.node_label_priority import plugin as node_label_priority
from app.plugins.preemption_rules import plugin as preemption_rules
from app.plugins.workload_policy import plugin as workload_policy

USUAL = (
    node_label_priority.NodeLabelPriority,
    job_affinity.JobAffinity,
    workload_policy.WorkloadPolicy,
    preemption_rules.PreemptionRules,
)
"""Enabled by default, in plugin order: the first plugin that refuses a node gives the reason."""

IN_TREE = (*USUAL, elastic_quota.ElasticQuota, coscheduling.Coscheduling)
"""All plugins of this version. The others read the state for every pod, so they are enabled by name."""

GROUP = "topolog.plugins"
"""The group of entry points under which a distribution offers plugins: each names a plugin's class."""


class Catalog(NamedTuple):
    """What this process is made of, whatever its settings enable."""

    classes: tuple[type[Any], ...]
    """All plugins: those in the tree in plugin order, then those of distributions by the name of their entry
    point."""
    schema: schema.Schema
    """The kinds and counters that they declare."""
    annotations: frozenset[str]
    """The annotations of pods and nodes that they read."""
    operations: tuple[type[supposed_operations.Operation], ...]
    """The overrides of hypothetical questions that they declare."""
    tables: tuple[tuple[str, views.Table], ...]
    """The tables of ``topolog get`` that they declare, each with the name of its plugin."""


def catalog() -> Catalog:
    """The plugins that this process can use. Raises ConfigurationRefused, such as PluginUnusable."""
    classes = (*IN_TREE, *_offered())
    return Catalog(
        classes,
        registry_builder.schema_of(classes),
        registry_builder.annotations_of(classes),
        registry_builder.operations_of(classes),
        registry_builder.tables_of(classes),
    )


class Settings(Protocol):
    """The group ``plugins`` of the settings, which are unknown here."""

    @property
    def enabled(self) -> Sequence[str]: ...
    @property
    def weights(self) -> Mapping[str, int]: ...
    @property
    def score_max(self) -> int: ...
    @property
    def args(self) -> Mapping[str, Mapping[str, Any]]: ...
    @property
    def controllers(self) -> Sequence[str]: ...


def configured(chosen: Settings) -> registry.Registry:
    """The enabled plugins with their arguments. Raises ConfigurationRefused."""
    return registry_builder.build(
        catalog().classes,
        enabled=names(chosen.enabled),
        weights=chosen.weights,
        score_max=chosen.score_max,
        args=chosen.args,
        controllers=chosen.controllers,
    )


def names(enabled: Iterable[str]) -> tuple[str, ...]:
    """The plugins that ``plugins.enabled`` names, in order; ``*`` stands for the usual ones."""
    usual = tuple(plugin.name for plugin in USUAL)
    return tuple(name for one in enabled for name in (usual if one == "*" else (one,)))


def _place(entry: metadata.EntryPoint) -> tuple[str, str]:
    return entry.name, entry.value


def _offered() -> Iterator[type[Any]]:
    """The plugins of distributions. Raises PluginUnusable, too if one has the name of another plugin."""
    owners = {plugin.name: "Topolog" for plugin in IN_TREE}
    for entry in sorted(metadata.entry_points(group=GROUP), key=_place):
        source = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "(unknown)"
        found = _loaded(entry, source)
        if found.name in owners:
            raise registry_builder.PluginUnusable(
                source, f"{entry.value} has the name {found.name}, as a plugin of {owners[found.name]} does"
            )
        owners[found.name] = f"the distribution {source}"
        yield found


def _loaded(entry: metadata.EntryPoint, source: str) -> type[Any]:
    try:
        found = entry.load()
    except Exception as problem:  # Whatever the module of another distribution raises.
        raise registry_builder.PluginUnusable(
            source, f"{entry.value}: {type(problem).__name__}: {problem}"
        ) from problem
    if not isinstance(found, type):
        raise registry_builder.PluginUnusable(source, f"{entry.value} is not a class")
    name = getattr(found, "name", None)
    if name != entry.name:
        called = f"the name {name}" if isinstance(name, str) else "no name"
        raise registry_builder.PluginUnusable(
            source, f"{entry.value} has {called} in place of that of its entry point, {entry.name}"
        )
    try:
        registry_builder.examine(found)
    except (registry.ConfigurationRefused, schema.InvalidSchema) as refused:
        raise registry_builder.PluginUnusable(source, str(refused)) from refused
    except Exception as problem:
        raise registry_builder.PluginUnusable(
            source, f"{entry.value}: {type(problem).__name__}: {problem}"
        ) from problem
    return found
