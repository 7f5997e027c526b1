"""Maps of a decision: a class for the nodes that it chose, kept, and refused for each reason."""

import pytest

from app.domain import model, snapshots, verdicts
from app.framework import registry
from app.store.decisions import records
from app.verbs.pictures import decision_classes
from tests.support import declared
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


@pytest.mark.parametrize(
    ("totals", "classes"),
    [
        ({}, {"kept": "abcdefgh"}),
        ({40: "abcdefgh"}, {"kept": "abcdefgh"}),
        (
            {80: "a", 70: "b", 60: "c", 50: "d", 40: "e", 30: "f", 20: "g", 10: "h"},
            {
                "kept, ranks 1 to 2 of 8 by score": "ab",
                "kept, ranks 3 to 4 of 8 by score": "cd",
                "kept, ranks 5 to 6 of 8 by score": "ef",
                "kept, ranks 7 to 8 of 8 by score": "gh",
            },
        ),
        (
            {50: "a", -10: "bc"},
            {
                "kept, rank 1 of 8 by score": "a",
                "kept, ranks 2 to 6 of 8 by score": "defgh",
                "kept, ranks 7 to 8 of 8 by score": "bc",
            },
        ),
    ],
)
def test_kept_nodes_are_shaded_by_the_rank_of_their_scores(
    totals: dict[int, str], classes: dict[str, str]
) -> None:
    """Nodes of one score are in one class; a node without a total scores 0."""
    trace = verdicts.Trace(
        position=model.Position(),
        pod=api_worlds.pod("a"),
        candidates=frozenset("abcdefgh"),
        interested=("Scoring",),
        totals={total: frozenset(names) for total, names in totals.items()},
    )
    painter = decision_classes.painter(trace, "")
    of = painter.paint(snapshots.empty(schema=declared.SCHEMA))
    shown = {name: painter.labels[of(name)] for name in "abcdefgh"}
    assert shown == {name: label for label, names in classes.items() for name in names}
    assert tuple(painter.labels) == ("not offered", *classes)
    looks = dict(zip(painter.labels, painter.looks, strict=True))
    assert len(set(looks.values())) == len(looks)
