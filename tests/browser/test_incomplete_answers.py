"""Answers that were not finished in the time, or do not list all that they have."""

import json
from typing import Any, TypeAlias

import pytest

from tests.support.browser import browsers, scripts, shown

pytestmark = pytest.mark.browser
Json: TypeAlias = Any
"""A value of a type that the test asserts."""

OUTCOME = "#outcome"
TABLES = """return [...document.querySelectorAll("#outcome > .scroll tbody")]
  .map((body) => [...body.rows].map((row) => [...row.cells].map((one) => one.innerText)))"""


def answer(placed: dict[str, str], refused: tuple[str, ...] = (), **others: object) -> Json:
    """Fields of an answer: pod -> node, and the pods that are refused, all in the namespace shop."""
    return {
        "pods": len(placed) + len(refused),
        "placedPods": len(placed),
        "left": 0,
        "complete": True,
        "placed": [{"pod": f"shop/{pod}", "node": node} for pod, node in placed.items()],
        "refused": [{"pod": f"shop/{pod}", "reason": "no capacity"} for pod in refused],
        "counts": [],
        "moreCounts": 0,
        **others,
    }


def count(domain: str, after: int) -> Json:
    return {"count": f"shop/spread|{domain}", "before": 1, "after": after}


FIRST = answer({"a": "n1", "b": "n2", "c": "n3"}, ("d",), counts=[count("host", 4)])


@pytest.mark.parametrize(
    ("others", "absent", "unlisted"),
    [
        ({"pods": 9, "placedPods": 8, "moreCounts": 3}, "not among the first 2", "not among the first 1"),
        ({"left": 3, "complete": False}, "not tried", "unchanged"),
        ({}, "does not wait", "unchanged"),
    ],
)
def test_a_pod_that_an_answer_does_not_name_is_not_refused(
    on_small: browsers.Browser, others: dict[str, object], absent: str, unlisted: str
) -> None:
    second = answer({"a": "n1", "d": "n4"}, ("c",), counts=[count("member", 2)], **others)
    text = compared(on_small, second, FIRST)
    pods, counts = on_small.run(TABLES)
    assert pods == [
        ["shop/b", "n2", absent],
        ["shop/c", "n3", "refused"],
        ["shop/d", "refused", "n4"],
    ]
    assert counts == [["shop/spread|host", "4", unlisted], ["shop/spread|member", "unchanged", "2"]]
    assert ("3 pods were not tried in the time." in text) == ("left" in others)


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({"left": 1}, "the pods that are listed are placed on the same nodes"),
        ({}, "the same pods are placed on the same nodes"),
    ],
)
def test_that_nothing_differs_is_stated_of_what_is_known(
    on_small: browsers.Browser, others: dict[str, object], sentence: str
) -> None:
    text = compared(on_small, {**FIRST, **others}, {**FIRST, **others})
    assert sentence in text
    assert text.count("1 pod was not tried in the time.") == 2 * len(others)


def test_waiting_pods_that_were_not_tried_are_counted(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/pending")
    on_small.settled(f"/{small.head}")
    amend(on_small, "simulate", answer({"a": "n1"}, left=1_400))
    on_small.press("simulate all of them")
    sentence = "1 of 1 waiting pod would be placed. 1,400 pods were not tried in the time."
    on_small.until(lambda: sentence in on_small.text("#groups .advice"), sentence)


def test_pods_and_counts_that_are_not_listed_are_counted(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    cut = answer({"a": "n1"}, placedPods=3, pods=3, counts=[count("host", 4)], moreCounts=2)
    on_small.open("/dashboard/pending")
    on_small.settled(f"/{small.head}")
    amend(on_small, "simulate", cut)
    on_small.press("simulate all of them")
    on_small.until(lambda: "… and 2 more counts" in on_small.text("#groups .advice"), "the counts")
    assert "… and 2 more pods that are placed" in on_small.text("#groups .advice")
    assert compared(on_small, cut, {**cut, "moreCounts": 5}).count("… and 2 more counts") == 1
    assert "… and 5 more counts" in on_small.text(OUTCOME)
    assert "… and" not in compared(on_small, FIRST, FIRST)


def test_that_there_are_more_changes_is_stated(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/pending")
    on_small.settled(f"/{small.head}")
    amend(on_small, "fit", {"more": True})
    on_small.press("try")
    sentence = "… and more that change as little"
    on_small.until(lambda: sentence in on_small.text(".group .advice"), sentence)
    on_small.press("try")
    on_small.until(lambda: sentence not in on_small.text(".group .advice"), "the whole answer")


@pytest.mark.parametrize("changes", [True, False])
def test_changes_that_were_not_tried_are_stated(
    on_small: browsers.Browser, small: shown.Shown, *, changes: bool
) -> None:
    on_small.open("/dashboard/pending")
    on_small.settled(f"/{small.head}")
    amend(on_small, "fit", {"complete": False, "tried": 1_064, **({} if changes else {"changes": []})})
    on_small.press("try")
    text = on_small.until(lambda: forms(on_small, ".group .advice"), "the smallest changes")
    assert "found, 1,064 tried. Not all changes were tried." in text
    assert text.startswith("0 changes") != changes
    on_small.press("try")
    on_small.until(lambda: forms(on_small, ".group .advice") not in ("", text), "the whole answer")
    assert "Not all" not in on_small.text(".group .advice")


EVENT = {"offset": 7, "at": "2026-07-01T10:00:00Z", "type": "NodeSeen", "object": "node:n1", "name": "n1"}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            {"complete": False, "since": {"before": "i/3", "after": "i/7", "event": EVENT}},
            "It does not fit since an event after offset 3, at the latest 7."
            " The last change was not found in the time.",
        ),
        ({"complete": False, "since": None}, "It does not fit. The last change was not found in the time."),
        ({"since": None, "from": "i/1"}, "It does not fit, and did not change since i/1."),
        ({"since": {"before": "i/3", "after": "i/7", "event": None}}, "It does not fit since i/7."),
    ],
)
def test_a_last_change_that_was_not_found_is_not_stated(
    on_small: browsers.Browser, small: shown.Shown, found: Json, sentence: str
) -> None:
    on_small.open("/dashboard/pods/shop/web-3")
    on_small.settled(f"/{small.head}")
    amend(on_small, "bisect", found)
    on_small.press("since when does it not fit?")
    text = on_small.until(lambda: forms(on_small, "#pod .advice"), "since when")
    assert text.splitlines()[0].strip() == sentence
    saved = on_small.later(scripts.read("saved"), "#pod .forms", "as CSV")
    assert "NodeSeen" not in saved


def test_the_rest_of_a_range_that_was_not_replayed_is_stated(on_small: browsers.Browser) -> None:
    on_small.open("/dashboard/compare?from=1")
    amend(on_small, "replay", {"complete": False})
    on_small.press("replay the decisions from A to B", "#what-if")
    text = on_small.until(lambda: on_small.text(OUTCOME), "the answer")
    assert "would have been the same. The rest of the range was not compared in the time." in text


OLDER = "only the newest records were read: older decisions are left out"


@pytest.mark.parametrize("examined", [True, False])
def test_decisions_that_were_not_read_are_stated(
    on_small: browsers.Browser, small: shown.Shown, *, examined: bool
) -> None:
    on_small.open("/dashboard/decisions")
    on_small.settled(f"/{small.head}")
    assert OLDER not in on_small.text("main")
    amend(on_small, "decisions/facets", {"complete": False, **({} if examined else {"examined": 0})})
    if not examined:
        listed = {"metadata": {"continue": "x", "remaining": None}, "items": []}
        amend(on_small, "decisions?", listed)
    on_small.press("filter", "#facets")
    panels = ("#strip", "#facets") if examined else ("#strip", "#facets", "#list")
    on_small.until(lambda: all(OLDER in on_small.text(panel) for panel in panels), OLDER)
    assert ("no decision matches" in on_small.text("#strip")) != examined
    assert (OLDER in on_small.text("#list")) != examined


@pytest.mark.parametrize("examined", [True, False])
def test_the_overview_states_that_older_decisions_were_not_read(
    on_small: browsers.Browser, small: shown.Shown, *, examined: bool
) -> None:
    on_small.open(f"/dashboard/?at={small.head - 1}")
    amend(on_small, "decisions/facets", {"complete": False, **({} if examined else {"examined": 0})})
    on_small.keys("l")
    on_small.until(lambda: OLDER in on_small.text("#decided"), OLDER)
    assert ("no decision is recorded at this moment" in on_small.text("#decided")) != examined


def amend(page: browsers.Browser, path: str, *fields: Json) -> None:
    """Give the next answers at a path of the API these fields, one after the other."""
    page.run(scripts.read("amended"), f"/apis/v1/{path}", list(fields))


def forms(page: browsers.Browser, selector: str) -> str:
    """The text of an answer, once it is whole: it ends with its JSON and its command."""
    text = page.text(selector)
    return text if "topolog" in text else ""


def compared(page: browsers.Browser, second: Json, first: Json) -> str:
    """The text of the comparison of two answers, of which the second one arrives first."""
    page.open("/dashboard/compare?from=1")
    page.fill("#what-if .a textarea", json.dumps([{"op": "cordon", "nodes": ["host-1"]}]))
    page.fill("#what-if .b textarea", json.dumps([{"op": "cordon", "nodes": ["host-2"]}]))
    amend(page, "simulate", second, first)
    page.press("simulate", "#what-if")
    return page.until(lambda: page.text(OUTCOME), "the answer")
