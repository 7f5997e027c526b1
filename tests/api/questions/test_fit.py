"""fit over HTTP: what it returns makes a simulation fit."""

from typing import Any

import pytest

from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body
from tests.support.extender.questions import ask, manifest, post


@pytest.mark.scenario("WI-3")
@pytest.mark.parametrize("pod", ["shop/a-5", "shop/a-6"])
def test_each_advice_makes_the_simulation_fit(six: api_worlds.World, pod: str) -> None:
    answer = ask(six, "fit", pod=pod)
    assert answer["fits"] is False
    assert {one["message"] for one in answer["changes"]} == {
        "host needs 1 more replica in policy shop/spread",
        "member needs 1 more replica in policy shop/spread",
        "1 counted pod fewer in shop/spread|role=host",
        "1 counted pod fewer in shop/spread|role=member",
    }
    for change in answer["changes"]:
        assert change["cost"] == 1
        simulated = ask(six, "simulate", pod=pod, situation={"overrides": change["overrides"]})
        assert simulated["explanation"]["kept"] == change["kept"] > 0


@pytest.mark.parametrize(("most", "more"), [(1, True), (3, True), (4, False), (5, False)])
def test_changes_that_are_not_shown_are_announced(six: api_worlds.World, most: int, more: bool) -> None:
    answer = ask(six, "fit", pod="shop/a-5", most=most)
    assert (len(answer["changes"]), answer["more"]) == (min(most, 4), more)


def test_only_allowed_changes_are_returned(six: api_worlds.World) -> None:
    deleted = ask(six, "fit", pod="shop/a-5", allow=["pods"])["changes"]
    assert [one["overrides"] for one in deleted] == [
        [{"op": "deletePods", "pods": ["shop/a-2"]}],
        [{"op": "deletePods", "pods": ["shop/a-1"]}],
    ]
    labelled = ask(six, "fit", pod="shop/a-5", allow=["nodes"])["changes"]
    assert labelled == []


def test_a_quota_that_is_raised_keeps_its_place_in_the_list(six: api_worlds.World) -> None:
    changes = ask(six, "fit", pod="shop/a-5", allow=["objects"])["changes"]
    patched = [change["overrides"][0]["patch"]["allocations"] for change in changes]
    assert sorted([(one["name"], one["replicas"]) for one in quotas] for quotas in patched) == [
        [("host", 3), ("member", 2)],
        [("host", 4), ("member", 1)],
    ]


def test_a_node_or_a_label_can_be_the_smallest_change(six: api_worlds.World) -> None:
    six.append(api_worlds.policy(host=9), api_worlds.node("bare"))
    bare = ask(six, "fit", pod="shop/a-5", candidates=["bare"])["changes"]
    assert [one["overrides"] for one in bare] == [
        [{"op": "labelNodes", "nodes": ["bare"], "labels": {"role": "host"}}]
    ]
    other = manifest("other", app="db")
    changed = ask(six, "fit", pod=other, allow=["labels"])["changes"]
    assert [one["overrides"] for one in changed] == [
        [{"op": "labelPods", "pods": ["shop/other"], "labels": {"app": "web"}}]
    ]


def test_with_roomy_candidates_a_change_of_nodes_changes_the_candidates(six: api_worlds.World) -> None:
    """The label that the policy needs is the one that the node selector refuses."""
    six.append(api_worlds.policy(host=9), api_worlds.node("bare"))
    pod = manifest("picky")
    term = {"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]}
    required = {"nodeSelectorTerms": [term]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert ask(six, "fit", pod=pod, candidates=["bare"], allow=["nodes"])["changes"]
    answer = ask(six, "fit", pod=pod, candidates="roomy", allow=["nodes"])
    assert (answer["changes"], answer["notModelled"]) == ([], [])
    assert answer["summary"].startswith("0 of 1 nodes fit")


def test_a_policy_that_is_missing_is_created_from_its_fields(six: api_worlds.World) -> None:
    lost = manifest("lost")
    lost["metadata"]["labels"][api_worlds.POLICY_LABEL] = "none"
    (change,) = ask(six, "fit", pod=lost, allow=["objects"])["changes"]
    assert [one["op"] for one in change["overrides"]] == ["setObject"]
    assert ask(six, "simulate", pod=lost, situation={"overrides": change["overrides"]})["fits"] is True


def test_two_changes_are_combined_if_none_helps_alone(six: api_worlds.World) -> None:
    """The pod lacks the label of the selector, and the quotas are full."""
    both = ask(six, "fit", pod=manifest("other", app="db"), allow=["labels", "objects"])["changes"]
    assert both
    for change in both:
        assert len(change["overrides"]) == 2
        assert ask(
            six, "simulate", pod=manifest("other", app="db"), situation={"overrides": change["overrides"]}
        )["fits"]
        for part in change["overrides"]:
            asked = {"pod": manifest("other", app="db"), "situation": {"overrides": [part]}}
            assert body(post(six, "simulate", asked))["fits"] is False


def test_a_pod_that_fits_needs_no_change(six: api_worlds.World) -> None:
    six.append(api_worlds.policy(host=9))
    answer = ask(six, "fit", pod="shop/a-5")
    assert (answer["fits"], answer["changes"], answer["tried"]) == (True, [], 0)


def test_a_spent_budget_is_reported(six: api_worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(10_000))
    monkeypatch.setattr("app.api.v1.questions.bodies.monotonic", lambda: float(next(times)))
    answer = ask(six, "fit", pod="shop/a-5", budget=0.5)
    assert (answer["complete"], answer["changes"]) == (False, [])


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("asked", "status", "code", "words"),
    [
        ({}, 400, "BadRequest", "exactly one of pod, gang and group is required"),
        (
            {"pod": "shop/a-5", "allow": ["policy"]},
            400,
            "BadRequest",
            "allow[0]: invalid enum value 'policy'",
        ),
        ({"pod": "shop/a-5", "allow": []}, 400, "BadRequest", "allow: expected `array` of length >= 1"),
        ({"pod": "shop/a-5", "most": 21}, 400, "BadRequest", "most: expected `int` <= 20"),
        ({"pod": "shop/none"}, 404, "NotFound", "cannot find pod shop/none"),
    ],
)
def test_a_mistake_is_named(
    six: api_worlds.World, asked: dict[str, Any], status: int, code: str, words: str
) -> None:
    assert_problem(post(six, "fit", asked), status, code, words)
