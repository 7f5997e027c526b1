"""diff over HTTP."""

from typing import Any

import pytest

from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body
from tests.support.extender.questions import ask, post


@pytest.mark.scenario("WI-7")
def test_each_section_names_what_differs(six: api_worlds.World) -> None:
    start = six.store.follower.catch_up().offset
    six.append(
        api_worlds.policy(host=9),
        api_worlds.node("new", role="host"),
        api_worlds.pod_seen("a-5", "host-4"),
        api_worlds.pod_seen("a-7"),
    )
    answer = body(six.client.get(f"/apis/v1/diff?from={start}"))
    sections = answer["sections"]
    assert answer["same"] is False
    assert answer["from"].endswith(f"/{start}")
    names = {name: [(row["name"], row["change"]) for row in one["rows"]] for name, one in sections.items()}
    assert names == {
        "nodes": [("new", "began")],
        "pods": [("shop/a-5", "changed"), ("shop/a-7", "began")],
        "objects": [("workloadpolicies:shop/spread", "changed")],
        "counts": [("shop/spread|role=host", "changed")],
        "placements": [],
        "pending": [("shop/a-5", "ended"), ("shop/a-7", "began")],
    }
    assert sections["counts"]["rows"][0]["fields"] == [{"field": "count", "before": 3, "after": 4}]
    (changed,) = sections["objects"]["rows"][0]["fields"]
    assert changed["field"] == "allocations"


def test_rows_are_limited_and_numbers_are_not(six: api_worlds.World) -> None:
    answer = body(six.client.get("/apis/v1/diff?from=0&limit=2&only=nodes,pods"))
    assert set(answer["sections"]) == {"nodes", "pods"}
    nodes = answer["sections"]["nodes"]
    assert (nodes["began"], len(nodes["rows"]), nodes["more"]) == (6, 2, 4)


def test_a_moment_does_not_differ_from_itself(six: api_worlds.World) -> None:
    assert body(six.client.get("/apis/v1/diff"))["same"] is True


CORDON = {"op": "cordon", "nodes": ["host-4"]}
LATER = {"op": "addPods", "like": "shop/a-5"}


@pytest.mark.scenario("WI-7")
def test_two_situations_of_one_moment_differ_by_their_overrides(six: api_worlds.World) -> None:
    answer = ask(six, "diff", **{"from": {"overrides": [CORDON]}, "to": {"overrides": [CORDON, LATER]}})
    assert answer["from"] == answer["to"]
    assert [one["events"] for one in answer["situations"]] == [{"NodeSeen": 1}, {"NodeSeen": 1, "PodSeen": 1}]
    names = {name: [row["name"] for row in one["rows"]] for name, one in answer["sections"].items()}
    assert names == {
        "nodes": [],
        "pods": ["shop/a-5-1"],
        "objects": [],
        "counts": [],
        "placements": [],
        "pending": ["shop/a-5-1"],
    }
    back = ask(six, "diff", **{"from": {"overrides": [CORDON, LATER]}, "to": {"overrides": [CORDON]}})
    assert [row["change"] for row in answer["sections"]["pods"]["rows"]] == ["began"]
    assert [row["change"] for row in back["sections"]["pods"]["rows"]] == ["ended"]
    for overrides in ([], [CORDON, LATER]):
        same = {"from": {"overrides": overrides}, "to": {"overrides": overrides}}
        assert ask(six, "diff", **same)["same"] is True


@pytest.mark.scenario("WI-7")
def test_situations_without_overrides_differ_as_their_moments(six: api_worlds.World) -> None:
    start = six.store.follower.catch_up().offset
    six.append(api_worlds.policy(host=9), api_worlds.pod_seen("a-7"))
    asked = ask(six, "diff", **{"from": {"at": str(start)}, "only": ["pods", "objects"], "limit": 1})
    shown = body(six.client.get(f"/apis/v1/diff?from={start}&only=pods,objects&limit=1"))
    assert {name: value for name, value in asked.items() if name != "situations"} == shown
    assert (shown["events"], shown["moreEvents"]) == ({"ObjectObserved": 1, "PodSeen": 1}, 0)


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("asked", "status", "code", "words"),
    [
        (
            {"from": {"overrides": [{"op": "cordon", "nodes": ["n9"]}]}},
            400,
            "BadRequest",
            "from.overrides[0].",
        ),
        ({"to": {"at": "999999"}}, 400, "BadRequest", "to.at: offset 999999 is beyond the head"),
        ({"to": {"at": "never"}}, 400, "BadRequest", "to.at: must be an offset"),
        ({"only": ["things"]}, 400, "BadRequest", "only[0]: invalid enum value 'things'"),
        ({"frm": {}}, 400, "BadRequest", "there is no field 'frm'"),
    ],
)
def test_a_mistaken_situation_is_named(
    six: api_worlds.World, asked: dict[str, Any], status: int, code: str, words: str
) -> None:
    assert_problem(post(six, "diff", asked), status, code, words)


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("query", "status", "code", "words"),
    [
        ("from=999999", 400, "BadRequest", "from: offset 999999 is beyond the head"),
        ("from=other/3", 410, "PositionGone", "other"),
        ("from=never", 400, "BadRequest", "from: must be an offset"),
        ("only=things", 400, "BadRequest", "there is no section 'things'"),
        ("limit=0", 400, "BadRequest", "limit"),
        ("frm=3", 400, "BadRequest", "frm"),
    ],
)
def test_a_mistake_is_named(six: api_worlds.World, query: str, status: int, code: str, words: str) -> None:
    assert_problem(six.client.get(f"/apis/v1/diff?{query}"), status, code, words)
