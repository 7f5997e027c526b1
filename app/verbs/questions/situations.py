"""The situation of a question: a snapshot with overrides folded onto it, under a configuration.

Overrides become ordinary events, folded by the code that folds the log, so nothing can be supposed that could
not be recorded. The position of the snapshot stays that of its moment.
"""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app.domain import events, model, node_sets, projections, snapshots
from app.framework import registry, registry_builder, supposed_operations
from app.store.state import fold_limit
from app.verbs.questions import errors, operations, question_schema

MAX_ADDED_NODES, MAX_CHANGED_PODS = operations.MAX_NODES, operations.MAX_PODS
"""Nodes added, and pods added or deleted, by all overrides of a situation."""
MAX_CHANGES = 50_000
"""Events that all overrides of a situation become: each is folded, kept and counted."""
MAX_READ, MAX_TIMES_READ = 1_000_000, 10
"""Nodes and pods that all overrides of a situation read to find those that they select: so many, or so many
times all of the cluster if that is more."""
PIECE = 1000
"""Events that are folded at a time for a client that may disconnect."""


@dataclasses.dataclass(frozen=True, slots=True)
class Supposition:
    """A situation without its moment: what is different, and the configuration that decides."""

    plugins: registry.Registry
    operations: tuple[supposed_operations.Operation, ...] = ()
    paths: tuple[str, ...] = ()
    """For each operation, where the question names it."""
    configured: bool = False
    """Whether the question has a configuration of its own."""
    attended: fold_limit.Check = dataclasses.field(
        default=fold_limit.always_attended, compare=False, repr=False
    )
    """Raises an exception once the answer is not waited for: called before each override and in its fold."""
    running: Callable[[], bool] = dataclasses.field(default=lambda: True, compare=False, repr=False)
    """Whether there is time for one more override."""

    @property
    def nothing(self) -> bool:
        """Whether nothing is different."""
        return not self.operations and not self.configured


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A situation at its moment."""

    base: snapshots.Snapshot
    snapshot: snapshots.Snapshot
    """``base`` with the overrides, at the same position."""
    plugins: registry.Registry
    happened: tuple[events.AnyEvent, ...] = ()
    """The events that the overrides became."""
    idle: tuple[int, ...] = ()
    """The indexes of overrides that changed nothing."""
    unapplied: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """Of those, the ones that do not apply here, each with the reason."""
    copies: Mapping[model.NodeName, model.NodeName] = dataclasses.field(default_factory=dict)
    """Added node -> the node of ``base`` that it is like, also by way of other added ones; or empty."""
    changed: frozenset[model.NodeName] | None = None
    """The nodes that may differ from those of ``base``; None for any."""

    @property
    def removed(self) -> frozenset[model.NodeName]:
        """The nodes that exist in ``base`` or were added, and that the overrides remove."""
        changed = self.base.nodes if self.changed is None else self.changed
        return frozenset(name for name in changed if name not in self.snapshot.nodes)

    def offered(self, names: node_sets.Names) -> node_sets.Names:
        """The candidates in the situation: without removed and cordoned nodes, with added ones.

        An added node is a candidate if the node that it is like is one, and if it is not cordoned.
        """
        before, after = self.base.nodes, self.snapshot.nodes
        if before is after:
            return names
        everywhere = self.snapshot.topology.everywhere
        changed = names if self.changed is None else self.changed & names
        cordoned = {name for name in changed if name in after and _cordoned(before.get(name), after[name])}
        added = {
            name
            for name, like in self.copies.items()
            if (not like or like in names) and name in after and not after[name].unschedulable
        }
        if names is self.base.topology.everywhere and self.changed is not None:
            # All nodes but a few: of thousands, no further set is made if there is none.
            others = {name for name in self.changed if name in after and name not in before} - added
            offered = node_sets.minus(everywhere, frozenset(cordoned | others))
        else:
            offered = ((names - cordoned) | added) & everywhere
        return node_sets.shared(offered, everywhere)


def _cordoned(before: model.Node | None, after: model.Node) -> bool:
    return after.unschedulable and (before is None or not before.unschedulable)


def hypothesis(
    asked: question_schema.Situation,
    plugins: registry.Registry,
    known: Sequence[type[Any]],
    path: str = "situation",
) -> Supposition:
    """What the situation changes. Raises Mistake.

    ``known``: the classes of all plugins that can be enabled; ``path``: where the question has the situation.
    """
    made = question_schema.overrides(asked.overrides, plugins, _below(path, "overrides"))
    paths = tuple(_below(path, f"overrides[{at}]") for at in range(len(made)))
    configured = asked.configuration is not None
    chosen = _configured(asked.configuration, plugins, known, path) if asked.configuration else plugins
    return Supposition(chosen, made, paths, configured)


def supposition_of(overrides: Sequence[Mapping[str, Any]], plugins: registry.Registry) -> Supposition:
    """The hypothesis of these overrides alone. Raises Mistake."""
    made = question_schema.overrides(overrides, plugins)
    return Supposition(plugins, made, ("",) * len(made))


def without(supposed: Supposition, nodes: Collection[model.NodeName]) -> Supposition:
    """The hypothesis without those of the named nodes, but for operations that name no other one."""
    if not nodes:
        return supposed
    left = tuple(operations.without(one, nodes) for one in supposed.operations)
    return dataclasses.replace(supposed, operations=left)


def resolve(
    base: snapshots.Snapshot,
    supposed: Supposition,
    *,
    first: Sequence[events.AnyEvent] = (),
    strict: bool = True,
) -> Resolved:
    """The situation at a snapshot; ``first`` are events before the overrides.

    Raises Mistake for an operation that does not apply; if not ``strict``, only for one that applies to no
    snapshot, and any other changes nothing there. Raises TooMuch beyond a bound, or if the time is over
    before the last operation, and what the check of the hypothesis raises.
    """
    snapshot = fold(base, first, supposed.attended) if first else base
    start = snapshot
    happened: list[events.AnyEvent] = []
    idle: list[int] = []
    unapplied: dict[int, str] = {}
    copies: dict[model.NodeName, model.NodeName] = {}
    nodes = pods = read = 0
    most_read = max(MAX_READ, MAX_TIMES_READ * (len(start.nodes) + len(start.names)))
    for at, (operation, path) in enumerate(zip(supposed.operations, supposed.paths, strict=True)):
        supposed.attended()
        if at and not supposed.running():
            raise errors.TooMuch(
                path, f"the budget was spent on the {at} before it; raise the budget, or leave some out"
            )
        read += operations.read(operation, snapshot)
        _refuse_many(path, "readings of nodes and pods", read, most_read)
        made: Sequence[events.AnyEvent] = ()
        try:
            made = list(itertools.islice(operation.events(snapshot), MAX_CHANGES + 1 - len(happened)))
        except supposed_operations.Impossible as error:
            mistake = _mistake(error, path)
            if strict or isinstance(error, supposed_operations.Invalid):
                raise mistake from error
            unapplied[at] = str(mistake)
        if isinstance(operation, operations.AddNodes):
            nodes += len(made)
            like = copies.get(operation.like, operation.like)
            copies |= {event.node.name: like for event in made if isinstance(event, events.NodeSeen)}
        elif isinstance(operation, operations.AddPods | operations.DeletePods | operations.RemoveNodes):
            pods += sum(isinstance(event, events.PodSeen | events.PodGone) for event in made)
        _refuse_many(path, "added nodes", nodes, MAX_ADDED_NODES)
        _refuse_many(path, "added or deleted pods", pods, MAX_CHANGED_PODS)
        _refuse_many(path, "changes or more", len(happened) + len(made), MAX_CHANGES)
        if made:
            snapshot = fold(snapshot, made, supposed.attended)
            happened += made
        else:
            idle.append(at)
    changed = frozenset(
        event.subject.partition(":")[2]
        for event in happened
        if isinstance(event, events.NodeSeen | events.NodeGone)
    )
    return Resolved(
        start, snapshot, supposed.plugins, tuple(happened), tuple(idle), unapplied, copies, changed
    )


def applied(
    operation: supposed_operations.Operation, snapshot: snapshots.Snapshot, path: str
) -> Sequence[events.AnyEvent]:
    """The events of one operation. Raises Mistake with the path of the part that does not apply."""
    try:
        return list(operation.events(snapshot))
    except supposed_operations.Impossible as error:
        raise _mistake(error, path) from error


def _mistake(error: supposed_operations.Impossible, path: str) -> errors.Mistake:
    return errors.Mistake(_below(path, error.field), error.text)


def fold(
    snapshot: snapshots.Snapshot,
    happened: Sequence[events.AnyEvent],
    check: fold_limit.Check = fold_limit.always_attended,
) -> snapshots.Snapshot:
    """The snapshot as it would be after the events; its position stays that of the original.

    Raises what ``check`` raises.
    """
    projection = projections.Projection(snapshot)
    advance(projection, happened, check)
    return dataclasses.replace(projection.finish(), position=snapshot.position)


def advance(
    projection: projections.Projection, happened: Sequence[events.AnyEvent], check: fold_limit.Check
) -> None:
    """Apply the events, and call ``check`` at least once for 1,000 of them."""
    for start in range(0, len(happened), PIECE):
        check()
        projection.apply_all(happened[start : start + PIECE])


def bound(pod: model.Pod, node: model.NodeName) -> events.AnyEvent:
    """The event by which a supposed placement counts: the pod is observed on the node."""
    return events.PodSeen(pod=on(pod, node))


def on(pod: model.Pod, node: model.NodeName) -> model.Pod:
    """The pod as it would be observed on the node."""
    phase = pod.phase if pod.finished else "Running"
    return msgspec.structs.replace(pod, node=node, phase=phase, unscheduled="")


def unbound(pod: model.Pod) -> model.Pod:
    """The pod as it would be observed if it had not been bound."""
    return msgspec.structs.replace(pod, node="", phase=pod.phase if pod.finished else "Pending")


def node_became(
    held: snapshots.Snapshot, wanted: snapshots.Snapshot, name: model.NodeName
) -> Iterator[events.AnyEvent]:
    """The event after which the node is as in ``wanted``; none if it is."""
    before, after = held.nodes.get(name), wanted.nodes.get(name)
    if after is not None and after != before:
        yield events.NodeSeen(node=after)
    elif after is None and before is not None:
        yield events.NodeGone(name=before.name, uid=before.uid)


def _configured(
    asked: question_schema.Configuration, plugins: registry.Registry, known: Sequence[type[Any]], path: str
) -> registry.Registry:
    """The plugins as the question configures them. Raises Mistake."""
    names = [plugin.name for plugin in plugins.plugins]
    enabled = asked.enabled if asked.enabled is not None else names
    args = {name: held for name, held in plugins.arguments().items() if name in enabled}
    for name, given in asked.args.items():
        args[name] = {**args.get(name, {}), **given}
    weights = {name: weight for name, weight in plugins.weights.items() if name in enabled}
    try:
        chosen = registry_builder.build(
            known,
            enabled=enabled,
            weights={**weights, **asked.weights},
            score_max=asked.score_max or plugins.score_max,
            args=args,
        )
    except registry.ConfigurationRefused as error:
        raise errors.Mistake(_below(path, "configuration"), f"{error}") from error
    lacking = sorted(chosen.indexed() - plugins.indexed())
    if lacking:
        raise errors.Mistake(
            _below(path, "configuration"),
            f"this process does not index the pod label {lacking[0]}; it has to be started with a"
            " configuration that reads it",
        )
    return chosen


def _refuse_many(path: str, what: str, number: int, most: int) -> None:
    if number > most:
        raise errors.TooMuch(
            path, f"the situation has {number} {what} up to here; at most {most} are allowed"
        )


def _below(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field
