"""The slider of a live page: while it is held, dragged or played, nothing else moves it or the page."""

import functools
import time

import pytest

from tests.support.browser import browsers, scripts, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
FOLLOWED = 1.5
"""Seconds after which a live page has followed a head that it has received."""
HEAD = """const done = arguments[0];
const main = document.querySelector("script[type=module]").src;
import(main.replace("main.js", "store.js")).then(({ state }) => done(state.head));
"""
SLIDER = """const one = document.getElementById("slider");
return [one.min, one.max, one.value].map(Number);"""
SPACE = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: ' ', bubbles: true }));"


def appended(page: browsers.Browser, seen: shown.Shown, name: str) -> int:
    """Append an event, and wait until the page has followed it if it does."""
    last = seen.world.append(api_worlds.node(name))
    page.until(lambda: str(page.later(HEAD)).endswith(f"/{last}"), "the head of the stream")
    time.sleep(FOLLOWED)
    return last


def frames(page: browsers.Browser) -> list[int]:
    """The offsets of the frames, once the page has them."""
    page.run("document.getElementById('slider').focus()")
    return page.until(lambda: page.later(scripts.read("frames")), "the frames of the window")


@pytest.mark.scenario("UI-4")
@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/workloads?of=shop/spread"])
def test_a_live_page_stands_still_under_the_pointer(
    on_small: browsers.Browser, small: shown.Shown, path: str
) -> None:
    on_small.open(path)
    on_small.settled(f"/{small.head}")
    *_, early, late, _ = frames(on_small)
    on_small.settled()
    on_small.requests()
    on_small.run(scripts.read("hold"), True)
    on_small.run(scripts.read("drag"), late)
    first, last, value = on_small.run(SLIDER)
    assert value == late
    appended(on_small, small, f"held-{len(path)}")
    assert on_small.run(SLIDER) == [first, last, late]
    on_small.run(scripts.read("drag"), early)
    appended(on_small, small, f"dragged-{len(path)}")
    assert on_small.run(SLIDER) == [first, last, early]
    assert on_small.requests() == []
    on_small.run(scripts.read("hold"), False)
    on_small.settled(f"/{early}")


def test_a_live_page_follows_again_once_the_pointer_is_released(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/")
    before = small.head
    on_small.settled(f"/{before}")
    on_small.run(scripts.read("hold"), True)
    last = appended(on_small, small, "released")
    on_small.settled(f"/{before}")
    on_small.run(scripts.read("hold"), False)
    on_small.settled(f"/{last}")
    assert "at=" not in on_small.driver.current_url


@pytest.mark.scenario("UI-4")
def test_a_film_of_a_live_page_is_not_moved_by_events(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    on_small.settled(f"/{small.head}")
    offsets = frames(on_small)
    on_small.run(scripts.read("ticks"))
    on_small.run(SPACE)
    on_small.until(lambda: on_small.run("return ticks.length"), "the film begins")
    on_small.run("ticks[0]()")
    on_small.until(lambda: on_small.run(SLIDER)[2] in offsets[:-1], "a frame of the film")
    on_small.settled()
    on_small.requests()
    slider = on_small.run(SLIDER)
    appended(on_small, small, "filmed")
    assert on_small.run(SLIDER) == slider
    assert slider[2] in offsets[:-1]
    assert on_small.requests() == []
    on_small.run(SPACE)
    on_small.settled(f"/{slider[2]}")


def test_a_film_that_waits_for_its_frames_begins_once(on_small: browsers.Browser, small: shown.Shown) -> None:
    """Frames of a former window are at hand; the second key ends what the first began, the third plays."""
    on_small.open("/dashboard/")
    frames(on_small)
    last = appended(on_small, small, "more")
    on_small.settled(f"/{last}")
    on_small.run(scripts.read("held"), "/apis/v1/frames")
    on_small.run(scripts.read("ticks"))
    on_small.run(SPACE + SPACE + SPACE + "go();")
    on_small.until(lambda: last in on_small.later(scripts.read("frames")), "the frames of the window")
    assert on_small.run("return ticks.length") == 1
    on_small.run("ticks[0]()")
    on_small.run(SPACE)
    on_small.until(lambda: "at=" in str(on_small.driver.current_url), "the film rests")


def test_the_slider_of_a_window_shows_no_frame_of_the_one_before(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/")
    before = frames(on_small)[-1]
    small.world.append(*(api_worlds.pod_seen(f"behind-{at}") for at in range(3)))
    last = appended(on_small, small, "behind-frames")
    on_small.settled(f"/{last}")
    waiting = on_small.run("return [...document.querySelectorAll('#figures b')][3].textContent")
    on_small.run(scripts.read("held"), "/apis/v1/frames")
    on_small.run(scripts.read("hold"), True)
    on_small.run(scripts.read("drag"), last - 1)
    output = ".timebar output"
    on_small.until(lambda: on_small.text(output).startswith(f"offset {last - 1}"), "the offset")
    assert on_small.text(output) == f"offset {last - 1}"
    on_small.run("go()")
    on_small.until(lambda: f", {waiting} pods waiting" in on_small.text(output), "the frame of the moment")
    on_small.run(scripts.read("drag"), before)
    on_small.until(lambda: on_small.text(output).startswith(f"offset {before},"), "the frame of another one")
    on_small.run(scripts.read("hold"), False)
    on_small.settled(f"/{before}")


def test_a_film_that_waits_keeps_its_window(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    before = small.head
    on_small.settled(f"/{before}")
    on_small.run(scripts.read("held"), "/apis/v1/frames")
    on_small.run(scripts.read("ticks"))
    on_small.run(SPACE)
    appended(on_small, small, "while-it-waits")
    on_small.run("document.querySelector('.track').dispatchEvent(new PointerEvent('pointerenter'))")
    on_small.run("go()")
    on_small.until(lambda: on_small.run("return ticks.length"), "the film begins")
    assert on_small.later(scripts.read("frames"))[-1] == before
    on_small.run("ticks[0]()")
    on_small.run(SPACE)
    on_small.until(lambda: "at=" in str(on_small.driver.current_url), "the film rests")


def test_a_drag_asks_once_for_frames_that_are_refused(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    last = small.head
    on_small.settled(f"/{last}")
    on_small.run(scripts.read("failing"), "/apis/v1/frames")
    on_small.run(scripts.read("hold"), True)
    for offset in range(last - 5, last):
        on_small.run(scripts.read("drag"), offset)
        on_small.until(lambda: on_small.text("#moment-wrong") == "the server does not answer", "the error")
    assert on_small.run("return failed") == 1
    on_small.run("document.getElementById('slider').focus()")
    assert on_small.run("return failed") == 2
    on_small.run(scripts.read("hold"), False)
    on_small.settled(f"/{last - 1}")


def test_a_film_without_its_frames_plays_no_other_window(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/")
    frames(on_small)
    last = appended(on_small, small, "another-window")
    on_small.settled(f"/{last}")
    on_small.run(scripts.read("cut"), "/apis/v1/frames")
    on_small.run(scripts.read("ticks"))
    on_small.run(SPACE)
    on_small.until(lambda: on_small.text("#moment-wrong") == "the server does not answer", "the error")
    assert on_small.run("return ticks.length") == 0
    on_small.run(SPACE)
    on_small.until(lambda: on_small.run("return ticks.length"), "the film begins")
    on_small.run(SPACE)


def test_a_film_plays_after_the_colours_were_others_for_a_while(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/?at=1")
    frames(on_small)
    for colour in ("resource:cpu", "state"):
        on_small.fill("#map select", colour)
        on_small.until(functools.partial(coloured, on_small, colour), colour)
        on_small.settled("/1")
    on_small.run(scripts.read("ticks"))
    on_small.run(SPACE)
    on_small.until(lambda: on_small.run("return ticks.length"), "the film begins")
    on_small.run(SPACE)


def coloured(page: browsers.Browser, colour: str) -> bool:
    """Whether the address names the colours, as it does but for those of the state."""
    return ("color=resource" in page.driver.current_url) == colour.startswith("resource")
