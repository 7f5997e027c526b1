"""The dry run of a preemption over HTTP (its rules: tests/verbs/explain/test_preemptions.py)."""

import itertools
import json
from typing import Any

import msgspec
import pytest

from app.domain import events
from tests.support.decisions import crowded_nodes
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body

PATH = "/apis/v1/pods/ns/p/preemption"


def fill(world: api_worlds.World) -> int:
    """Cordon all other nodes and add the node, the pods and the preemptor of the scenarios."""
    others = [
        events.NodeSeen(node=msgspec.structs.replace(node, unschedulable=True))
        for node in world.store.follower.catch_up().nodes.values()
    ]
    pods = [*crowded_nodes.four(), crowded_nodes.pod("p", 50, 3)]
    return world.append(*others, *crowded_nodes.seen(crowded_nodes.node(), *pods))


def ask(world: api_worlds.World, **query: object) -> dict[str, object]:
    found: dict[str, object] = body(world.client.get(PATH, query_string=query))
    return found


def test_victims_choice_and_the_criterion_are_shown(world: api_worlds.World) -> None:
    fill(world)
    found = ask(world)
    nodes = found.pop("nodes")
    assert isinstance(nodes, list)
    assert found == {
        "pod": {"namespace": "ns", "name": "p", "uid": "p"},
        "priority": 50,
        "position": str(world.store.follower.catch_up().position),
        "eligible": {"is": True, "reason": ""},
        "needed": True,
        "fits": 0,
        "examples": [],
        "chosen": "n1",
        "decidedBy": "only candidate",
        "more": 0,
        "notModelled": [],
        "complete": True,
        "unjudged": 0,
    }
    assert nodes[0] == {
        "node": "n1",
        "reasons": ["Insufficient cpu"],
        "candidates": 4,
        "victims": [
            {
                "namespace": "ns",
                "name": name,
                "uid": name,
                "priority": priority,
                "started": f"2026-01-01T00:00:0{start}Z",
                "violating": False,
                "coDependent": False,
            }
            for name, priority, start in (("c", 30, 3), ("d", 10, 4))
        ],
        "violations": 0,
        "dropped": "",
    }
    assert [one["node"] for one in nodes[1:]] == sorted(one["node"] for one in nodes[1:])
    assert {one["dropped"] for one in nodes[1:]} == {"Preemption is not helpful for scheduling"}


@pytest.mark.scenario("PR-43")
def test_the_past_is_answered_as_it_was(world: api_worlds.World) -> None:
    offset = fill(world)
    then = ask(world)
    d = crowded_nodes.four()[3]
    world.append(events.PodGone(uid=d.uid, namespace=d.namespace, name=d.name))
    assert ask(world)["chosen"] == "n1"
    assert ask(world)["nodes"] != then["nodes"]
    assert ask(world, at=offset) == then
    gone = ask(world)["nodes"]
    assert isinstance(gone, list)
    assert [victim["name"] for victim in gone[0]["victims"]] == ["c"]


@pytest.mark.scenario("PR-22", "PR-42")
def test_dry_runs_leave_the_store_as_it_was(world: api_worlds.World) -> None:
    def dumped() -> dict[bytes, bytes | None]:
        client, prefix = world.store.client, world.store.keys.prefix
        # Readers note how far they have read.
        kept = [key for key in client.scan_iter(f"{prefix}*") if not key.endswith(b":readers")]
        return {key: client.dump(key) for key in kept}

    head = fill(world)
    before = dumped()
    assert ask(world) == ask(world) == ask(world, at=head) == simulated(world)
    assert dumped() == before


def simulated(world: api_worlds.World, *overrides: object) -> dict[str, Any]:
    """The dry run in a situation: what is chosen there, and the victims by name."""
    asked = {"pod": "ns/p", "preemption": True, "situation": {"overrides": list(overrides)}}
    found: dict[str, Any] = body(world.client.post("/apis/v1/simulate", json=asked))["preemption"]
    return found


def victims(found: dict[str, Any]) -> list[str]:
    assert found["chosen"] == "n1"
    return [victim["name"] for victim in found["nodes"][0]["victims"]]


@pytest.mark.scenario("PR-43")
def test_a_situation_without_a_pod_needs_fewer_victims(world: api_worlds.World) -> None:
    fill(world)
    assert simulated(world) == ask(world)
    assert victims(simulated(world, {"op": "deletePods", "pods": ["ns/d"]})) == ["c"]
    assert victims(ask(world)) == ["c", "d"]


@pytest.mark.scenario("PR-44")
def test_a_situation_with_another_budget_has_other_victims(world: api_worlds.World) -> None:
    fill(world)
    labelled = [
        msgspec.structs.replace(one, labels={"protected": "yes"} if one.name in "cd" else {})
        for one in crowded_nodes.four()
    ]
    world.append(*(events.PodSeen(pod=one) for one in labelled))

    def with_budget(allowed: int) -> list[str]:
        manifest = {
            "metadata": {"name": "b", "namespace": "ns", "uid": "b"},
            "spec": {"selector": {"matchLabels": {"protected": "yes"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        override = {"op": "setObject", "kind": "poddisruptionbudgets", "manifest": manifest}
        return victims(simulated(world, override))

    assert with_budget(0) == ["a", "b"]
    assert with_budget(2) == ["c", "d"]


def test_only_one_pod_has_a_dry_run(world: api_worlds.World) -> None:
    fill(world)
    asked = {"pods": ["ns/p", "ns/a"], "preemption": True}
    refused = world.client.post("/apis/v1/simulate", json=asked)
    assert_problem(refused, 400, "BadRequest", "a dry run concerns one pod")


def test_the_nodes_are_limited(world: api_worlds.World) -> None:
    fill(world)
    found = ask(world, limit=1)
    nodes = found["nodes"]
    assert isinstance(nodes, list)
    assert ([one["node"] for one in nodes], found["more"]) == (["n1"], 6)
    assert_problem(world.client.get(f"{PATH}?limit=0"), 400, "BadRequest")


def test_an_unknown_pod_is_a_404(world: api_worlds.World) -> None:
    assert_problem(world.client.get("/apis/v1/pods/ns/none/preemption"), 404, "NotFound")


def test_a_node_that_admits_the_pod_ends_the_question(world: api_worlds.World) -> None:
    world.append(*crowded_nodes.seen(crowded_nodes.pod("p", 50, 3)))
    found = ask(world)
    assert (found["needed"], found["fits"], found["chosen"]) == (False, 6, None)
    assert len(json.dumps(found["examples"])) > len("[]")


@pytest.mark.scenario("PR-45")
def test_a_spent_budget_is_reported(world: api_worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(world)
    times = itertools.count()
    monkeypatch.setattr("app.api.v1.questions.bodies.monotonic", lambda: float(next(times)))
    asked = {"pod": "ns/p", "preemption": True, "budget": 10}
    answer = body(world.client.post("/apis/v1/simulate", json=asked))
    shown = answer["preemption"]
    assert (answer["complete"], shown["complete"], shown["chosen"]) == (False, False, None)
    assert len(shown["nodes"]) + shown["fits"] + shown["unjudged"] == 7
    assert ask(world)["complete"] is False
