"""The questions of the dashboard: every button asks what it names, and the answer is that of the API."""

import csv
import functools
import io
import json
import shlex
import urllib.request
from typing import Any, TypeAlias

import pytest
from selenium.webdriver.common import keys

from app.domain import events
from tests.support import commands
from tests.support.browser import browsers, screenshots, scripts, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
Json: TypeAlias = Any
"""A value of a type that the test asserts."""

SCALE = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+2"}}]


def ask(seen: shown.Shown, path: str, question: Json = None) -> Json:
    """JSON of the API: of a question if there is one."""
    body = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(
        f"{seen.viewer.url}/apis/v1/{path}", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def test_what_would_end_the_waiting_is_tried_and_simulated(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/pending")
    at = on_small.settled(f"/{small.head}")
    on_small.press("simulate all of them")
    waiting = ask(small, "simulate", {"pending": {}, "situation": {"at": at}})
    on_small.until(lambda: on_small.text("#groups .advice"), "the simulation")
    assert f"{waiting['placedPods']} of {waiting['pods']} waiting pods" in on_small.text("#groups .advice")
    assert "without the change" not in on_small.text("#groups .advice")
    on_small.press("try")
    first = ask(small, f"pending/reasons?at={at}")["groups"][0]["first"][0]
    found = ask(small, "fit", {"pod": first, "situation": {"at": at}})
    assert found["changes"]
    on_small.until(lambda: "tried" in on_small.text(".group .advice"), "the smallest changes")
    for change in found["changes"]:
        assert change["message"] in on_small.text(".group .advice")
    on_small.press("simulate with it", ".group")
    overrides = found["changes"][0]["overrides"]
    answer = ask(small, "simulate", {"pending": {}, "situation": {"at": at, "overrides": overrides}})
    assert answer["placedPods"] > waiting["placedPods"]
    sentence = f"{answer['placedPods']} of {answer['pods']} waiting pods would be placed"
    on_small.until(lambda: sentence in on_small.text("#groups"), sentence)
    assert f"without the change {waiting['placedPods']}" in on_small.text("#groups")


def test_answers_stay_on_a_live_page_and_name_the_moment_that_they_were_asked_of(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/pending")
    at = on_small.settled(f"/{small.head}").rpartition("/")[2]
    on_small.press("simulate all of them")
    on_small.press("try")
    on_small.until(lambda: "would be placed" in on_small.text("#groups > .content > .advice"), "simulated")
    on_small.until(lambda: "tried" in on_small.text(".group .advice"), "the smallest changes")
    gone = events.PodGone(api_worlds.pod("meanwhile").uid, "shop", "meanwhile")
    last = small.world.append(api_worlds.pod_seen("meanwhile"), gone)
    on_small.settled(f"/{last}")
    for answer in ("#groups > .content > .advice", ".group .advice"):
        assert f"Asked at offset {int(at):,}." in on_small.text(answer)


def test_the_event_since_which_a_pod_does_not_fit_is_shown_and_led_to(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    small.world.append(api_worlds.policy(host=3))
    small.world.append(api_worlds.policy())
    on_small.open("/dashboard/pods/shop/web-3")
    found = ask(small, "bisect", {"fits": "shop/web-3", "to": on_small.settled(f"/{small.head}")})
    assert found["since"]["event"]["type"] == "ObjectObserved"
    on_small.press("since when does it not fit?")
    on_small.until(lambda: on_small.text("#pod .advice"), "since when")
    event = found["since"]["event"]
    assert f"{event['type']} {event['name']}" in on_small.text("#pod .advice")
    on_small.click("#pod .advice .at")
    on_small.settled(f"/{event['offset']}")


def test_a_search_that_ran_out_of_time_names_no_event(on_small: browsers.Browser, small: shown.Shown) -> None:
    small.world.append(api_worlds.policy(host=3))
    small.world.append(api_worlds.policy())
    on_small.open("/dashboard/pods/shop/web-3")
    since = ask(small, "bisect", {"fits": "shop/web-3", "to": on_small.settled(f"/{small.head}")})["since"]
    early = since["before"].rpartition("/")[2]
    for amended, sentence in (
        ({"since": None}, "It does not fit. The last change was not found in the time."),
        (
            {"since": since},
            f"It does not fit since an event after offset {early}, at the latest {since['event']['offset']}. "
            "The last change was not found in the time.",
        ),
    ):
        on_small.run(scripts.read("amended"), "/apis/v1/bisect", [{**amended, "complete": False}])
        on_small.press("since when does it not fit?")
        on_small.until(functools.partial(shows, on_small, "#pod .advice", sentence), sentence)
        text = on_small.text("#pod .advice")
        assert "did not change" not in text
        assert since["event"]["name"] not in text
        rows = list(
            csv.DictReader(io.StringIO(on_small.later(scripts.read("saved"), "#pod .forms", "as CSV")))
        )
        assert [row["complete"] for row in rows] == ["false"]
        assert not rows[0].keys() & since["event"].keys()
    on_small.click("#pod .advice .at")
    on_small.settled(f"/{early}")


@pytest.mark.parametrize("pod", ["", "shop/web-3"])
def test_overrides_are_simulated_and_the_command_asks_the_same(
    on_small: browsers.Browser, small: shown.Shown, pod: str
) -> None:
    supposed(on_small, pod)
    on_small.press("simulate", "#what-if")
    text = outcome(on_small)
    assert ("It fits." if pod else " would be placed.") in text
    answer = repeated(on_small, small)
    assert (
        (answer["fits"] is True) if pod else (f"{answer['placedPods']} of {answer['pods']} waiting" in text)
    )


def test_decisions_are_replayed_and_the_command_asks_the_same(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    supposed(on_small)
    on_small.press("replay the decisions from A to B", "#what-if")
    text = outcome(on_small)
    answer = repeated(on_small, small)
    assert answer["classes"]["admitted"] > 0
    assert f"{answer['same']} of {answer['examined']} decisions would have been the same" in text
    assert f"admitted\t{answer['classes']['admitted']}" in text
    on_small.click("#outcome td a")
    on_small.until(lambda: on_small.text("#why .why"), "the decision that would have been another")


def test_the_picture_of_a_replay_shows_decisions_that_would_have_been_others(
    on_small: browsers.Browser,
) -> None:
    on_small.open("/dashboard/compare?from=1")
    screenshots.replay(on_small, SCALE)
    on_small.open("/dashboard/compare?from=1&again")
    with pytest.raises(AssertionError, match=r"nothing differs: .* would have been the same"):
        screenshots.replay(on_small, [])


def test_the_effect_of_overrides_is_compared_and_the_command_asks_the_same(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    supposed(on_small)
    on_small.press("compare the state", "#what-if")
    assert "objects: 1 changed" in outcome(on_small)
    assert repeated(on_small, small)["sections"]["objects"]["changed"] == 1


def test_two_situations_are_simulated_side_by_side(on_small: browsers.Browser, small: shown.Shown) -> None:
    supposed(on_small)
    on_small.fill("#what-if .a textarea", json.dumps([{**SCALE[0], "allocations": {"host": "+1"}}]))
    on_small.press("simulate", "#what-if")
    text = outcome(on_small)
    commands_shown = on_small.run(
        "return [...document.querySelectorAll('#outcome code')].map((one) => one.textContent)"
    )
    answers = []
    for line in commands_shown:
        done = commands.called(*shlex.split(line)[1:], "--server", small.viewer.url, "-o", "json")
        answers.append(json.loads(done.stdout))
    first, second = answers
    assert second["placedPods"] == first["placedPods"] + 1
    more = {one["pod"] for one in second["placed"]} - {one["pod"] for one in first["placed"]}
    for pod in more:
        node = next(one["node"] for one in second["placed"] if one["pod"] == pod)
        assert f"{pod}\trefused\t{node}" in text
    for answer in answers:
        assert f"{answer['placedPods']} of {answer['pods']} waiting pods would be placed" in text


def test_the_map_of_differences_shows_the_nodes_that_have_more_or_less(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    supposed(on_small, overrides=json.dumps([{"op": "removeNodes", "nodes": ["host-1"]}]))
    on_small.press("compare the state", "#what-if")
    assert "gone" in outcome(on_small)
    found = repeated(on_small, small)["map"]
    on_small.until(
        lambda: on_small.run("return document.querySelector('#situations cluster-map').dataset.drawn"),
        "the map",
    )
    drawn = on_small.run("return document.querySelector('#situations cluster-map').dataset.drawn")
    assert drawn == found["values"]
    gone = next(one["letter"] for one in found["classes"] if one["label"] == "gone")
    assert [name for name, letter in zip(found["nodes"], drawn, strict=True) if letter == gone] == ["host-1"]


def test_a_mistake_is_the_sentence_of_the_api(on_small: browsers.Browser, small: shown.Shown) -> None:
    for overrides, sentence in (
        ("[{", "the overrides are not JSON"),
        ("{}", "the overrides are not a list"),
        ('[{"op": "cordon", "nodes": ["n9"]}]', "overrides[0].nodes[0]: there is no node n9"),
    ):
        supposed(on_small, overrides=overrides)
        on_small.press("simulate", "#what-if")
        on_small.until(functools.partial(shows, on_small, "#what-if .failed", sentence), sentence)
    supposed(on_small, overrides="[]")
    on_small.fill("#what-if .b .configuration", "{")
    on_small.press("simulate", "#what-if")
    sentence = "the plugin settings are not JSON"
    on_small.until(functools.partial(shows, on_small, "#what-if .failed", sentence), sentence)
    on_small.collect()
    on_small.found[:] = [line for line in on_small.found if "status of 400" not in line]


def test_overrides_begin_with_names_of_the_cluster(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/compare")
    offered = on_small.run(
        "return [...document.querySelectorAll('#what-if .b select > option')].map((one) => one.value)"
    )
    assert offered[0] == ""
    for name in offered[1:]:
        on_small.fill("#what-if .b select", name)
        on_small.press("simulate", "#what-if")
        if name == "delete pods":
            sentence = "there is no pod NAMESPACE/NAME"
            on_small.until(functools.partial(shows, on_small, "#what-if .failed", sentence), sentence)
        else:
            assert "Overrides that change nothing" not in outcome(on_small)
            assert repeated(on_small, small)["situation"]["events"], name
    on_small.collect()
    on_small.found[:] = [line for line in on_small.found if "status of 400" not in line]


def test_a_shadow_is_listed_with_what_it_would_have_decided(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/compare")
    assert "no shadow is set" in on_small.text("#shadows")
    response = small.world.client.put("/apis/v1/shadows/wide", json={"overrides": SCALE, "note": "a sale"})
    assert response.status_code == 200, response.text
    api_worlds.decide(small.world, api_worlds.pod("web-3"))
    on_small.until(lambda: "a sale" in on_small.text("#shadows"), "the shadow")
    on_small.click("#shadows td a")
    on_small.until(lambda: "web-3" in on_small.text("#shadow"), "the decision that differs")
    found = ask(small, "shadows/wide")["differences"]
    assert found["classes"]["admitted"] == found["examined"] == 1
    assert "0 of 1 decision would have been the same" in on_small.text("#shadow")
    small.world.client.delete("/apis/v1/shadows/wide")


def test_two_pinned_moments_are_compared(on_small: browsers.Browser, small: shown.Shown) -> None:
    pinned = "return [...document.querySelectorAll('.pin[aria-pressed=true]')].map((one) => one.textContent)"
    on_small.open(f"/dashboard/?at={small.head - 3}")
    on_small.keys("a")
    on_small.until(lambda: on_small.run(pinned) == ["A"], "the pin")
    on_small.keys(",", ",")
    on_small.settled(f"/{small.head - 5}")
    on_small.keys("b")
    sentence = f"From {ask(small, f'diff?from={small.head - 3}&to={small.head - 5}')['from']}"
    on_small.until(lambda: sentence in on_small.text("#diff"), "the comparison")
    assert on_small.run(pinned) == []
    on_small.keys("l", "b")
    on_small.until(lambda: on_small.run(pinned) == ["B"], "the other pin")
    on_small.keys("b")
    on_small.until(lambda: on_small.run(pinned) == [], "no pin")


def test_a_moment_that_is_typed_stays_while_the_page_follows_the_log(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/compare")
    on_small.settled(f"/{small.head}")
    on_small.run("document.querySelector('#diff [name=to]').focus()")
    on_small.keys("1")
    last = small.world.append(api_worlds.node("typing"))
    on_small.settled(f"/{last}")
    on_small.keys("2", keys.Keys.ENTER)
    on_small.until(lambda: on_small.run("return location.search") == "?to=12", "the moment in the address")
    on_small.until(lambda: "/12:" in on_small.text("#diff"), "the comparison")


def supposed(page: browsers.Browser, pod: str = "", overrides: str = json.dumps(SCALE)) -> None:
    """Open Compare and fill in the form."""
    page.open("/dashboard/compare?from=1")
    page.fill("#what-if .b textarea", overrides)
    page.fill("#what-if .pod input", pod)


def shows(page: browsers.Browser, selector: str, sentence: str) -> bool:
    """Whether the first element has that sentence."""
    return sentence in page.text(selector)


def outcome(page: browsers.Browser) -> str:
    """The answer, once it is there; the one before is gone after two drawings."""
    page.later("requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))")
    return page.until(lambda: page.text("#outcome"), "the answer")


def repeated(page: browsers.Browser, seen: shown.Shown) -> Json:
    """What the shown command prints."""
    words = shlex.split(page.text("#outcome code"))
    done = commands.called(*words[1:], "--server", seen.viewer.url, "-o", "json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_an_override_that_a_plugin_declares_has_a_form(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/compare?from=1")
    at = on_small.settled(f"/{small.head}")
    declared = [one for one in ask(small, "overrides")["items"] if one["plugin"]]
    choices = "return [...document.querySelectorAll('#what-if .b optgroup option')].map((one) => one.value)"
    assert on_small.run(choices) == [one["op"] for one in declared]
    on_small.run(
        "const select = document.querySelector('#what-if .b select');"
        "select.value = arguments[0]; select.dispatchEvent(new Event('change'))",
        "scalePolicy",
    )
    on_small.until(lambda: on_small.text("#what-if .b .declared"), "the form")
    (scale,) = [one for one in declared if one["op"] == "scalePolicy"]
    for part in (scale["about"], *(field["about"] for field in scale["fields"])):
        assert part in on_small.text("#what-if .b .declared")
    assert on_small.text("#what-if .a .declared") == ""
    on_small.fill("#what-if .b .declared label:nth-of-type(1) input", "shop/spread")
    on_small.fill("#what-if .b .declared label:nth-of-type(2) input", "host")
    on_small.press("add the override", "#what-if .b")
    on_small.until(lambda: "allocations: host is not KEY=VALUE" in on_small.text("#what-if"), "the mistake")
    on_small.fill("#what-if .b .declared label:nth-of-type(2) input", "host=+2, member=4")
    on_small.press("add the override", "#what-if .b")
    on_small.until(lambda: not on_small.text("#what-if .b .declared"), "the form is done")
    overrides = json.loads(on_small.run("return document.querySelector('#what-if .b textarea').value"))
    assert overrides == [
        {"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+2", "member": "4"}}
    ]
    on_small.press("simulate", "#what-if")
    answer = ask(small, "simulate", {"pending": {}, "situation": {"at": at, "overrides": overrides}})
    sentence = f"{answer['placedPods']} of {answer['pods']} waiting pods would be placed"
    on_small.until(lambda: sentence in on_small.text("#what-if"), sentence)


@pytest.mark.parametrize("question", ["simulate", "replay the decisions from A to B"])
def test_other_plugin_settings_are_a_part_of_a_situation(
    on_small: browsers.Browser, small: shown.Shown, question: str
) -> None:
    on_small.open("/dashboard/compare?from=1")
    at = on_small.settled(f"/{small.head}")
    configuration = {"enabled": ["JobAffinity"]}
    on_small.fill("#what-if .b .configuration", "{")
    on_small.press(question, "#what-if")
    on_small.until(lambda: "plugin settings are not JSON" in on_small.text("#what-if"), "the mistake")
    on_small.fill("#what-if .b .configuration", json.dumps(configuration))
    on_small.press(question, "#what-if")
    if question == "simulate":
        answer = ask(
            small, "simulate", {"pending": {}, "situation": {"at": at, "configuration": configuration}}
        )
        without = ask(small, "simulate", {"pending": {}, "situation": {"at": at}})
        assert answer["placedPods"] > without["placedPods"]
        sentence = f"{answer['placedPods']} of {answer['pods']} waiting pods would be placed"
    else:
        answer = ask(small, "replay", {"from": "1", "to": str(small.head), "configuration": configuration})
        assert answer["same"] < answer["examined"]
        sentence = f"{answer['same']} of {answer['examined']} decisions would have been the same"
    on_small.until(lambda: sentence in on_small.text("#what-if"), sentence)
    line = shlex.split(on_small.run("return document.querySelector('#outcome .forms code').textContent"))
    done = commands.called(*line[1:], "--server", small.viewer.url, "-o", "json")
    printed = json.loads(done.stdout)
    shown_numbers = ("placedPods", "pods") if question == "simulate" else ("same", "examined")
    assert [printed[one] for one in shown_numbers] == [answer[one] for one in shown_numbers], done.stderr
