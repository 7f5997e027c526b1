"""Simulations that did not try all pods in the time, or do not list all that they tried."""

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
    on_small.run(scripts.read("amended"), [answer({"a": "n1"}, left=1_400)])
    on_small.press("simulate all of them")
    sentence = "1 of 1 waiting pod would be placed. 1,400 pods were not tried in the time."
    on_small.until(lambda: sentence in on_small.text("#groups .advice"), sentence)


def compared(page: browsers.Browser, second: Json, first: Json) -> str:
    """The text of the comparison of two answers, of which the second one arrives first."""
    page.open("/dashboard/compare?from=1")
    page.fill("#what-if .a textarea", json.dumps([{"op": "cordon", "nodes": ["host-1"]}]))
    page.fill("#what-if .b textarea", json.dumps([{"op": "cordon", "nodes": ["host-2"]}]))
    page.run(scripts.read("amended"), [second, first])
    page.press("simulate", "#what-if")
    return page.until(lambda: page.text(OUTCOME), "the answer")
