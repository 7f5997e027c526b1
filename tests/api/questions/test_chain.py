"""replay of a chain over HTTP: the range played once, with the effects of every placement on the next."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.domain import events, model
from app.store.decisions import records
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body
from tests.support.extender.questions import PLACED, ask, f6, post

HOST, MEMBER = "shop/spread|role=host", "shop/spread|role=member"
AS_IT_IS = {"weights": {"JobAffinity": 2}}
NAMES = ("a-1", "a-2", "a-3", "a-4", "a-5", "a-6")


@pytest.fixture(params=[True, False], ids=["bound by the extender", "bound by kube-scheduler"])
def lived(process: api_worlds.Process, request: pytest.FixtureRequest) -> api_worlds.World:
    """F6 as it came about: each pod is filtered once, and four are placed and observed on their nodes."""
    made = api_worlds.world(process())
    made.append(*(event for event in f6() if not isinstance(event, events.PodSeen)))
    for name, node in zip(NAMES, PLACED, strict=True):
        made.append(api_worlds.pod_seen(name))
        api_worlds.decide(made, api_worlds.pod(name))
        if node and request.param:
            placement = model.Placement(pod=api_worlds.pod(name), node=node)
            made.append(events.PlacementsCommitted(placements=(placement,), at="2026-07-01T10:00:03Z"))
        if node:
            made.append(api_worlds.pod_seen(name, node))
    return made


def scale(host: int) -> list[dict[str, Any]]:
    return [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": host}}]


def chain(world: api_worlds.World, **asked: object) -> dict[str, Any]:
    answer: dict[str, Any] = ask(world, "replay", mode="chain", **asked)
    assert (answer["complete"], answer["continue"]) == (True, None)
    return answer


def counts(answer: dict[str, Any], field: str) -> dict[str, int]:
    return {row["count"]: row[field] for row in answer["chain"]["counts"]}


def compared(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what depends on how it was asked."""
    return {name: held for name, held in answer.items() if name not in ("spentMs", "idle")}


@pytest.mark.scenario("WI-4")
@pytest.mark.parametrize("situation", [{}, {"configuration": AS_IT_IS}])
def test_a_chain_that_changes_nothing_ends_as_the_log(
    lived: api_worlds.World, situation: dict[str, Any]
) -> None:
    answer = chain(lived, **situation)
    assert (answer["examined"], answer["same"]) == (10, 10)
    found = answer["chain"]
    assert found["placements"] == {"same": 4, "elsewhere": 0, "onlyThen": 0, "onlyNow": 0}
    held = dict(lived.store.follower.catch_up().counts)
    assert counts(answer, "was") == counts(answer, "would") == held
    assert counts(answer, "peakWould") == held
    assert (found["overruns"], answer["to"]) == ([], str(lived.store.follower.snapshot.position))
    assert found["waiting"]["medianWas"] == found["waiting"]["medianWould"]


def test_an_override_that_changes_nothing_has_the_same_chain_as_none(lived: api_worlds.World) -> None:
    """Without overrides one fold is enough while both histories are the same; otherwise there are two."""
    assert compared(chain(lived)) == compared(chain(lived, overrides=scale(3)))


def test_without_overrides_the_histories_part_where_a_placement_differs(lived: api_worlds.World) -> None:
    """Another weight chooses another node for the first pod: from there on there are two folds."""
    other = {"weights": {"WorkloadPolicy": 1, "NodeLabelPriority": 100}}
    found = chain(lived, configuration=other, choice="best")
    assert compared(found) == compared(chain(lived, configuration=other, choice="best", overrides=scale(3)))
    assert found["chain"]["placements"]["elsewhere"] > 0


@pytest.mark.scenario("WI-6")
def test_a_smaller_quota_keeps_the_last_pod_waiting(lived: api_worlds.World) -> None:
    answer = chain(lived, overrides=scale(2))
    assert {one["pod"]["name"]: one["class"] for one in answer["items"]}["a-4"] == "refused"
    found = answer["chain"]
    assert found["placements"] == {"same": 3, "elsewhere": 0, "onlyThen": 1, "onlyNow": 0}
    assert (counts(answer, "was")[HOST], counts(answer, "would")[HOST]) == (3, 2)
    (host,) = [row for row in found["counts"] if row["count"] == HOST]
    assert (host["peakWas"], host["peakWould"], host["desired"]) == (3, 2, 2)


@pytest.mark.scenario("WI-6")
def test_a_larger_quota_takes_the_pods_that_waited_and_no_more(lived: api_worlds.World) -> None:
    answer = chain(lived, overrides=scale(4))
    # Each of the two would be admitted alone; the first takes the place.
    assert ask(lived, "replay", overrides=scale(4))["classes"]["admitted"] == 2
    assert answer["classes"]["admitted"] == 1
    assert answer["chain"]["placements"] == {"same": 4, "elsewhere": 0, "onlyThen": 0, "onlyNow": 1}
    assert (counts(answer, "was")[HOST], counts(answer, "would")[HOST]) == (3, 4)
    assert answer["chain"]["overruns"] == []


@pytest.mark.scenario("WI-6")
def test_a_quota_that_does_not_bind_is_overrun(lived: api_worlds.World) -> None:
    """The two that waited are placed where their filters were, one in each full domain."""
    patch = {"op": "patchObject", "kind": "workloadpolicies", "name": "shop/spread"}
    found = chain(lived, overrides=[{**patch, "patch": {"type": "Preferred"}}])["chain"]
    assert found["placements"] == {"same": 4, "elsewhere": 0, "onlyThen": 0, "onlyNow": 2}
    latest = body(lived.client.get("/apis/v1/decisions?limit=2"))["items"]
    second, first = (int(one["position"].rpartition("/")[2]) for one in latest)
    assert found["overruns"] == [
        {"count": HOST, "offset": first, "value": 4, "desired": 3},
        {"count": MEMBER, "offset": second, "value": 2, "desired": 1},
    ]


@pytest.mark.parametrize(
    ("filtered", "examined"),
    [
        ({"verbs": ["filter"]}, 6),
        ({"verbs": ["prioritize"]}, 4),
        ({"verbs": ["bind"]}, 0),
        ({"where": "outcome=refused"}, 2),
        ({"namespace": "other"}, 0),
    ],
)
def test_a_selection_decides_what_is_counted_and_not_what_is_played(
    lived: api_worlds.World, filtered: dict[str, Any], examined: int
) -> None:
    whole = chain(lived, overrides=scale(1))
    assert (counts(whole, "was")[HOST], counts(whole, "would")[HOST]) == (3, 1)
    answer = chain(lived, overrides=scale(1), **filtered)
    assert answer["chain"] == whole["chain"]
    assert (answer["examined"], answer["same"] + sum(answer["classes"].values())) == (examined, examined)
    assert all(one in whole["items"] for one in answer["items"])
    assert sum(answer["by"]["verb"].values()) == len(answer["items"])


def test_a_decision_that_is_not_selected_is_not_counted_as_skipped(lived: api_worlds.World) -> None:
    snapshot = lived.store.follower.catch_up()
    lived.store.decisions.record(
        records.Draft(
            position=snapshot.position,
            verb="filter",
            pod=api_worlds.pod("a-6"),
            names=frozenset(snapshot.nodes),
            configuration=lived.registry.digest,
            kept=0,
            outcome="error",
            at="2026-07-01T10:00:02.000Z",
            milliseconds=1.0,
            error="the store is away",
            snapshot=snapshot,
        )
    )
    lived.store.decisions.stop()
    assert chain(lived)["skipped"]["error"] == 1
    assert not any(chain(lived, verbs=["prioritize"])["skipped"].values())


def test_a_pod_goes_elsewhere_if_its_node_is_not_allowed(lived: api_worlds.World) -> None:
    answer = chain(lived, overrides=[{"op": "cordon", "nodes": ["host-1"]}])
    found = answer["chain"]
    assert found["placements"] == {"same": 3, "elsewhere": 1, "onlyThen": 0, "onlyNow": 0}
    assert counts(answer, "was") == counts(answer, "would")
    gone = chain(lived, overrides=[{"op": "removeNodes", "nodes": ["host-1", "host-2", "host-3", "host-4"]}])
    assert gone["chain"]["placements"]["onlyThen"] == 3
    assert counts(gone, "would")[HOST] == 0


def test_an_override_holds_although_its_object_is_observed_again(lived: api_worlds.World) -> None:
    """The policy and a node are observed after the range began."""
    middle = lived.append(api_worlds.node("extra"))
    lived.append(api_worlds.policy(host=3, member=1), api_worlds.node("host-4", role="host"))
    lived.append(api_worlds.pod_seen("a-7"))
    api_worlds.decide(lived, api_worlds.pod("a-7"))
    overrides = [*scale(9), {"op": "cordon", "nodes": ["host-1", "host-2", "host-3", "host-4"]}]
    answer = chain(lived, overrides=overrides, **{"from": str(middle)})
    assert (answer["examined"], answer["classes"]["admitted"]) == (1, 0)
    admitted = chain(lived, overrides=scale(9), **{"from": str(middle)})
    assert admitted["classes"]["admitted"] == 1
    assert admitted["chain"]["placements"]["onlyNow"] == 1


def test_the_best_node_is_chosen_if_asked(lived: api_worlds.World) -> None:
    best = chain(lived, choice="best")["chain"]
    assert sum(best["placements"].values()) == 4
    assert best["placements"]["same"] + best["placements"]["elsewhere"] == 4


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"mode": "all"}, "mode: invalid enum value 'all'"),
        ({"mode": "chain", "choice": "any"}, "choice: invalid enum value 'any'"),
        ({"mode": "chain", "continue": "7-0"}, "continue: a chain is answered at once"),
    ],
)
def test_a_mistake_is_named(lived: api_worlds.World, asked: dict[str, Any], words: str) -> None:
    assert_problem(post(lived, "replay", asked), 400, "BadRequest", words)


def test_a_spent_budget_ends_a_chain_between_two_events(
    lived: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The overrides are computed again for each node that is observed."""
    lived.append(*(api_worlds.node(f"more-{at}", role="host") for at in range(50)))
    head = lived.store.follower.catch_up().offset
    seconds = iter(range(10_000))
    monkeypatch.setattr("app.api.v1.questions.bodies.monotonic", lambda: float(next(seconds)))
    answer = ask(lived, "replay", mode="chain", overrides=scale(2), budget=20.0, **{"from": str(head - 50)})
    assert answer["complete"] is False
    assert head - 50 < int(answer["to"].rpartition("/")[2]) < head


def test_a_node_that_is_observed_again_as_it_was_raises_no_peak(lived: api_worlds.World) -> None:
    """In the situation its label is another one at every offset."""
    start = lived.append(api_worlds.node("extra"))
    lived.append(api_worlds.node("host-1", role="host", seen="again"))
    relabelled = [{"op": "labelNodes", "nodes": ["host-1"], "labels": {"role": "member"}}]
    api_worlds.decide(lived, api_worlds.pod("a-1"))
    answer = chain(lived, overrides=relabelled, **{"from": str(start)})
    assert counts(answer, "peakWas") == {HOST: 3, MEMBER: 1}
    assert counts(answer, "would") == counts(answer, "peakWould") == {HOST: 2, MEMBER: 2}


def test_a_pod_that_is_placed_elsewhere_counts_from_the_offset_of_its_placement(
    lived: api_worlds.World, request: pytest.FixtureRequest
) -> None:
    head = lived.store.follower.catch_up().offset
    patch = {"op": "patchObject", "kind": "workloadpolicies", "name": "shop/spread"}
    cordoned = {"op": "cordon", "nodes": {"selector": {"role": "host"}}}
    overrides = [{**patch, "patch": {"type": "Preferred"}}, cordoned]
    # The pods a-5 and a-6, which wait, are observed last.
    found = chain(lived, overrides=overrides, to=str(head - 2))["chain"]
    by_the_extender = "bound by the extender" in request.node.name
    placed = head - 3 if by_the_extender else head - 2
    assert found["overruns"] == [{"count": MEMBER, "offset": placed, "value": 4, "desired": 1}]


@pytest.mark.parametrize("created", ["yesterday", "2026-07-01", "0001-01-01T00:00:00+23:00"])
def test_a_pod_whose_creation_time_cannot_be_read_has_no_waiting_time(
    lived: api_worlds.World, created: str
) -> None:
    """The API server writes none of them; a bundle may have any text."""
    usual = chain(lived)["chain"]
    pod = replace(api_worlds.pod("a-7", role="none"), labels={}, created=created)
    api_worlds.decide(lived, pod)
    lived.append(events.PodSeen(pod=pod), events.PodSeen(pod=replace(pod, node="host-1")))
    found = chain(lived)["chain"]
    assert found["placements"]["same"] == usual["placements"]["same"] + 1
    assert found["waiting"] == usual["waiting"]
