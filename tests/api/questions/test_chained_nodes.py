"""Nodes that are gone in a chain: no pod is on one, and none counts there or towards a quota."""

from typing import Any

import pytest

from app.domain import events, model
from tests.support import declared
from tests.support.decisions import small_quotas
from tests.support.extender import api_worlds
from tests.support.extender.questions import ask, f6, manifest, scale

HOST = "shop/spread|role=host"
QUOTA = "quota||all"
HOSTS = [f"host-{at}" for at in (1, 2, 3, 4)]


@pytest.fixture
def lived(process: api_worlds.Process) -> api_worlds.World:
    """The nodes and the policy of F6, and a quota that counts the pods of the namespace."""
    made = api_worlds.world(process())
    made.append(*(event for event in f6() if not isinstance(event, events.PodSeen)))
    quota = small_quotas.quota("all", 1, 8, namespaces=("shop",))
    made.append(declared.SCHEMA.of(quota).observed(quota))
    return made


def tried(world: api_worlds.World, name: str) -> None:
    """The pod appears, and an attempt is recorded."""
    world.append(api_worlds.pod_seen(name))
    api_worlds.decide(world, api_worlds.pod(name))


def committed(*placed: tuple[str, str]) -> events.PlacementsCommitted:
    placements = tuple(model.Placement(pod=api_worlds.pod(name), node=node) for name, node in placed)
    return events.PlacementsCommitted(placements=placements, at="2026-07-01T10:00:03Z")


def gone(name: str) -> events.NodeGone:
    return events.NodeGone(name=name, uid=f"uid-{name}")


def removed(*names: str) -> list[dict[str, Any]]:
    return [{"op": "removeNodes", "nodes": list(names)}]


def chain(world: api_worlds.World, **asked: object) -> dict[str, Any]:
    answer: dict[str, Any] = ask(world, "replay", mode="chain", **asked)
    assert answer["complete"]
    found: dict[str, Any] = answer["chain"]
    return found


def would(found: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Count -> its value at the end, and its largest, as they would have been; 0 is left out."""
    return {
        row["count"]: (row["would"], row["peakWould"])
        for row in found["counts"]
        if row["would"] or row["peakWould"]
    }


def test_a_pod_that_other_means_bind_to_a_removed_node_is_not_on_it(lived: api_worlds.World) -> None:
    """As a pod of a DaemonSet, of which no attempt is recorded: it is deleted."""
    tried(lived, "a-1")
    lived.append(api_worlds.pod_seen("daemon", "host-1"), api_worlds.pod_seen("daemon", "host-1"))
    found = chain(lived, overrides=removed("host-1"))
    assert would(found) == {f"{QUOTA}|pending|cpu": (500, 500)}  # That of a-1.


def test_a_placement_of_several_pods_keeps_none_on_a_removed_node(lived: api_worlds.World) -> None:
    tried(lived, "a-1")
    lived.append(api_worlds.pod_seen("a-2"))
    lived.append(committed(("a-1", "host-1"), ("a-2", "host-2")))
    lived.append(api_worlds.pod_seen("a-1", "host-1"), api_worlds.pod_seen("a-2", "host-2"))
    found = chain(lived, overrides=removed("host-2"))
    assert found["placements"] == {"same": 1, "elsewhere": 0, "onlyThen": 1, "onlyNow": 0}
    assert (would(found)[HOST], would(found)[f"{QUOTA}|cpu"]) == ((1, 1), (500, 500))


def test_a_pod_that_is_placed_elsewhere_ends_with_its_node(lived: api_worlds.World) -> None:
    """The log has no end of it, because it ran on another node: the garbage collection would delete it."""
    tried(lived, "a-1")
    lived.append(api_worlds.pod_seen("a-1", "host-1"))
    others = [gone(name) for name in HOSTS[1:]]
    lived.append(*others, api_worlds.pod_seen("a-1", "host-1"))
    found = chain(lived, overrides=[{"op": "cordon", "nodes": ["host-1"]}])
    assert found["placements"] == {"same": 0, "elsewhere": 1, "onlyThen": 0, "onlyNow": 0}
    assert (would(found)[HOST], would(found)[f"{QUOTA}|cpu"]) == ((0, 1), (0, 500))


def test_the_pods_on_a_node_end_when_an_override_removes_it_later(lived: api_worlds.World) -> None:
    """It is selected only from then on."""
    tried(lived, "a-1")
    lived.append(api_worlds.pod_seen("a-1", "host-1"))
    lived.append(api_worlds.node("host-1", role="host", old="true"), api_worlds.pod_seen("a-1", "host-1"))
    found = chain(lived, overrides=[{"op": "removeNodes", "nodes": {"selector": {"old": "true"}}}])
    assert found["placements"] == {"same": 1, "elsewhere": 0, "onlyThen": 0, "onlyNow": 0}
    assert (would(found)[HOST], would(found)[f"{QUOTA}|cpu"]) == ((0, 1), (0, 500))


def test_a_pod_that_ended_with_its_node_has_where_the_log_places_it_later(lived: api_worlds.World) -> None:
    """The override admits it at its first attempt, on the node that the log then deletes."""
    lived.append(api_worlds.policy(host=0, member=0))
    tried(lived, "a-1")
    lived.append(gone("host-2"), api_worlds.policy(host=1, member=0))
    tried(lived, "a-1")
    lived.append(committed(("a-1", "host-1")), api_worlds.pod_seen("a-1", "host-1"))
    others = [name for name in HOSTS if name != "host-2"]
    change = [scale(host=1), {"op": "cordon", "nodes": others}]
    found = chain(lived, overrides=change)
    assert found["placements"] == {"same": 0, "elsewhere": 1, "onlyThen": 0, "onlyNow": 0}
    assert HOST not in would(found) or would(found)[HOST] == (0, 1)


def test_a_pod_that_an_override_adds_ends_with_its_node(lived: api_worlds.World) -> None:
    asked: dict[str, Any] = {
        "from": str(lived.store.follower.catch_up().offset),
        "overrides": [{"op": "addPods", "pod": manifest("more"), "node": "host-2"}],
    }
    tried(lived, "a-1")
    assert would(chain(lived, **asked))[f"{QUOTA}|cpu"] == (500, 500)
    lived.append(gone("host-2"))
    assert would(chain(lived, **asked))[f"{QUOTA}|cpu"] == (0, 500)


def test_an_override_holds_when_the_log_deletes_a_node_that_it_names(lived: api_worlds.World) -> None:
    tried(lived, "a-1")
    lived.append(gone("host-2"), api_worlds.pod_seen("daemon", "host-1"))
    found = chain(lived, overrides=removed("host-1", "host-2"))
    assert would(found) == {f"{QUOTA}|pending|cpu": (500, 500)}  # That of a-1.
