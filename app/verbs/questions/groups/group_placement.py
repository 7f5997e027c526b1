"""Groups of pods that a plugin places together, such as gangs: those that exist, and supposed ones."""

import dataclasses
from collections.abc import Sequence
from itertools import islice

from app.domain import events, model, node_sets, snapshots
from app.framework import cycles, pipeline, registry, supposed_operations
from app.verbs.explain import explanations
from app.verbs.questions import errors, manifests, operations, question_schema, simulated_placements


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group: all that are needed are placed, or none is. It fits if no pod of it waits."""

    group: supposed_operations.Group
    fits: bool
    several: simulated_placements.Several

    @property
    def summary(self) -> str:
        """One sentence: how many members are placed, and why no more are."""
        if not self.group.waiting:
            return f"no pod of the gang {self.group.name} waits"
        text = f"{self.several.placed} of {len(self.group.waiting)} members are placed"
        reason = next((one.reason for one in self.several.results if not one.node), "")
        return f"{text}: {reason}" if reason else text


def introduced(
    asked: question_schema.Gang, plugins: registry.Registry, snapshot: snapshots.Snapshot
) -> tuple[model.NamespacedName, list[events.AnyEvent]]:
    """The name of a supposed group, and the events that add its members. Raises Mistake."""
    if asked.minimum is not None and asked.minimum > asked.members:
        raise errors.Mistake("gang.minimum", f"{asked.minimum} is more than {asked.members} members")
    if not plugins.groups:
        raise errors.Mistake("gang", "no plugin that is enabled places pods together")
    try:
        found = manifests.pod(asked.template, "gang.template")
    except supposed_operations.Impossible as error:
        raise errors.Mistake(error.field, error.text) from error
    template = operations.waiting(found, found.uid)
    try:
        made = plugins.groups[0].grouped(snapshot, template, asked.members, asked.minimum)
    except supposed_operations.Impossible as error:
        raise errors.Mistake(f"gang.{error.field}", error.text) from error
    return made.name, [events.PodSeen(pod=pod) for pod in made.waiting]


def find(plugins: registry.Registry, snapshot: snapshots.Snapshot, name: str) -> supposed_operations.Group:
    """The group NAMESPACE/NAME. Raises Missing."""
    for plugin in plugins.groups:
        found = plugin.group(snapshot, name)
        if found is not None:
            return found
    raise errors.Missing(f"cannot find a group {name} at {snapshot.position}")


def place(
    plugins: registry.Registry,
    snapshot: snapshots.Snapshot,
    name: str,
    candidates: frozenset[model.NodeName] | None,
    running: simulated_placements.Running,
) -> Outcome:
    """Place the waiting members; none of them is placed if too few can be. Raises Missing."""
    group = find(plugins, snapshot, name)
    uids = [pod.uid for pod in group.waiting]
    found = simulated_placements.several(snapshot, uids, candidates, plugins, running)
    fits = not uids or found.placed >= (group.needed or len(uids))
    return Outcome(group, fits, found if fits else _none(found, snapshot))


def _none(found: simulated_placements.Several, snapshot: snapshots.Snapshot) -> simulated_placements.Several:
    """The same pods, none of them placed."""
    refused = [one for one in found.results if not one.node]
    reason = refused[0].reason if refused else "the budget was spent before all of them were tried"
    results = tuple(
        one if not one.node else dataclasses.replace(one, node="", reason=reason) for one in found.results
    )
    return simulated_placements.Several(results, (), found.left, snapshot)


def remarks(
    plugins: registry.Registry,
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    candidates: node_sets.Names,
) -> Sequence[str]:
    """What the plugins remark about a member in the situation: the plan of the group, or what it lacks."""
    cycle = cycles.cycle(pod, candidates, snapshot, score_max=plugins.score_max)
    return [
        text
        for plugin in plugins.groups
        if plugin.name in plugins.shown
        for text in islice(
            plugins.shown[plugin.name].remarks(pipeline.with_peers(plugins, cycle, plugin.name)),
            explanations.MAX_REMARKS,
        )
    ]
