"""Whether the page can be trusted: readers, recorder, flags, what was not watched, what is in flight."""

import json
import urllib.request
from typing import Any, TypeAlias

import pytest

from app.domain import events, model
from tests.support.browser import browsers, scripts, shown

pytestmark = pytest.mark.browser
Json: TypeAlias = Any
"""A value of a type that the test asserts."""


def ask(seen: shown.Shown, path: str) -> Json:
    """JSON of the API."""
    with urllib.request.urlopen(f"{seen.viewer.url}/apis/v1/{path}", timeout=30) as reply:
        return json.load(reply)


def rows(page: browsers.Browser, panel: str) -> list[list[str]]:
    """The rows of the first table of a panel."""
    script = (
        "return [...document.querySelector(`${arguments[0]} table`).tBodies[0].rows]"
        ".map((row) => [...row.cells].map((one) => one.innerText.trim()))"
    )
    found: list[list[str]] = page.run(script, panel)
    return found


def test_every_reader_of_the_log_is_shown_with_its_lag(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/health")
    known = ask(small, "store")
    assert known["readers"]
    shown_as = {name: [offset, behind] for name, offset, behind, _ in rows(on_small, "#store")}
    assert set(shown_as) == {one["reader"] for one in known["readers"]}
    body = on_small.later(scripts.read("asked"), "#store")
    assert [one["behind"] for one in body["readers"]] == [
        body["head"] - one["offset"] for one in body["readers"]
    ]
    sentence = known["problem"] or "no finding: it keeps what it acknowledged"
    assert on_small.text("#store .content p") == sentence


@pytest.mark.parametrize("view", ["", "health"])
def test_a_page_asks_again_about_the_store_without_an_event(
    on_small: browsers.Browser, small: shown.Shown, view: str
) -> None:
    on_small.open(f"/dashboard/{view}")
    on_small.settled(f"/{small.head}")
    on_small.requests()
    on_small.until(lambda: "/apis/v1/store" in on_small.requests(), "the question")


def test_a_flag_is_shown_with_who_set_it_and_when(on_small: browsers.Browser, small: shown.Shown) -> None:
    flag = model.Flag(name="f", value="true", until="2099-01-01T00:00:00Z")
    offset = small.world.append(events.FlagSet(flag=flag, by="alice@example"))
    on_small.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    on_small.open("/dashboard/health")
    on_small.settled(f"/{offset}")
    (found,) = [row for row in rows(on_small, "#flags") if row[0] == "debugFilterFailure"]
    assert found[4:6] == ["01 Jan 2099, 09:00:00", "alice@example"]
    assert found[6].startswith(f"{offset} ")
    assert ask(small, "flags")["items"][1]["at"].startswith("20")
    on_small.press(str(offset), "#flags")
    on_small.until(lambda: f"at={offset}" in on_small.driver.current_url, "the moment")


def test_the_overview_has_lag_recorder_audit_and_speed(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/")
    text = on_small.text("#trust")
    bucket = ask(small, "decisions/facets?buckets=1")["buckets"][0]
    for part in (
        "lag 0 events",
        "recorder never wrote",
        f"audit {ask(small, 'consistency')['state']}",
        f"99th percentile {bucket['p99']:.1f} ms",
    ):
        assert part in text


@pytest.mark.parametrize(("age", "written", "marked"), [(-3_600, "0 s", False), (93_784, "1 d 2 h", True)])
def test_the_overview_has_the_age_of_what_the_recorder_wrote_last(
    on_small: browsers.Browser, small: shown.Shown, age: int, written: str, marked: bool
) -> None:
    """By the store's clock; one that lies ahead was written at this moment, however long the test takes."""
    store = small.world.store
    at_ms = store.log.state().now_ms - 1000 * age
    store.client.hset(store.keys.meta, "recorded", at_ms)
    try:
        on_small.open("/dashboard/")
        assert f"recorder wrote {written} ago" in on_small.text("#trust")
        assert on_small.run("return !!document.querySelector('#trust .warn')") == marked
    finally:
        store.client.hdel(store.keys.meta, "recorded")


def test_the_life_of_a_pod_shows_what_was_not_watched(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/pods/shop/web-3")
    (gap,) = ask(small, "pods/shop/web-3/life")["gaps"]
    assert f"not watched until offset {gap['to']}: {gap['reason']}" in on_small.text("#life")
    unseen = on_small.run("return document.querySelectorAll('#life .unseen:not(.gap)').length")
    assert unseen == len(
        [one for one in ask(small, "pods/shop/web-3/life")["items"] if one["offset"] < gap["to"]]
    )


def test_an_attempt_shows_what_was_in_flight(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/pods/shop/web-3")
    body = on_small.later(scripts.read("asked"), "#why")
    assert body["inFlight"]
    text = on_small.text("#why")
    assert "In flight, and counted" in text
    for one in body["inFlight"]:
        assert one["pod"] in text
