"""The dashboard in Chromium on a large cluster: its weight, and how fast it is drawn."""

import contextlib
import pathlib
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import events
from app.store.server import embedded
from tests.support.browser import browsers, large_worlds, scripts, viewers
from tests.support.extender import api_worlds

CLUSTER = "pages"
NODES, PODS, WINDOW = 5_000, 20_000, 5_000
LIVE_SECONDS = 600.0
_AGAIN = 3
_EMPTY = "data:text/html,<title>empty</title><p>empty"
_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
_HEAD = "return document.getElementById('slider').max"
_STATIC = "/dashboard/"
_VIEWS = ("", "pending", "workloads", "decisions", "compare", "health", "", "pending")
_ENDLESS = ("/favicon", "/apis/v1/watch")
"""Paths without a weight: what the browser asks for itself, and the stream."""


@dataclass(frozen=True, slots=True)
class Page:
    """Milliseconds, unless a field names another unit."""

    empty: float
    """The first paint of a page without scripts."""
    painted: float
    """The first paint of the Overview."""
    drawn: float
    """From the start of the navigation to the drawn map, with all panels."""
    dragged: float
    """From a movement of the slider to the end of the frame that shows it, 95th percentile."""
    long_tasks: int
    """Tasks of more than 200 ms after the page was loaded."""
    heap: int
    """Bytes after it was live for a while, without garbage."""
    code: int
    """Bytes of the page and its files, compressed."""
    overview: int
    """The same with the data of the Overview."""
    window: int
    """Bytes of a window of frames, compressed."""
    tab: float
    """The slowest of eight tabs of one browser, from its navigation until it is settled."""
    led: float
    """From the end of the tab whose stream all tabs share until another one has a later event, slowest."""
    shown: float
    """The same until all panels of that one show it: they had a moment of minutes before."""

    @property
    def later(self) -> float:
        """How much later than the page without scripts the Overview is painted first."""
        return self.painted - self.empty


def measure(
    nodes: int = NODES, pods: int = PODS, window: int = WINDOW, live_seconds: float = LIVE_SECONDS
) -> Page:
    """Measure the page while nothing happens, while the slider moves, and while events arrive."""
    if browsers.MISSING:
        raise OSError(browsers.MISSING)
    with tempfile.TemporaryDirectory(prefix="topolog-") as directory, contextlib.ExitStack() as opened:
        folder = pathlib.Path(directory)
        server = embedded.Server()
        opened.callback(server.stop)
        world = api_worlds.world(opened.enter_context(api_worlds.processes(server, CLUSTER))())
        large_worlds.append(world, large_worlds.history(nodes, pods))
        _churn(world, pods, window, nodes)
        viewer = opened.enter_context(viewers.running(server.url, CLUSTER, folder, nice=10))
        page = opened.enter_context(browsers.browser(viewer.url, folder / "profile", latency=0))
        page.driver.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument", {"source": scripts.read("timing")}
        )
        empty, painted, drawn = [], [], []
        for _ in range(_AGAIN):
            page.driver.get(_EMPTY)
            empty.append(_paint(page))
            page.requests()
            page.open(_STATIC)
            painted.append(_paint(page))
            drawn.append(float(page.run("return globalThis.drawn")))
        asked = [path for path in dict.fromkeys(page.requests()) if not path.startswith(_ENDLESS)]
        sizes = {path: _weight(viewer.url + path) for path in asked}
        dragged = _dragged(page)
        frames = next(path for path in page.requests() if path.startswith("/apis/v1/frames"))
        long_tasks = _long_tasks(page)
        _live(page, world, pods + window, nodes, live_seconds)
        long_tasks, heap = long_tasks + _long_tasks(page), _heap(page)
        tab, led, shown = _tabs(page, world, nodes)
        return Page(
            empty=statistics.median(empty),
            painted=statistics.median(painted),
            drawn=statistics.median(drawn),
            dragged=dragged,
            long_tasks=long_tasks,
            heap=heap,
            code=sum(size for path, size in sizes.items() if path.startswith(_STATIC)),
            overview=sum(sizes.values()),
            window=_weight(viewer.url + frames),
            tab=tab,
            led=led,
            shown=shown,
        )


def _churn(world: api_worlds.World, first: int, count: int, nodes: int) -> None:
    """Pods that are observed: so many events."""
    large_worlds.append(
        world, [events.PodSeen(pod=pod) for pod in large_worlds.some_pods(first, count, nodes)]
    )


def _paint(page: browsers.Browser) -> float:
    return page.until(lambda: float(page.run(_PAINT)), "a first paint")


def _dragged(page: browsers.Browser) -> float:
    page.run("document.getElementById('slider').focus()")
    offsets: Sequence[int] = page.until(lambda: page.later(scripts.read("frames")), "the frames")
    page.settled()
    page.run(scripts.read("hold"), True)
    took = sorted(page.later(scripts.read("drag_times"), list(offsets)))
    page.run(scripts.read("hold"), False)
    page.settled(f"/{offsets[-1]}")
    return float(took[len(took) * 95 // 100])


def _live(page: browsers.Browser, world: api_worlds.World, first: int, nodes: int, seconds: float) -> None:
    """Show the present while ten pods a second are observed."""
    page.open(_STATIC)
    begun = time.monotonic()
    while time.monotonic() < begun + seconds:
        _churn(world, first, 10, nodes)
        first += 10
        time.sleep(1.0)
    page.settled(f"/{world.store.follower.catch_up().offset}")


def _tabs(page: browsers.Browser, world: api_worlds.World, nodes: int) -> tuple[float, float, float]:
    """The slowest of eight tabs; of a tab that gets the stream, the slowest event and the slowest page."""
    took, led, shown = [], [], []
    for view in _VIEWS:
        page.driver.switch_to.new_window("tab")
        begun = time.monotonic()
        page.open(f"{_STATIC}{view}")
        took.append(time.monotonic() - begun)
    # Each tab in turn is selected, so that it has the stream, and closed.
    for number, tab in enumerate(page.driver.window_handles[:0:-1]):
        page.driver.switch_to.window(tab)
        page.settled(f"/{_event(world, 1_000_000 + 2 * number, nodes)}")
        page.collect()
        page.driver.close()
        begun = time.monotonic()
        page.driver.switch_to.window(page.driver.window_handles[-1])
        offset = _event(world, 1_000_001 + 2 * number, nodes)
        while int(page.run(_HEAD)) < offset:
            time.sleep(0.01)
        led.append(time.monotonic() - begun)
        page.settled(f"/{offset}")
        shown.append(time.monotonic() - begun)
    return 1000 * max(took), 1000 * max(led), 1000 * max(shown)


def _event(world: api_worlds.World, number: int, nodes: int) -> int:
    """The offset of one more event."""
    _churn(world, number, 1, nodes)
    return world.store.follower.catch_up().offset


def _long_tasks(page: browsers.Browser) -> int:
    return int(page.run("return globalThis.longTasks()"))


def _heap(page: browsers.Browser) -> int:
    page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    return int(page.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"])


def _weight(url: str) -> int:
    """The bytes of a reply to a client that takes gzip."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return len(reply.read())
