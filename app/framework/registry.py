"""Names -> plugins: their order, their weights, and the conflicts that are refused."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from app.domain import model, snapshots
from app.framework import capabilities


class ConfigurationRefused(ValueError):
    """The plugins cannot work together as configured; the text says which and why."""


class Registry:
    """The plugins in order, sorted by what they can do once, so that asking costs nothing."""

    def __init__(
        self,
        plugins: Iterable[capabilities.Plugin],
        *,
        weights: Mapping[str, int] = MappingProxyType({}),
        score_max: int = 10,
    ) -> None:
        self.plugins = tuple(plugins)
        self.weights = dict(weights)
        self.score_max = score_max
        """The largest score that a plugin which computes percentages hands out."""
        if score_max < 1:
            raise ConfigurationRefused(f"score_max is {score_max}; it must be at least 1")
        _refuse_conflicts(self.plugins, self.weights)
        self.indexes = tuple(p for p in self.plugins if isinstance(p, capabilities.Indexes))
        self.keeps = tuple(p for p in self.plugins if isinstance(p, capabilities.Keeps))
        self.filters = tuple(p for p in self.plugins if isinstance(p, capabilities.Filters))
        self.classifies = {p.name: p for p in self.plugins if isinstance(p, capabilities.Classifies)}
        self.softens = {p.name: p for p in self.plugins if isinstance(p, capabilities.Softens)}
        self.narrows = {p.name: p for p in self.plugins if isinstance(p, capabilities.Narrows)}
        self.scores = tuple(p for p in self.plugins if isinstance(p, capabilities.Scores))
        self.ranks = tuple(p for p in self.plugins if isinstance(p, capabilities.Ranks))
        self.reserves = tuple(p for p in self.plugins if isinstance(p, capabilities.Reserves))
        self.preempts = tuple(p for p in self.plugins if isinstance(p, capabilities.Preempts))
        self.transforms = tuple(p for p in self.plugins if isinstance(p, capabilities.Transforms))
        self.serves = tuple(p for p in self.plugins if isinstance(p, capabilities.Serves))
        self.controls = tuple(p for p in self.plugins if isinstance(p, capabilities.Controls))

    def interested(self, pod: model.Pod) -> tuple[str, ...]:
        """The names of the plugins that have anything to do with the pod."""
        return tuple(plugin.name for plugin in self.plugins if plugin.interested(pod))

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
        """The names of the plugins that have anything to do with the pod in this state."""
        narrows = self.narrows
        return tuple(
            name
            for name in self.interested(pod)
            if name not in narrows or narrows[name].concerned(pod, snapshot)
        )

    def indexed(self) -> frozenset[str]:
        """The pod label keys that snapshots must index."""
        return frozenset(key for plugin in self.indexes for key in plugin.indexed())

    def annotations(self) -> frozenset[str]:
        """The annotations of pods and nodes that some plugin reads: no others are kept."""
        return frozenset(key for plugin in self.keeps for key in plugin.annotations())

    @property
    def digest(self) -> str:
        """A short name for the whole configuration: equal digests decide equally."""
        text = repr((self.plugins, sorted(self.weights.items()), self.score_max))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _refuse_conflicts(plugins: Sequence[capabilities.Plugin], weights: Mapping[str, int]) -> None:
    names = [plugin.name for plugin in plugins]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationRefused(f"plugin named twice: {', '.join(twice)}")
    for name, weight in weights.items():
        if name not in names:
            raise ConfigurationRefused(f"weight for unknown plugin {name}; known: {', '.join(names)}")
        if weight < 1:
            raise ConfigurationRefused(f"weight of {name} is {weight}; it must be at least 1")
    for plugin in plugins:
        _refuse_near_misses(plugin)


def _methods() -> frozenset[str]:
    known: Iterable[type] = (capabilities.Plugin, *capabilities.KNOWN)
    return frozenset(name for kind in known for name in vars(kind) if not name.startswith("_"))


def _refuse_near_misses(plugin: capabilities.Plugin) -> None:
    """A method one letter from a capability's would silently never be called."""
    known = _methods()
    for name in vars(type(plugin)):
        near = next((k for k in known if name != k and not name.startswith("_") and _one_edit(name, k)), None)
        if near is not None and name not in known:
            raise ConfigurationRefused(f"plugin {plugin.name} has a method {name}; did you mean {near}?")


def _one_edit(a: str, b: str) -> bool:
    if abs(len(a) - len(b)) > 1:
        return False
    short, long = sorted((a, b), key=len)
    at = next((i for i in range(len(short)) if short[i] != long[i]), len(short))
    return short[at:] == long[at + 1 :] or short[at + 1 :] == long[at + 1 :]
