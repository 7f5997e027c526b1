"""How closely a page in Chromium follows a busy log, and how soon it shows that its server is gone."""

import contextlib
import itertools
import pathlib
import re
import tempfile
import threading
import time
from dataclasses import dataclass

from app.domain import events
from app.store.server import embedded
from tests.support.browser import browsers, viewers
from tests.support.extender import api_worlds

CLUSTER = "following"
RATE, SECONDS = 1_000, 60.0
_RUN = 100
"""Events that are appended together."""
_LOOK = 0.5
"""Seconds from one reading of the page to the next."""
_PATIENCE = 60.0
_SHOWN = "return [Date.now() / 1000, document.querySelector('#main h1').textContent]"
_OFFSET = re.compile(r"offset ([\d,]+)")


@dataclass(frozen=True, slots=True)
class Following:
    """Milliseconds."""

    behind: float
    """The age of the oldest event that the page does not show yet, 95th percentile of all readings."""
    banner: float
    """From the kill of the server to the banner that the page has lost it."""


class _Busy(threading.Thread):
    """Appends events at a rate: pods that come and go, so that the cluster stays as large as it is."""

    def __init__(self, world: api_worlds.World, rate: int) -> None:
        super().__init__(name="busy", daemon=True)
        self._world = world
        self._pause = _RUN / rate
        self._ended = threading.Event()
        self.appended: list[tuple[float, int]] = []
        """Time and last offset of each run."""

    def run(self) -> None:
        begun = time.monotonic()
        for number in itertools.count():
            pods = [api_worlds.pod(f"busy-{number}-{at}") for at in range(_RUN // 2)]
            last = self._world.append(
                *(events.PodSeen(pod=pod) for pod in pods),
                *(events.PodGone(pod.uid, pod.namespace, pod.name) for pod in pods),
            )
            self.appended.append((time.time(), last))
            if self._ended.wait(max(0.0, begun + (number + 1) * self._pause - time.monotonic())):
                return

    def end(self) -> None:
        """End it."""
        self._ended.set()
        self.join()

    def age(self, now: float, shown: int) -> float:
        """Seconds since the first run was appended that is not shown completely; 0 if all are."""
        return next((max(0.0, now - when) for when, last in self.appended if last > shown), 0.0)


def measure(seconds: float = SECONDS, rate: int = RATE) -> Following:
    """Compare what the page shows with ``rate`` appended events a second, then kill its server."""
    if browsers.MISSING:
        raise OSError(browsers.MISSING)
    with tempfile.TemporaryDirectory(prefix="topolog-") as directory, contextlib.ExitStack() as opened:
        folder = pathlib.Path(directory)
        server = embedded.Server()
        opened.callback(server.stop)
        world = api_worlds.filled(opened.enter_context(api_worlds.processes(server, CLUSTER))())
        viewer = opened.enter_context(viewers.running(server.url, CLUSTER, folder, nice=10))
        page = opened.enter_context(browsers.browser(viewer.url, folder / "profile", latency=0))
        page.open("/dashboard/")
        page.settled()
        busy = _Busy(world, rate)
        busy.start()
        looks, shown = [], 0
        try:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(_LOOK)
                now, heading = page.run(_SHOWN)
                found = _OFFSET.search(heading)
                shown = int(found[1].replace(",", "")) if found else shown
                looks.append(busy.age(now, shown))
        finally:
            busy.end()
        killed = time.monotonic()
        viewer.stop(kill=True)
        while not page.text(".banner.lost"):
            if time.monotonic() > killed + _PATIENCE:
                raise AssertionError(
                    f"the page does not show after {_PATIENCE:.0f} s that its server is gone"
                )
            time.sleep(0.01)
        banner = time.monotonic() - killed
        page.collect()
        page.found.clear()  # The lines of the console about the killed server.
        return Following(1000 * sorted(looks)[len(looks) * 95 // 100], 1000 * banner)
