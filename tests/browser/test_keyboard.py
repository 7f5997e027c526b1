"""The dashboard without a mouse: each step is announced as the API has it, and the focus is never lost."""

import dataclasses
import datetime
import itertools
import json
import urllib.parse
import urllib.request
from typing import Any, TypeAlias

import pytest
from selenium.webdriver.common import keys

from app.domain import events
from tests.support.browser import browsers, scripts, shown
from tests.support.extender import api_worlds

pytestmark = [pytest.mark.browser, pytest.mark.scenario("UI-5")]
Json: TypeAlias = Any
"""A value of a type that the test asserts."""
TABS = 120
"""Presses of Tab that lead from any place of a page to any other."""
UPDATES = 50


@dataclasses.dataclass
class Person:
    """Presses keys, and looks where the focus is after each."""

    page: browsers.Browser
    seen: shown.Shown

    def press(self, *pressed: str) -> Json:
        """What has the focus after the keys; it can be seen."""
        for key in pressed:
            self.page.keys(key)
            found = self.focused()
            # Behind the last element, Tab leaves the page.
            assert found["seen"] or (key == keys.Keys.TAB and found["tag"] == "BODY"), (key, found)
        return self.focused()

    def focused(self) -> Json:
        """What has the focus."""
        return self.page.run(scripts.read("focused"))

    def tab_to(self, selector: str) -> None:
        """Press Tab until an element that the selector matches has the focus."""
        for _ in range(TABS):
            self.press(keys.Keys.TAB)
            if self.page.run("return document.activeElement.matches(arguments[0])", selector):
                return
        raise AssertionError(f"Tab does not lead to {selector}")

    def announced(self, text: str) -> None:
        """Wait until a text is announced."""
        self.page.until(
            lambda: self.page.run("return document.getElementById('announced').textContent") == text,
            f"{text}; announced is {self.page.text('#announced')}",
        )

    def ask(self, path: str, question: Json = None) -> Json:
        """JSON of the API."""
        body = None if question is None else json.dumps(question).encode()
        request = urllib.request.Request(
            f"{self.seen.viewer.url}/apis/v1/{path}", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)


def cell(picture: Json, name: str) -> str:
    """What a cell of the map reads, by the API."""
    at = picture["nodes"].index(name)
    label = next(one["label"] for one in picture["classes"] if one["letter"] == picture["values"][at])
    around = [
        value or "no label" for value, _, first, count in picture["domains"] if first <= at < first + count
    ]
    return f"{name}: {label}" + (f", in {' / '.join(around)}" if around else "")


def node(found: Json, name: str) -> str:
    """What is announced of a node that is opened, by the API."""
    ready = "ready" if found["node"]["status"]["conditions"][0]["status"] == "True" else "not ready"
    cordoned = ", cordoned" if found["node"]["spec"]["unschedulable"] else ""
    number = len(found["pods"])
    return f"Node {name}: {ready}{cordoned}, {number} pod{'' if number == 1 else 's'}"


def moment(found: Json, offset: int) -> str:
    """What the slider reads, by the API."""
    at = datetime.datetime.fromisoformat(found["metadata"]["asOf"]).astimezone()
    waiting = found["pods"]["waiting"]
    return f"offset {offset:,}, {at:%H:%M:%S}, {waiting} pod{'' if waiting == 1 else 's'} waiting"


def test_the_map_and_the_search(on_large: browsers.Browser, large: shown.Shown) -> None:
    person = Person(on_large, large)
    on_large.open("/dashboard/")
    person.tab_to("cluster-map")
    assert on_large.run("return document.activeElement.getAttribute('role')") == "grid"
    picture = person.ask(f"map?at={large.head}")
    current = "document.activeElement.getAttribute('aria-activedescendant')"
    script = f"return document.getElementById({current}).textContent"
    read, active = [on_large.run(script)], [on_large.run(f"return {current}")]
    for pressed in (*(keys.Keys.ARROW_RIGHT,) * 3, "]", "]", "["):
        person.press(pressed)
        read.append(on_large.run(script))
        active.append(on_large.run(f"return {current}"))
    # A screen reader speaks of a cell that becomes active; the others are not there.
    assert all(one != other for one, other in itertools.pairwise(active))
    assert on_large.run("return document.querySelectorAll('[role=gridcell]:not([hidden])').length") == 1
    for text in read:
        assert text == cell(picture, text.partition(":")[0])
    assert len(set(read[:6])) == 6
    # The next domain and back.
    assert read[6] == read[4]
    firsts = {first for _, _, first, _ in picture["domains"]}
    assert {picture["nodes"].index(text.partition(":")[0]) for text in read[4:]} <= firsts
    name = read[6].partition(":")[0]
    person.press(keys.Keys.ENTER)
    person.announced(node(person.ask(f"nodes/{name}"), name))
    # Into the drawer, and out of it to the map.
    person.tab_to("#node .facts a, #node summary, #node button, #node .scroll")
    assert person.press(keys.Keys.ESCAPE)["tag"] == "CLUSTER-MAP"
    on_large.until(lambda: on_large.text("#node") == "", "the drawer is closed")
    # To the search and back, and to a node by its name.
    assert person.press("/")["id"] == "search"
    assert person.press("no", keys.Keys.ESCAPE)["tag"] == "CLUSTER-MAP"
    person.press("/", "node-04321", keys.Keys.ENTER)
    person.announced(node(person.ask("nodes/node-04321"), "node-04321"))
    assert person.focused()["tag"] == "CLUSTER-MAP"
    assert on_large.run(script) == cell(picture, "node-04321")
    assert person.press(keys.Keys.ESCAPE)["tag"] == "CLUSTER-MAP"


def test_the_slider(on_small: browsers.Browser, small: shown.Shown) -> None:
    person = Person(on_small, small)
    on_small.open("/dashboard/")
    person.tab_to("#slider")
    script = "return document.getElementById('slider').getAttribute('aria-valuetext')"
    for pressed in (
        keys.Keys.PAGE_DOWN,
        keys.Keys.HOME,
        keys.Keys.PAGE_UP,
        keys.Keys.ARROW_LEFT,
        keys.Keys.END,
    ):
        person.press(pressed)
        offset = int(on_small.run("return document.getElementById('slider').value"))
        on_small.settled(f"/{offset}")
        if offset:
            assert on_small.run(script) == moment(person.ask(f"cluster?at={offset}"), offset)
        assert person.focused()["id"] == "slider"
    assert offset == small.head


def test_a_pod_its_attempts_a_simulation_and_its_command(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    clipboard = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    on_small.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": clipboard})
    person = Person(on_small, small)
    _, second = api_worlds.decide(small.world, api_worlds.pod("web-3"), api_worlds.pod("web-3"))[-2:]
    api_worlds.decide(small.world, api_worlds.pod("web-3"))
    on_small.open("/dashboard/pending")
    person.tab_to("#pods td a[href$='/web-3']")
    person.press(keys.Keys.ENTER)
    on_small.until(lambda: on_small.text("#pod h2") == "Pod shop/web-3", "the pod")
    on_small.settled()
    person.tab_to(f".life a[href*='{second}']")
    person.press(keys.Keys.ENTER)
    found = person.ask(f"pods/shop/web-3/explain?decision={second}")
    person.announced(f"Attempt {second}: {found['summary']}")
    assert second in person.focused()["href"]
    # Back to the latest attempt, and to the row of the list.
    person.press(keys.Keys.ESCAPE)
    on_small.until(lambda: "decision=" not in on_small.driver.current_url, "the pod without an attempt")
    on_small.keys(keys.Keys.ESCAPE)
    on_small.until(lambda: person.focused()["href"].endswith("/dashboard/pods/shop/web-3"), "the row")
    assert person.focused()["seen"]
    person.tab_to("nav a[href='/dashboard/compare']")
    person.press(keys.Keys.ENTER)
    at = on_small.settled()
    person.tab_to("#what-if .b textarea")
    scale = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+2"}}]
    on_small.run("document.activeElement.select()")
    person.press(json.dumps(scale))
    person.tab_to("#what-if .pod input")
    person.press("shop/web-3", keys.Keys.ENTER)
    answer = person.ask("simulate", {"pod": "shop/web-3", "situation": {"at": at, "overrides": scale}})
    spoken = "document.querySelector('#what-if [role=status]').innerText"
    on_small.until(lambda: answer["explanation"]["summary"] in on_small.run(f"return {spoken}"), "the answer")
    assert answer["fits"]
    assert "It fits." in on_small.run(f"return {spoken}")
    person.tab_to("#outcome .command button")
    person.press(keys.Keys.ENTER)
    person.announced("copied")
    copied = on_small.later("navigator.clipboard.readText().then(arguments[0])")
    assert copied == on_small.text("#outcome code")
    assert copied.startswith("topolog simulate shop/web-3 --at ")


def test_shortcuts_of_single_keys_can_be_turned_off(on_small: browsers.Browser, small: shown.Shown) -> None:
    """WCAG 2.2, 2.1.4: speech and a key that is hit by mistake must not move the page."""
    person = Person(on_small, small)
    address = f"/dashboard/?at={small.head}"
    on_small.open(address)
    on_small.press("keys", "header")
    for path in (address, f"{address}&as=table"):
        on_small.open(path)
        on_small.run("document.getElementById('main').focus()")
        on_small.keys(",", "/", "l", "b", keys.Keys.SPACE)
        assert person.focused()["id"] == "main"
        assert on_small.run("return location.pathname + location.search") == path
        assert on_small.run("return document.querySelectorAll('.pin[aria-pressed=true]').length") == 0
    on_small.press("keys", "header")
    on_small.run("document.getElementById('main').focus()")
    assert person.press("/")["id"] == "search"


def test_the_first_link_leads_to_the_content(on_small: browsers.Browser, small: shown.Shown) -> None:
    person = Person(on_small, small)
    on_small.open("/dashboard/compare")
    person.tab_to("a.skip")
    on_small.keys(keys.Keys.ENTER)
    assert on_small.run("return document.activeElement.id + location.hash") == "main"


def test_the_focus_stays_while_the_table_is_updated(on_small: browsers.Browser, small: shown.Shown) -> None:
    person = Person(on_small, small)
    first = [api_worlds.pod(f"first-{at}") for at in range(3)]
    small.world.append(*(events.PodSeen(pod=pod) for pod in first))
    on_small.open("/dashboard/pending")
    person.tab_to("#pods td a[href$='/first-1']")
    path = urllib.parse.urlsplit(person.focused()["href"]).path
    gone: events.AnyEvent = events.PodGone(first[0].uid, "shop", first[0].name)
    for at in range(UPDATES):
        pod = api_worlds.pod(f"focus-{at}")
        last = small.world.append(gone, events.PodSeen(pod=pod))
        gone = events.PodGone(pod.uid, "shop", pod.name)
        on_small.settled(f"/{last}")
        found = person.focused()
        assert (found["href"], found["seen"]) == (path, True), at
    # What has the focus goes: the table around it takes it.
    last = small.world.append(gone, events.PodGone(first[1].uid, "shop", first[1].name))
    on_small.settled(f"/{last}")
    assert on_small.run("return document.activeElement.closest('#pods') !== null")
    assert person.focused()["seen"]
    small.world.append(events.PodGone(first[2].uid, "shop", first[2].name))
