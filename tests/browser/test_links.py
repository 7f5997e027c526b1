"""A what-if has an address: a reload, a link and history lead to it."""

import functools
import json
import urllib.parse
from typing import Any, TypeAlias

import pytest

from tests.support.browser import browsers, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
Json: TypeAlias = Any
"""A value of a type that the test asserts."""

OUTCOME = "#outcome"
SCALE = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+2"}}]
CONFIGURATION = {"weights": {"WorkloadPolicy": 3}}
FORM = """return Object.fromEntries(["a", "b"].map((side) => [side, [".at", "textarea", ".configuration"].map(
  (field) => document.querySelector(`#what-if .${side} ${field}`).value)]))"""
BROKEN = {
    "#%zz": "it is not JSON (URI malformed).",
    "#main": "it is not JSON (",
    "#[]": "it is not an object",
    '#{"a":{}}': "ask is not one of simulate, replay, diff",
    '#{"ask":"constructor"}': "ask is not one of simulate, replay, diff",
    '#{"ask":"diff","pods":"x"}': "pods is not one of ask, pod, from, to, a, b",
    '#{"ask":"diff","pod":7}': "pod is not a text",
    '#{"ask":"diff","b":[]}': "b is not an object",
    '#{"ask":"diff","b":{"overrides":{}}}': "b.overrides is not a list",
    '#{"ask":"diff","b":{"configuration":null}}': "b.configuration is not an object",
    '#{"ask":"diff","b":{"__proto__":{}}}': "b.__proto__ is not one of at, overrides, configuration",
    "#" + "9" * 16_001: "it has 16,001 characters, and at most 16,000 are read",
}
"""What an address has after #, and what is stated to be wrong with it."""


def asked(page: browsers.Browser) -> Json:
    """The question in the address."""
    return json.loads(urllib.parse.unquote(page.run("return location.hash.slice(1)")))


def answered(page: browsers.Browser, *, without: str = "") -> str:
    """The text of the answer, once there is one that does not have a text."""

    def found() -> str:
        text = page.text(OUTCOME)
        return "" if without and without in text else text

    return page.until(found, "the answer")


def simulated(page: browsers.Browser, seen: shown.Shown, replicas: str = "+2") -> str:
    """Simulate all pods that wait in B, which has an override and other settings."""
    page.open("/dashboard/compare?from=1")
    page.settled(f"/{seen.head}")
    page.fill("#what-if .b textarea", scaled(replicas))
    page.fill("#what-if .b .configuration", json.dumps(CONFIGURATION))
    page.press("simulate", "#what-if")
    return answered(page)


def scaled(replicas: str) -> str:
    return json.dumps([{**SCALE[0], "allocations": {"host": replicas}}])


def test_a_reload_shows_the_same_comparison_of_the_same_moment(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    text, at = simulated(on_small, small), on_small.settled()
    assert asked(on_small) == {
        "ask": "simulate",
        "a": {"at": at},
        "b": {"at": at, "overrides": SCALE, "configuration": CONFIGURATION},
    }
    small.world.append(api_worlds.pod_seen("after-the-link"))
    on_small.driver.refresh()
    on_small.settled(f"/{small.head}")
    assert answered(on_small) == text
    form = on_small.run(FORM)
    assert form["a"] == [at, "[]", ""]
    assert (form["b"][0], *map(json.loads, form["b"][1:])) == (at, SCALE, CONFIGURATION)


@pytest.mark.parametrize(
    ("button", "kind"),
    [("simulate", "simulate"), ("replay the decisions from A to B", "replay"), ("compare the state", "diff")],
)
def test_a_link_that_is_opened_in_another_tab_shows_the_same_answer(
    on_small: browsers.Browser, small: shown.Shown, button: str, kind: str
) -> None:
    on_small.open("/dashboard/compare?from=1")
    on_small.settled(f"/{small.head}")
    on_small.fill("#what-if .b textarea", json.dumps(SCALE))
    on_small.fill("#what-if .pod input", "shop/web-3")
    on_small.press(button, "#what-if")
    text, link = answered(on_small), on_small.driver.current_url
    assert asked(on_small)["ask"] == kind
    small.world.append(api_worlds.pod_seen(f"after-{kind}"))
    on_small.driver.switch_to.new_window("tab")
    on_small.requests()
    on_small.open(link.removeprefix(on_small.base))
    assert answered(on_small) == text
    assert on_small.run("return document.querySelector('#what-if .pod input').value") == "shop/web-3"
    assert [path for path in on_small.requests() if "scalePolicy" in path] == []


def test_back_and_forward_lead_from_question_to_question(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    first = simulated(on_small, small, "+1")
    on_small.fill("#what-if .b textarea", scaled("+2"))
    on_small.press("simulate", "#what-if")
    second = answered(on_small, without=first)
    on_small.driver.back()
    assert answered(on_small, without=second) == first
    assert json.loads(on_small.run(FORM)["b"][1])[0]["allocations"] == {"host": "+1"}
    on_small.driver.back()
    on_small.until(lambda: not on_small.text(OUTCOME), "no answer")
    assert json.loads(on_small.run(FORM)["b"][1])[0]["allocations"] == {"host": "+1"}
    on_small.driver.forward()
    on_small.driver.forward()
    assert answered(on_small, without=first) == second


def test_the_range_of_a_replay_is_that_of_its_link(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open(f"/dashboard/compare?from=1&to={small.head}")
    on_small.settled(f"/{small.head}")
    on_small.press("replay the decisions from A to B", "#what-if")
    text, head = answered(on_small), str(small.head)
    question = {"ask": "replay", "from": "1", "to": head, "a": {"at": "1"}, "b": {"at": head}}
    assert asked(on_small) == question
    on_small.fill("#diff [name=from]", str(small.head - 1))
    on_small.press("compare", "#diff")
    on_small.until(lambda: f"from={small.head - 1}" in on_small.driver.current_url, "the other range")
    on_small.driver.refresh()
    on_small.settled(f"/{small.head}")
    assert answered(on_small) == text
    # Earlier versions wrote the position shown as the moments of A and B.
    at = on_small.settled()
    earlier = json.dumps({**question, "a": {"at": at}, "b": {"at": at}})
    on_small.open(f"/dashboard/compare#{urllib.parse.quote(earlier)}")
    assert answered(on_small) == text
    assert [side[0] for side in on_small.run(FORM).values()] == ["1", head]


def test_a_replay_is_of_the_moments_of_the_form_and_states_what_it_does_not_use(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    small.world.append(api_worlds.node("behind-the-range"))
    last, incarnation = small.head - 1, small.world.store.log.incarnation
    on_small.open("/dashboard/compare?from=1&to=2")
    on_small.settled(f"/{small.head}")
    for field, value in (
        (".a .at", "9"),
        (".b .at", str(last)),
        (".a textarea", json.dumps(SCALE)),
        (".a .configuration", json.dumps(CONFIGURATION)),
        (".pod input", "shop/web-3"),
    ):
        on_small.fill(f"#what-if {field}", value)
    on_small.press("replay the decisions from A to B", "#what-if")
    text = answered(on_small)
    assert f"From {incarnation}/9 to {incarnation}/{last}: " in text
    assert f"topolog replay --from 9 --to {last} " in text
    unused = "Not used by this question: the overrides of A, the plugin settings of A, the pod."
    assert unused in text
    # The comparison above the form has moments of its own.
    assert f"From {incarnation}/1 to {incarnation}/2:" in on_small.text("#diff")
    on_small.driver.refresh()
    on_small.settled(f"/{small.head}")
    assert answered(on_small) == text
    assert [side[0] for side in on_small.run(FORM).values()] == ["9", str(last)]
    on_small.fill("#what-if .a .configuration", "")
    on_small.press("compare the state", "#what-if")
    assert "Not used by this question: the pod." in answered(on_small, without=unused)
    on_small.fill("#what-if .pod input", "")
    on_small.press("simulate", "#what-if")
    assert "Not used" not in answered(on_small, without="Not used")


def test_another_moment_keeps_the_question(on_small: browsers.Browser, small: shown.Shown) -> None:
    text, question = simulated(on_small, small), asked(on_small)
    on_small.driver.find_element("tag name", "body").click()
    on_small.keys(",")
    on_small.settled(f"/{small.head - 1}")
    assert asked(on_small) == question
    assert on_small.text(OUTCOME) == text


def test_a_broken_link_is_explained_and_the_next_question_replaces_it(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    for broken, wrong in BROKEN.items():
        on_small.open(f"/dashboard/compare?from=1{broken}")
        sentence = f"The part of the address after # is not a what-if: {wrong}"
        on_small.until(functools.partial(fails, on_small, sentence), sentence)
    on_small.settled(f"/{small.head}")
    on_small.press("compare the state", "#what-if")
    assert "Nothing differs." in answered(on_small)
    assert asked(on_small)["ask"] == "diff"


def fails(page: browsers.Browser, sentence: str) -> bool:
    way = ". Copy the whole link again, or fill in the form: the next question replaces it."
    text = page.text("#what-if .failed")
    return text.startswith(sentence) and text.endswith(way)


def test_a_question_that_is_too_long_for_a_link_is_answered(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    text = simulated(on_small, small)
    on_small.fill("#what-if .b textarea", json.dumps([{"op": "cordon", "nodes": ["host-1"] * 2_000}]))
    on_small.press("simulate", "#what-if")
    found = answered(on_small, without=text)
    assert "The question is too long for a link: a reload of the page loses it." in found
    assert on_small.run("return location.hash") == ""
