"""The store hangs, or ends, while a page is open: the page states that, and goes on when it is back."""

import os
import pathlib
import signal
from collections.abc import Callable, Iterator

import pytest

from app.store.server import embedded
from tests.support.browser import browsers, scripts, shown, viewers
from tests.support.extender import api_worlds

pytestmark = [pytest.mark.browser, pytest.mark.scenario("UI-12")]


@pytest.fixture
def store(chromium: None) -> Iterator[embedded.Server]:
    """A store of its own."""
    server = embedded.Server(append_only=True)
    yield server
    server.stop()


@pytest.fixture
def seen(store: embedded.Server, tmp_path: pathlib.Path) -> Iterator[shown.Shown]:
    with (
        api_worlds.processes(store, "away") as start,
        viewers.running(store.url, "away", tmp_path) as viewer,
    ):
        yield shown.Shown(api_worlds.filled(start()), viewer)


def hang(store: embedded.Server) -> Callable[[], None]:
    """Stop the server as SIGSTOP does; what lets it continue."""
    pid = store.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def end(store: embedded.Server) -> Callable[[], None]:
    """Kill the server; what starts it again."""
    store.kill()
    return store.restart


@pytest.mark.parametrize("leave", [hang, end])
def test_a_live_page_states_that_the_log_is_not_read(
    store: embedded.Server,
    seen: shown.Shown,
    tmp_path: pathlib.Path,
    leave: Callable[[embedded.Server], Callable[[], None]],
) -> None:
    with browsers.browser(seen.viewer.url, tmp_path / "profile") as page:
        page.open("/dashboard/")
        head = seen.head
        page.settled(f"/{head}")
        come_back = leave(store)
        try:
            page.until(lambda: "The log has not been read for" in page.text(".banner.lost"), "the banner")
            assert page.text(".top .status") == "not live"
            assert f"What is shown is from offset {head}" in page.text(".banner.lost")
            # It counts the seconds, and is spoken once.
            banner, spoken = page.text(".banner.lost"), page.run(scripts.read("spoken"))
            page.until(lambda: page.text(".banner.lost") != banner, "a second more")
            assert page.run(scripts.read("spoken")) == spoken
            # What was shown stays; what is asked for now is answered with a sentence in its place.
            assert page.text("#figures")
            page.click("nav a[href='/dashboard/pending']")
            page.until(lambda: "the store is away" in page.text("#groups .failed"), "the sentence of the API")
            # A page that is loaded now gets no stream.
            page.driver.refresh()
            page.until(lambda: "The log has not been read for" in page.text(".banner.lost"), "the banner")
            page.until(lambda: "the store is away" in page.text("#groups .failed"), "the sentence of the API")
        finally:
            come_back()
        page.until(lambda: "no capacity" in page.text("#groups"), "the answer")
        page.until(lambda: not page.text(".banner.lost"), "no banner")
        assert page.text(".top .status") == "live"
        last = seen.world.append(api_worlds.pod_seen("after"))
        page.settled(f"/{last}")
        page.collect()
        page.found[:] = [
            line for line in page.found if "status of 503" not in line and "status 503" not in line
        ]
