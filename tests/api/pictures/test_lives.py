"""What happened to pods, why they wait, and what decisions have in common."""

import time
from typing import Any

import msgspec
import pytest

from app.api.introspection import times
from app.api.v1 import decisions
from app.api.v1.pictures import lives
from app.domain import events
from app.store.decisions import decision_log, records
from app.store.server import embedded
from tests.support.extender import api_worlds, bundled
from tests.support.extender.error_shape import assert_problem, body, items


def life(world: api_worlds.World, name: str, query: str = "") -> dict[str, Any]:
    """The life of a pod of the namespace shop."""
    found: dict[str, Any] = body(world.client.get(f"/apis/v1/pods/shop/{name}/life{query}"))
    return found


def test_the_life_of_a_pod_has_its_events_and_attempts_in_order(world: api_worlds.World) -> None:
    pod = api_worlds.pod("late")
    world.append(events.PodSeen(pod=pod))
    decided = api_worlds.decide(world, pod)
    refused = msgspec.structs.replace(pod, unscheduled="0/6 nodes are available")
    bound = msgspec.structs.replace(pod, node="host-3", phase="Running")
    last = world.append(
        events.PodSeen(pod=refused),
        events.placed(pod, "host-3"),
        api_worlds.node("other"),
        events.PodSeen(pod=bound),
        events.PodGone(uid=pod.uid, namespace="shop", name="late"),
    )
    found = life(world, "late", f"?at={last - 1}")
    assert [row["kind"] for row in found["items"]] == ["seen", "attempt", "message", "placed", "bound"]
    assert [row["decision"] for row in found["items"]] == [None, decided[0], None, None, None]
    assert found["items"][1]["outcome"] == "refused"
    assert "no capacity" in found["items"][1]["text"]
    assert [row["node"] for row in found["items"]][3:] == ["host-3", "host-3"]
    assert (found["uid"], found["complete"]) == ("uid-late", True)
    listed = items(world.client.get(f"/apis/v1/events?object=pod:shop/late&to={last - 1}"))
    assert [row["offset"] for row in found["items"] if row["kind"] != "attempt"] == [
        event["offset"] for event in listed
    ]
    assert life(world, "late")["items"][-1]["kind"] == "gone"
    short = life(world, "late", "?limit=2")
    assert (len(short["items"]), short["more"]) == (2, 4)


def test_calls_of_one_millisecond_are_in_the_order_in_which_they_were_answered(
    world: api_worlds.World,
) -> None:
    pod = msgspec.structs.replace(api_worlds.pod("free"), labels={"rl-job-group": "job"})
    world.append(events.PodSeen(pod=pod))
    decided = api_worlds.decide(world, pod)
    found = [row for row in life(world, "free")["items"] if row["decision"]]
    assert [row["text"].partition(":")[0] for row in found] == ["filter", "prioritize"]
    assert [row["decision"] for row in found] == decided


def test_the_life_of_a_pod_that_is_older_than_its_bundle_begins_with_the_bundle(
    world: api_worlds.World, store_server: embedded.Server
) -> None:
    pod = api_worlds.pod("late")
    created = world.append(events.PodSeen(pod=pod))
    last = world.append(*(api_worlds.node(f"more-{at}") for at in range(4)))
    data = bundled.exported(world, f"?from={last - 1}")
    with bundled.opened(store_server, data) as bundle:
        found = life(bundle, "late")
    assert created < found["first"]
    assert (found["uid"], found["complete"], found["items"]) == (pod.uid, False, [])


def test_a_pod_has_nothing_of_a_former_one_of_its_name(world: api_worlds.World) -> None:
    """As a StatefulSet makes them: the next pod is created while the last events of the former one come."""
    former = api_worlds.pod("db-0")
    pod = msgspec.structs.replace(former, uid="uid-next", created="2026-07-01T10:00:01Z")
    gone = events.PodGone(uid=former.uid, namespace="shop", name="db-0")
    began = world.append(events.PodSeen(pod=former), events.placed(former, "host-3"))
    decided = api_worlds.decide(world, former)
    released = events.PlacementReleased(
        uid=former.uid, namespace="shop", name="db-0", node="host-3", reason="deleted", cause="gone"
    )
    last = world.append(released, gone, events.PodSeen(pod=pod))
    both = api_worlds.decide(world, pod)
    found = life(world, "db-0")
    assert (found["uid"], found["complete"]) == ("uid-next", True)
    assert [row["kind"] for row in found["items"]] == ["seen", "attempt"]
    assert [row["decision"] for row in found["items"]] == [None, *(one for one in both if one not in decided)]
    then = life(world, "db-0", f"?at={began}")
    assert (then["uid"], [row["kind"] for row in then["items"][:2]]) == (former.uid, ["seen", "placed"])
    assert [row["decision"] for row in then["items"][2:]] == decided
    between = life(world, "db-0", f"?at={last - 1}")
    assert (between["uid"], between["items"][-1]["kind"]) == (None, "gone")


def test_a_life_is_complete_if_the_decisions_were_read_back_to_the_creation(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not if the limit of one request was reached before."""
    pod = msgspec.structs.replace(api_worlds.pod("late"), created="2020-01-01T00:00:00Z")
    world.append(events.PodSeen(pod=pod))
    api_worlds.decide(world, pod, api_worlds.pod("web-3"), api_worlds.pod("web-4"))
    assert life(world, "late")["complete"] is True
    monkeypatch.setattr(records, "MAX_SCANNED", 1)
    monkeypatch.setattr(decision_log, "_SCAN", 1)
    found = life(world, "late")
    assert (found["complete"], [row["kind"] for row in found["items"]]) == (False, ["seen"])
    # The records that were read are older than the next pod.
    monkeypatch.setattr(decisions, "_AHEAD_MS", 0)
    monkeypatch.setattr(lives, "_BEHIND_MS", 0)
    created = time.time() + 0.01
    following = msgspec.structs.replace(api_worlds.pod("next"), created=times.rfc3339(created))
    while time.time() < created + 0.01:
        time.sleep(0.01)
    world.append(events.PodSeen(pod=following))
    found = life(world, "next")
    assert (found["complete"], [row["kind"] for row in found["items"]]) == (True, ["seen"])


def test_the_life_of_a_pod_is_whole_if_the_clock_of_the_store_is_behind(world: api_worlds.World) -> None:
    """The API server, which created the pod, is 10 seconds ahead of the store and of the extender."""
    pod = msgspec.structs.replace(api_worlds.pod("late"), created=times.rfc3339(time.time() + 10))
    world.append(events.PodSeen(pod=pod))
    decided = api_worlds.decide(world, pod, at=times.rfc3339(time.time()))
    world.append(events.placed(pod, "host-3"))
    found = life(world, "late")
    assert [row["kind"] for row in found["items"]] == ["seen", "attempt", "placed"]
    assert (found["items"][1]["decision"], found["complete"]) == (decided[0], True)


def test_a_pod_that_never_was_has_no_life(still: api_worlds.World) -> None:
    response = still.client.get("/apis/v1/pods/shop/absent-1/life")
    assert_problem(response, 404, "NotFound", "shop/absent-1")


def test_pending_pods_are_grouped_by_their_reason(world: api_worlds.World) -> None:
    world.append(
        *(api_worlds.pod_seen(f"more-{at}") for at in range(3)),
        events.PodSeen(pod=msgspec.structs.replace(api_worlds.pod("free"), labels={}, unscheduled="no cpu")),
    )
    found = body(world.client.get("/apis/v1/pending/reasons"))
    listed = items(world.client.get("/apis/v1/pending"))
    expected: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in listed:
        expected.setdefault((row["reason"], "" if row["reason"] else row["message"]), []).append(row)
    assert len(expected) == 2
    assert {(one["reason"], one["message"]): one["pods"] for one in found["groups"]} == {
        key: len(rows) for key, rows in expected.items()
    }
    for one in found["groups"]:
        rows = expected[one["reason"], one["message"]]
        assert one["first"] == [f"{row['namespace']}/{row['name']}" for row in rows]
        assert one["changes"] == rows[0]["change"]
        assert one["namespaces"] == {"shop": len(rows)}
    assert found["waiting"] == found["examined"] == len(listed)
    largest = next(one for one in found["groups"] if one["pods"] == 4)
    assert largest["requests"] == {"cpu": "2", "memory": "4Gi"}


def test_facets_count_the_decisions_that_the_list_shows(world: api_worlds.World) -> None:
    free = msgspec.structs.replace(api_worlds.pod("free"), labels={})
    api_worlds.decide(world, api_worlds.pod("web-3"), free, api_worlds.pod("web-9"))
    listed = items(world.client.get("/apis/v1/decisions"))
    found = body(world.client.get("/apis/v1/decisions/facets"))
    assert found["examined"] == len(listed) > 3
    facets = {
        one["name"]: {value["value"]: value["count"] for value in one["values"]} for one in found["facets"]
    }
    for name in ("verb", "outcome"):
        values = [row[name] for row in listed]
        assert facets[name] == {value: values.count(value) for value in values}
    reasons = [reason for row in listed for reason in row["reasons"]]
    assert facets["reason"] == {reason: reasons.count(reason) for reason in reasons}
    objects = [name for row in listed for name in row["objects"]]
    assert objects == ["policy:shop/spread" for row in listed if row["pod"]["name"] != "free"]
    assert facets["object"] == {name: objects.count(name) for name in objects}
    of_policy = items(world.client.get("/apis/v1/decisions?object=policy:shop/spread"))
    assert of_policy == [row for row in listed if row["objects"]]
    assert of_policy == items(world.client.get("/apis/v1/decisions?where=object~spread"))
    assert sum(sum(one["outcomes"].values()) for one in found["buckets"]) == len(listed)
    only = body(world.client.get("/apis/v1/decisions/facets?outcome=refused"))
    assert only["examined"] == facets["outcome"]["refused"]


def test_what_differs_most_in_a_selection_comes_first(world: api_worlds.World) -> None:
    free = msgspec.structs.replace(api_worlds.pod("free"), labels={})
    api_worlds.decide(world, api_worlds.pod("web-3"), free)
    path = "/apis/v1/decisions/facets?pickedSince=2026-07-01T10:00:00Z&pickedUntil=2999-01-01T00:00:00Z"
    found = body(world.client.get(path))
    assert found["picked"] == found["examined"]
    assert all(value["picked"] == value["count"] for one in found["facets"] for value in one["values"])
    none = body(world.client.get("/apis/v1/decisions/facets?pickedSince=2027-07-01T10:00:00Z"))
    assert none["picked"] == 0
    assert_problem(
        world.client.get("/apis/v1/decisions/facets?pickedSince=5"), 400, "BadRequest", "pickedSince"
    )


def test_the_map_of_a_decision_shows_what_it_kept_and_why_it_refused(world: api_worlds.World) -> None:
    (decided,) = api_worlds.decide(world, api_worlds.pod("web-3"))
    world.append(api_worlds.node("later"))
    found = body(world.client.get(f"/apis/v1/map?color=decision:{decided}"))
    record = body(world.client.get(f"/apis/v1/decisions/{decided}"))
    assert found["metadata"]["position"] == record["position"]
    assert found["nodes"] == record["nodes"]
    assert {one["label"]: one["count"] for one in found["classes"] if one["count"]} == {
        f"refused: {reason}": nodes for reason, nodes in record["reasons"].items()
    }
