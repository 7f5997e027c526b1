"""Everything that a page shows has its JSON, its CSV and its command, and they have the same content."""

import csv
import io
import json
import shlex

import pytest

from tests.support import commands
from tests.support.browser import browsers, scripts, shown

pytestmark = [pytest.mark.browser, pytest.mark.scenario("UI-10")]
VIEWS = (
    *("", "?node=host-1", "?domain=host", "pending", "pods/shop/web-3"),
    *("workloads", "decisions", "compare", "health"),
)
SCALE = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+2"}}]
ROWS = {"simulate": "placed", "replay": "items", "compare the state": "sections"}


def same(page: browsers.Browser, seen: shown.Shown, selector: str) -> tuple[object, list[dict[str, str]]]:
    """The answer as it is saved, which its command prints, too, and its rows."""
    saved = json.loads(page.later(scripts.read("saved"), selector, "as JSON"))
    script = "return document.querySelector(arguments[0]).querySelector('code').textContent"
    words = shlex.split(page.run(script, selector))
    done = commands.called(*words[1:], "--server", seen.viewer.url, "-o", "json")
    assert done.returncode in (0, 1), done.stderr
    printed = json.loads(done.stdout)
    for one in (saved, printed):
        one.pop("spentMs", None)
    assert saved == printed
    text = page.later(scripts.read("saved"), selector, "as CSV")
    return saved, list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("view", VIEWS)
def test_every_panel_has_all_three(on_small: browsers.Browser, view: str) -> None:
    on_small.open(f"/dashboard/{view}")
    found = on_small.run(scripts.read("forms"))
    assert found
    assert [one for one in found if not (one["json"] and one["csv"] and one["command"])] == []


@pytest.mark.parametrize("question", sorted(ROWS))
def test_an_answer_of_compare_has_all_three(
    on_small: browsers.Browser, small: shown.Shown, question: str
) -> None:
    on_small.open("/dashboard/compare?from=1")
    on_small.settled(f"/{small.head}")
    on_small.fill("#what-if .b textarea", json.dumps(SCALE))
    label = "replay the decisions from A to B" if question == "replay" else question
    on_small.press(label, "#what-if")
    on_small.until(lambda: on_small.text("#outcome .forms"), "the answer")
    found, rows = same(on_small, small, "#outcome .forms")
    assert isinstance(found, dict)
    assert rows
    if question == "simulate":
        assert [(row["pod"], row["node"]) for row in rows if row["node"]] == [
            (one["pod"], one["node"]) for one in found["placed"]
        ]


def test_the_answers_of_pending_and_of_a_pod_have_all_three(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    on_small.open("/dashboard/pending")
    on_small.settled(f"/{small.head}")
    on_small.press("simulate all of them")
    on_small.until(lambda: on_small.text("#groups > .content > .advice .forms"), "the simulation")
    assert same(on_small, small, "#groups > .content > .advice .forms")[1]
    on_small.press("try")
    on_small.until(lambda: on_small.text(".group .advice .forms"), "the changes")
    assert same(on_small, small, ".group .advice .forms")[1]
    on_small.open("/dashboard/pods/shop/web-3")
    on_small.settled(f"/{small.head}")
    on_small.press("since when does it not fit?")
    on_small.until(lambda: on_small.text("#pod .forms"), "since when")
    assert same(on_small, small, "#pod .forms")[1]
