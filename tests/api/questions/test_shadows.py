"""Shadows over HTTP: what is set, by whom and until when; bounds, and mistakes with their path."""

import threading
import time
from typing import Any

import pytest
from werkzeug.test import TestResponse

from app.api.introspection import times
from app.domain import events
from app.verbs.questions.shadows import shadowed
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, assert_stamped, body, items

SCALE = {"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "-1"}}


def put(world: api_worlds.World, name: str = "strict", **asked: object) -> TestResponse:
    return world.client.put(f"/apis/v1/shadows/{name}", json=asked)


def test_a_shadow_is_set_as_an_event_and_shown_by_every_process(
    world: api_worlds.World, process: api_worlds.Process
) -> None:
    other = api_worlds.world(process())
    configuration = {"weights": {"JobAffinity": 5}}
    response = put(world, overrides=[SCALE], configuration=configuration, ttl="24h", note="before the sale")
    assert response.status_code == 200, response.text
    assert_stamped(response)
    (entry,) = other.store.histories.part(1, kind="ShadowSet").entries
    assert body(response) == {
        "name": "strict",
        "note": "before the sale",
        "overrides": [SCALE],
        "configuration": configuration,
        "until": "2026-07-02T10:00:00.000Z",
        "ended": False,
        "by": "operator@example",
        "since": entry.offset,
        "numbers": None,
    }
    shown = body(other.client.get("/apis/v1/shadows/strict"))
    assert shown == {**body(response), "differences": None}
    assert items(other.client.get("/apis/v1/shadows")) == [body(response)]
    assert items(other.client.get(f"/apis/v1/shadows?at={entry.offset - 1}")) == []
    assert body(other.client.get("/apis/v1/events?object=shadow:strict"))["items"][0]["type"] == "ShadowSet"


def test_a_shadow_is_deleted_by_an_event_that_names_who_did_it(world: api_worlds.World) -> None:
    shown = body(put(world, overrides=[SCALE]))
    response = world.client.delete("/apis/v1/shadows/strict")
    assert (response.status_code, body(response)) == (200, shown)
    (entry,) = world.store.histories.part(1, kind="ShadowGone").entries
    assert entry.event == events.ShadowGone("strict", by="operator@example")
    for method in ("GET", "DELETE"):
        again = world.client.open("/apis/v1/shadows/strict", method=method)
        assert_problem(again, 404, "NotFound", "cannot find shadow strict; set are: none")


def test_the_same_shadow_is_not_set_twice_and_another_one_replaces_it(world: api_worlds.World) -> None:
    first = body(put(world, overrides=[SCALE]))
    assert body(put(world, overrides=[SCALE])) == first
    second = body(put(world, overrides=[SCALE], note="again"))
    assert second["since"] > first["since"]
    assert len(world.store.histories.part(1, kind="ShadowSet").entries) == 2


def test_a_shadow_begins_again_with_another_end_as_a_ttl_is_each_time(world: api_worlds.World) -> None:
    first = body(put(world, ttl="24h"))
    assert body(put(world, until=first["until"])) == first
    world.now[0] += 1
    second = body(put(world, ttl="24h"))
    assert second["since"] > first["since"]
    assert second["until"] > first["until"]


def test_a_shadow_that_has_ended_is_still_shown(world: api_worlds.World) -> None:
    put(world, until="2026-07-01T12:00:30+02:00")
    world.now[0] += 31
    shown = body(world.client.get("/apis/v1/shadows/strict"))
    assert (shown["until"], shown["ended"]) == ("2026-07-01T10:00:30.000Z", True)


def test_a_shadow_on_the_second_page_has_ended_if_it_had_at_the_time_of_the_first(
    world: api_worlds.World,
) -> None:
    """It ends without an event, so that the position alone does not determine it."""
    world.now[0] = began = time.time()
    for name in ("one", "two"):
        put(world, name, ttl="1m")
    world.append(api_worlds.node("later"))

    def ended(at: str) -> list[bool]:
        first = world.client.get(f"/apis/v1/shadows?limit=1{at}")
        world.append(api_worlds.node(f"meanwhile{at[-2:]}"))
        world.now[0] += 3600
        token = body(first)["metadata"]["continue"]
        second = world.client.get(f"/apis/v1/shadows?limit=1&continue={token}")
        return [one["ended"] for one in items(first) + items(second)]

    assert ended("") == [False, False]
    assert ended(f"&at={times.rfc3339(began + 50)}") == [False, False]
    assert ended(f"&at={times.rfc3339(began + 61)}") == [True, True]


def test_a_shadow_of_the_past_has_ended_if_it_had_by_then(world: api_worlds.World) -> None:
    world.now[0] = began = time.time()
    put(world, ttl="1m")
    offset = world.store.follower.catch_up().offset
    world.append(api_worlds.node("later"))
    world.now[0] += 3600
    expected = {
        "": True,
        f"?at={offset}": False,
        f"?at={times.rfc3339(began + 30)}": False,
        f"?at={times.rfc3339(began + 61)}": True,
    }
    shown = {query: body(world.client.get(f"/apis/v1/shadows/strict{query}")) for query in expected}
    assert {query: one["ended"] for query, one in shown.items()} == expected
    listed = {query: items(world.client.get(f"/apis/v1/shadows{query}")) for query in expected}
    assert {query: one["ended"] for query, (one,) in listed.items()} == expected


def test_no_more_than_eight_are_set_however_many_try(world: api_worlds.World) -> None:
    for number in range(shadowed.MOST - 1):
        assert put(world, f"s{number}").status_code == 200
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda name=name: answers.append(put(world, name).status_code))
        for name in ("left", "right", "third")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200, 400, 400]
    assert len(world.store.follower.catch_up().shadows) == shadowed.MOST
    assert_problem(put(world, "more"), 400, "TooMuch", "there are 8 shadows", "delete one first")
    assert put(world, "s0", note="replaced").status_code == 200


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("name", "asked", "code", "words"),
    [
        ("Strict", {}, "BadRequest", "name: must be a DNS label"),
        ("a" * 64, {}, "BadRequest", "name: must be a DNS label"),
        ("strict", {"override": []}, "BadRequest", "there is no field 'override'; did you mean overrides?"),
        ("strict", {"overrides": [{"op": "scale"}]}, "BadRequest", "overrides[0].op: there is no operation"),
        (
            "strict",
            {"overrides": [SCALE | {"policy": "shop/other"}]},
            "BadRequest",
            "overrides[0].policy",
        ),
        (
            "strict",
            {"overrides": [SCALE, {"op": "cordon", "nodes": ["host-1"]}]},
            "BadRequest",
            "overrides[1].op: a shadow changes objects such as policies, not nodes or pods",
        ),
        (
            "strict",
            {"overrides": [{"op": "deletePods", "pods": ["shop/web-1"]}]},
            "BadRequest",
            "not nodes or pods",
        ),
        ("strict", {"configuration": {"weights": {"Nothing": 2}}}, "BadRequest", "configuration"),
        ("strict", {"configuration": {"weight": {}}}, "BadRequest", "did you mean weights?"),
        ("strict", {"ttl": "soon"}, "BadRequest", "ttl: 'soon' is not a duration"),
        ("strict", {"ttl": "0s"}, "BadRequest", "ttl: must be longer than 0s"),
        ("strict", {"until": "tomorrow"}, "BadRequest", "until: 'tomorrow' is not an RFC 3339 time"),
        (
            "strict",
            {"until": "2026-07-01T09:59:59Z"},
            "BadRequest",
            "until: must be in the future; it is now 2026-",
        ),
        ("strict", {"until": "2026-07-02T00:00:00Z", "ttl": "1h"}, "BadRequest", "exclude each other"),
        ("strict", {"note": "x" * 513}, "BadRequest", "note"),
        ("strict", {"overrides": [SCALE] * 101}, "BadRequest", "overrides"),
        ("strict", {"overrides": [SCALE | {"policy": f"shop/{'x' * 500}"}] * 100}, "BadRequest", "policy"),
        (
            "strict",
            {
                "overrides": [
                    {
                        "op": "patchObject",
                        "kind": "workloadpolicies",
                        "name": "shop/spread",
                        "patch": {"selector": {"labels": {"app": "x" * 66_000}}},
                    }
                ]
            },
            "TooMuch",
            "at most 65536 are allowed",
        ),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(
    still: api_worlds.World, name: str, asked: dict[str, Any], code: str, words: str
) -> None:
    before = still.store.follower.catch_up().offset
    assert_problem(put(still, name, **asked), 400, code, words)
    assert still.store.follower.catch_up().offset == before


def test_another_type_of_body_is_refused(still: api_worlds.World) -> None:
    refused = still.client.put("/apis/v1/shadows/strict", data="{}", content_type="text/plain")
    assert_problem(refused, 415, "UnsupportedMediaType")
    doubled = still.client.put(
        "/apis/v1/shadows/strict", data=b'{"note":"a","note":"b"}', content_type="application/json"
    )
    assert_problem(doubled, 400, "BadRequest")
