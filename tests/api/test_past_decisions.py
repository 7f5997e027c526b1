"""Decisions at a moment of the past are searched from there, however many were recorded since."""

import pytest

from app.api.v1 import explanations
from app.domain import events
from app.store.decisions import decision_log, records
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import Json, body, items
from tests.support.extender.questions import ask

POD = api_worlds.pod("web-3")


@pytest.fixture
def moment(world: api_worlds.World, monkeypatch: pytest.MonkeyPatch) -> int:
    """An offset up to which one decision is recorded, of POD, with more behind it than a query scans."""
    api_worlds.decide(world, POD)
    found = world.store.follower.catch_up().offset
    for number in range(5):
        other = api_worlds.pod(f"other-{number}")
        world.append(events.PodSeen(pod=other))
        api_worlds.decide(world, other)
    monkeypatch.setattr(decision_log, "_SCAN", 1)
    monkeypatch.setattr(records, "MAX_SCANNED", 3)
    monkeypatch.setattr(records, "LATE_MS", 1)
    monkeypatch.setattr("app.api.v1.pending_pods._MAX_SCANNED", 3)
    assert len(world.store.decisions.latest()) == 6
    return found


def get(world: api_worlds.World, path: str) -> Json:
    """The answer."""
    return body(world.client.get(f"/apis/v1/{path}"))


def test_a_pod_is_explained_by_its_attempt_of_then(world: api_worlds.World, moment: int) -> None:
    found = get(world, f"pods/shop/web-3/explain?at={moment}")
    assert (found["source"], found["attempts"], found["attemptsComplete"]) == ("decision", 1, True)


def test_a_pod_is_explained_although_it_has_later_attempts(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are considered, within the time in which a record may be late."""
    monkeypatch.setattr(explanations, "_KEPT", 2)
    first, *_ = api_worlds.decide(world, POD)
    then = world.store.follower.catch_up().offset
    for number in range(3):
        world.append(api_worlds.node(f"new-{number}", role="host"))
        api_worlds.decide(world, POD)
    found = get(world, f"pods/shop/web-3/explain?at={then}")
    assert (found["decision"]["id"], found["attempts"], found["attemptsComplete"]) == (first, 1, True)
    found = get(world, "pods/shop/web-3/explain")
    assert (found["attempts"], found["attemptsComplete"]) == (2, False)


def test_the_attempts_of_a_waiting_pod_are_counted(world: api_worlds.World, moment: int) -> None:
    (found,) = items(world.client.get(f"/apis/v1/pending?at={moment}"))
    assert (found["name"], found["attempts"], found["attemptsComplete"]) == ("web-3", 1, True)


def test_the_list_begins_there(world: api_worlds.World, moment: int) -> None:
    found = get(world, f"decisions?at={moment}")
    assert [one["pod"]["name"] for one in found["items"]] == ["web-3"]
    assert found["metadata"]["continue"] is None


def test_the_facets_begin_there(world: api_worlds.World, moment: int) -> None:
    found = get(world, f"decisions/facets?at={moment}")
    assert (found["examined"], found["complete"]) == (1, True)


def test_a_life_has_the_attempt(world: api_worlds.World, moment: int) -> None:
    found = get(world, f"pods/shop/web-3/life?at={moment}")
    assert [one["kind"] for one in found["items"]] == ["seen", "attempt"]


def test_later_records_within_the_lateness_do_not_use_up_the_search(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a busy cluster, where a request scans fewer than are recorded in the time for late ones."""
    api_worlds.decide(world, POD)
    then = world.store.follower.catch_up().offset
    for number in range(5):
        world.append(api_worlds.node(f"new-{number}", role="host"))
        api_worlds.decide(world, POD)
    monkeypatch.setattr(decision_log, "_SCAN", 1)
    monkeypatch.setattr("app.api.v1.decisions._CHUNK", 1)
    monkeypatch.setattr("app.api.v1.pending_pods._MAX_SCANNED", 3)
    (found,) = items(world.client.get(f"/apis/v1/pending?at={then}"))
    assert (found["attempts"], found["attemptsComplete"]) == (1, True)
    monkeypatch.setattr(records, "MAX_SCANNED", 2)
    found = get(world, f"decisions?at={then}")
    assert found["items"] == []
    assert found["metadata"]["continue"], "a request is bounded, and the next one goes on"


def test_a_bisection_begins_there(
    world: api_worlds.World, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str | None] = []
    search = world.store.decisions.search

    def noted(wanted: records.DecisionQuery, *, before: str | None = None, **bounds: int) -> records.Found:
        searched.append(before)
        return search(wanted, before=before, **bounds)

    monkeypatch.setattr(world.store.decisions, "search", noted)
    ask(world, "bisect", fits=POD.key, to=str(moment))
    assert searched
    assert searched[0] is not None
