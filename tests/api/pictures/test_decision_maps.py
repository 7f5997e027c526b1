"""Maps of a decision: a class for the nodes that it chose, kept, and refused for each reason."""

import pytest

from app.framework import registry
from app.store.decisions import records
from tests.support.decisions import fake_plugins
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import body


@pytest.mark.parametrize("chosen", ["kept-1", ""])
@pytest.mark.parametrize("reasons", [1, 8, 9, 20])
def test_each_node_has_the_class_of_its_reason(
    process: api_worlds.Process, reasons: int, chosen: str
) -> None:
    """8 classes of refused nodes at most: those of the last reasons are one if there are more."""
    refused = [f"node-{at:02}" for at in range(reasons)]
    filters = [
        fake_plugins.Filtering(name=f"Filtering{at:02}", refused=frozenset((name,)), reason=f"reason {at:02}")
        for at, name in enumerate(refused)
    ]
    world = api_worlds.world(process(), registry.Registry(filters))
    world.append(*(api_worlds.node(name) for name in (*refused, "kept-1", "kept-2")))
    pod = api_worlds.pod("a")
    world.append(api_worlds.pod_seen("a"))
    snapshot = world.store.follower.catch_up()
    world.store.decisions.record(
        records.Draft(
            position=snapshot.position,
            verb="filter_onlyone" if chosen else "filter",
            pod=pod,
            names=frozenset(snapshot.nodes),
            configuration=world.registry.digest,
            kept=1 if chosen else 2,
            outcome="kept",
            node=chosen,
            at="2026-07-01T10:00:02.000Z",
            milliseconds=1.0,
            snapshot=snapshot,
        )
    )
    world.store.decisions.stop()
    (decision,) = world.store.decisions.latest()
    response = world.client.get(f"/apis/v1/map?color=decision:{decision.id}")
    assert response.status_code == 200, response.text
    found = body(response)
    labels = {one["letter"]: one["label"] for one in found["classes"]}
    shown = {name: labels[letter] for name, letter in zip(found["nodes"], found["values"], strict=True)}
    own = reasons if reasons <= 8 else 7
    assert shown == {
        **{name: f"refused: reason {at:02} (0 held)" for at, name in enumerate(refused[:own])},
        **dict.fromkeys(refused[own:], "refused for other reasons"),
        "kept-1": "chosen" if chosen else "kept",
        "kept-2": "kept",
    }
