"""Mistakes and bounds of the pictures, and stretches that were not watched."""

import pytest

from app.api.v1.pictures import maps
from app.domain import events, model
from app.plugins.workload_policy import policy_model
from tests.support import declared
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("map?color=blue", ("color", "state, pods")),
        ("map?at=999999", ("beyond the head",)),
        ("map?levels=,", ("levels",)),
        ("frames?count=121", ("count",)),
        ("frames?from=9&to=3", ("from: offset 9 is after to, which is offset 3",)),
        ("frames?from=999999", ("from: offset 999999 is beyond the head",)),
        ("frames?to=999999", ("to: offset 999999 is beyond the head",)),
        ("moments?from=2099-01-01T00:00:00Z", ("from: 2099-01-01T00:00:00.000Z is in the future",)),
        ("watch?from=2099-01-01T00:00:00Z", ("from: 2099-01-01T00:00:00.000Z is in the future",)),
        ("series?of=wishes", ("of", "waiting")),
        ("series", ("of",)),
        ("moments?buckets=0", ("buckets",)),
        ("cluster?bogus=1", ("bogus",)),
        ("decisions/facets?limit=3", ("limit",)),
    ],
)
def test_mistakes_are_named(still: api_worlds.World, path: str, words: tuple[str, ...]) -> None:
    assert_problem(still.client.get(f"/apis/v1/{path}"), 400, "BadRequest", *words)


@pytest.mark.parametrize("path", ["frames?from=0", "series?of=nodes&from=0", "moments?from=0"])
def test_a_window_is_bounded(still: api_worlds.World, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.v1.pictures.answers.MOST_EVENTS", 3)
    monkeypatch.setattr("app.api.v1.pictures.series.MOST_EVENTS", 3)
    assert_problem(still.client.get(f"/apis/v1/{path}"), 400, "TooMuch", "at most 3")


def test_a_decision_that_does_not_exist_has_no_map(still: api_worlds.World) -> None:
    assert_problem(still.client.get("/apis/v1/map?color=decision:1-1"), 404, "NotFound", "1-1")


def test_an_answer_is_bounded(still: api_worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.introspection.json_responses.MOST_BYTES", 100)
    assert_problem(still.client.get("/apis/v1/map?at=3"), 400, "TooMuch", "at most 100")


@pytest.mark.parametrize("path", ["map", "frames?from=0", "diff?from=0&measure=pods"])
def test_a_map_is_of_a_bounded_number_of_nodes(
    still: api_worlds.World, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = len(still.store.follower.catch_up().nodes)
    assert maps.MOST_NODES == 20_000
    monkeypatch.setattr(maps, "MOST_NODES", nodes - 1)
    words = f"the cluster has {nodes} nodes; a map shows {nodes - 1}"
    assert_problem(still.client.get(f"/apis/v1/{path}"), 400, "TooMuch", words)
    monkeypatch.setattr(maps, "MOST_NODES", nodes)
    assert still.client.get(f"/apis/v1/{path}").status_code == 200


def test_the_first_moment_is_an_empty_map(still: api_worlds.World) -> None:
    found = body(still.client.get("/apis/v1/map?at=0"))
    assert (found["nodes"], found["domains"], found["values"]) == ([], [], "")
    assert found["metadata"]["asOf"] == ""


def test_the_quotas_of_one_object_are_not_left_out_for_those_of_others(world: api_worlds.World) -> None:
    spread = policy_model.WorkloadPolicy(
        uid="uid-wide",
        namespace="shop",
        name="wide",
        topology_key="role",
        selector=model.Selector(labels={"app": "web"}),
        allocations=(policy_model.Allocation("host", 90), policy_model.Allocation("member", 90)),
        type="Required",
    )
    world.append(declared.observed(spread))

    def quotas(query: str) -> tuple[list[tuple[str, str]], int]:
        found = body(world.client.get(f"/apis/v1/cluster?{query}"))
        return [(one["of"], one["value"]) for one in found["quotas"]], found["moreQuotas"]

    full = [("shop/spread", "host"), ("shop/spread", "member")]
    assert quotas("limit=2") == (full, 2)
    assert sorted(quotas("limit=2&of=shop/wide")[0]) == [("shop/wide", "host"), ("shop/wide", "member")]
    assert quotas("limit=1&of=shop/spread") == (full[:1], 1)
    assert quotas("of=shop/none") == ([], 0)


def test_what_was_not_watched_is_a_gap(world: api_worlds.World) -> None:
    start = world.store.follower.catch_up().offset
    kinds = sorted(declared.SCHEMA.names)
    world.append(
        events.Relisted("pods", since="5", until="9", reason="the watch was too old"),
        api_worlds.node("next"),
        events.StoreRestarted(by="recorder", before="a", after="b"),
        *(events.Relisted(kind, since="", until="10", reason="restart") for kind in kinds),
        api_worlds.node("last"),
    )
    found = body(world.client.get(f"/apis/v1/moments?from={start}"))
    assert [(one["from"], one["to"]) for one in found["gaps"]] == [
        (start, start + 1),
        (start + 3, start + 3 + len(kinds)),
    ]
    assert "too old" in found["gaps"][0]["reason"]
    cut = body(world.client.get(f"/apis/v1/moments?from={start}&to={start + 4}"))
    assert [(one["from"], one["to"]) for one in cut["gaps"]][1:] == [(start + 3, start + 4)]


def test_a_kind_that_the_recorder_lacks_is_a_gap_until_it_is_listed(world: api_worlds.World) -> None:
    start = world.store.follower.catch_up().offset
    world.append(
        events.RecorderElected("recorder", "1", unwatched=("former",)),
        events.RecorderElected("recorder", "2", unwatched=("former", "workloadpolicies")),
        api_worlds.node("next"),
        events.Relisted("workloadpolicies", since="", until="9", reason="first list"),
    )
    (gap,) = body(world.client.get(f"/apis/v1/moments?from={start}"))["gaps"]
    assert (gap["from"], gap["to"]) == (start + 2, start + 4)
    assert "workloadpolicies: not watched by the recorder" in gap["reason"]


def test_marks_are_counted_over_the_whole_window_and_the_latest_are_listed(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.verbs.pictures.chronicles.MOST_MARKS", 3)
    start = world.store.follower.catch_up().offset
    placements = tuple(model.Placement(api_worlds.pod(f"gang-{at}"), f"host-{at}") for at in (1, 2))
    world.append(
        events.PlacementsCommitted(placements=placements),
        events.placed(api_worlds.pod("web-3"), "host-4"),
        *(api_worlds.policy(host=host) for host in (2, 3, 4, 5)),
        events.Relisted("pods", since="5", until="9", reason="the watch was too old"),
        events.NodeGone("host-3", "uid-host-3"),
    )
    found = body(world.client.get(f"/apis/v1/moments?from={start}&buckets=2"))
    assert [one["marks"] for one in found["buckets"]] == [{"plan": 1, "change": 2}, {"change": 3}]
    assert [(one["offset"], one["text"]) for one in found["marks"]] == [
        (start + 5, "policy:shop/spread changed"),
        (start + 6, "policy:shop/spread changed"),
        (start + 8, "node:host-3 deleted"),
    ]
    assert found["moreMarks"] == 3
    (plan,) = body(world.client.get(f"/apis/v1/moments?from={start}&to={start + 2}"))["marks"]
    assert (plan["kind"], plan["text"]) == ("plan", "plan of 2 pods committed by the bind of shop/gang-1")
