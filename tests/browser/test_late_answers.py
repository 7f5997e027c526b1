"""Late answers: they replace nothing, and no answer about something else stands for them."""

import pytest
from selenium.webdriver.common import keys

from tests.support.browser import browsers, scripts, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser


def answered(page: browsers.Browser) -> None:
    """Let the first question be answered, and the page be drawn after that."""
    page.run("go()")
    page.until(lambda: page.run("return passed.length"), "the late answer")
    page.later("setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(arguments[0])), 100)")


def test_a_simulation_is_not_replaced_by_the_one_before(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/pending")
    on_small.settled(f"/{small.head}")
    on_small.press("try")
    on_small.until(lambda: "tried" in on_small.text(".group .advice"), "the smallest changes")
    on_small.run(scripts.read("held"), "/apis/v1/simulate", 1)
    on_small.press("simulate all of them")
    on_small.until(lambda: on_small.run("return waiting.length"), "the question")
    on_small.press("simulate with it", ".group")
    answer = "#groups > .content > .advice"
    on_small.until(lambda: "without the change" in on_small.text(answer), "the second answer")
    text = on_small.text(answer)
    answered(on_small)
    assert on_small.text(answer) == text


def test_the_search_about_one_pod_does_not_replace_that_about_another(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/pods/shop/web-3")
    on_small.run(scripts.read("held"), "/apis/v1/bisect", 1)
    on_small.press("since when does it not fit?")
    on_small.until(lambda: on_small.run("return waiting.length"), "the question")
    on_small.fill("#search", "shop/late-0")
    on_small.run("document.getElementById('search').focus()")
    on_small.keys(keys.Keys.ENTER)
    on_small.until(lambda: "late-0" in on_small.text("#pod h2"), "the other pod")
    on_small.settled(f"/{small.head}")
    on_small.press("since when does it not fit?")
    on_small.until(lambda: on_small.text("#pod .advice"), "the second answer")
    text = on_small.text("#pod .advice")
    answered(on_small)
    assert on_small.text("#pod .advice") == text


def test_a_step_does_not_lead_away_from_a_moment_that_was_chosen_after_it(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    last = small.world.append(api_worlds.node("behind-the-decisions"))
    on_small.open(f"/dashboard/decisions?at={last}")
    on_small.fill(".by", "decision")
    on_small.run(scripts.read("held"), "/apis/v1/decisions?since", 1)
    on_small.run("document.getElementById('main').focus()")
    on_small.keys(",")
    on_small.until(lambda: on_small.run("return waiting.length"), "the question")
    on_small.keys("l")
    on_small.until(lambda: "at=" not in on_small.driver.current_url, "the live page")
    answered(on_small)
    assert "at=" not in on_small.driver.current_url


def typed(page: browsers.Browser, text: str, *more: str) -> None:
    """Type a text into the field of the time bar, in place of what it has."""
    page.run("const one = document.getElementById('moment'); one.value = ''; one.focus()")
    page.keys(text, *more)


def test_a_typed_moment_does_not_lead_away_from_one_that_was_chosen_after_it(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open(f"/dashboard/?at={small.head}")
    on_small.run(scripts.read("held"), "/apis/v1/cluster?limit=1&at=", 1)
    typed(on_small, "3", keys.Keys.ENTER)
    on_small.until(lambda: on_small.run("return waiting.length"), "the question")
    on_small.press("live", ".timebar")
    on_small.until(lambda: "at=" not in on_small.driver.current_url, "the live page")
    typed(on_small, "5")
    answered(on_small)
    assert "at=" not in on_small.driver.current_url
    assert on_small.run("return document.getElementById('moment').value") == "5"


def test_of_two_typed_moments_the_later_one_is_shown(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open(f"/dashboard/?at={small.head}")
    on_small.run(scripts.read("held"), "/apis/v1/cluster?limit=1&at=", 2)
    typed(on_small, "3", keys.Keys.ENTER)
    on_small.until(lambda: on_small.run("return waiting.length") == 1, "the question")
    typed(on_small, "5", keys.Keys.ENTER)
    on_small.until(lambda: on_small.run("return waiting.length") == 2, "the other question")
    answered(on_small)
    on_small.settled("/5")
    assert "at=5" in on_small.driver.current_url
    assert on_small.run("return document.getElementById('moment').value") == ""


def test_an_earlier_head_does_not_lead_back(on_small: browsers.Browser, small: shown.Shown) -> None:
    """Such as that of a replica that is behind."""
    on_small.open(f"/dashboard/?at={small.head}")
    position = on_small.settled(f"/{small.head}")
    earlier = position.replace(f"/{small.head}", f"/{small.head - 3}")
    on_small.run(scripts.read("behind"), earlier)
    on_small.run("document.getElementById('main').focus()")
    on_small.keys(".")
    sentence = f"offset {small.head} is the latest"
    on_small.until(lambda: on_small.text("#moment-wrong") == sentence, sentence)
    on_small.settled(position)


WAITING = "loading …"


def waits(page: browsers.Browser, *panels: str) -> bool:
    """Whether these panels have no answer yet."""
    return all(page.text(f"{panel} .content") == WAITING for panel in panels)


def test_an_attempt_is_not_shown_with_the_answers_about_another(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    identity, *_ = api_worlds.decide(small.world, api_worlds.pod("web-3"))
    last = small.world.append(api_worlds.node("between-attempts"))
    api_worlds.decide(small.world, api_worlds.pod("web-3"), at="2026-07-01T10:00:09.000Z")
    on_small.open(f"/dashboard/pods/shop/web-3?at={last}")
    latest = on_small.text("#why h2")
    on_small.run(scripts.read("held"), "/apis/v1/")
    on_small.click(f"#life a[href*='{identity}']")
    on_small.until(lambda: on_small.text("#why h2") != latest, "the other attempt")
    assert waits(on_small, "#why", "#pod-map")
    on_small.run("go()")
    on_small.settled(f"/{last}")
    assert "no capacity" in on_small.text("#why .content")


def test_a_filter_is_not_shown_with_the_numbers_of_all_decisions(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open(f"/dashboard/decisions?at={small.head}")
    on_small.run(scripts.read("held"), "/apis/v1/")
    on_small.press("filter", "#facets")
    on_small.until(lambda: "verb: filter" in on_small.text(".filters"), "the filter")
    assert waits(on_small, "#strip", "#facets", "#list")
    on_small.run("go()")
    on_small.settled(f"/{small.head}")
    assert not waits(on_small, "#strip")


def test_a_selection_is_not_shown_with_the_numbers_of_no_selection(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    """The columns from which it was selected stay, and so does the focus."""
    on_small.open(f"/dashboard/decisions?at={small.head}")
    on_small.run(scripts.read("held"), "/apis/v1/")
    on_small.run("document.querySelectorAll('#strip svg.strip > g')[0].focus()")
    on_small.keys(keys.Keys.ENTER, keys.Keys.ENTER)
    on_small.until(lambda: "What differs in the selection" in on_small.text("#facets h2"), "a selection")
    assert waits(on_small, "#facets")
    assert "end the selection (\N{EN DASH} decisions)" in on_small.text("#strip")
    assert on_small.run("return document.activeElement.matches('#strip svg.strip > g')")
    on_small.run("go()")
    on_small.settled(f"/{small.head}")
    assert not waits(on_small, "#facets")
    assert "\N{EN DASH}" not in on_small.text("#strip button")
