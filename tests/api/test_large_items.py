"""Pages are bounded in bytes: large items make them short, and ``continue`` leads to the others."""

import secrets
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from app.api.introspection import json_responses, pages
from app.domain import events, model
from app.store.server import embedded
from app.verbs.questions import snapshot_diff
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body

PODS = 30
LARGE = model.Constraints(
    tolerations=tuple(model.Toleration(f"example.com/key-{at:04}", "Exists") for at in range(700))
)
LABELS = {f"example.com/label-{at:04}": "x" * 16 for at in range(400)}
"""With the tolerations an event of 45 KB: within all bounds of what is recorded."""
FACTOR = 30
"""Memory that a page takes in its bytes: entries as they are read, as objects, as fields, and as JSON."""


def large(name: str, number: int = 0) -> events.PodSeen:
    pod = api_worlds.pod(name)
    return events.PodSeen(
        pod=replace(pod, labels={**pod.labels, **LABELS, "number": str(number)}, constraints=LARGE)
    )


@pytest.fixture(scope="module")
def heavy(store_server: embedded.Server) -> Iterator[api_worlds.World]:
    """A few large pods, each of them changed once, and a few large nodes."""
    with api_worlds.processes(store_server, f"large{secrets.token_hex(4)}") as start:
        world = api_worlds.filled(start())
        for number in (1, 2):
            world.append(*(large(f"large-{at:02}", number) for at in range(PODS)))
        labels = {key: "y" * 60 for key in LABELS}
        nodes = [model.Node(f"large-{at:02}", uid=f"l{at}", labels=labels, ready=True) for at in range(PODS)]
        world.append(*(events.NodeSeen(node=node) for node in nodes))
        yield world


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> int:
    """Pages of a few large items."""
    size = 128 * 1024
    monkeypatch.setattr(pages, "PAGE_BYTES", size)
    return size


def walk(world: api_worlds.World, path: str) -> tuple[list[dict[str, Any]], list[int]]:
    """All items, and the size of each page in bytes."""
    found: list[dict[str, Any]] = []
    sizes: list[int] = []
    token: str | None = ""
    while token is not None:
        more = f"&continue={token}" if token else ""
        response = world.client.get(f"/apis/v1/{path}limit=1000{more}")
        page = body(response)
        found += page["items"]
        token = page["metadata"]["continue"]
        sizes.append(len(response.data))
    return found, sizes


@pytest.mark.parametrize(
    ("path", "number", "largest"),
    [
        ("events?", 17 + 3 * PODS, 64_000),
        ("events?type=PodSeen&", 3 + 2 * PODS, 64_000),
        ("pods?", 4 + PODS, 20_000),
        ("nodes?", 6 + PODS, 40_000),
        ("pending?", 1 + PODS, 20_000),
    ],
)
def test_a_page_has_a_bounded_number_of_bytes(
    heavy: api_worlds.World, small_pages: int, path: str, number: int, largest: int
) -> None:
    found, sizes = walk(heavy, path)
    assert len(found) >= number
    names = [one.get("offset", (one.get("namespace"), one.get("name"))) for one in found]
    assert len(set(names)) == len(found)
    assert max(sizes) < small_pages + largest


def test_the_remaining_items_of_a_short_page_are_counted(heavy: api_worlds.World, small_pages: int) -> None:
    first = body(heavy.client.get("/apis/v1/nodes?limit=1000&prefix=large"))
    assert 1 < len(first["items"]) < PODS
    assert first["metadata"]["remaining"] == PODS - len(first["items"])


def test_a_page_has_one_item_however_large_it_is(
    heavy: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_BYTES", 1)
    for path in ("events?from=30&", "pods?", "nodes?"):
        page = body(heavy.client.get(f"/apis/v1/{path}limit=1000"))
        assert len(page["items"]) == 1
        assert page["metadata"]["continue"]


def test_a_page_of_large_events_takes_memory_with_its_bytes_and_not_with_their_number(
    heavy: api_worlds.World, small_pages: int
) -> None:
    def peak() -> int:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            assert heavy.client.get("/apis/v1/events?from=20&limit=1000").status_code == 200
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

    peak()
    assert min(peak() for _ in range(3)) < FACTOR * small_pages


def test_a_page_of_decisions_has_a_bounded_number_of_bytes(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = api_worlds.decide(world, *(api_worlds.pod(f"new-{at}") for at in range(9)))
    whole, (size,) = walk(world, "decisions?")
    assert [one["id"] for one in whole] == ids[::-1]
    monkeypatch.setattr(pages, "PAGE_BYTES", size // 4)
    found, sizes = walk(world, "decisions?")
    assert found == whole
    assert len(sizes) >= 3
    assert max(sizes) < size // 4 + 1500


def test_a_page_of_domains_has_a_bounded_number_of_bytes(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(*(api_worlds.node(f"n{at:03}", zone=f"z{at:03}") for at in range(100)))
    path = "topology?levels=zone&"
    whole, (size,) = walk(world, path)
    monkeypatch.setattr(pages, "PAGE_BYTES", size // 4)
    found, sizes = walk(world, path)
    assert found == whole
    assert len(sizes) >= 3
    assert max(sizes) < size // 4 + 1500


def test_the_rows_of_a_difference_have_a_bounded_number_of_bytes(
    heavy: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 200_000
    monkeypatch.setattr(snapshot_diff, "SECTION_BYTES", size)
    response = heavy.client.get("/apis/v1/diff?from=17&limit=1000")
    sections = body(response)["sections"]
    for name in ("pods", "nodes"):
        assert 1 < len(sections[name]["rows"]) < PODS
        assert sections[name]["more"] == PODS - len(sections[name]["rows"])
    assert len(response.data) < 2 * (size + 64_000)


def committed(name: str, number: int, size: int) -> events.PlacementsCommitted:
    """The commitment of a gang of so many pods, each with a label of that many bytes."""
    pods = (replace(api_worlds.pod(f"{name}-{at}"), labels={"large": "x" * size}) for at in range(number))
    return events.PlacementsCommitted(tuple(model.Placement(pod=pod, node="host-1") for pod in pods))


def test_an_item_above_the_bytes_of_an_answer_is_a_page_of_its_own(world: api_worlds.World) -> None:
    """A page ends before an item that it cannot have as well, also where it could have been the last."""
    first = world.append(*(large(f"before-{at}") for at in range(10))) - 9
    middle = world.append(committed("gang", 1000, 4500))
    last = world.append(*(large(f"after-{at}") for at in range(3)))
    found, sizes = walk(world, f"events?from={first}&to={last}&")
    assert [one["offset"] for one in found] == list(range(first, last + 1))
    assert max(sizes) > json_responses.MOST_BYTES
    assert len(sizes) == 3
    found, sizes = walk(world, f"events?from={first}&to={middle}&")
    assert [one["offset"] for one in found] == list(range(first, middle + 1))
    (one,) = body(world.client.get(f"/apis/v1/events?from={middle}&limit=1"))["items"]
    assert len(one["data"]["placements"]) == 1000


def test_a_page_ends_before_an_item_that_exceeds_its_bytes(world: api_worlds.World) -> None:
    """Almost 1 MiB of events before one of 3.5 MiB: each fits into an answer, and both do not."""
    first = world.append(*(large(f"before-{at}") for at in range(19))) - 18
    last = world.append(committed("gang", 1000, 3450))
    found, sizes = walk(world, f"events?from={first}&to={last}&")
    assert [one["offset"] for one in found] == list(range(first, last + 1))
    assert len(sizes) == 2
    assert sizes[0] <= pages.PAGE_BYTES + 1000 < 3 * pages.PAGE_BYTES < sizes[1] < json_responses.MOST_BYTES


def test_the_decision_that_a_page_ends_before_is_the_first_of_the_next(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = api_worlds.decide(world, *(api_worlds.pod(f"new-{at}") for at in range(2)))
    (size,) = walk(world, "decisions?")[1]
    monkeypatch.setattr(pages, "PAGE_BYTES", size // 2 + 1)
    found, sizes = walk(world, "decisions?")
    assert [one["id"] for one in found] == ids[::-1]
    assert len(sizes) == len(ids)


@pytest.mark.parametrize("path", ["nodes/host-1", "lag", "cluster", "map", "diff?from=0"])
def test_an_answer_without_pages_is_refused_above_a_number_of_bytes(
    still: api_worlds.World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    assert json_responses.MOST_BYTES == 4 * 1024**2
    monkeypatch.setattr(json_responses, "MOST_BYTES", 100)
    words = ("at most 100 are sent", "ask for fewer items")
    assert_problem(still.client.get(f"/apis/v1/{path}"), 400, "TooMuch", *words)


def test_a_hypothetical_answer_is_refused_above_a_number_of_bytes(
    still: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_responses, "MOST_BYTES", 100)
    response = still.client.post("/apis/v1/simulate", json={"pod": "shop/web-3"})
    assert_problem(response, 400, "TooMuch", "at most 100 are sent")
