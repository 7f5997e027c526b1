"""The dashboard while the log grows: it follows, loses its server, and sees history begin again."""

import functools
import pathlib
import secrets
import threading
import time
from collections.abc import Iterator

import pytest

from app import settings
from app.cli.client import api_client
from app.cli.viewer import proxies
from app.domain import events
from app.store.log import batches
from app.store.server import embedded
from tests.support import polling
from tests.support.browser import browsers, rewinds, scripts, shown, viewers
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
ROUNDS, EACH, PAUSE = 120, 500, 0.5
"""A thousand events a second for a minute."""
LONG = 6_000
"""Events: more than the time bar and Compare show, so that their ranges move."""
CHECKED = 8.0
"""Seconds within which the page checks whether messages arrive, and may not state yet that none does."""
BEHIND = round(4 * polling.PATIENCE)
"""Messages of the stream that the page may have seen since the position that it shows: it asks once a second
at most, and there is one in half a second."""


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
    # The server that is away, or that is not ready yet, is an error line of the console for each attempt.
    assert [line for line in on_small.found if "ERR_" not in line and "503" not in line] == []
    on_small.found.clear()


def test_what_failed_while_the_server_was_away_is_asked_for_again(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    """No event follows that would have the panels ask."""
    on_small.open("/dashboard/")
    on_small.settled(f"/{small.head}")
    small.viewer.stop(kill=True)
    on_small.until(lambda: on_small.text(".banner.lost"), "the banner")
    on_small.click("nav a[href='/dashboard/pending']")
    on_small.until(lambda: "does not answer" in on_small.text("#groups .failed"), "the sentence")
    small.viewer.start()
    on_small.until(lambda: not on_small.text(".panel .failed"), "the answers")
    assert on_small.text("#groups .groups") or "no pod waits" in on_small.text("#groups")
    on_small.collect()
    on_small.found[:] = [line for line in on_small.found if "ERR_" not in line and "503" not in line]


def test_a_page_whose_server_refuses_it_shows_the_reason(small: shown.Shown, tmp_path: pathlib.Path) -> None:
    """Such as the proxy of `topolog dashboard` that was started again: its secret is another one."""
    client = api_client.ExtenderClient(settings.Client(url=small.viewer.url))
    with (
        proxies.Proxy(client) as proxy,
        browsers.browser(f"http://127.0.0.1:{proxy.number}", tmp_path) as page,
    ):
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        page.open(proxy.address("/dashboard/").removeprefix(page.base))
        page.settled(f"/{small.head}")
        proxy.token = "another"
        # Its end is that of the stream.
        small.viewer.stop(kill=True)
        small.viewer.start()
        reason = "the secret is missing: open the address that `topolog dashboard` printed"
        page.until(lambda: f"Not connected: {reason}." in page.text(".banner.lost"), reason)
        proxy.shutdown()
        page.collect()
        expected = ("403", "502", "ERR_")
        page.found[:] = [line for line in page.found if not any(one in line for one in expected)]


@pytest.mark.scenario("UI-7")
def test_a_page_whose_server_hangs_states_that_and_goes_on_after_it(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    """The connection stays open, and nothing arrives on it."""
    on_small.open("/dashboard/")
    on_small.settled(f"/{small.head}")
    with small.viewer.halted():
        banner = on_small.until(lambda: on_small.text(".banner.lost"), "the banner")
        assert banner.startswith(f"The server does not answer. What is shown is from offset {small.head}")
        assert on_small.text(".top .status") == "not connected"
        last = small.world.append(api_worlds.pod_seen("meanwhile"))
    on_small.settled(f"/{last}")
    on_small.until(lambda: not on_small.text(".banner.lost"), "no banner")
    assert on_small.text(".top .status") == "live"


def test_a_page_connects_again_once_its_machine_has_slept(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/")
    on_small.settled(f"/{small.head}")
    on_small.requests()
    # At each reading of the clock, or a message that arrives before the check would be one after the sleep.
    on_small.run("const real = Date.now; let slept = 0; Date.now = () => real() + 3_600_000 * ++slept")
    on_small.until(lambda: any("/v1/watch" in path for path in on_small.requests()), "another stream")
    on_small.until(lambda: on_small.text(".top .status") == "live", "a live page")


def test_a_page_that_was_hidden_waits_for_its_first_message(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    """It has had none while it was hidden."""
    on_small.open("/dashboard/")
    on_small.settled(f"/{small.head}")
    on_small.run(scripts.read("losses"))
    on_small.run(scripts.read("returned"))
    time.sleep(CHECKED)
    assert on_small.run("return losses") == []


def test_a_stream_that_ends_as_planned_is_not_shown_as_a_loss(
    chromium: None, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    cluster = f"aged{secrets.token_hex(4)}"
    with api_worlds.processes(store_server, cluster) as start:
        world = api_worlds.filled(start())
        with (
            viewers.running(
                store_server.url, cluster, tmp_path, TOPOLOG_SERVER_CONNECTION_AGE="10"
            ) as viewer,
            browsers.browser(viewer.url, tmp_path / "profile") as page,
        ):
            page.open("/dashboard/")
            page.run(scripts.read("losses"))
            for at in range(2):
                page.requests()
                page.until(lambda: any("/v1/watch" in path for path in page.requests()), "another stream")
                last = world.append(api_worlds.node(f"aged-{at}"))
                page.settled(f"/{last}")
            assert page.run("return losses") == []


class Busy:
    """A log of its own, its view process and a page."""

    def __init__(self, world: api_worlds.World, viewer: viewers.Viewer, page: browsers.Browser) -> None:
        self.world, self.viewer, self.page = world, viewer, page
        self.made = 0

    def append(self, number: int, prefix: str = "busy") -> int:
        """Pods that come and go, so that the cluster stays as large as it is."""
        last = 0
        for _ in range(number // 2):
            self.made += 1
        happened: list[events.AnyEvent] = []
        for at in range(self.made - number // 2, self.made):
            pod = api_worlds.pod(f"{prefix}-{at}")
            happened += [events.PodSeen(pod=pod), events.PodGone(pod.uid, "shop", pod.name)]
        for start in range(0, len(happened), 250):
            last = self.world.append(*happened[start : start + 250])
        return last

    def collected(self) -> tuple[list[int], list[dict[str, str]]]:
        """The offsets that a stream in the page has had, and the starts of incarnations."""
        found = self.page.run("return globalThis.collected")
        return found["offsets"], found["begun"]

    def excuse(self, *expected: str) -> None:
        """Forget the console's lines about what was done to the server; anything else fails the test."""
        self.page.collect()
        self.page.found[:] = [line for line in self.page.found if not any(one in line for one in expected)]


@pytest.fixture
def busy(chromium: None, store_server: embedded.Server, tmp_path: pathlib.Path) -> Iterator[Busy]:
    cluster = f"busy{secrets.token_hex(4)}"
    with api_worlds.processes(store_server, cluster) as start:
        world = api_worlds.filled(start())
        with (
            viewers.running(store_server.url, cluster, tmp_path) as viewer,
            browsers.browser(viewer.url, tmp_path / "profile") as page,
        ):
            yield Busy(world, viewer, page)


@pytest.mark.scenario("UI-7")
@pytest.mark.timeout(900)
def test_a_busy_log_is_followed_and_its_stream_misses_nothing(busy: Busy) -> None:
    page, types = busy.page, ["PodSeen", "PodGone"]
    page.open("/dashboard/pending")
    first = page.settled()
    page.run(scripts.read("collect"), first, types)
    page.run(scripts.read("heads"))
    close, last = 0, 0
    for _ in range(ROUNDS):
        last = busy.append(EACH)
        time.sleep(PAUSE)
        look = page.run(
            "return [document.querySelector('.top .status').title, globalThis.heads.slice(-arguments[0])]",
            BEHIND,
        )
        # A page that is not live for a moment has no title there.
        position = look[0].split(", ")[0].removeprefix("offset ").replace(",", "")
        close += bool(look[1] and position) and int(position) >= look[1][0]
    page.settled(f"/{last}")
    assert close >= ROUNDS * 95 // 100
    busy.viewer.stop(kill=True)
    page.until(lambda: page.text(".banner.lost"), "the banner")
    for _ in range(10):
        last = busy.append(EACH)
    busy.viewer.start()
    page.settled(f"/{last}")
    assert page.text(".banner.lost") == ""
    page.until(lambda: busy.collected()[0][-1] == last, "the end of the stream")
    assert busy.collected() == (list(range(int(first.rpartition("/")[2]) + 1, last + 1)), [])
    assert page.run("return globalThis.collected.opened") == 2
    # A process that starts is not ready at once, and one that gets no processor time asks for patience.
    busy.excuse("ERR_", "503")


@pytest.mark.parametrize(("view", "slow"), [("compare", "diff"), ("workloads?of=shop/spread", "series")])
def test_ranges_that_move_with_the_log_are_asked_for_one_at_a_time(busy: Busy, view: str, slow: str) -> None:
    page = busy.page
    busy.append(LONG)
    page.open(f"/dashboard/{view}")
    page.run(scripts.read("held"), f"/apis/v1/{slow}")
    for _ in range(3):
        last = busy.append(2)
        position = f"offset {last:,}"
        page.until(functools.partial(follows, page, position), position)
    waiting = page.run("return waiting")
    assert len(waiting) == 1
    page.run("go()")
    page.settled(f"/{last}")
    asked = page.run("return waiting")
    assert len(asked) == 2
    assert f"{last}" in asked[1]


def follows(page: browsers.Browser, position: str) -> bool:
    """Whether the page shows the position."""
    return position in page.text(".timebar output")


@pytest.mark.scenario("UI-7")
@pytest.mark.parametrize("killed", [False, True])
def test_of_a_history_that_ended_nothing_stays_on_the_page(busy: Busy, killed: bool) -> None:
    page, store = busy.page, busy.world.store
    kept = store.follower.catch_up().position
    data = rewinds.held(busy.world)
    busy.world.append(*(api_worlds.pod_seen(f"lost-{at}") for at in range(3)))
    last = busy.world.append(api_worlds.node("lost-node", role="host"))
    page.open("/dashboard/compare?from=1")
    page.settled(f"/{last}")
    page.press("simulate", "#what-if")
    page.until(lambda: "lost-" in page.text("#outcome"), "the answer")
    page.keys("a")
    if not killed:
        page.run(scripts.read("collect"), f"{kept.incarnation}/{last}", ["PodSeen", "StoreRewound"])
        page.until(lambda: page.run("return globalThis.collected.opened"), "the stream")
    if killed:
        busy.viewer.stop(kill=True)
        page.until(lambda: page.text(".banner.lost"), "the banner")
    begun = rewinds.rewound(busy.world, data, kept.offset, last)
    end = store.log.append(batches.Batch(events=[api_worlds.pod_seen("after")])).last
    if killed:
        busy.viewer.start()
    else:
        page.until(lambda: busy.collected()[0][-1:] == [end], "the new history")
        offsets, starts = busy.collected()
        assert offsets == list(range(kept.offset + 1, end + 1))
        assert [one["to"] for one in starts] == [f"{begun}/{kept.offset + 1}"]
    notice = page.until(lambda: page.text(".banner.notice"), "the new history")
    assert f"history began again at {begun}/" in notice
    assert page.settled(f"/{end}").startswith(begun)
    lost = f"events {kept.offset + 1} to {last} of incarnation {kept.incarnation} were lost"
    page.until(lambda: lost in page.text(".banner.notice"), lost)
    # Only the sentences about the history that ended name it.
    text = page.run(scripts.read("rest"), ".banner.notice, .wall")
    assert [found for found in ("lost-", kept.incarnation) if found in text] == []
    assert page.text("#outcome") == ""
    assert page.run("return document.querySelectorAll('.pin[aria-pressed=true]').length") == 0
    # The position that a stream of a killed server resumes behind is gone.
    busy.excuse(*(("ERR_", "410 (GONE)") if killed else ()))
