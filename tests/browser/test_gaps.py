"""Parts of the past that cannot be shown, or that were not watched."""

import pathlib
import secrets
from collections.abc import Iterator

import pytest
from selenium.webdriver.common import keys

from app.domain import events
from app.store.server import embedded
from tests.support import declared
from tests.support.browser import browsers, rewinds, scripts, shown, viewers
from tests.support.extender import api_worlds

pytestmark = [pytest.mark.browser, pytest.mark.scenario("UI-12")]


@pytest.fixture
def world(chromium: None, store_server: embedded.Server) -> Iterator[api_worlds.World]:
    with api_worlds.processes(store_server, f"gaps{secrets.token_hex(4)}") as start:
        yield api_worlds.filled(start())


@pytest.fixture
def gaps(
    world: api_worlds.World, store_server: embedded.Server, tmp_path: pathlib.Path
) -> Iterator[shown.Shown]:
    with viewers.running(store_server.url, world.store.keys.cluster, tmp_path) as viewer:
        yield shown.Shown(world, viewer)


@pytest.fixture
def page(gaps: shown.Shown, tmp_path: pathlib.Path) -> Iterator[browsers.Browser]:
    with browsers.browser(gaps.viewer.url, tmp_path / "profile") as found:
        yield found


def slider(page: browsers.Browser) -> list[int]:
    """The first and the last offset of the slider."""
    script = "const one = document.getElementById('slider'); return [Number(one.min), Number(one.max)]"
    found: list[int] = page.run(script)
    return found


def trimmed(gaps: shown.Shown) -> int:
    """Trim the log below its last offset, and append what follows; the oldest offset that is left."""
    store = gaps.world.store
    state = store.follower.catch_up()
    store.checkpoints.write(state, store.follower.dated()[1] or 0)
    gaps.world.append(*(api_worlds.pod_seen(f"later-{at}") for at in range(10)))
    assert store.log.trim(state.offset, state.offset, reader_timeout=-1.0)
    return state.offset


def go_to_the_oldest(page: browsers.Browser, oldest: int) -> None:
    """Press the button in the banner of the moment, and see the cluster at that offset in every panel."""
    page.until(lambda: "go to the oldest moment" in page.text(".banner.past"), "the way to the oldest moment")
    page.press("go to the oldest moment", ".banner.past")
    page.settled(f"/{oldest}")
    assert "The cluster as it was" in page.text(".banner.past")
    assert page.text(".panel .failed") == ""


def expect_refused(page: browsers.Browser) -> None:
    """Excuse the console errors of requests for what was trimmed."""
    page.collect()
    page.found[:] = [line for line in page.found if "status of 410" not in line]


def test_from_a_trimmed_moment_the_page_leads_to_the_oldest(
    gaps: shown.Shown, page: browsers.Browser
) -> None:
    oldest = trimmed(gaps)
    page.driver.get(f"{gaps.viewer.url}/dashboard/?at={oldest - 5}")
    sentence = "that position is no longer kept; the oldest offset is"
    page.until(lambda: sentence in page.text(".banner.past"), sentence)
    go_to_the_oldest(page, oldest)
    page.open("/dashboard/")
    page.until(lambda: slider(page) == [oldest, gaps.head], "a time axis of what there is")
    page.settled()
    assert page.text(".timebar .failed") == ""
    expect_refused(page)


def test_from_a_time_that_is_trimmed_the_page_leads_to_the_oldest_moment(
    gaps: shown.Shown, page: browsers.Browser
) -> None:
    oldest = trimmed(gaps)
    page.driver.get(f"{gaps.viewer.url}/dashboard/pending?at=2020-01-01T00:00:00Z")
    sentence = "is no longer kept"
    page.until(lambda: sentence in page.text(".banner.past"), sentence)
    # No panel shows another moment, or waits for one.
    for panel in ("#groups", "#pods"):
        assert sentence in page.text(f"{panel} .failed")
    assert page.text(".banner.notice") == ""
    go_to_the_oldest(page, oldest)
    expect_refused(page)


def test_a_stretch_that_was_not_watched_is_hatched(gaps: shown.Shown, page: browsers.Browser) -> None:
    listed = [events.Relisted(kind, since="", until="77", reason="start") for kind in declared.SCHEMA.names]
    gaps.world.append(*listed)
    start = gaps.world.append(*(api_worlds.pod_seen(f"before-{at}") for at in range(40)))
    gaps.world.append(events.StoreRestarted(by="recorder", before="a", after="b"))
    until = gaps.world.append(*(api_worlds.pod_seen(f"found-{at}") for at in range(40)), *listed)
    end = gaps.world.append(*(api_worlds.pod_seen(f"after-{at}") for at in range(40)))
    page.open(f"/dashboard/?at={end}")
    whole = ((start - 38, start - 2), (start + 2, until - 1), (until + 2, end))
    before, inside, after = page.run(scripts.read("hatched"), whole)
    assert (before, after) == (0, 0)
    assert inside > 20


def test_the_time_bar_ends_where_an_incarnation_does(gaps: shown.Shown, page: browsers.Browser) -> None:
    world = gaps.world
    kept, incarnations = [0], [world.store.follower.catch_up().position.incarnation]
    for lost in (3, 1):
        data = rewinds.held(world)
        kept.append(gaps.head)
        last = world.append(*(api_worlds.pod_seen(f"lost-{at}") for at in range(lost)))
        incarnations.append(rewinds.rewound(world, data, kept[-1], last))
        head = world.append(*(api_worlds.pod_seen(f"after-{lost}-{at}") for at in range(5)))
    _, first, second = kept
    sentences = (
        f"events {first + 1} to {first + 3} of incarnation {incarnations[0]} were lost; a test",
        f"event {second + 1} of incarnation {incarnations[1]} was lost; a test",
    )
    page.open("/dashboard/")
    page.settled(f"/{head}")
    assert slider(page) == [second + 1, head]
    assert sentences[1] in page.text(".wall.before")
    assert f"history began again at offset {second + 1}" in page.text(".wall.before")
    assert page.text(".wall.after") == ""
    page.until(lambda: page.run(scripts.read("walls")) == [True, False], "a wall on the left")
    page.press(f"go to the moment before: offset {second}", ".timebar")
    page.settled(f"/{second}")
    assert slider(page) == [first + 1, second]
    assert sentences[0] in page.text(".wall.before")
    assert f"history ended at offset {second}: {sentences[1]}" in page.text(".wall.after")
    page.until(lambda: page.run(scripts.read("walls")) == [True, True], "walls on both sides")
    page.press(f"go to the moment before: offset {first}", ".timebar")
    page.settled(f"/{first}")
    assert slider(page) == [0, first]
    page.until(lambda: page.run(scripts.read("walls")) == [False, True], "a wall on the right")
    page.run("document.getElementById('slider').focus()")
    page.keys(keys.Keys.HOME, keys.Keys.END)
    page.settled(f"/{first}")
    page.press(f"go to what followed: offset {first + 1}", ".timebar")
    page.settled(f"/{first + 1}")
    assert slider(page) == [first + 1, second]
    # A page of a moment long before takes it from its own answer.
    page.open(f"/dashboard/?at={first - 2}")
    page.until(lambda: slider(page) == [0, first], "the range of the first incarnation")
    assert sentences[0] in page.text(".wall.after")
