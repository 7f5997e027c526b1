"""The dashboard in several tabs: one stream for all of them."""

import functools
import pathlib
import time

import pytest
from selenium.webdriver.common import keys

from app.domain import events
from tests.support import polling
from tests.support.browser import browsers, refusing_proxy, scripts, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser


@pytest.mark.scenario("UI-8")
def test_the_tabs_of_a_browser_share_one_stream(on_small: browsers.Browser, small: shown.Shown) -> None:
    first = on_small.driver.current_window_handle
    on_small.open("/dashboard/")
    for view in ("pending", "decisions"):
        on_small.driver.switch_to.new_window("tab")
        on_small.open(f"/dashboard/{view}")
    script = (
        "navigator.locks.query().then((found) => arguments[0]([found.held.length, found.pending.length]))"
    )
    held, _ = on_small.later(script)
    assert held <= 1
    last = small.world.append(api_worlds.node("shared"))
    on_small.settled(f"/{last}")
    on_small.driver.switch_to.window(first)
    on_small.driver.close()
    on_small.driver.switch_to.window(on_small.driver.window_handles[-1])
    last = small.world.append(api_worlds.node("led"))
    on_small.settled(f"/{last}")


@pytest.mark.scenario("UI-8")
def test_eight_tabs_have_one_stream_and_hidden_ones_none(small: shown.Shown, tmp_path: pathlib.Path) -> None:
    with (
        refusing_proxy.before(small.viewer.url) as server,
        browsers.browser(server.url, tmp_path / "profile") as page,
    ):

        def streams_after_an_event(number: int) -> bool:
            # A stream that was left is noticed when something is sent.
            small.world.append(api_worlds.pod_seen("noticed"))
            small.world.append(events.PodGone(api_worlds.pod("noticed").uid, "shop", "noticed"))
            return server.streams == number

        for view in ("", "pending", "pods/shop/web-3", "workloads", "decisions", "compare", "health", ""):
            page.driver.switch_to.new_window("tab")
            page.open(f"/dashboard/{view}")
        tabs = page.driver.window_handles[1:]
        polling.eventually(lambda: streams_after_an_event(1), "one stream", within=30, every=0.5)
        # Each tab in turn is selected and then closed: another one leads.
        for number, tab in enumerate(reversed(tabs[2:])):
            page.driver.switch_to.window(tab)
            last = small.world.append(api_worlds.node(f"tab-{number}"))
            page.settled(f"/{last}")
            polling.eventually(lambda: streams_after_an_event(1), "one stream", within=30, every=0.5)
            page.collect()
            page.driver.close()
            page.driver.switch_to.window(tabs[0])
        last = small.world.append(api_worlds.node("led-again"))
        page.settled(f"/{last}")
        page.collect()
        page.driver.switch_to.new_window("tab")
        polling.eventually(lambda: streams_after_an_event(0), "no stream", within=30, every=0.5)


def test_nothing_of_one_pod_is_shown_below_the_name_of_another(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    api_worlds.decide(small.world, api_worlds.pod("web-3"))
    on_small.open("/dashboard/pods/shop/web-3")
    on_small.until(lambda: on_small.text("#why .why"), "its attempt")
    on_small.run(scripts.read("held"), "/apis/v1/pods/shop/late-0")
    on_small.fill("#search", "shop/late-0")
    on_small.run("document.getElementById('search').focus()")
    on_small.keys(keys.Keys.ENTER)
    on_small.until(lambda: on_small.text("#pod h2") == "Pod shop/late-0", "the other pod")
    for panel in ("#pod", "#life"):
        assert on_small.text(f"{panel} .content") == "loading …"
    assert on_small.text("#why") == on_small.text("#announced") == ""
    on_small.run("go()")
    on_small.until(lambda: on_small.text("#why .why"), "the attempt of the other pod")
    # Only its own attempts were asked about.
    about = [path.partition("decision=")[2] for path in on_small.run("return waiting")]
    own = on_small.run("return document.querySelector('.life li[data-chosen] a').href")
    assert {one.partition("&")[0] for one in about if one} == {own.partition("decision=")[2]}


@pytest.mark.scenario("UI-8")
def test_the_past_needs_no_stream(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.requests()
    on_small.open(f"/dashboard/?at={small.head - 1}")
    time.sleep(1.0)
    assert [path for path in on_small.requests() if path.startswith("/apis/v1/watch")] == []


def test_history_leads_back_to_the_colours_before(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    chosen = "return document.querySelector('#map select').value"
    for colour in ("quota:shop/spread", "state", "quota:shop/spread"):
        on_small.fill("#map select", colour)
        on_small.until(functools.partial(drawn_by, on_small, colour), colour)
    on_small.driver.back()
    on_small.until(functools.partial(drawn_by, on_small, "state"), "the colours before")
    assert on_small.run(chosen) == "state"


def drawn_by(page: browsers.Browser, colour: str) -> bool:
    """Whether the map has the colours."""
    found = page.run("return document.querySelector('cluster-map').picture?.color")
    return bool(found == colour)


def test_a_link_leads_to_the_top_of_another_view(on_small: browsers.Browser) -> None:
    browsers.resize(on_small.driver, 360)
    on_small.open("/dashboard/pending")
    on_small.run("scrollTo(0, document.body.scrollHeight)")
    assert on_small.run("return scrollY") > 0
    on_small.click("#pods td a")
    on_small.until(lambda: on_small.text("#pod h2"), "the pod")
    on_small.settled()
    assert on_small.run("return [scrollY, document.activeElement.id]") == [0, "main"]
