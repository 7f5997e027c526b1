"""Applies the transformers of each phase to a cycle, in the order of the operator's list.

Each transformer gets what the one before returned. Only plugins see the changes: the Binding, the log, the
counts and the Trace hold the pod and the candidates as kube-scheduler sent them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import msgspec

from app.domain import model, node_sets, schema, snapshots, verdicts
from app.framework import capabilities, cycles, registry

FILTER, NODE, SCORE = "filter", "node", "score"
"""The phases: before filter and reserve, for single nodes, and before score."""
MAX_VIEWS = 10
"""Nodes that one transformation names; the others are counted."""

P = TypeVar("P", bound=capabilities.Plugin)
Made = cycles.Cycle | verdicts.Refusal | None


class TransformFailed(cycles.HookFailed):
    """A transformer raised, or returned a cycle that it must not return: nothing was decided."""

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(plugin, "transform", f"transformer {plugin} failed: {problem}")


@dataclass(frozen=True, slots=True)
class Transformed:
    """The cycle that plugins get, what was changed in it, and the candidates that it no longer has."""

    cycle: cycles.Cycle
    changes: tuple[verdicts.Transformation, ...] = ()
    refusals: tuple[verdicts.Refusal, ...] = ()
    views: Mapping[model.NodeName, "Transformed"] = field(default_factory=lambda: MappingProxyType({}))
    """Nodes that have a cycle of their own (``at_nodes``)."""


def order(plugins: registry.Registry) -> Mapping[str, tuple[str, ...]]:
    """Phase -> names of its transformers, in the order in which they are called."""
    by_phase: dict[str, Sequence[capabilities.Plugin]] = {
        FILTER: plugins.transforms,
        NODE: plugins.transforms_nodes,
        SCORE: plugins.transforms_scores,
    }
    return {phase: tuple(plugin.name for plugin in found) for phase, found in by_phase.items()}


def before_filter(plugins: registry.Registry, cycle: cycles.Cycle) -> Transformed:
    """The cycle that is filtered and reserved for. Raises TransformFailed."""
    if not plugins.transforms:
        return Transformed(cycle)
    return _applied(FILTER, cycle, plugins.transforms, lambda plugin, given: plugin.transform(given))


def before_score(plugins: registry.Registry, cycle: cycles.Cycle) -> Transformed:
    """The cycle that is scored: changed as for filter, then for score alone. Raises TransformFailed."""
    first = before_filter(plugins, cycle)
    if not plugins.transforms_scores:
        return first
    second = _applied(
        SCORE, first.cycle, plugins.transforms_scores, lambda plugin, given: plugin.transform_scores(given)
    )
    return Transformed(second.cycle, (*first.changes, *second.changes), first.refusals)


def at_nodes(plugins: registry.Registry, cycle: cycles.Cycle) -> Transformed:
    """The cycle with the nodes on which transformers show another state. Raises TransformFailed.

    Each of these nodes has a cycle of its own, and the cycle itself has the other candidates.
    """
    if not plugins.transforms_nodes:
        return Transformed(cycle)
    views: dict[model.NodeName, Transformed] = {}
    found: list[verdicts.Transformation] = []
    for plugin in plugins.transforms_nodes:
        changed = []
        for node in sorted(_viewed(plugin, cycle)):
            former = views.get(node) or Transformed(replace(cycle, candidates=frozenset((node,))))
            view = _applied(NODE, former.cycle, (plugin,), partial(_at_node, node))
            if view.changes or view.refusals:
                changed.append(node)
                views[node] = Transformed(view.cycle, refusals=(*former.refusals, *view.refusals))
        if changed:
            found.append(verdicts.Transformation(plugin.name, NODE, _named(changed)))
    rest = node_sets.minus(cycle.candidates, frozenset(views))
    return Transformed(replace(cycle, candidates=rest) if views else cycle, tuple(found), views=views)


def at(plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName) -> cycles.Cycle:
    """The cycle in which a pod is judged and reserved for on one node. Raises TransformFailed."""
    transformed = before_filter(plugins, cycle).cycle if plugins.transforms else cycle
    if not plugins.transforms_nodes:
        return transformed
    own = replace(transformed, candidates=frozenset((node,)))
    view = at_nodes(plugins, own).views.get(node)
    return replace(view.cycle, candidates=transformed.candidates) if view is not None else transformed


def difference(
    snapshot: snapshots.Snapshot, pod: model.Pod, shown: model.Pod, node: model.NodeName
) -> tuple[dict[schema.CountKey, int], set[schema.CountKey]]:
    """Where the transformed pod counts for more than the pod does, and by how much; and where for less."""
    placed, judged = snapshot.contributions(pod, node), snapshot.contributions(shown, node)
    by_key = {key: judged.get(key, 0) - placed.get(key, 0) for key in {*placed, *judged}}
    return (
        {key: more for key, more in by_key.items() if more > 0},
        {key for key, more in by_key.items() if more < 0},
    )


def _at_node(node: model.NodeName, plugin: capabilities.TransformsNodes, given: cycles.Cycle) -> Made:
    return plugin.transform_node(given, node)


def _viewed(plugin: capabilities.TransformsNodes, cycle: cycles.Cycle) -> node_sets.Names:
    if not plugin.interested(cycle.pod):
        return node_sets.NONE
    try:
        return cycle.candidates & plugin.viewed(cycle)
    except Exception as problem:
        raise _failed(plugin.name, problem) from problem


def _applied(
    phase: str,
    cycle: cycles.Cycle,
    plugins: Sequence[P],
    call: Callable[[P, cycles.Cycle], Made],
) -> Transformed:
    """The cycle after the transformers of a phase; after one that refuses the pod, no other is asked."""
    changes: list[verdicts.Transformation] = []
    refusals: list[verdicts.Refusal] = []
    for plugin in plugins:
        if not plugin.interested(cycle.pod):
            continue
        try:
            made = call(plugin, cycle)
        except Exception as problem:
            raise _failed(plugin.name, problem) from problem
        if made is None or made is cycle:
            continue
        if isinstance(made, verdicts.Refusal):
            refusals.append(replace(made, nodes=cycle.candidates, plugin=plugin.name))
            return Transformed(replace(cycle, candidates=node_sets.NONE), tuple(changes), tuple(refusals))
        _check(plugin.name, cycle, made)
        dropped = node_sets.minus(cycle.candidates, made.candidates)
        changed = tuple(_changes(cycle, made, len(dropped)))
        if changed:
            changes.append(verdicts.Transformation(plugin.name, phase, changed))
        if dropped:
            refusals.append(verdicts.Refusal(left_out(plugin.name), dropped, plugin=plugin.name))
        cycle = made
    return Transformed(cycle, tuple(changes), tuple(refusals))


def left_out(plugin: str) -> str:
    """The reason of a candidate that a transformer takes out."""
    return f"transformer {plugin} leaves the node out"


def _failed(plugin: str, problem: Exception) -> TransformFailed:
    return TransformFailed(plugin, f"{type(problem).__name__}: {problem}")


def _check(plugin: str, given: cycles.Cycle, made: object) -> None:
    """Raise TransformFailed if the transformer returned what it must not return."""
    if not isinstance(made, cycles.Cycle):
        raise TransformFailed(plugin, f"it returned a {type(made).__name__}, not a cycle")
    same = (given.pod.uid, given.pod.key, given.pod.node, given.score_max, given.reserved)
    if (made.pod.uid, made.pod.key, made.pod.node, made.score_max, made.reserved) != same:
        raise TransformFailed(plugin, "it changed the identity of the pod, its node or the scale of scores")
    if made.snapshot.position != given.snapshot.position:
        raise TransformFailed(plugin, "it changed the position of the snapshot")
    if made.candidates is not given.candidates and not made.candidates <= given.candidates:
        extra = min(made.candidates - given.candidates)
        raise TransformFailed(plugin, f"it returned node {extra}, which was not offered")


def _changes(given: cycles.Cycle, made: cycles.Cycle, dropped: int) -> Iterator[str]:
    """What differs between two cycles, each as a short text."""
    if made.pod is not given.pod:
        former, later = msgspec.structs.asdict(given.pod), msgspec.structs.asdict(made.pod)
        for name, value in former.items():
            other = later[name]
            if isinstance(value, dict) and isinstance(other, dict):
                keys = sorted({*value, *other})
                yield from (f"pod.{name}.{key}" for key in keys if value.get(key) != other.get(key))
            elif value != other:
                yield f"pod.{name}"
    if dropped:
        yield f"candidates -{dropped}"
    if made.snapshot is not given.snapshot:
        yield "snapshot"


def _named(nodes: Sequence[model.NodeName]) -> tuple[str, ...]:
    shown = tuple(f"view of {node}" for node in nodes[:MAX_VIEWS])
    more = len(nodes) - len(shown)
    return (*shown, f"views of {more} more nodes") if more else shown
