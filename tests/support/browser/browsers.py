"""A real Chromium, driven by selenium, that collects everything a page must not do."""

import collections
import contextlib
import json
import os
import pathlib
import shutil
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.chrome import options, service

from tests.support import polling
from tests.support.browser import scripts

T = TypeVar("T")
Json: TypeAlias = Any
"""A value of a type that the test asserts."""

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = "" if CHROMIUM and DRIVER else "Chromium is missing: apt-get install chromium chromium-driver"
_PATIENCE = 30.0 * polling.PATIENCE
_POLL = 0.02
"""Seconds between two readings of a page."""
_LATENCY = float(os.environ.get("BROWSER_LATENCY") or 50)
"""Milliseconds that each answer is late: more than _POLL, so that a test which does not wait for it fails."""
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_BUSY = {429: ("TooManyRequests",), 503: ("Behind",)}
"""Status and reasons of a server that is busy: the page asks again. Any other error fails the test."""
_COLLECT = """
globalThis.violations = [];
addEventListener("securitypolicyviolation", (event) =>
  globalThis.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""


class Browser:
    """One window; every page that it loads is watched."""

    def __init__(self, driver: webdriver.Chrome, base: str) -> None:
        self.driver = driver
        self.base = base
        self.found: list[str] = []
        """What the pages did that they must not do."""
        self.calls: set[tuple[str, str]] = set()
        """Method and path, without the query, of every request to the server that was collected."""
        self._busy: collections.Counter[str] = collections.Counter()
        """The lines of the console that answers of a busy server have caused, and their number."""

    def open(self, path: str) -> None:
        """Load a page of the dashboard, and wait until it has settled."""
        self.collect()
        self.driver.get(self.base + path)
        self.settled()

    def run(self, script: str, *arguments: object) -> Json:
        """The result of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def later(self, script: str, *arguments: object) -> Json:
        """The result of a script that calls its last argument with it."""
        return self.driver.execute_async_script(script, *arguments)

    def settled(self, position: str = "") -> str:
        """The position that the page shows once no request is under way; it ends with ``position``."""

        def shown() -> str:
            found = self.run("return document.documentElement.dataset.settled || ''")
            return str(found) if found and str(found).endswith(position) else ""

        return self.until(shown, f"a settled page at {position or 'any position'}")

    def until(self, holds: Callable[[], T], what: str) -> T:
        """The first true result. Raises AssertionError after half a minute, see polling.PATIENCE."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            found = holds()
            if found:
                return found
            if time.monotonic() > deadline:
                self.collect()
                text = self.run("return document.body.innerText")
                raise AssertionError(f"not reached: {what}\n{self.found}\n{text[:2000]}")
            time.sleep(_POLL)

    def text(self, selector: str) -> str:
        """The text of the first element; empty without one."""
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.run(script, selector))

    def click(self, selector: str) -> None:
        """Click the first element, as a user agent does."""
        self.run("document.querySelector(arguments[0]).click()", selector)

    def press(self, label: str, within: str = "main") -> None:
        """Click the first button with that text."""
        assert self.run(scripts.read("press"), label, within), label

    def fill(self, selector: str, text: str) -> None:
        """Give the first element, a field, this value."""
        self.run(scripts.read("fill"), selector, text)

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        actions = webdriver.ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def requests(self) -> list[str]:
        """The paths that were requested since the last call, with their queries."""
        return [path for path, _ in self._exchanges()]

    def collect(self) -> None:
        """Note violations of the policy, errors of the console, and failed or foreign requests."""
        self.found += self.run("return globalThis.violations?.splice(0) ?? []")
        # First: the response of every line is then among the exchanges.
        lines = [line["message"] for line in self._log("browser") if line["level"] == "SEVERE"]
        for path, problem in self._exchanges():
            if problem and not path.startswith("/favicon"):
                self.found.append(f"{path}: {problem}")
        for line in lines:
            excused = line.partition(" (")[0]
            if self._busy[excused]:
                self._busy[excused] -= 1
            else:
                self.found.append(f"console: {line}")

    def _log(self, kind: str) -> Json:
        return self.driver.execute("getLog", {"type": kind})["value"]

    def _exchanges(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            parameters = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                foreign = url.startswith(("http:", "https:")) and not url.startswith(self.base)
                parts = urllib.parse.urlsplit(url)
                path = parts.path + (f"?{parts.query}" if parts.query else "")
                if url.startswith(self.base):
                    self.calls.add((parameters["request"]["method"], parts.path))
                if not url.startswith(("data:", "blob:")):
                    found.append((path, f"another origin: {url}" if foreign else ""))
            elif message["method"] == "Network.responseReceived":
                reply = parameters["response"]
                if self._is_busy(parameters["requestId"], reply):
                    self._busy[_line_of(reply)] += 1
                elif reply["status"] >= 500:
                    found.append((reply["url"], f"status {reply['status']}"))
        return found

    def _is_busy(self, request: str, reply: dict[str, Any]) -> bool:
        """Whether the server asks for patience with one of the reasons for which it may."""
        reasons = _BUSY.get(reply["status"], ())
        if not reasons or not any(name.lower() == "retry-after" for name in reply["headers"]):
            return False
        try:
            found = self.driver.execute_cdp_cmd("Network.getResponseBody", {"requestId": request})
        except exceptions.WebDriverException:
            return False
        return json.loads(found["body"])["reasonCode"] in reasons


def _line_of(reply: dict[str, Any]) -> str:
    """The line that Chromium writes to the console for a response, without the text of its status."""
    text = "Failed to load resource: the server responded with a status of"
    return f"{reply['url']} - {text} {reply['status']}"


@contextlib.contextmanager
def browser(
    base: str,
    profile: pathlib.Path,
    *,
    size: tuple[int, int] = (1280, 800),
    dark: bool = False,
    latency: float = _LATENCY,
) -> Iterator[Browser]:
    """A browser with an empty profile; at the end everything that it must not do is an error.

    ``latency``: milliseconds that each answer to its first tab is late.
    """
    chosen = options.Options()
    chosen.binary_location = CHROMIUM or ""
    for flag in (*_FLAGS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"):
        chosen.add_argument(flag)
    chosen.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=chosen, service=service.Service(DRIVER))
    try:
        driver.set_script_timeout(_PATIENCE)
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _COLLECT})
        resize(driver, *size)
        emulate(driver, dark=dark)
        delay(driver, latency)
        made = Browser(driver, base)
        yield made
        made.collect()
        assert made.found == [], made.found
    finally:
        driver.quit()


def delay(driver: webdriver.Chrome, latency: float) -> None:
    """Let every answer come this many milliseconds later, as over a slow connection."""
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": latency, "downloadThroughput": -1, "uploadThroughput": -1},
    )


def resize(driver: webdriver.Chrome, width: int, height: int = 800, scale: float = 1) -> None:
    """The size of the window in CSS pixels; ``scale``: pixels of the screen for each, as zoom makes it."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False},
    )


def emulate(
    driver: webdriver.Chrome, *, dark: bool = False, forced: bool = False, still: bool = False
) -> None:
    """Preferences of the user: a dark scheme, forced colours, reduced motion."""
    features = [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        {"name": "forced-colors", "value": "active" if forced else "none"},
        {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
