"""The history of a node: its latest events, and that there are older ones."""

import msgspec
import pytest

from app.domain import events
from tests.support.browser import browsers, large_worlds, shown
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
ROWS = """return [...document.querySelectorAll("#node-history tbody tr")]
  .map((row) => Number(row.cells[0].innerText.replaceAll(",", "")))"""
LEFT_OUT = "events before offset {} are left out: topolog get events --where 'object=node:{}' --where 'to={}'"


def relabelled(world: api_worlds.World, name: str, times: int) -> int:
    """Append changes of a node; the offset of the last one."""
    seen = world.store.follower.catch_up().nodes[name]
    turns = ({**seen.labels, "turn": str(at)} for at in range(times))
    world.append(*(events.NodeSeen(msgspec.structs.replace(seen, labels=labels)) for labels in turns))
    return world.store.follower.catch_up().offset


def history(page: browsers.Browser, name: str, offsets: list[int]) -> str:
    """The text of the history, once it has these events."""
    page.open(f"/dashboard/?node={name}")
    page.until(lambda: page.run(ROWS) == offsets, f"the events {offsets} of {name}")
    return page.text("#node-history")


def test_a_history_that_is_shown_whole_leaves_nothing_out(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    first = small.world.store.histories.part(1, subject="node:host-2").entries[0].offset
    assert "left out" not in history(on_small, "host-2", [first])


def test_the_latest_events_are_shown_and_where_the_older_ones_are(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    last = relabelled(small.world, "host-1", 9)
    text = history(on_small, "host-1", list(range(last - 7, last + 1)))
    assert LEFT_OUT.format(last - 7, "host-1", last - 8) in text


def test_the_history_of_a_node_that_is_gone_ends_with_that(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    first = small.world.store.histories.part(1, subject="node:host-4").entries[0].offset
    seen = small.world.store.follower.catch_up().nodes["host-4"]
    small.world.append(events.NodeGone(seen.name, seen.uid))
    history(on_small, "host-4", [first, small.head])
    # A refused request is an error line of the console.
    on_small.until(lambda: on_small.text("#node .failed"), "the node is gone")
    on_small.collect()
    on_small.found[:] = [line for line in on_small.found if "status of 404" not in line]


def test_the_latest_of_several_pages_of_events_are_shown(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    seen = small.world.store.follower.catch_up().nodes["host-1"]
    large = {f"example.com/label-{at:04}": "x" * 60 for at in range(400)}
    turns = ({**seen.labels, **large, "turn": str(at)} for at in range(50))
    small.world.append(*(events.NodeSeen(msgspec.structs.replace(seen, labels=labels)) for labels in turns))
    last = small.world.store.follower.catch_up().offset
    text = history(on_small, "host-1", list(range(last - 7, last + 1)))
    assert LEFT_OUT.format(last - 7, "host-1", last - 8) in text


def test_events_that_are_too_far_back_are_left_out(on_small: browsers.Browser, small: shown.Shown) -> None:
    large_worlds.append(small.world, [api_worlds.pod_seen(f"between-{at}") for at in range(1000)])
    last = relabelled(small.world, "host-3", 1)
    text = history(on_small, "host-3", [last])
    assert LEFT_OUT.format(f"{last - 999:,}", "host-3", last - 1000) in text
