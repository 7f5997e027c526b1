"""replay over HTTP: the classes of a hand-written table, what is skipped, and pages of a range."""

import random
from typing import Any

import msgspec
import pytest

from app import plugins
from app.domain import events
from app.framework import capabilities, registry
from app.store.decisions import records
from app.store.log import batches
from app.verbs.questions import replays
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import Json, assert_problem, body
from tests.support.extender.questions import ask, f6, live, post


@pytest.fixture
def lived(process: api_worlds.Process) -> api_worlds.World:
    """F6 with its ten decisions."""
    made = api_worlds.world(process())
    assert len(live(made)) == 10
    return made


AS_IT_IS = {"weights": {"JobAffinity": 2}}
"""The configuration in force, so that every decision is computed in the situation as well."""


def scale(host: int) -> list[dict[str, Any]]:
    return [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": host}}]


@pytest.mark.scenario("WI-4")
@pytest.mark.parametrize("situation", [{}, {"configuration": AS_IT_IS, "compare": "scores"}])
def test_a_replay_that_changes_nothing_differs_nowhere(
    lived: api_worlds.World, situation: dict[str, Any]
) -> None:
    answer = ask(lived, "replay", **situation)
    assert (answer["examined"], answer["same"]) == (10, 10)
    assert not any(answer["classes"].values())
    assert not any(answer["skipped"].values())
    assert (answer["complete"], answer["continue"], answer["items"]) == (True, None, [])


@pytest.mark.scenario("WI-5")
@pytest.mark.parametrize(
    ("host", "table"),
    [
        (2, {"a-2": "reason", "a-3": "reason", "a-4": "refused", "a-5": "reason", "a-6": "reason"}),
        (5, {"a-2": "reason", "a-3": "reason", "a-4": "reason", "a-5": "admitted", "a-6": "admitted"}),
    ],
)
def test_exactly_the_filters_of_the_table_differ(
    lived: api_worlds.World, host: int, table: dict[str, str]
) -> None:
    answer = ask(lived, "replay", overrides=scale(host))
    assert {one["pod"]["name"]: one["class"] for one in answer["items"]} == table
    assert {one["verb"] for one in answer["items"]} == {"filter"}
    assert answer["same"] == 10 - len(table)
    assert answer["by"] == {
        "verb": {"filter": 5},
        "namespace": {"shop": 5},
        "plugin": {"WorkloadPolicy": 5},
        "object": {"policy:shop/spread": 5},
    }
    (gravest,) = [one for one in answer["items"] if one["pod"]["name"] == "a-4"]
    if host == 2:
        assert (gravest["was"]["kept"], gravest["would"]["kept"]) == (4, 0)
        assert gravest["would"]["reasons"] == {
            "workload policy shop/spread: no capacity (host 2/2, member 1/1)": 6
        }
    assert lived.client.get(gravest["explain"]).status_code == 200


def test_objects_beyond_a_number_are_counted_together(
    lived: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "MOST_OBJECTS", 0)
    assert ask(lived, "replay", overrides=scale(2))["by"]["object"] == {"": 5}


def test_another_set_of_nodes_and_other_scores_are_classes_of_their_own(lived: api_worlds.World) -> None:
    cordoned = ask(lived, "replay", overrides=[{"op": "cordon", "nodes": ["host-4"]}])
    assert cordoned["classes"]["nodes"] == 4
    heavier = {"weights": {"WorkloadPolicy": 3}}
    assert not any(ask(lived, "replay", configuration=heavier)["classes"].values())
    scored = ask(lived, "replay", configuration=heavier, compare="scores")
    assert {one["verb"] for one in scored["items"]} == {"prioritize"}
    assert scored["classes"]["scores"] == len(scored["items"]) > 0


@pytest.mark.scenario("WI-6")
def test_with_a_doubled_weight_scores_differ_as_the_explanations_under_it_show(
    process: api_worlds.Process,
) -> None:
    world = api_worlds.world(process())
    world.append(*(event for event in f6() if not isinstance(event, events.PodSeen)))
    rng = random.Random(6)
    for number in range(70):
        name = f"p-{number}"
        world.append(api_worlds.policy(host=rng.randint(40, 80), member=1), api_worlds.pod_seen(name))
        api_worlds.decide(world, api_worlds.pod(name))
        if rng.random() < 0.5:
            world.append(api_worlds.pod_seen(name, f"host-{rng.randint(1, 4)}"))
    doubled = {"weights": {"WorkloadPolicy": 2 * world.registry.weights.get("WorkloadPolicy", 1)}}
    answer = ask(world, "replay", configuration=doubled, compare="scores", limit=1000, budget=20)
    assert {name for name, number in answer["classes"].items() if number} == {"scores"}
    assert {one["verb"] for one in answer["items"]} == {"prioritize"}
    for item in rng.sample(answer["items"], 50):
        was = body(world.client.get(f"{item['explain']}&limit=100"))
        would = ask(
            world,
            "simulate",
            pod=f"shop/{item['pod']['name']}",
            situation={"at": item["position"], "configuration": doubled},
            candidates=body(world.client.get(f"/apis/v1/decisions/{item['id']}"))["nodes"],
            top=100,
        )["explanation"]
        for shown, answered in ((was, item["was"]), (would, item["would"])):
            assert shown["kept"] == answered["kept"] > 0
        assert totals(would) == {
            node: total + weighted for node, (total, weighted) in by_plugin(was, "WorkloadPolicy").items()
        }
        assert totals(would) != totals(was)


def totals(explained: Json) -> dict[str, int]:
    """Node -> the sum that prioritize returns."""
    return {one["node"]: one["total"] for one in explained["scores"] if one["kept"]}


def by_plugin(explained: Json, plugin: str) -> dict[str, tuple[int, int]]:
    """Node -> the sum, and the part of the plugin."""
    return {
        one["node"]: (one["total"], one["scores"][plugin]["weighted"])
        for one in explained["scores"]
        if one["kept"]
    }


@pytest.mark.scenario("WI-4")
def test_what_cannot_be_compared_is_counted_with_its_cause(lived: api_worlds.World) -> None:
    position = lived.store.follower.catch_up().position
    snapshot = lived.store.follower.snapshot
    for configuration, error, kept in (("", "the store is away", 0), ("other", "", 0), ("", "", 3)):
        lived.store.decisions.record(
            records.Draft(
                position=position,
                verb="filter",
                pod=api_worlds.pod("a-5"),
                names=frozenset(snapshot.nodes),
                configuration=configuration or lived.registry.digest,
                kept=kept,
                outcome="error" if error else "refused",
                at="2026-07-01T10:00:02.000Z",
                milliseconds=1.0,
                error=error,
                snapshot=snapshot,
            )
        )
    lived.store.decisions.stop()
    answer = ask(lived, "replay")
    assert answer["examined"] == 10
    assert {name: number for name, number in answer["skipped"].items() if number} == {
        "error": 1,
        "configuration": 1,
        "unrepeatable": 1,
    }


@pytest.mark.scenario("WI-4")
def test_decisions_of_another_configuration_are_repeated_under_it(process: api_worlds.Process) -> None:
    """By a process that was started with other weights: the log holds what was in force."""
    former = api_worlds.world(process(), registry.Registry(heavier(), weights={"WorkloadPolicy": 7}))
    assert len(live(former)) == 10
    present = api_worlds.world(process())
    present.store.follower.catch_up()
    unknown = ask(present, "replay")
    assert (unknown["examined"], unknown["skipped"]["configuration"]) == (0, 10)

    log = former.store.log
    log.append(batches.Batch(events=(events.ConfigurationApplied(former.registry.configuration()),)))
    present.store.follower.catch_up()
    answer = ask(present, "replay", compare="scores")
    assert (answer["examined"], answer["same"]) == (10, 10)
    assert not any(answer["skipped"].values())
    supposed = ask(present, "replay", overrides=scale(2))
    assert supposed["classes"] == ask(former, "replay", overrides=scale(2))["classes"]
    # The weights of the question change those in force at the time, which were 7 and not 1.
    for weight, differing in ((7, 0), (1, 4)):
        configuration = {"weights": {"WorkloadPolicy": weight}}
        answer = ask(present, "replay", configuration=configuration, compare="scores")
        assert (answer["classes"]["scores"], answer["examined"]) == (differing, 10)


def heavier() -> list[capabilities.Plugin]:
    return [plugin() for plugin in plugins.USUAL]


def test_a_range_a_verb_and_a_namespace_select_decisions(lived: api_worlds.World) -> None:
    items = body(lived.client.get("/apis/v1/decisions?limit=1000"))["items"]
    offsets = sorted(int(one["position"].rpartition("/")[2]) for one in items)
    middle = offsets[4]
    expected = sum(offset >= middle for offset in offsets)
    assert ask(lived, "replay", **{"from": str(middle)})["examined"] == expected
    assert ask(lived, "replay", to=str(middle - 1))["examined"] == 10 - expected
    assert ask(lived, "replay", verbs=["filter"])["examined"] == 6
    assert ask(lived, "replay", namespace="elsewhere")["examined"] == 0
    assert ask(lived, "replay", where="verb=filter,kept>3")["examined"] == 4
    listed = body(lived.client.get("/apis/v1/decisions?where=verb%3Dfilter,kept<1"))["items"]
    assert [one["pod"]["name"] for one in listed] == ["a-6", "a-5"]
    facets = body(lived.client.get("/apis/v1/decisions/facets?where=reason~capacity"))
    assert facets["examined"] == ask(lived, "replay", where="reason~capacity")["examined"]


def test_a_spent_budget_continues_where_it_stopped(
    lived: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ask(lived, "replay", overrides=scale(2))
    seconds = iter(range(10_000))
    monkeypatch.setattr("app.api.v1.questions.bodies.monotonic", lambda: float(next(seconds)))
    parts: list[dict[str, Any]] = []
    token: str | None = ""
    while token is not None:
        asked = {"overrides": scale(2), "budget": 2.5, "continue": token}
        parts.append(body(post(lived, "replay", asked)))
        token = parts[-1]["continue"]
        assert parts[-1]["complete"] == (token is None)
    assert len(parts) > 2
    assert sum(part["examined"] for part in parts) == whole["examined"]
    items = [one for part in parts for one in part["items"]]
    assert sorted(items, key=lambda one: one["id"]) == sorted(whole["items"], key=lambda one: one["id"])


@pytest.mark.parametrize("mode", ["each", "chain"])
def test_the_answer_has_the_gravest_decisions(lived: api_worlds.World, mode: str) -> None:
    """Where it cannot have all, and unless the question names other classes."""

    def shown(**asked: object) -> list[tuple[str, str]]:
        answer = ask(lived, "replay", overrides=scale(2), mode=mode, **asked)
        return [(one["class"], one["pod"]["name"]) for one in answer["items"]]

    every = shown()
    assert every[0] == ("refused", "a-4")
    assert len(every) > 2
    assert shown(limit=2) == every[:2]
    reasons = [one for one in every if one[0] == "reason"]
    assert reasons
    assert shown(limit=2, first=["reason"]) == [*reasons, every[0]][:2]


@pytest.mark.parametrize("mode", ["each", "chain"])
def test_records_that_are_not_selected_spend_the_budget(
    lived: api_worlds.World, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    seconds = iter(range(10_000))
    monkeypatch.setattr("app.api.v1.questions.bodies.monotonic", lambda: float(next(seconds)))
    answer = ask(lived, "replay", namespace="elsewhere", budget=5.5, mode=mode)
    assert (answer["examined"], answer["complete"]) == (0, False)
    assert (answer["continue"] is None) == (mode == "chain")


def test_an_override_that_never_applies_is_idle(lived: api_worlds.World) -> None:
    nowhere = {"op": "cordon", "nodes": ["n9"]}
    answer = ask(lived, "replay", overrides=[nowhere, *scale(2)])
    assert answer["idle"] == [0]
    assert answer["classes"]["refused"] == 1


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("asked", "status", "code", "words"),
    [
        (
            {"overrides": [{"op": "cordn"}]},
            400,
            "BadRequest",
            "overrides[0].op: there is no operation 'cordn'",
        ),
        ({"node": "each"}, 400, "BadRequest", "there is no field 'node'; did you mean mode?"),
        ({"compare": "all"}, 400, "BadRequest", "compare: invalid enum value 'all'"),
        ({"verbs": ["get"]}, 400, "BadRequest", "verbs[0]"),
        ({"where": "verbs=filter"}, 400, "BadRequest", "where: there is no field 'verbs'; known: id"),
        ({"continue": "x"}, 400, "BadRequest", "continue"),
        ({"from": "yesterday"}, 400, "BadRequest", "from: must be an offset"),
        ({"from": "other/3"}, 410, "PositionGone", "other"),
        ({"to": "999999"}, 400, "BadRequest", "to: offset 999999 is beyond the head"),
        (
            {"from": "999999"},
            400,
            "BadRequest",
            "from: offset 999999 is beyond the head of the log, which is",
        ),
        (
            {"from": "2099-01-01T00:00:00Z"},
            400,
            "BadRequest",
            "from: 2099-01-01T00:00:00.000Z is in the future",
        ),
        ({"from": "9", "to": "5"}, 400, "BadRequest", "from: offset 9 is after to, which is offset 5"),
        ({"limit": 1001}, 400, "BadRequest", "limit"),
    ],
)
def test_a_mistake_is_named(
    lived: api_worlds.World, asked: dict[str, Any], status: int, code: str, words: str
) -> None:
    assert_problem(post(lived, "replay", asked), status, code, words)
    if "from" in asked or "to" in asked:
        assert_problem(post(lived, "replay", {"mode": "chain", **asked}), status, code, words)


@pytest.mark.parametrize("mode", ["each", "chain"])
def test_an_override_that_applies_to_no_snapshot_has_the_reason(lived: api_worlds.World, mode: str) -> None:
    nowhere = {"op": "cordon", "nodes": ["n9"]}
    unchanged = {"op": "uncordon", "nodes": ["host-1"]}
    answer = ask(lived, "replay", overrides=[unchanged, nowhere], mode=mode)
    assert answer["idle"] == [0, 1]
    (why,) = answer["unapplied"].values()
    assert answer["unapplied"].keys() == {"1"}
    assert why.startswith("overrides[1].nodes[0]: there is no node n9 at ")


def test_an_override_that_applies_to_some_snapshots_has_no_reason(lived: api_worlds.World) -> None:
    answer = ask(lived, "replay", overrides=[{"op": "deletePods", "pods": ["shop/a-5"]}])
    assert (answer["idle"], answer["unapplied"]) == ([], {})


INVALID: list[tuple[dict[str, Any], str]] = [
    (
        {
            "op": "setObject",
            "manifest": {"kind": "WorkloadPolicy", "metadata": {"name": "x", "namespace": "shop"}},
        },
        "overrides[0].manifest: spec is missing",
    ),
    (
        {"op": "setObject", "manifest": {"kind": "WorkloadPolicyy", "metadata": {"name": "x"}}},
        "overrides[0].kind: there is no kind WorkloadPolicyy",
    ),
    (
        {"op": "setObject", "manifest": {"kind": "WorkloadPolicy", "metadata": {}}},
        "overrides[0].manifest.metadata: an object with a name is required",
    ),
    ({"op": "addPods", "pod": {"metadata": {"name": "Not/a name"}}}, "overrides[0].pod"),
    (
        {"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "lots"}},
        "overrides[0].allocations.host: 'lots' is neither a number nor a change",
    ),
]


@pytest.mark.parametrize("mode", ["each", "chain"])
@pytest.mark.parametrize(("override", "words"), INVALID)
def test_an_override_that_no_snapshot_makes_valid_is_400(
    lived: api_worlds.World, override: dict[str, Any], words: str, mode: str
) -> None:
    assert_problem(post(lived, "replay", {"overrides": [override], "mode": mode}), 400, "BadRequest", words)


@pytest.mark.parametrize("mode", ["each", "chain"])
def test_a_part_without_a_compared_decision_has_no_idle_overrides(lived: api_worlds.World, mode: str) -> None:
    answer = ask(lived, "replay", overrides=scale(2), namespace="elsewhere", mode=mode)
    assert (answer["idle"], answer["unapplied"]) == (None, None)


def test_a_preemption_of_a_pod_that_an_override_deletes_is_not_compared(lived: api_worlds.World) -> None:
    """Its victim is gone, which the verb refuses, and not because of a policy."""
    snapshot = lived.store.follower.catch_up()
    lived.store.decisions.record(
        records.Draft(
            position=snapshot.position,
            verb="preempt",
            pod=msgspec.structs.replace(api_worlds.pod("urgent"), labels={}, priority=1000),
            names=("host-1",),
            victims={"host-1": ("uid-a-2",)},
            configuration=lived.registry.digest,
            kept=1,
            outcome="kept",
            at="2026-07-01T10:00:02.000Z",
            milliseconds=1.0,
            snapshot=snapshot,
        )
    )
    lived.store.decisions.stop()
    assert ask(lived, "replay", verbs=["preempt"])["same"] == 1
    for name, same, skipped in (("shop/a-2", 0, 1), ("shop/a-3", 1, 0)):
        answer = ask(lived, "replay", verbs=["preempt"], overrides=[{"op": "deletePods", "pods": [name]}])
        assert (answer["same"], answer["skipped"]["unrepeatable"]) == (same, skipped)
        assert not any(answer["classes"].values())
