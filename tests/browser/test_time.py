"""The map and the time bar against the API, at many moments."""

import collections
import json
import pathlib
import random
import secrets
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pytest
from selenium import webdriver
from selenium.webdriver.common import by, keys

from app.domain import events
from app.store.server import embedded
from tests.support.browser import browsers, large_worlds, scripts, shown, viewers
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
Json: TypeAlias = Any
"""A value of a type that the test asserts."""

POLICIES = 3
"""Of the large world."""
FRAMES = 60
"""Of one window."""
EVENTS, LONG_NODES = 50_000, 300
"""Of the world with a long history."""
REST = 0.25
"""Seconds until a released slider is at rest."""
LABELS = {
    "empty": "no pods",
    "low": "less than half in use",
    "high": "half in use or more",
    "full": "full",
    "cordoned": "cordoned",
    "bad": "not ready",
}


def ask(seen: shown.Shown, path: str) -> Json:
    """JSON of the API."""
    with urllib.request.urlopen(f"{seen.viewer.url}/apis/v1/{path}", timeout=30) as reply:
        return json.load(reply)


def labels(seen: shown.Shown, offset: int) -> dict[str, str]:
    """Node -> class at an offset, by the API."""
    picture = ask(seen, f"map?at={offset}")
    names = {one["letter"]: one["label"] for one in picture["classes"]}
    return {name: names[letter] for name, letter in zip(picture["nodes"], picture["values"], strict=True)}


def coloured(page: browsers.Browser) -> dict[str, str]:
    """Node -> class by the colour of its cell."""
    found, palette = page.run(scripts.read("pixels"))
    return {name: LABELS.get(palette.get(colour, ""), colour) for name, colour in found}


def figures(page: browsers.Browser) -> list[int]:
    """Nodes, ready, pods, waiting and in flight, as the page shows them."""
    script = "return [...document.querySelectorAll('#figures b')].map((one) => one.textContent)"
    return [int(text.replace(",", "")) for text in page.run(script)]


def expected(seen: shown.Shown, offset: int) -> list[int]:
    """The same figures by the API."""
    cluster = ask(seen, f"cluster?at={offset}")
    pods = cluster["pods"]
    return [
        cluster["nodes"]["total"],
        cluster["nodes"]["ready"],
        pods["onNodes"],
        pods["waiting"],
        pods["inFlight"],
    ]


def counts(page: browsers.Browser) -> list[list[str]]:
    """Object, domain and count of the fullest quotas, as the page shows them."""
    script = (
        "return [...document.querySelectorAll('#quotas tbody tr')]"
        ".map((row) => [...row.cells].slice(0, 3).map((one) => one.textContent))"
    )
    found: list[list[str]] = page.run(script)
    return found


def expected_counts(seen: shown.Shown, offset: int) -> list[list[str]]:
    """The same by the API."""
    rows = [one for one in ask(seen, f"cluster?at={offset}")["quotas"] if one["desired"] is not None]
    return [[one["of"], one["value"], f"{one['placed']:,} of {one['desired']:,}"] for one in rows[:8]]


def same_as_the_api(page: browsers.Browser, seen: shown.Shown, offset: int) -> None:
    """The page settles at the offset, its address holds it, and its numbers are those of the API."""
    page.settled(f"/{offset}")
    address = urllib.parse.urlsplit(page.driver.current_url)
    assert urllib.parse.parse_qs(address.query)["at"] == [str(offset)]
    assert figures(page) == expected(seen, offset)
    found = counts(page)
    assert found == expected_counts(seen, offset)
    assert len({of for of, _, _ in found}) == POLICIES


@pytest.mark.scenario("UI-2")
def test_the_legend_has_the_colour_and_the_number_of_each_class(
    on_large: browsers.Browser, large: shown.Shown
) -> None:
    on_large.open("/dashboard/")
    on_large.settled(f"/{large.head}")
    cells, _ = on_large.run(scripts.read("pixels"))
    of_nodes = labels(large, large.head)
    shown_as = {(of_nodes[name], colour) for name, colour in cells}
    legend = on_large.run(scripts.read("legend"))
    assert shown_as == {(label, colour) for label, number, colour in legend if number != "0"}
    assert len(shown_as) > 3
    numbers = collections.Counter(of_nodes.values())
    assert {label: number for label, number, _ in legend} == {
        label: f"{numbers[label]:,}" for label, _, _ in legend
    }


@pytest.mark.scenario("UI-2")
def test_every_cell_has_the_colour_of_its_class(on_large: browsers.Browser, large: shown.Shown) -> None:
    on_large.open("/dashboard/")
    found = coloured(on_large)
    assert found == labels(large, large.head)
    assert len(found) == shown.NODES
    assert len(set(found.values())) >= 5
    more = list(large_worlds.some_pods(shown.PODS, 1000, shown.NODES))
    last = large_worlds.append(large.world, [events.PodSeen(pod=pod) for pod in more])
    on_large.settled(f"/{last}")
    assert coloured(on_large) == labels(large, last) != found


@pytest.mark.scenario("UI-3")
def test_the_slider_shows_the_figures_of_its_offset(on_large: browsers.Browser, large: shown.Shown) -> None:
    on_large.open("/dashboard/")
    head = large.head
    chosen = random.Random(5)
    for offset in chosen.sample(range(head - 900, head), 20):
        on_large.run(
            scripts.read("drag"),
            offset,
        )
        same_as_the_api(on_large, large, offset)
    for offset in chosen.sample(range(head - 900, head), 5):
        on_large.run("const one = document.getElementById('moment'); one.value = ''; one.focus()")
        on_large.keys(f"{offset:,}", keys.Keys.ENTER)
        same_as_the_api(on_large, large, offset)
    visited = [int(on_large.settled().rpartition("/")[2])]
    on_large.run("document.getElementById('slider').focus()")
    moving = (keys.Keys.ARROW_LEFT, keys.Keys.PAGE_DOWN, keys.Keys.ARROW_LEFT, keys.Keys.PAGE_UP)
    for number in range(20):
        on_large.keys(moving[number % len(moving)])
        offset = int(on_large.run("return document.getElementById('slider').value"))
        visited.append(offset)
        same_as_the_api(on_large, large, offset)
    present = on_large.settled()
    on_large.driver.refresh()
    assert on_large.settled() == present
    assert figures(on_large) == expected(large, int(present.rpartition("/")[2]))
    for _ in range(3):
        on_large.driver.back()
    on_large.settled(f"/{visited[-4]}")
    on_large.keys("l")
    on_large.settled(f"/{head}")
    assert "at=" not in on_large.driver.current_url


@pytest.mark.scenario("UI-3")
def test_the_slider_is_dragged_by_a_pointer(on_large: browsers.Browser, large: shown.Shown) -> None:
    on_large.open("/dashboard/")
    slider = on_large.driver.find_element(by.By.ID, "slider")
    pointer = webdriver.ActionChains(on_large.driver)
    pointer.move_to_element(slider).perform()
    on_large.until(lambda: offered(on_large), "the frames of the window")
    on_large.settled()
    on_large.requests()
    # From the middle almost to the end: the policies, which all moments should have, follow the nodes.
    width = slider.size["width"]
    pointer.click_and_hold(slider).move_by_offset(-width // 10, 0).move_by_offset(width // 2, 0).perform()
    value = "return Number(document.getElementById('slider').value)"
    offset = on_large.run(value)
    assert f"offset {offset:,}" in on_large.text(".timebar output")
    time.sleep(REST * 2)
    assert on_large.requests() == []
    pointer.release().perform()
    assert on_large.run(value) == offset < large.head
    same_as_the_api(on_large, large, offset)


@pytest.mark.scenario("UI-4")
def test_dragging_shows_the_maps_of_the_frames_without_a_request(
    on_large: browsers.Browser, large: shown.Shown
) -> None:
    on_large.open("/dashboard/")
    painted = dragged(on_large, large)
    assert len(painted) == 5
    for offset, cells in painted.items():
        # A node that does not exist then is an outline, which is no colour of a class.
        there = {name: kind for name, kind in cells.items() if not kind.startswith("#")}
        assert there == labels(large, offset), offset


@pytest.mark.scenario("UI-4")
def test_a_film_of_50000_events_and_the_slider_show_the_maps_of_their_offsets(
    store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    cluster = f"long{secrets.token_hex(4)}"
    with api_worlds.processes(store_server, cluster) as start:
        world = api_worlds.world(start())
        start_of_changes = large_worlds.append(world, large_worlds.history(LONG_NODES, LONG_NODES))
        large_worlds.append(world, large_worlds.changes(LONG_NODES, LONG_NODES, EVENTS))
        with (
            viewers.running(store_server.url, cluster, tmp_path) as viewer,
            browsers.browser(viewer.url, tmp_path / "profile") as page,
        ):
            long = shown.Shown(world, viewer)
            page.open(f"/dashboard/?at={start_of_changes}")
            page.fill(".moment select", "100000")
            page.run(scripts.read("ticks"))
            page.run("document.getElementById('main').focus()")
            page.keys(" ")
            page.until(lambda: page.run("return ticks.length"), "the film begins")
            frames = offered(page)
            assert frames[-1] - frames[0] >= EVENTS
            ahead = [offset for offset in frames if offset > start_of_changes]
            played = {}
            for _ in ahead[1:]:
                page.run("ticks[0]()")
                drawn = page.later(scripts.read("drawn"))
                played[page.run("return Number(document.getElementById('slider').value)")] = drawn
            assert list(played) == ahead[:-1], "no frame is left out"
            drawn_like(long, played)
            page.run("ticks[0]()")
            page.settled(f"/{long.head}")
            assert ahead[-1] == long.head
            assert len({str(values) for _, values, _ in played.values()}) > 3
            dragged(page, long)


def dragged(page: browsers.Browser, seen: shown.Shown) -> dict[int, dict[str, str]]:
    """Drag through all frames: each is the map of its offset; nothing moves, or is asked for before the rest.

    Returns what is painted at five of the offsets: node -> class by the colour of its cell.
    """
    layout = page.run("return [...document.querySelector('cluster-map').arranged.at]")
    page.run("document.getElementById('slider').focus()")
    # Backwards: the last one is the moment that was shown before.
    frames = page.until(lambda: offered(page), "the frames of the window")[::-1]
    assert len(frames) == FRAMES
    page.settled()
    page.requests()
    drawn = {}
    painted: dict[int, dict[str, str]] = {}
    page.run(scripts.read("hold"), True)
    for offset in frames:
        page.run(scripts.read("drag"), offset)
        drawn[offset] = page.later(scripts.read("drawn"))
        if offset in frames[:: FRAMES // 5]:
            painted[offset] = coloured(page)
    assert page.requests() == []
    page.run(scripts.read("hold"), False)
    page.settled(f"/{frames[-1]}")
    asked = [path for path in page.requests() if path.startswith("/apis/v1/map")]
    assert len(asked) == 1
    drawn_like(seen, drawn)
    assert page.run("return [...document.querySelector('cluster-map').arranged.at]") == layout
    return painted


def drawn_like(seen: shown.Shown, drawn: Mapping[int, Sequence[Json]]) -> None:
    """What was drawn at each offset, as names, letters and the labels of letters, is the map of the API."""
    for offset, (names, values, classes) in drawn.items():
        known = dict(classes)
        found = {name: known[letter] for name, letter in zip(names, values, strict=True) if letter != "-"}
        assert found == labels(seen, offset), offset


def test_a_chart_is_asked_for_once_while_the_moment_moves_in_its_window(
    on_large: browsers.Browser, large: shown.Shown
) -> None:
    head = large.head
    on_large.open(f"/dashboard/workloads?of=shop/spread&at={head - 900}")
    on_large.until(lambda: placed_lines(on_large), "the lines of the chart")
    line = "document.querySelector('.moment-line:not([hidden])')"
    on_large.until(lambda: on_large.run(f"return {line} !== null"), "the mark of the moment")
    on_large.requests()
    seen, marked = set(), set()
    for offset in (head - 850, head - 500, head - 100, head - 400):
        on_large.run(scripts.read("drag"), offset)
        on_large.settled(f"/{offset}")
        quotas = [one for one in ask(large, f"cluster?at={offset}")["quotas"] if one["of"] == "shop/spread"]
        found = placed_lines(on_large)
        assert found == {f"{one['key']}={one['value']} placed": one["placed"] for one in quotas}
        seen.add(str(found))
        marked.add(on_large.run(f"return {line}.style.left"))
    assert len(seen) == len(marked) == 4
    assert not [path for path in on_large.requests() if path.startswith("/apis/v1/series")]


def placed_lines(page: browsers.Browser) -> dict[str, int]:
    """Line of what is placed -> the number at the moment shown, as the table of the chart has them."""
    script = """return [...document.querySelectorAll('#over-time tbody tr')]
      .map((row) => [...row.cells].map((one) => one.textContent.trim()))"""
    return {
        name: int(value.replace(",", "")) for name, _, value in page.run(script) if name.endswith(" placed")
    }


def test_a_page_that_goes_live_right_after_a_drag_stays_live(
    on_large: browsers.Browser, large: shown.Shown
) -> None:
    on_large.open("/dashboard/")
    on_large.run("document.getElementById('slider').focus()")
    first = on_large.until(lambda: offered(on_large), "the frames of the window")[0]
    press = "one.dispatchEvent(new KeyboardEvent('keydown', { key: 'l', bubbles: true }));"
    on_large.run(scripts.read("drag") + press, first)
    time.sleep(REST * 4)
    on_large.settled(f"/{large.head}")
    assert "at=" not in on_large.driver.current_url


def offered(page: browsers.Browser) -> list[int]:
    """The offsets of the frames; empty until the page has them."""
    return [int(offset) for offset in page.later(scripts.read("frames"))]


def test_steps_are_by_decision_or_by_event_of_the_selected_object(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    decided = sorted(
        {int(one["position"].rpartition("/")[2]) for one in ask(small, "decisions?limit=1000")["items"]}
    )
    about = [one["offset"] for one in ask(small, "events?object=pod:shop/web-3&from=1&limit=1000")["items"]]
    for path, kind, offsets in (
        ("/dashboard/decisions", "decision", decided),
        ("/dashboard/pods/shop/web-3", "object", about),
    ):
        on_small.open(f"{path}?at={small.head}")
        on_small.fill(".by", kind)
        earlier = [offset for offset in offsets if offset < small.head]
        for offset in reversed(earlier[-2:]):
            on_small.keys(",")
            on_small.settled(f"/{offset}")
        if len(earlier) > 1:
            on_small.keys(".")
            on_small.settled(f"/{earlier[-1]}")
    on_small.open(f"/dashboard/pods/shop/web-3?at={min(about)}")
    on_small.fill(".by", "object")
    on_small.keys(",")
    sentence = "there is no earlier event of the object in this window"
    on_small.until(lambda: sentence in on_small.text("#moment-wrong"), sentence)


@pytest.mark.scenario("UI-3")
def test_a_moment_is_typed_as_a_position_or_a_time(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    happened = ask(small, f"events?from={small.head - 3}&limit=1")["items"][0]["at"]
    for text in (on_small.settled().replace(f"/{small.head}", f"/{small.head - 5}"), happened):
        position = ask(small, f"cluster?at={urllib.parse.quote(text)}")["metadata"]["position"]
        on_small.run("const one = document.getElementById('moment'); one.value = ''; one.focus()")
        on_small.keys(text, keys.Keys.ENTER)
        on_small.settled(position)
        assert figures(on_small) == expected(small, int(position.rpartition("/")[2]))
    on_small.run("document.getElementById('moment').focus()")
    on_small.keys("yesterday or so", keys.Keys.ENTER)
    sentence = "is neither an offset, nor a position, nor a time"
    on_small.until(lambda: sentence in on_small.text("#moment-wrong"), sentence)


@pytest.mark.scenario("UI-4")
def test_a_film_shows_frame_after_frame_and_rests_at_the_last(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/?at=1")
    on_small.run("document.getElementById('main').focus()")
    on_small.keys(" ")
    offsets = on_small.until(lambda: on_small.later(scripts.read("frames")), "the frames of the window")
    passed: list[int] = []

    def ended() -> bool:
        offset = int(on_small.run("return document.getElementById('slider').value"))
        if offset not in passed[-1:]:
            passed.append(offset)
        return f"at={offsets[-1]}" in str(on_small.driver.current_url)

    on_small.until(ended, "the end of the film")
    assert len(passed) > 3
    assert passed == sorted(passed)
    assert set(passed) <= {1, *offsets}
    on_small.settled(f"/{offsets[-1]}")
    assert figures(on_small) == expected(small, offsets[-1])
    assert coloured(on_small) == labels(small, offsets[-1])
