"""The dashboard in use: live, by keyboard, in several tabs."""

import pathlib
import time

import pytest
from selenium.webdriver.common import keys

from app.domain import events
from tests.support import polling
from tests.support.browser import browsers, refusing, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser


@pytest.mark.scenario("UI-7")
def test_a_live_page_follows_the_log_and_survives_its_server(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/")
    for at in range(3):
        last = small.world.append(api_worlds.pod_seen(f"live-{at}"))
        on_small.settled(f"/{last}")
    small.viewer.stop(kill=True)
    on_small.until(lambda: on_small.text(".banner.lost"), "the banner")
    last = small.world.append(api_worlds.pod_seen("unseen"))
    small.viewer.start()
    on_small.settled(f"/{last}")
    assert on_small.text(".banner.lost") == ""
    on_small.collect()
    # The killed server is an error line of the console for each attempt to reach it.
    assert [
        line for line in on_small.found if "ERR_CONNECTION" not in line and "ERR_INCOMPLETE" not in line
    ] == []
    on_small.found.clear()


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
        refusing.before(small.viewer.url) as server,
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
        # Each tab in turn is looked at and then closed: another one leads.
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


@pytest.mark.scenario("UI-8")
def test_the_past_needs_no_stream(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.requests()
    on_small.open(f"/dashboard/?at={small.head - 1}")
    time.sleep(1.0)
    assert [path for path in on_small.requests() if path.startswith("/apis/v1/watch")] == []


@pytest.mark.scenario("UI-5")
def test_without_a_mouse(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    script = "return document.getElementById('map-current').textContent"
    for _ in range(60):
        on_small.keys(keys.Keys.TAB)
        if on_small.run("return document.activeElement.tagName") == "CLUSTER-MAP":
            break
    assert on_small.run("return document.activeElement.getAttribute('role')") == "grid"
    first = on_small.run(script)
    for _ in range(2):
        on_small.keys(keys.Keys.ARROW_RIGHT)
    moved = on_small.run(script)
    assert moved != first
    name = moved.partition(":")[0]
    assert name in {
        node["name"]
        for node in on_small.later(
            "fetch('/apis/v1/nodes').then((reply) => reply.json()).then((found) => arguments[0](found.items))"
        )
    }
    on_small.keys(keys.Keys.ENTER)
    on_small.until(lambda: on_small.text("#node h2") == f"Node {name}", "the node's drawer")
    on_small.keys(keys.Keys.ESCAPE)
    on_small.until(lambda: not on_small.text("#node h2"), "the end of the drawer")
    on_small.keys("/")
    assert on_small.run("return document.activeElement.id") == "search"
    on_small.keys("host-3", keys.Keys.ENTER)
    on_small.until(lambda: on_small.text("#node h2") == "Node host-3", "the node that was typed")
    assert on_small.run(script).startswith("host-3:")
    on_small.run("document.getElementById('search').focus()")
    on_small.run("document.getElementById('search').value = ''")
    on_small.keys("shop/web-3", keys.Keys.ENTER)
    on_small.until(lambda: "Pod shop/web-3" in on_small.text("#pod h2"), "the pod that was typed")
    on_small.until(lambda: "no capacity" in on_small.text("#why"), "its latest attempt")


@pytest.mark.scenario("UI-5")
def test_the_focus_stays_while_the_page_is_updated(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/pending")
    on_small.run("document.querySelector('#pods td a').focus()")
    before = on_small.run("return document.activeElement.textContent")
    for at in range(10):
        last = small.world.append(api_worlds.pod_seen(f"focus-{at}"))
        if at % 3 == 0:
            on_small.settled(f"/{last}")
    on_small.settled(f"/{small.head}")
    assert on_small.run("return document.activeElement.textContent") == before
