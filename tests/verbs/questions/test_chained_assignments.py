"""A chain assigns devices to the pods that it places on another node than the log."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from app.domain import events, model, projections, snapshots
from app.framework import cycles, registry
from app.store.decisions import records
from app.store.log import readers
from app.verbs.explain import recorded_configurations
from app.verbs.questions import simulated_placements, situations
from app.verbs.questions.chains import assignments, chains
from tests.support.decisions import devices

PLUGINS = registry.Registry([devices.Devices()])
NODES = {"old-1": 1, "old-2": 1, "new": 2}
"""Node -> its devices."""


def world() -> snapshots.Snapshot:
    seen = [
        events.NodeSeen(node=model.Node(name=name, uid=name, labels={devices.DEVICES: str(number)}))
        for name, number in NODES.items()
    ]
    return projections.project_all(snapshots.empty(schema=devices.SCHEMA), seen)


def pod(name: str) -> model.Pod:
    return model.Pod(uid=name, namespace="ns", name=name, labels={devices.WANTED: "1"})


def bound(name: str, node: str, device: str) -> list[events.AnyEvent]:
    """The pod is placed on the node and observed there, with the device."""
    assigned = {devices.ASSIGNED: device}
    seen = msgspec.structs.replace(pod(name), node=node, phase="Running", annotations=assigned)
    placement = model.Placement(pod=pod(name), node=node, annotations=assigned)
    return [events.PlacementsCommitted(placements=(placement,)), events.PodSeen(pod=seen)]


def decision(name: str, state: snapshots.Snapshot) -> records.Decision:
    kept = sum(bool(devices.free(state, node)) for node in NODES)
    return records.Decision(
        id=f"{1000 * state.offset}-0",
        position=state.position,
        verb="filter",
        pod=pod(name),
        configuration=PLUGINS.digest,
        kept=kept,
        outcome="kept",
        at="2026-07-01T10:00:00Z",
        milliseconds=1.0,
        reasons={devices.FULL: len(NODES) - kept} if kept < len(NODES) else {},
        candidates=b"",
        count=len(NODES),
    )


def played(placed: Sequence[tuple[str, str, str]], *overrides: dict[str, Any]) -> chains.Chain:
    """The pods come one after the other, and each gets a device of a node in the log."""
    base = world()
    run = chains.Chain(
        lambda plugins: situations.supposition_of(overrides, plugins),
        recorded_configurations.RecordedConfigurations(PLUGINS, [devices.Devices], lambda: base),
        base,
        choice="recorded",
        scores=False,
        limit=100,
    )
    offset = base.offset

    def advance(happened: Sequence[events.AnyEvent]) -> None:
        nonlocal offset
        first, offset = offset + 1, offset + len(happened)
        run.advance([readers.Entry(at, 1000 * at, event) for at, event in enumerate(happened, start=first)])

    for name, node, device in placed:
        advance([events.PodSeen(pod=pod(name))])
        run.compare(decision(name, run.was.snapshot), frozenset(NODES), run.was.snapshot)
        advance(bound(name, node, device))
    return run


def assigned(state: snapshots.Snapshot) -> dict[str, tuple[str, str]]:
    """Pod -> its node and its device."""
    return {
        uid: (found.node, found.annotations.get(devices.ASSIGNED, "")) for uid, found in state.pods.items()
    }


RECORDED = [("a", "old-1", "0"), ("b", "old-2", "0"), ("c", "new", "0")]


def test_pods_on_another_node_get_its_devices_until_none_is_free() -> None:
    run = played(RECORDED, {"op": "removeNodes", "nodes": ["old-1", "old-2"]})
    assert assigned(run.would.snapshot) == {"a": ("new", "0"), "b": ("new", "1"), "c": ("", "")}
    assert dict(run.would.snapshot.counts) == {devices.key("new", device): 1 for device in range(2)}
    assert run.placements.numbers() == {"same": 0, "elsewhere": 2, "onlyThen": 1, "onlyNow": 0}


def test_a_pod_whose_device_was_taken_moves_on_and_others_keep_theirs() -> None:
    recorded = [*RECORDED[:2], ("c", "new", "1")]
    run = played(recorded, {"op": "removeNodes", "nodes": ["old-1"]})
    assert assigned(run.would.snapshot) == {"a": ("old-2", "0"), "b": ("new", "0"), "c": ("new", "1")}
    assert assigned(run.was.snapshot) == {name: (node, device) for name, node, device in recorded}


@dataclasses.dataclass(frozen=True, slots=True)
class Failing(devices.Devices):
    """Raises when it should assign a device."""

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> NoReturn:
        raise KeyError(node)


def test_a_pod_goes_on_without_what_a_failing_plugin_would_assign() -> None:
    failing = registry.Registry([Failing()])
    assigned = assignments.Assignments()
    moved = assigned.reserve(failing, world(), pod("a"), "new")
    assert (moved.node, devices.ASSIGNED in moved.annotations) == ("new", False)
    pods = projections.project(world(), events.PodSeen(pod=pod("a")))
    (placed,) = simulated_placements.several(pods, ["a"], frozenset(NODES), failing, lambda: True).results
    assert (placed.node, placed.reason) == ("", "plugin Devices failed in reserve (KeyError)")


def test_a_pod_that_is_placed_again_has_nothing_of_its_former_placement() -> None:
    assigned = assignments.Assignments()
    assigned.record(model.Placement(pod=pod("a"), node="new", annotations={devices.ASSIGNED: "1"}))
    assert assigned.kept(pod("a"), "new").annotations == {devices.ASSIGNED: "1"}
    assigned.record(model.Placement(pod=pod("a"), node="new"))
    assert assigned.kept(pod("a"), "new").annotations == {}
