"""A server that is busy, ends, or whose store is away: what the page shows, and what fails a test."""

import pathlib
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from tests.support.browser import browsers, refusing_proxy, scripts, shown

pytestmark = pytest.mark.browser
PATH = "/apis/v1/pending/reasons"
PANEL = "#groups"


@pytest.fixture
def server(small: shown.Shown) -> Iterator[refusing_proxy.Server]:
    """A server before the view process."""
    with refusing_proxy.before(small.viewer.url) as made:
        yield made


@pytest.fixture
def page(server: refusing_proxy.Server, tmp_path: pathlib.Path) -> Iterator[browsers.Browser]:
    """A browser for it; what it must not do fails the test."""
    with browsers.browser(server.url, tmp_path / "profile") as found:
        yield found


@pytest.mark.parametrize(
    ("status", "reason"),
    [(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests"), (HTTPStatus.SERVICE_UNAVAILABLE, "Behind")],
)
def test_a_busy_server_is_asked_again_and_nothing_has_failed(
    page: browsers.Browser, server: refusing_proxy.Server, small: shown.Shown, status: HTTPStatus, reason: str
) -> None:
    server.refuse(PATH, status, reason, 2)
    failed = "globalThis.failed = []; new MutationObserver(() => failed.push("
    failed += "...[...document.querySelectorAll('.panel p.failed')].map((one) => one.textContent))"
    failed += ").observe(document, { subtree: true, childList: true });"
    page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": failed})
    page.open(f"/dashboard/pending?at={small.head}")
    assert server.left == 0
    assert "no capacity" in page.text(PANEL)
    assert page.run("return failed") == []
    # The fixture fails if the answers of a busy server counted.


def test_a_store_that_is_away_is_shown_and_asked_again(
    page: browsers.Browser, server: refusing_proxy.Server, small: shown.Shown
) -> None:
    server.refuse(PATH, HTTPStatus.SERVICE_UNAVAILABLE, "StoreAway", 1_000_000)
    # Of the past: nothing but the panel itself asks again.
    page.driver.get(f"{server.url}/dashboard/pending?at={small.head}")
    page.until(lambda: "refused: StoreAway" in page.text(f"{PANEL} .failed"), "the sentence of the API")
    page.until(lambda: page.text("#pods tbody tr"), "the other panel")
    server.refuse(PATH, HTTPStatus.OK, "", 0)
    page.until(lambda: "no capacity" in page.text(PANEL), "the answer of the store that is back")
    assert page.text(f"{PANEL} .failed") == ""
    page.collect()
    # Such an answer fails a test that does not expect it, and so does its line of the console.
    assert {line.partition(PATH)[0] for line in page.found} == {server.url, f"console: {server.url}"}
    assert all("503" in line for line in page.found)
    page.found.clear()


def test_a_step_of_a_page_that_did_not_learn_the_head_asks_for_it(
    page: browsers.Browser, server: refusing_proxy.Server, small: shown.Shown
) -> None:
    lag = "/apis/v1/lag"
    server.refuse(lag, HTTPStatus.SERVICE_UNAVAILABLE, "StoreAway", 1_000_000)
    page.driver.get(f"{server.url}/dashboard/?at={small.head - 2}")
    page.until(lambda: "refused: StoreAway" in page.text(".banner.notice"), "the sentence of the API")
    page.run("document.getElementById('main').focus()")
    page.keys(".")
    page.settled(f"/{small.head - 1}")
    page.collect()
    assert {line.partition(lag)[0] for line in page.found} == {server.url, f"console: {server.url}"}
    page.found.clear()


def test_an_answer_that_is_cut_off_is_asked_for_again(on_small: browsers.Browser, small: shown.Shown) -> None:
    # Of the past: nothing but the panel itself asks again.
    on_small.open(f"/dashboard/?at={small.head}")
    on_small.run(scripts.read("cut"), "/apis/v1/map")
    on_small.keys(",")
    failed = "#map .failed"
    on_small.until(lambda: on_small.text(failed) == "the server does not answer", "the error")
    on_small.until(lambda: on_small.text("#map .legend"), "the map")
    assert on_small.text(failed) == ""
    on_small.settled(f"/{small.head - 1}")
