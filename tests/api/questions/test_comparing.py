"""diff over HTTP."""

import pytest

from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body


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


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("query", "status", "code", "words"),
    [
        ("from=999999", 400, "BadRequest", "beyond the head"),
        ("from=other/3", 410, "PositionGone", "other"),
        ("from=never", 400, "BadRequest", "from: must be an offset"),
        ("only=things", 400, "BadRequest", "there is no section 'things'"),
        ("limit=0", 400, "BadRequest", "limit"),
        ("frm=3", 400, "BadRequest", "frm"),
    ],
)
def test_a_mistake_is_named(six: api_worlds.World, query: str, status: int, code: str, words: str) -> None:
    assert_problem(six.client.get(f"/apis/v1/diff?{query}"), status, code, words)
