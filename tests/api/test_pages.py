"""Pages: every item once, in one order, from one moment, however large the pages are."""

import base64
from typing import Any

import pytest

from app.api.introspection import pages
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body, items


def walk(world: api_worlds.World, path: str, limit: int) -> list[dict[str, Any]]:
    """All items of a list, page by page, ``remaining`` checked where it is known."""
    found: list[dict[str, Any]] = []
    sizes: list[tuple[int, int | None]] = []
    token: str | None = ""
    while token is not None:
        more = f"&continue={token}" if token else ""
        response = world.client.get(f"{path}{'&' if '?' in path else '?'}limit={limit}{more}")
        page = items(response)
        assert len(page) <= limit
        found += page
        metadata = body(response)["metadata"]
        sizes.append((len(found), metadata["remaining"]))
        token = metadata["continue"]
    assert all(remaining in (None, len(found) - seen) for seen, remaining in sizes)
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    "path",
    [
        "/apis/v1/nodes",
        "/apis/v1/nodes?prefix=host",
        "/apis/v1/pods?prefix=shop/web",
        "/apis/v1/events",
        "/apis/v1/events?type=NodeSeen",
        "/apis/v1/events?object=pod:shop/web-1",
        "/apis/v1/topology",
        "/apis/v1/flags",
        "/apis/v1/plugins/NodeLabelPriority/nodes",
    ],
)
def test_pages_put_together_are_the_whole_list(still: api_worlds.World, path: str, limit: int) -> None:
    whole = items(still.client.get(path))
    assert whole
    assert walk(still, path, limit) == whole


def test_a_prefix_selects_names(world: api_worlds.World) -> None:
    def names(path: str) -> list[str]:
        return [one["name"] for one in items(world.client.get(f"/apis/v1/{path}"))]

    assert names("nodes?prefix=member") == ["member-1", "member-2"]
    assert names("nodes?prefix=x") == []
    assert names("pods?prefix=sh") == names("pods?namespace=shop") != []
    assert names("pods?prefix=shop/web-1") == ["web-1"]
    assert names("pods?prefix=web-1") == []


def test_the_second_page_is_from_the_moment_of_the_first(world: api_worlds.World) -> None:
    first = world.client.get("/apis/v1/nodes?limit=3")
    world.append(api_worlds.node("aaa-new"), api_worlds.node("host-11"))
    token = body(first)["metadata"]["continue"]
    second = world.client.get(f"/apis/v1/nodes?limit=10&continue={token}")
    names = [one["name"] for one in items(first) + items(second)]
    assert names == ["host-1", "host-2", "host-3", "host-4", "member-1", "member-2"]
    assert second.headers["X-Topolog-Position"] == first.headers["X-Topolog-Position"]
    assert len(items(world.client.get("/apis/v1/nodes"))) == 8


@pytest.mark.parametrize("path", ["/apis/v1/events", "/apis/v1/nodes"])
def test_a_list_does_not_go_on_in_another_history(world: api_worlds.World, path: str) -> None:
    """Its offsets are those of other events."""
    token = body(world.client.get(f"{path}?limit=2"))["metadata"]["continue"]
    former = world.begin_again()
    response = world.client.get(f"{path}?limit=2&continue={token}")
    assert_problem(response, 410, "PositionGone", former.incarnation)


def test_events_go_on_behind_a_window_without_matches(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.v1.events._WINDOW", 3)
    found = walk(world, "/apis/v1/events?type=PlacementsCommitted", 10)
    assert [one["type"] for one in found] == ["PlacementsCommitted"]


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_pages_of_domains_put_together_are_the_whole_tree(world: api_worlds.World, limit: int) -> None:
    path = "/apis/v1/topology?levels=zone,rack,role"
    placed = [("a", "r1"), ("a", "r2"), ("b", "r1"), ("b", "r3")]
    world.append(
        *(
            api_worlds.node(f"n{at}", zone=zone, rack=rack, role="host" if at % 2 else "member")
            for at, (zone, rack) in enumerate(placed * 2)
        ),
        api_worlds.node("bare", zone="c"),
    )
    whole = items(world.client.get(path))
    assert [(one["value"], [inner["value"] for inner in one["domains"]]) for one in whole] == [
        ("a", ["r1", "r2"]),
        ("b", ["r1", "r3"]),
        ("c", []),
    ]
    assert merged(walk(world, path, limit)) == whole


def merged(domains: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The domains, each value once; asserts that the domains that a page repeats are unchanged."""
    found: dict[str, dict[str, Any]] = {}
    for domain in domains:
        known = found.setdefault(domain["value"], {**domain, "domains": []})
        assert {**known, "domains": []} == {**domain, "domains": []}
        known["domains"] = merged([*known["domains"], *domain["domains"]])
    return list(found.values())


@pytest.mark.parametrize("after", [None, 7, "x", ("x", "y")])
@pytest.mark.parametrize("path", ["/apis/v1/nodes", "/apis/v1/flags", "/apis/v1/pending"])
def test_a_forged_place_in_a_list_is_refused_or_a_page(
    still: api_worlds.World, path: str, after: int | str | tuple[str, ...] | None
) -> None:
    position = still.store.follower.catch_up().position
    with still.app.test_request_context(path):
        token = pages.write(pages.Cursor(path, position.incarnation, position.offset, after=after))
    response = still.client.get(f"{path}?continue={token}")
    if response.status_code != 200:
        assert_problem(response, 400, "BadRequest", "not a value of metadata.continue")


def test_a_deep_place_in_a_list_is_refused(still: api_worlds.World) -> None:
    token = base64.urlsafe_b64encode(b'["/apis/v1/nodes","a",1,1,"",null,' + b"[" * 1_400).decode()
    response = still.client.get(f"/apis/v1/nodes?continue={token.rstrip('=')}")
    assert_problem(response, 400, "BadRequest", "not a value of metadata.continue")


@pytest.mark.parametrize("clock", ["1e300", "-1e300", "1e12", "-1e12", "true", '"x"'])
def test_a_forged_clock_is_refused(still: api_worlds.World, clock: str) -> None:
    position = still.store.follower.catch_up().position
    fields = f'["/apis/v1/flags","{position.incarnation}",{position.offset},0,"",0,{clock}]'
    token = base64.urlsafe_b64encode(fields.encode()).decode().rstrip("=")
    response = still.client.get(f"/apis/v1/flags?continue={token}")
    assert_problem(response, 400, "BadRequest", "not a value of metadata.continue")


def test_a_place_in_a_list_without_a_clock_is_a_page(still: api_worlds.World) -> None:
    """Those of earlier versions have none."""
    position = still.store.follower.catch_up().position
    fields = f'["/apis/v1/flags","{position.incarnation}",{position.offset},0,"",0]'
    token = base64.urlsafe_b64encode(fields.encode()).decode().rstrip("=")
    page = items(still.client.get(f"/apis/v1/flags?continue={token}"))
    assert [one["name"] for one in page] == ["f", "v", "d"]


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z"])
def test_pages_of_a_time_before_1970_are_the_whole_list(still: api_worlds.World, at: str) -> None:
    path = f"/apis/v1/flags?at={at}"
    assert walk(still, path, 1) == items(still.client.get(path)) != []
