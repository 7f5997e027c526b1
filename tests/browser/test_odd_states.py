"""The dashboard of an empty cluster, of a trimmed log, and beyond the end of a history."""

import pathlib
import secrets
from collections.abc import Iterator

import pytest
from selenium.webdriver.common import keys

from app.domain import events
from app.store.log import batches, incarnations
from app.store.server import embedded
from tests.support.browser import browsers, shown, viewers
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
VIEWS = ("", "pending", "pods", "workloads", "decisions", "compare", "health")


@pytest.fixture
def seen(chromium: None, store_server: embedded.Server, tmp_path: pathlib.Path) -> Iterator[shown.Shown]:
    """An empty cluster."""
    cluster = f"odd{secrets.token_hex(4)}"
    with (
        api_worlds.processes(store_server, cluster) as start,
        viewers.running(store_server.url, cluster, tmp_path) as viewer,
    ):
        yield shown.Shown(api_worlds.world(start()), viewer)


@pytest.fixture
def page(seen: shown.Shown, tmp_path: pathlib.Path) -> Iterator[browsers.Browser]:
    with browsers.browser(seen.viewer.url, tmp_path / "profile") as found:
        yield found


def excuse(page: browsers.Browser, status: int) -> None:
    """Forget the lines of the console about answers with that status; anything else fails the test."""
    page.collect()
    page.found[:] = [line for line in page.found if f"status of {status}" not in line]


def rewound(seen: shown.Shown, lost: int) -> tuple[str, int]:
    """Let the store lose its latest events; the new incarnation, and the offset at which it begins."""
    store = seen.world.store
    kept = store.follower.catch_up().position
    data = {key: store.client.dump(key) or b"" for key in store.client.scan_iter(f"{store.keys.prefix}*")}
    last = seen.world.append(*(api_worlds.pod_seen(f"lost-{at}") for at in range(lost)))
    store.client.delete(*data)
    for key, value in data.items():
        store.client.restore(key, 0, value, replace=True)
    begun = incarnations.new((kept.incarnation,))
    event = events.StoreRewound(kept.incarnation, kept.offset + 1, last, "a test", relisting=("pods",))
    assert store.log.rewind(event, begun, found=kept.incarnation, guard=batches.Guard(epoch="9", writer="w"))
    store.log.follow(begun)
    return begun, kept.offset + 1


@pytest.mark.scenario("UI-12")
@pytest.mark.parametrize("view", VIEWS)
def test_every_panel_of_an_empty_cluster_has_a_sentence(page: browsers.Browser, view: str) -> None:
    page.open(f"/dashboard/{view}")
    script = "return [...document.querySelectorAll('.panel .content')].map((one) => one.innerText.trim())"
    contents = page.run(script)
    assert contents
    assert all(contents)
    assert page.text(".panel .failed") == page.text(".timebar .failed") == ""


def test_the_time_bar_of_an_empty_cluster_does_nothing_wrong(page: browsers.Browser) -> None:
    page.open("/dashboard/")
    page.run("document.getElementById('main').focus()")
    for key in (",", ".", " "):
        page.keys(key)
        page.settled("/0")
    assert page.text(".panel .failed") == ""


@pytest.mark.scenario("UI-12")
def test_no_step_leads_before_the_oldest_moment(seen: shown.Shown, page: browsers.Browser) -> None:
    world, store = seen.world, seen.world.store
    world.append(*api_worlds.history())
    state = store.follower.catch_up()
    store.checkpoints.write(state, store.follower.dated()[1] or 0)
    last = world.append(*(api_worlds.pod_seen(f"later-{at}") for at in range(10)))
    assert store.log.trim(state.offset, state.offset, reader_timeout=-1.0)
    page.open(f"/dashboard/?at={state.offset}")
    page.until(
        lambda: page.run("return document.getElementById('slider').min") == f"{state.offset}", "the axis"
    )
    page.run("document.getElementById('main').focus()")
    page.keys(",")
    sentence = f"offset {state.offset} is the oldest that is kept"
    page.until(lambda: page.text("#moment-wrong") == sentence, sentence)
    page.settled(f"/{state.offset}")
    assert page.text(".panel .failed") == ""
    page.keys(".")
    page.settled(f"/{state.offset + 1}")
    assert page.text("#moment-wrong") == ""
    page.run("document.getElementById('slider').focus()")
    page.keys(keys.Keys.END)
    page.settled(f"/{last}")
    page.keys(".")
    page.until(lambda: page.text("#moment-wrong") == f"offset {last} is the latest", "the end")
    excuse(page, 410)


@pytest.mark.parametrize(("place", "text", "steps"), [("main", ".", 1), ("moment", "{}\n", 3)])
def test_a_page_of_the_past_goes_beyond_the_head_of_when_it_was_opened(
    seen: shown.Shown, page: browsers.Browser, place: str, text: str, steps: int
) -> None:
    """Nothing streams to it."""
    before = seen.world.append(*api_worlds.history())
    page.open(f"/dashboard/?at={before}")
    last = seen.world.append(*(api_worlds.node(f"ahead-{at}") for at in range(3)))
    page.run("document.getElementById(arguments[0]).focus()", place)
    page.keys(text.format(last))
    page.settled(f"/{before + steps}")
    assert page.text("#moment-wrong") == ""
    page.run("document.getElementById('main').focus()")
    page.keys(*"." * (last - before - steps + 1))
    page.until(lambda: page.text("#moment-wrong") == f"offset {last} is the latest", "the end")
    page.settled(f"/{last}")


@pytest.mark.parametrize(("kind", "text"), [("decision", "decision"), ("object", "event of the object")])
def test_a_step_leads_beyond_the_head_of_when_the_page_was_opened(
    seen: shown.Shown, page: browsers.Browser, kind: str, text: str
) -> None:
    before = seen.world.append(*api_worlds.history())
    page.open(f"/dashboard/pods/shop/web-3?at={before}")
    page.fill(".by", kind)
    last = seen.world.append(api_worlds.node("ahead"), api_worlds.pod_seen("web-3", tried="again"))
    api_worlds.decide(seen.world, api_worlds.pod("web-3", tried="again"))
    page.run("document.getElementById('main').focus()")
    page.keys(".")
    page.settled(f"/{last}")
    page.keys(".")
    sentence = f"there is no later {text} in this window"
    page.until(lambda: page.text("#moment-wrong") == sentence, sentence)


def test_a_moment_of_a_new_history_leads_to_none_of_the_history_that_ended(
    seen: shown.Shown, page: browsers.Browser
) -> None:
    last = seen.world.append(*api_worlds.history())
    page.open(f"/dashboard/?at={last - 2}")
    begun, first = rewound(seen, 1)
    page.run("document.getElementById('moment').focus()")
    page.keys(f"{first}\n")
    page.until(lambda: "history began again" in page.text(".banner.notice"), "the new history")
    page.settled(f"{begun}/{last - 2}")
    assert page.driver.current_url.endswith(f"?at={last - 2}")
    excuse(page, 410)


@pytest.mark.scenario("UI-12")
def test_a_position_of_a_history_that_ended_leads_to_the_present_one(
    seen: shown.Shown, page: browsers.Browser
) -> None:
    last = seen.world.append(*api_worlds.history())
    ended = seen.world.store.follower.catch_up().position.incarnation
    begun, _ = rewound(seen, 5)
    page.driver.get(f"{seen.viewer.url}/dashboard/?at={ended}/{last - 2}")
    label = f"go to offset {last - 2} of the present history"
    page.until(lambda: label in page.text(".banner.past"), label)
    page.press(label, ".banner.past")
    # The page that cannot be shown is settled at the same offset.
    page.settled(f"{begun}/{last - 2}")
    assert "The cluster as it was" in page.text(".banner.past")
    assert page.text(".panel .failed") == ""
    excuse(page, 410)


@pytest.mark.scenario("UI-7")
def test_a_page_of_the_past_is_led_into_the_new_history(seen: shown.Shown, page: browsers.Browser) -> None:
    """Nothing streams to it: it learns of the new history by the first answer."""
    last = seen.world.append(*api_worlds.history())
    page.open(f"/dashboard/?at={last - 2}")
    begun, first = rewound(seen, 5)
    page.run("document.getElementById('main').focus()")
    # The process that answers follows the log by itself.
    page.until(lambda: stepped(page).startswith(begun), "the new history")
    assert f"history began again at {begun}/{first}" in page.text(".banner.notice")
    assert "The cluster as it was" in page.text(".banner.past")
    assert page.text(".panel .failed") == ""
    excuse(page, 410)


def stepped(page: browsers.Browser) -> str:
    """The position shown after one step back and one on."""
    page.keys(",")
    page.settled()
    page.keys(".")
    return page.settled()


def test_a_pod_whose_attempts_are_of_a_history_that_ended_names_that(
    seen: shown.Shown, page: browsers.Browser
) -> None:
    seen.world.append(*api_worlds.history(), events.ConfigurationApplied(seen.world.registry.configuration()))
    api_worlds.decide(seen.world, api_worlds.pod("web-3"))
    rewound(seen, 1)
    seen.world.store.log.append(batches.Batch(events=[api_worlds.pod_seen("after")]))
    page.driver.get(f"{seen.viewer.url}/dashboard/pods/shop/web-3")
    page.until(lambda: "mean nothing in it" in page.text("#why .failed"), "why there is no explanation")
    assert page.text("#why h2") == "Latest attempt"
    excuse(page, 410)


def test_a_legend_has_the_colours_of_the_scheme_that_is_chosen_later(
    seen: shown.Shown, page: browsers.Browser
) -> None:
    seen.world.append(*api_worlds.history())
    page.open("/dashboard/")
    script = (
        "return [...document.querySelectorAll('class-swatch canvas')]"
        ".map((one) => [...one.getContext('2d').getImageData(6, 6, 1, 1).data].join())"
    )
    light = page.run(script)
    browsers.emulate(page.driver, dark=True)
    page.until(lambda: page.run(script) != light, "the colours of the dark scheme")
    dark = page.run(script)
    page.driver.refresh()
    page.settled()
    assert page.run(script) == dark
