"""The decisions view: a selected stretch against the rest, and facets that narrow it."""

import shlex
import urllib.parse
from typing import Any, TypeAlias

import pytest
from msgspec import structs
from selenium import webdriver
from selenium.webdriver.common import by, keys

from app.plugins.workload_policy import limits, logic
from app.store.decisions import records
from tests.support import commands
from tests.support.browser import browsers, scripts, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
Json: TypeAlias = Any
"""A value of a type that the test asserts."""


def facets(page: browsers.Browser) -> dict[str, dict[str, list[int]]]:
    """Facet -> value -> its decisions and, of a selection, those inside it; as the page shows them."""
    found: dict[str, dict[str, list[int]]] = page.run(scripts.read("facets"))
    return found


def expected(body: Json, *, picked: bool) -> dict[str, dict[str, list[int]]]:
    """The same by the API; the page shows eight values of each facet."""
    return {
        one["name"]: {
            value["value"]: [value["count"], *([value["picked"]] if picked else [])]
            for value in one["values"][:8]
        }
        for one in body["facets"]
        if one["values"]
    }


def test_a_selection_on_the_strip_is_compared_with_the_rest(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    later = (api_worlds.pod(f"later-{at}") for at in range(3))
    api_worlds.decide(small.world, *later, at="2026-07-01T10:00:04.000Z")
    on_small.open("/dashboard/decisions")
    on_small.settled(f"/{small.head}")
    whole = on_small.later(scripts.read("asked"), "#facets")
    assert facets(on_small) == expected(whole, picked=False)
    columns = on_small.driver.find_elements(by.By.CSS_SELECTOR, "#strip svg.strip > g")
    filled = [at for at, one in enumerate(whole["buckets"]) if one["outcomes"]]
    first, last = filled[0], filled[-1] - 1
    pointer = webdriver.ActionChains(on_small.driver)
    pointer.click_and_hold(columns[first]).move_to_element(columns[last]).release().perform()
    on_small.until(lambda: "What differs in the selection" in on_small.text("#facets h2"), "a selection")
    on_small.settled()
    body = on_small.later(scripts.read("asked"), "#facets")
    inside = sum(sum(one["outcomes"].values()) for one in whole["buckets"][first : last + 1])
    assert 0 < body["picked"] == inside < body["examined"]
    assert facets(on_small) == expected(body, picked=True)
    on_small.press(f"end the selection ({inside} decision{'s' if inside > 1 else ''})")
    on_small.until(lambda: "In common" in on_small.text("#facets h2"), "no selection")


def test_a_selection_holds_the_times_of_its_columns_while_the_page_follows(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    column = "document.querySelectorAll('#strip svg.strip > g')[arguments[0]].focus()"
    api_worlds.decide(small.world, api_worlds.pod("web-3"), at="2026-07-01T10:00:04.000Z")
    on_small.open("/dashboard/decisions")
    on_small.settled(f"/{small.head}")
    before = on_small.later(scripts.read("asked"), "#strip")["buckets"]
    on_small.run(column, 40)
    on_small.keys(keys.Keys.ENTER)
    api_worlds.decide(small.world, api_worlds.pod("web-3"), at="2026-07-01T10:01:00.000Z")
    last = small.world.append(api_worlds.node("onwards"))
    on_small.settled(f"/{last}")
    after = on_small.later(scripts.read("asked"), "#strip")["buckets"]
    assert after[40]["from"] != before[40]["from"]
    on_small.run(column, len(after) - 1)
    on_small.keys(" ")
    on_small.until(lambda: "pickedSince" in on_small.driver.current_url, "a selection")
    found = urllib.parse.parse_qs(urllib.parse.urlsplit(on_small.driver.current_url).query)
    assert (found["pickedSince"], found["pickedUntil"]) == ([before[40]["from"]], [after[-1]["to"]])


PRESSED = (
    "return [...document.querySelectorAll('#strip svg.strip > g')]"
    ".flatMap((one, at) => one.getAttribute('aria-pressed') === 'true' ? [at] : [])"
)
"""The columns that are selected, as a screen reader speaks of them."""
MARKED = (
    "return [...document.querySelectorAll('#strip svg.strip > g')]"
    ".flatMap((one, at) => one.querySelector('.edge') ? [at] : [])"
)
"""Those that have a mark beside their colour."""


def test_a_selection_by_keys_is_announced_and_can_be_cancelled(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    def press(at: int, key: str, *chosen: int) -> None:
        """Press a key on a column; those are selected after it."""
        on_small.run(f"document.querySelectorAll('#strip svg.strip > g')[{at}].focus()")
        on_small.keys(key)
        on_small.until(lambda: on_small.run(PRESSED) == list(chosen), f"columns {chosen}")
        assert on_small.run(MARKED) == list(chosen)

    def announced(text: str) -> None:
        on_small.until(lambda: on_small.text("#announced").startswith(text), text)

    api_worlds.decide(small.world, api_worlds.pod("web-3"), at="2026-07-01T10:00:04.000Z")
    on_small.open("/dashboard/decisions")
    on_small.settled(f"/{small.head}")
    assert on_small.run(PRESSED) == on_small.run(MARKED) == []
    press(40, keys.Keys.ENTER, 40)
    announced("The selection begins at ")
    press(41, keys.Keys.ESCAPE)
    announced("The selection is cancelled.")
    press(40, keys.Keys.ENTER, 40)
    on_small.click("nav a[href*='health']")
    on_small.until(lambda: on_small.text("#store"), "another view")
    on_small.click("nav a[href*='decisions']")
    on_small.settled(f"/{small.head}")
    press(42, " ", 42)
    press(44, keys.Keys.ENTER, 42, 43, 44)
    announced("Selected: ")
    assert "pickedSince" in on_small.driver.current_url


def test_the_list_states_that_there_are_older_decisions(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    elsewhere = [structs.replace(api_worlds.pod(f"many-{at}"), namespace="many") for at in range(51)]
    api_worlds.decide(small.world, *elsewhere[:1])
    on_small.open("/dashboard/decisions?namespace=many")
    on_small.settled(f"/{small.head}")
    assert "and older ones" not in on_small.text("#list")
    api_worlds.decide(small.world, *elsewhere[1:])
    last = small.world.append(api_worlds.node("decided"))
    on_small.settled(f"/{last}")
    on_small.until(lambda: "and older ones" in on_small.text("#list"), "that there are more")


def record(seen: shown.Shown, pod: str, **fields: object) -> None:
    """Record a decision about a pod of the namespace ``recorded``, by default a filter."""
    snapshot = seen.world.store.follower.catch_up()
    made = records.Draft(
        position=snapshot.position,
        pod=structs.replace(api_worlds.pod(pod), namespace="recorded"),
        names=frozenset(snapshot.nodes),
        configuration=seen.world.registry.digest,
        kept=0,
        verb="filter",
        outcome="refused",
        at="2026-07-01T10:00:02.000Z",
        milliseconds=1.0,
        snapshot=snapshot,
    )
    log = seen.world.store.decisions
    log.record(structs.replace(made, **fields))
    log.stop()
    log.start()


@pytest.mark.parametrize("facet", ["namespace", "object", "outcome", "verb", "plugin", "reason", "node"])
def test_a_facet_narrows_the_page_to_its_value(
    on_small: browsers.Browser, small: shown.Shown, facet: str
) -> None:
    elsewhere = structs.replace(api_worlds.pod("web-9"), namespace="elsewhere")
    api_worlds.decide(small.world, elsewhere)
    record(small, "bound", verb="bind", outcome="bound", node="host-1")
    on_small.open("/dashboard/decisions")
    on_small.settled(f"/{small.head}")
    (value, (number,)), *_ = facets(on_small)[facet].items()
    on_small.press(value, "#facets")
    on_small.until(lambda: f"{facet}: " in on_small.text(".filters"), "the filter")
    on_small.settled()
    body = on_small.later(scripts.read("asked"), "#facets")
    assert body["examined"] == number
    assert facets(on_small) == expected(body, picked=False)
    listed = on_small.later(scripts.read("asked"), "#list")
    assert len(listed["items"]) == min(50, number)
    if facet == "object":
        assert {tuple(one["objects"]) for one in listed["items"]} == {(value,)}
    if facet == "namespace":
        assert {one["pod"]["namespace"] for one in listed["items"]} == {value}
    if facet == "node":
        assert {one["node"] for one in listed["items"]} == {value}


FULL = "workload policy shop/a: no capacity (host 3/3)"
DOMAINS = [logic.PolicyQuota("d" * 63, 10**6, 10**6)] * (logic.MAX_NAMED + 1)
LONGEST = "; ".join(
    f"workload policy {'n' * 63}/{number}{'p' * 252}: no capacity ({logic.spelled(DOMAINS)})"
    for number in range(limits.MENTIONED)
)


@pytest.mark.parametrize(
    "reason", [FULL, LONGEST, 'no disk "a\\b", or more'], ids=["part of another", "longest", "quoted"]
)
def test_a_reason_narrows_the_page_to_the_decisions_with_it_alone(
    on_small: browsers.Browser, small: shown.Shown, reason: str
) -> None:
    """Other policies may refuse with it, in one sentence."""
    pods = {"alone": reason, "joined": f"{reason}; workload policy shop/b: no capacity (host 1/1)"}
    for pod, text in pods.items():
        record(small, f"{pod}-{len(reason)}", reasons={text: 1})
    on_small.open(f"/dashboard/decisions?namespace=recorded&at={small.head}")
    on_small.press(
        reason if len(reason) <= 90 else f"{reason[:90]} … ({len(reason):,} characters)", "#facets"
    )
    on_small.until(lambda: "reason: " in on_small.text(".filters"), "the filter")
    on_small.settled()
    body = on_small.later(scripts.read("asked"), "#facets")
    assert body["examined"] == 1
    listed = on_small.later(scripts.read("asked"), "#list")
    assert [(one["pod"]["name"], [*one["reasons"]]) for one in listed["items"]] == [
        (f"alone-{len(reason)}", [reason])
    ]
    words = shlex.split(on_small.run("return document.querySelector('#list .command code').textContent"))
    done = commands.called(*words[1:], "--server", small.viewer.url, "-o", "name")
    assert done.stdout.split() == [f"decisions/{listed['items'][0]['id']}"], done.stderr
