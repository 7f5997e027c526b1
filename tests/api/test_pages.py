"""Pages: every item once, in one order, from one moment, however large the pages are."""

from typing import Any

import pytest

from tests.api import worlds
from tests.api.problems import body, items


def walk(world: worlds.World, path: str, limit: int) -> list[dict[str, Any]]:
    """All items of a list, page by page, ``remaining`` checked where it is told."""
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
        "/apis/v1/events",
        "/apis/v1/events?type=NodeSeen",
        "/apis/v1/events?object=pod:shop/web-1",
        "/apis/v1/topology",
        "/apis/v1/flags",
        "/apis/v1/plugins/NodeLabelPriority/nodes",
    ],
)
def test_pages_put_together_are_the_whole_list(still: worlds.World, path: str, limit: int) -> None:
    whole = items(still.client.get(path))
    assert whole
    assert walk(still, path, limit) == whole


def test_the_second_page_is_from_the_moment_of_the_first(world: worlds.World) -> None:
    first = world.client.get("/apis/v1/nodes?limit=3")
    world.append(worlds.node("aaa-new"), worlds.node("host-11"))
    token = body(first)["metadata"]["continue"]
    second = world.client.get(f"/apis/v1/nodes?limit=10&continue={token}")
    names = [one["name"] for one in items(first) + items(second)]
    assert names == ["host-1", "host-2", "host-3", "host-4", "member-1", "member-2"]
    assert second.headers["X-Topolog-Position"] == first.headers["X-Topolog-Position"]
    assert len(items(world.client.get("/apis/v1/nodes"))) == 8


def test_events_go_on_behind_a_window_without_matches(
    world: worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.v1.events._WINDOW", 3)
    found = walk(world, "/apis/v1/events?type=PodPlaced", 10)
    assert [one["type"] for one in found] == ["PodPlaced"]
