"""Registry of the enabled plugins: order, weights, capabilities; refuses conflicting configurations."""

import dataclasses
import hashlib
import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from app import converters
from app.domain import model, schema, snapshots, verdicts
from app.domain.fit import budgets
from app.framework import capabilities, cycles


class ConfigurationRefused(ValueError):
    """The plugins cannot work together as configured; the message names the plugin and the conflict."""


class Registry:
    """The plugins in order, grouped by capability once."""

    def __init__(
        self,
        plugins: Iterable[capabilities.Plugin],
        *,
        weights: Mapping[str, int] = MappingProxyType({}),
        score_max: int = 10,
        controllers: Sequence[str] = ("*",),
    ) -> None:
        """``controllers``: which plugins reconcile (``reconciling``)."""
        self.plugins = tuple(plugins)
        self.weights = dict(weights)
        self.score_max = score_max
        """The largest score of plugins that compute percentages."""
        if score_max < 1:
            raise ConfigurationRefused(f"score_max is {score_max}; it must be at least 1")
        _refuse_conflicts(self.plugins, self.weights)
        self.indexes = tuple(p for p in self.plugins if isinstance(p, capabilities.Indexes))
        self.filters = tuple(p for p in self.plugins if isinstance(p, capabilities.Filters))
        self.classifies = {p.name: p for p in self.plugins if isinstance(p, capabilities.Classifies)}
        self.sums = {p.name: p for p in self.plugins if isinstance(p, capabilities.Sums)}
        self.advises = {p.name: p for p in self.plugins if isinstance(p, capabilities.Advises)}
        self.degrades = {p.name: p for p in self.plugins if isinstance(p, capabilities.Degrades)}
        self.narrows = {p.name: p for p in self.plugins if isinstance(p, capabilities.Narrows)}
        self.scores = tuple(p for p in self.plugins if isinstance(p, capabilities.Scores))
        self.ranks = tuple(p for p in self.plugins if isinstance(p, capabilities.BreaksTies))
        self.reserves = tuple(p for p in self.plugins if isinstance(p, capabilities.Reserves))
        self.preempts = tuple(p for p in self.plugins if isinstance(p, capabilities.Preempts))
        self.adjusts = tuple(p for p in self.plugins if isinstance(p, capabilities.Adjusts))
        self.budgets = tuple(p for p in self.plugins if isinstance(p, capabilities.Budgets))
        self.consults = tuple(p for p in self.plugins if isinstance(p, capabilities.Consults))
        self.consulting = frozenset(plugin.name for plugin in self.consults)
        self.groups = tuple(p for p in self.plugins if isinstance(p, capabilities.Groups))
        self.transforms = tuple(p for p in self.plugins if isinstance(p, capabilities.Transforms))
        self.transforms_nodes = tuple(p for p in self.plugins if isinstance(p, capabilities.TransformsNodes))
        self.transforms_scores = tuple(
            p for p in self.plugins if isinstance(p, capabilities.TransformsScores)
        )
        self.shows = tuple(p for p in self.plugins if isinstance(p, capabilities.Shows))
        self.shown = {p.name: p.shown() for p in self.shows}
        """Plugin -> its views, in order."""
        self.followed = tuple(one for shown in self.shown.values() for one in shown.followed)
        self.painted = {one.kind: one for shown in self.shown.values() for one in shown.painted}
        self.concerns = tuple(one for shown in self.shown.values() for one in shown.concerns)
        views = self.shown.items()
        _refuse_twice("kind of objects", ((name, one.kind) for name, each in views for one in each.concerns))
        _refuse_twice("painted kind", ((name, one.kind) for name, each in views for one in each.painted))
        _refuse_twice("followed kind", ((name, one.kind) for name, each in views for one in each.followed))
        self.measures = tuple(p for p in self.plugins if isinstance(p, capabilities.Measures))
        self.exceeds = tuple(p for p in self.plugins if isinstance(p, capabilities.Exceeds))
        self.wakes = tuple(p for p in self.plugins if isinstance(p, capabilities.Wakes))
        self.diagnoses = tuple(p for p in self.plugins if isinstance(p, capabilities.Diagnoses))
        self.supposes = tuple(p for p in self.plugins if isinstance(p, capabilities.Supposes))
        self.operations = {
            str(kind.__struct_config__.tag): converters.Converter(kind)
            for plugin in self.supposes
            for kind in plugin.operations()
        }
        """Name -> what converts to the override that a plugin declares."""
        self.reconciles = tuple(
            p
            for p in self.plugins
            if isinstance(p, capabilities.Reconciles) and reconciling(p.name, controllers)
        )

    def interested(self, pod: model.Pod) -> tuple[str, ...]:
        """Names of the plugins that the pod may concern."""
        return tuple([plugin.name for plugin in self.plugins if plugin.interested(pod)])

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
        """Names of the plugins that the pod concerns in this state."""
        return tuple(name for name in self.interested(pod) if self._concerns(name, pod, snapshot))

    def concerned_in(self, trace: verdicts.Trace, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
        """Names of the plugins that the pod of a trace of this state concerns.

        What transformers made of the pod, which a trace has not, concerns also those that refused it.
        """
        refusing = {refusal.plugin for refusal in trace.refusals}
        return tuple(
            name for name in trace.interested if name in refusing or self._concerns(name, trace.pod, snapshot)
        )

    def _concerns(self, name: str, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        """Whether the pod, which may concern the plugin, does so in this state."""
        narrowing = self.narrows.get(name)
        return narrowing is None or narrowing.concerned(pod, snapshot)

    def outdated(self, counted: schema.Schema, pod: model.Pod, placement: model.Placement) -> str | None:
        """Why a placement of which no Binding can be carried out does not hold for the pod any more, or None.

        It was decided for what the pod is no more: for a plugin, or for the counters.
        """
        found = self.outdated_by_plugin(pod, placement)
        if found is None and counted.read_of_pod(pod) != counted.read_of_pod(placement.pod):
            return "the pod has changed since it was placed"
        return found

    def outdated_by_plugin(self, pod: model.Pod, placement: model.Placement) -> str | None:
        """As ``outdated``, but by the plugins alone (capabilities.Consults).

        It is a loss for the pods that were placed together with it, wherever the pod goes.
        """
        reasons = (plugin.outdated(pod, placement) for plugin in self.consults)
        return next(filter(None, reasons), None)

    def objects(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> Iterator[str]:
        """The objects of the plugins that a decision about the pod concerns, as KIND:NAME."""
        for one in self.concerns:
            for name in one.names(snapshot, pod):
                yield f"{one.kind}:{name}"

    def companions(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> tuple[model.Pod, ...]:
        """The other waiting pods without which the pod, which waits, is not placed (effects.Companions)."""
        found = {one.uid: one for plugin in self.groups for one in plugin.companions(snapshot, pod)}
        return tuple(found.values())

    def objection(
        self, snapshot: snapshots.Snapshot, pod: model.Pod, together: Iterable[model.Pod]
    ) -> str | None:
        """Why a plugin protects the pod, if all of these pods are evicted that the state still has."""
        going = [found for one in together if (found := snapshot.pod(one.uid)) is not None]
        cycle = cycles.Cycle(pod, frozenset((pod.node,)), snapshot)
        reasons = (plugin.veto(cycle, pod.node, going) for plugin in self.preempts)
        return next((reason for reason in reasons if reason is not None), None)

    def protected(self, snapshot: snapshots.Snapshot, pods: Iterable[model.Pod]) -> frozenset[model.Uid]:
        """Those of the pods, of which each helps by itself, that plugins protect (effects.Protection).

        What protects a single pod may let all go that it protects, such as a whole gang.
        """
        alike: dict[str, list[model.Pod]] = {}
        for pod in pods:
            reason = self.objection(snapshot, pod, (pod,))
            if reason is not None:
                alike.setdefault(reason, []).append(pod)
        stay = (
            those
            for those in alike.values()
            # The question about a single one was asked above.
            if len(those) == 1 or self.objection(snapshot, those[0], those) is not None
        )
        return frozenset(pod.uid for those in stay for pod in those)

    def budgets_in(self, snapshot: snapshots.Snapshot) -> budgets.ByNamespace | None:
        """The PodDisruptionBudgets of the cluster; None if no plugin provides them."""
        known = [found for plugin in self.budgets if (found := plugin.budgets(snapshot)) is not None]
        return budgets.by_namespace(itertools.chain.from_iterable(known)) if known else None

    def indexed(self) -> frozenset[str]:
        """Pod label keys that snapshots must index."""
        return frozenset(key for plugin in self.indexes for key in plugin.indexed())

    @property
    def digest(self) -> str:
        """A digest of the whole configuration; equal digests mean equal decisions."""
        text = repr((self.plugins, sorted(self.weights.items()), self.score_max))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def arguments(self) -> dict[str, dict[str, Any]]:
        """Plugin -> argument -> value, defaults included."""
        return {plugin.name: _arguments(plugin) for plugin in self.plugins}

    def configuration(self) -> model.Configuration:
        """The configuration as the log keeps it: registry_builder.rebuild makes equal plugins of it."""
        return model.Configuration(
            digest=self.digest,
            enabled=tuple(plugin.name for plugin in self.plugins),
            weights=self.weights,
            score_max=self.score_max,
            args=msgspec.to_builtins({name: args for name, args in self.arguments().items() if args}),
        )


def reconciling(plugin: str, controllers: Sequence[str]) -> bool:
    """Whether the list has the plugin's controller: the first ``NAME`` or ``-NAME`` decides, else ``*``.

    Koordinator's rule for --controller-plugins.
    """
    named = next((one for one in controllers if one.removeprefix("-") == plugin), None)
    return not named.startswith("-") if named is not None else "*" in controllers


def _arguments(plugin: object) -> dict[str, Any]:
    if not dataclasses.is_dataclass(plugin):
        return {}
    return {field.name: getattr(plugin, field.name) for field in dataclasses.fields(plugin) if field.init}


def _refuse_conflicts(plugins: Sequence[capabilities.Plugin], weights: Mapping[str, int]) -> None:
    names = [plugin.name for plugin in plugins]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationRefused(f"duplicate plugin: {', '.join(twice)}")
    for name, weight in weights.items():
        if name not in names:
            raise ConfigurationRefused(f"weight for unknown plugin {name}; enabled: {', '.join(names)}")
        if weight < 1:
            raise ConfigurationRefused(f"weight of {name} is {weight}; it must be at least 1")
    for plugin in plugins:
        _refuse_values(plugin)
        _refuse_near_misses(plugin)
        _refuse_halves(plugin)


def _refuse_twice(what: str, declared: Iterable[tuple[str, str]]) -> None:
    """Refuse a kind that is declared twice; ``declared``: the plugin and the kind."""
    known: dict[str, str] = {}
    for plugin, kind in declared:
        if kind in known:
            raise ConfigurationRefused(f"plugins {known[kind]} and {plugin} both declare the {what} {kind}")
        known[kind] = plugin


_MEMBERS: Mapping[type, Mapping[str, object]] = {
    kind: {name: declared for name, declared in vars(kind).items() if not name.startswith("_")}
    for kind in (capabilities.Plugin, *capabilities.KNOWN)
}
"""The public members of each capability. Read once: isinstance adds private ones, also in other threads."""
_METHODS = frozenset(name for members in _MEMBERS.values() for name in members)


def _refuse_values(plugin: capabilities.Plugin) -> None:
    """Refuse a value, such as an argument, with the name of a method: it would be called."""
    for kind, members in _MEMBERS.items():
        for name, declared in members.items():
            wanted = inspect.isfunction(declared) and hasattr(plugin, name)
            if wanted and not callable(getattr(plugin, name)):
                raise ConfigurationRefused(
                    f"plugin {plugin.name} has a value {name}, which is the name of a method of"
                    f" {kind.__name__}: give it another name"
                )


def _refuse_near_misses(plugin: capabilities.Plugin) -> None:
    """Refuse a method whose name is one edit away from a capability's: it would never be called."""
    for name in dir(type(plugin)):
        near = next(
            (k for k in _METHODS if name != k and not name.startswith("_") and _one_edit(name, k)), None
        )
        if near is not None and name not in _METHODS:
            raise ConfigurationRefused(f"plugin {plugin.name} has a method {name}; did you mean {near}?")


def _refuse_halves(plugin: capabilities.Plugin) -> None:
    """Refuse a plugin with a part of a capability: nothing of it would be used."""
    for kind in capabilities.KNOWN:
        members = [name for name in (*_MEMBERS[kind], *kind.__annotations__) if not name.startswith("_")]
        missing = [name for name in members if not hasattr(plugin, name)]
        if missing and len(missing) < len(members):
            present = next(name for name in members if name not in missing)
            raise ConfigurationRefused(
                f"plugin {plugin.name} has {present}, but no {missing[0]}: {kind.__name__} requires both"
            )


def _one_edit(a: str, b: str) -> bool:
    if abs(len(a) - len(b)) > 1:
        return False
    short, long = sorted((a, b), key=len)
    at = next((i for i in range(len(short)) if short[i] != long[i]), len(short))
    return short[at:] == long[at + 1 :] or short[at + 1 :] == long[at + 1 :]
