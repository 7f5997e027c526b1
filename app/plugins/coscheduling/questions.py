"""Gangs in hypothetical questions: their members, new ones, another minimum, and what would help."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from app import plurals
from app.domain import events, model, observations, snapshots, verdicts
from app.framework import cluster_changes, cycles, supposed_operations
from app.plugins.coscheduling import admission, gang_model, gangs, kinds, membership, options
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.membership import GangKey
from app.plugins.coscheduling.planner import plans

PROPOSED = 8
"""Minimums that are proposed for one gang, the largest first."""
_CHANGE = re.compile(r"[+-]?[0-9]{1,4}", re.ASCII)


def named(
    snapshot: snapshots.Snapshot,
    name: model.NamespacedName,
    families: Iterable[str] = gang_model.FAMILIES,
) -> Gang | None:
    """The gang NAMESPACE/NAME; of several the first family that has one."""
    namespace, _, own = name.partition("/")
    for family in families:
        found = gangs.find(snapshot, GangKey(family, namespace, own))
        if found is not None and (found.minimum or found.errors or found.present or found.others):
            return found
    return None


def group(snapshot: snapshots.Snapshot, name: model.NamespacedName) -> supposed_operations.Group | None:
    """The members of the gang that wait, with those of the gangs that are placed with it."""
    gang = named(snapshot, name)
    if gang is None:
        return None
    together, _ = gangs.deciding(snapshot, gang)
    every = (gang, *(one for one in together if one.key != gang.key))
    waiting = tuple(pod for one in every for pod in one.waiting)
    placed = frozenset(seat.pod.uid for one in every for seat in one.seats)
    return supposed_operations.Group(name, waiting, sum(one.needed for one in every), placed)


def grouped(
    snapshot: snapshots.Snapshot, template: model.Pod, members: int, minimum: int | None
) -> supposed_operations.Group:
    """New members: of the gang that the template names, else of one that they define themselves.

    Raises Impossible for a minimum if the template names a gang, which has its own: then none is needed.
    """
    key = membership.of(template)
    if key is not None and minimum is not None:
        text = f"the template names the group {key.short}, which has a minimum of its own"
        raise supposed_operations.Impossible("minimum", text)
    needed = 0 if key is not None else members if minimum is None else minimum
    name = key.short if key is not None else _free_gang(snapshot, template)
    marks = {}
    if key is None:
        marks = {options.NAME: name.partition("/")[2], options.MINIMUM: str(needed)}
    pods = tuple(
        msgspec.structs.replace(
            template,
            name=own,
            uid=f"supposed:{template.namespace}/{own}",
            annotations={**template.annotations, **marks},
        )
        for own in _free_names(snapshot, template, members)
    )
    return supposed_operations.Group(name, pods, needed)


def _free_gang(snapshot: snapshots.Snapshot, template: model.Pod) -> model.NamespacedName:
    name, number = f"{template.namespace}/{template.name}", 1
    while named(snapshot, name) is not None:
        number += 1
        name = f"{template.namespace}/{template.name}-{number}"
    return name


def _free_names(snapshot: snapshots.Snapshot, template: model.Pod, members: int) -> Iterator[str]:
    number = 0
    while members:
        number += 1
        name = f"{template.name}-{number}"
        if snapshot.pod_named(template.namespace, name) is None:
            members -= 1
            yield name


class ScaleGang(supposed_operations.Operation, frozen=True, tag="scaleGang"):
    """The minimum of a gang that an object defines is set (5) or changed (+2, -1)."""

    usage: ClassVar[str] = "--scale-gang NS/GANG N"
    gang: Annotated[supposed_operations.Name, Meta(description="NAMESPACE/NAME.", examples=["ml/train"])]
    minimum: Annotated[int | str, Meta(description='5, or a change such as "-2".', examples=["-2"])]

    def events(self, snapshot: snapshots.Snapshot) -> Sequence[events.AnyEvent]:
        namespace, _, name = self.gang.partition("/")
        for family in gang_model.FAMILIES:
            kind = kinds.OF_FAMILY[family]
            held = snapshot.get(kind, f"{namespace}/{name}")
            if held is not None:
                if held.errors:
                    text = f"{self.gang} is invalid: {held.errors[0]}"
                    raise supposed_operations.Impossible("gang", text)
                scaled = msgspec.structs.replace(held, minimum=self._scaled(held.minimum))
                return observations.declared(kind, held, scaled)
        raise supposed_operations.Impossible(
            "gang", f"there is no PodGroup {self.gang} at {snapshot.position}"
        )

    def _scaled(self, minimum: int) -> int:
        change = self.minimum
        if isinstance(change, str):
            if not _CHANGE.fullmatch(change):
                text = f"{change[:40]!r} is neither a number nor a change such as -2"
                raise supposed_operations.Invalid("minimum", text)
            change = minimum + int(change) if change[0] in "+-" else int(change)
        if not 1 <= change <= gang_model.LARGEST:
            text = f"{change} members are not between 1 and {gang_model.LARGEST:,}"
            raise supposed_operations.Impossible("minimum", text)
        return change


def operations() -> tuple[type[supposed_operations.Operation], ...]:
    """The operations on gangs."""
    return (ScaleGang,)


def hypotheses(
    cycle: cycles.Cycle, refusal: verdicts.Refusal, rules: admission.GangRules
) -> Iterator[cluster_changes.Hypothesis]:
    """Smaller minimums of a gang that an object defines: at most as many members as could be placed."""
    key = membership.of(cycle.pod)
    if key is None or not refusal.nodes:
        return
    kind = kinds.OF_FAMILY[key.family]
    held = cycle.snapshot.get(kind, key.short)
    gang = gangs.limited(cycle.snapshot, key, (cycle.pod,))
    if held is None or gang is None or gang.errors or gang.satisfied:
        return
    plan = plans.plan(plans.PlanRequest(cycle.snapshot, (gang,), rules.layers, cycle.peers))
    largest = min(held.minimum - 1, len(plan.seats) or plan.fitting)
    for minimum in range(largest, max(0, largest - PROPOSED), -1):
        fewer = held.minimum - minimum
        message = f"gang {key} would have to need {plurals.counted(fewer, 'member')} fewer"
        change = partial(kind.observed, msgspec.structs.replace(held, minimum=minimum))
        yield cluster_changes.Hypothesis(f"{message} (minimum {minimum} of {held.minimum})", fewer, (change,))
