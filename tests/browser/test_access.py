"""The dashboard for everyone: WCAG 2.2 A and AA, small screens, other schemes, names of everything."""

import typing

import pytest

from app.domain import events
from app.framework import views
from app.verbs.pictures import decision_classes
from tests.support.browser import axe, browsers, scripts, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
VIEWS = ("", "pending", "pods/shop/web-3", "workloads", "decisions", "compare", "health")


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_violates_a_rule_of_accessibility(
    on_small: browsers.Browser, small: shown.Shown, scheme: str
) -> None:
    """With everything that can be opened open, live and in the past."""
    browsers.emulate(on_small.driver, dark=scheme == "dark", still=True)
    for view in (
        *VIEWS,
        "?node=host-1&as=table",
        "?domain=host&as=table",
        f"decisions?at={small.head}",
        f"compare?at={small.head - 2}",
    ):
        on_small.open(f"/dashboard/{view}")
        assert axe.violations(on_small) == [], view
        on_small.run("for (const one of document.querySelectorAll('main details')) one.open = true")
        assert axe.violations(on_small) == [], f"{view}, opened"


@pytest.mark.scenario("UI-6")
def test_no_view_violates_a_rule_on_a_small_screen(on_small: browsers.Browser) -> None:
    browsers.resize(on_small.driver, 360)
    for view in VIEWS:
        on_small.open(f"/dashboard/{view}")
        assert axe.violations(on_small) == [], view


@pytest.mark.scenario("UI-6")
def test_what_violates_a_rule_is_found(on_small: browsers.Browser) -> None:
    on_small.open("/dashboard/")
    on_small.run("document.querySelector('main').append(document.createElement('button'))")
    assert [one.partition(" ")[0] for one in axe.violations(on_small)] == ["button-name"]


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("view", VIEWS)
def test_a_live_page_that_follows_the_log_speaks_of_no_event(
    on_small: browsers.Browser, small: shown.Shown, view: str
) -> None:
    on_small.open(f"/dashboard/{view}")
    on_small.settled(f"/{small.head}")
    spoken = on_small.run(scripts.read("spoken"))
    gone = events.PodGone(api_worlds.pod("quiet").uid, "shop", "quiet")
    last = small.world.append(api_worlds.pod_seen("quiet"), gone)
    on_small.settled(f"/{last}")
    assert on_small.run(scripts.read("spoken")) == spoken


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("width", [360, 640, 1280])
def test_no_view_scrolls_sideways(small: shown.Shown, on_small: browsers.Browser, width: int) -> None:
    browsers.resize(on_small.driver, width)
    for view in VIEWS:
        on_small.open(f"/dashboard/{view}")
        assert on_small.run("return document.documentElement.scrollWidth") <= width, view


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("zoom", [1, 2])
def test_what_has_the_focus_is_never_covered(on_small: browsers.Browser, zoom: int) -> None:
    """At 200 percent a window of 1,280 x 800 pixels has space for 640 x 400, and nothing scrolls sideways."""
    browsers.resize(on_small.driver, 1280 // zoom, 800 // zoom, scale=zoom)
    for view in VIEWS:
        on_small.open(f"/dashboard/{view}")
        assert on_small.run("return document.documentElement.scrollWidth") <= 1280 // zoom, view
        assert axe.violations(on_small) == [], view
        assert on_small.run(scripts.read("covered")) == [], view


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("scheme", ["light", "dark", "forced"])
def test_classes_differ_and_text_can_be_read(on_small: browsers.Browser, scheme: str) -> None:
    browsers.emulate(on_small.driver, dark=scheme == "dark", forced=scheme == "forced", still=True)
    for view in VIEWS:
        on_small.open(f"/dashboard/{view}")
        poor = on_small.run(scripts.read("contrast"))
        assert scheme == "forced" or poor == [], view
    on_small.open("/dashboard/")
    running = "return document.getAnimations().filter((one) => one.playState === 'running').length"
    assert on_small.run(running) == 0
    swatches = on_small.run("""
      return [...document.querySelectorAll("class-swatch canvas")].map((canvas) => canvas.toDataURL());
    """)
    assert len(swatches) == 6
    assert len(set(swatches)) >= (6 if scheme != "forced" else 4)


@pytest.mark.scenario("UI-6")
def test_each_mark_is_another_picture_in_grey_on_the_smallest_squares(on_small: browsers.Browser) -> None:
    on_small.open("/dashboard/")
    looks = typing.get_args(views.Look)
    found = on_small.later(scripts.read("mark_pixels"), looks, decision_classes.MOST_REFUSED)
    pixels = dict(found)
    assert len(pixels) > decision_classes.MOST_REFUSED
    assert len(set(pixels.values())) == len(pixels)


@pytest.mark.scenario("UI-6")
def test_everything_that_can_be_used_has_a_name(on_small: browsers.Browser) -> None:
    for view in VIEWS:
        on_small.open(f"/dashboard/{view}")
        nameless = on_small.run(scripts.read("nameless"))
        assert nameless == [], view
        identities = on_small.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(identities) == len(set(identities)), view


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("width", [360, 1280])
def test_the_placeholder_of_a_field_is_shown_whole(on_small: browsers.Browser, width: int) -> None:
    browsers.resize(on_small.driver, width)
    on_small.open("/dashboard/")
    assert on_small.run(scripts.read("cut_placeholders")) == []


def test_each_colour_of_the_time_strip_is_in_its_legend(on_small: browsers.Browser) -> None:
    on_small.open("/dashboard/")
    on_small.until(lambda: "not watched" in on_small.text(".track .legend"), "what was not watched")
    keys = on_small.run("""
      return [...document.querySelectorAll(".track .legend .key")].slice(0, 4)
        .map((key) => [key.parentElement.innerText.trim(), getComputedStyle(key).backgroundColor]);
    """)
    assert [name for name, _ in keys] == ["pods", "placements", "nodes", "others"]
    assert len({colour for _, colour in keys}) == 4
    drawn = on_small.run(scripts.read("strip_colours"))
    assert {colour for _, colour in keys} >= set(drawn) != set()
