"""bisect over HTTP."""

import time
from typing import Any

import msgspec
import pytest

from app.api.introspection import times
from app.domain import events
from app.plugins.elastic_quota import kinds
from tests.support.decisions import small_quotas
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem
from tests.support.extender.questions import ask, post


@pytest.mark.scenario("WI-8")
def test_the_event_since_which_a_pod_does_not_fit_is_named(six: api_worlds.World) -> None:
    six.append(api_worlds.policy(host=9))
    for at in range(20):
        six.append(api_worlds.pod_seen(f"noise-{at}"))
    lowered = six.append(api_worlds.policy(host=3))
    for at in range(30):
        six.append(api_worlds.pod_seen(f"more-{at}"))
    answer = ask(six, "bisect", fits="shop/a-5")
    assert answer["now"] is False
    since = answer["since"]
    assert since["event"]["offset"] == lowered
    assert (since["event"]["type"], since["event"]["name"]) == ("ObjectObserved", "shop/spread")
    assert since["after"].endswith(f"/{lowered}")
    assert since["before"].endswith(f"/{lowered - 1}")
    assert ask(six, "bisect", fits="shop/a-5", to=since["before"])["now"] is True
    assert ask(six, "bisect", fits="shop/a-5", to=since["after"])["now"] is False


@pytest.mark.scenario("WI-8")
def test_a_short_change_far_back_is_found_by_the_attempt_that_fell_into_it(six: api_worlds.World) -> None:
    waiting = six.store.follower.catch_up().pod_named("shop", "a-5")
    assert waiting is not None

    def noise(name: str, number: int) -> None:
        for at in range(number):
            six.append(api_worlds.pod_seen(f"{name}-{at}"))

    noise("before", 40)
    six.append(api_worlds.policy(host=9))
    api_worlds.decide(six, waiting)
    lowered = six.append(api_worlds.policy(host=3))
    noise("after", 40)
    answer = ask(six, "bisect", fits="shop/a-5")
    assert (answer["now"], answer["since"]["event"]["offset"]) == (False, lowered)
    # Where nothing was recorded, the steps of the search pass over it.
    other = ask(six, "bisect", fits="shop/a-6")
    assert (other["now"], other["since"]) == (False, None)


@pytest.mark.scenario("WI-8")
def test_a_cordon_counts_for_roomy_candidates(six: api_worlds.World) -> None:
    six.append(api_worlds.policy(host=9))
    nodes = six.store.follower.catch_up().nodes
    # The policy has no capacity elsewhere: the cordon of the last host leaves none.
    for _, node in sorted(nodes.items(), key=lambda item: item[0].startswith("host")):
        last = six.append(events.NodeSeen(node=msgspec.structs.replace(node, unschedulable=True)))
    six.append(api_worlds.pod_seen("noise"))
    answer = ask(six, "bisect", fits="shop/a-5", candidates="roomy")
    assert (answer["now"], answer["since"]["event"]["offset"]) == (False, last)
    assert "cordons" in answer["limits"][1]
    everywhere = ask(six, "bisect", fits="shop/a-5")
    assert everywhere["now"] is True
    assert "candidates are all nodes" in everywhere["limits"][1]


def test_a_range_of_one_moment_has_no_change(six: api_worlds.World) -> None:
    head = str(six.store.follower.catch_up().offset)
    answer = ask(six, "bisect", waiting={"atLeast": 2}, **{"from": head, "to": head})
    assert (answer["now"], answer["since"], answer["from"]) == (True, None, answer["to"])
    now = times.rfc3339(time.time())
    assert ask(six, "bisect", waiting={"atLeast": 2}, **{"from": now})["from"].endswith(f"/{head}")


def test_counts_waiting_pods_and_objects_are_followed(six: api_worlds.World) -> None:
    count = ask(six, "bisect", count={"count": "shop/spread|role=host", "atLeast": 3})
    assert count["now"] is True
    assert count["since"]["event"]["name"] == "shop/a-4"
    assert len(count["limits"]) == 1
    unknown = ask(six, "bisect", count={"count": "shop/spraed|role=host", "atLeast": 3})
    assert unknown["limits"][1:] == [
        "there is no count 'shop/spraed|role=host' at the end of the range: it is taken as 0"
    ]
    assert ask(six, "bisect", waiting={"atLeast": 2})["since"]["event"]["name"] == "shop/a-6"
    assert ask(six, "bisect", waiting={"atLeast": 1, "namespace": "none"})["since"] is None
    assert ask(six, "bisect", exists="node:host-4")["since"]["event"]["type"] == "NodeSeen"
    assert (
        ask(six, "bisect", exists="policy:shop/spread")["since"]
        == ask(six, "bisect", exists="workloadpolicies:shop/spread")["since"]
    )
    assert (
        ask(six, "bisect", exists="workloadpolicies:shop/spread")["since"]["event"]["type"]
        == "ObjectObserved"
    )
    never = ask(six, "bisect", exists="pod:shop/none")
    assert (never["now"], never["since"], never["complete"]) == (False, None, True)


def test_the_use_of_an_elastic_quota_is_followed(six: api_worlds.World) -> None:
    six.append(kinds.QUOTAS.observed(small_quotas.quota("research", most=8)))
    label = {"quota.scheduling.koordinator.sh/name": "research"}
    made = [msgspec.structs.replace(api_worlds.pod(f"job-{n}", "host-1"), labels=label) for n in range(4)]
    third = [six.append(events.PodSeen(pod=one)) for one in made][2]
    found = ask(six, "bisect", count={"count": "quota||research|cpu", "atLeast": 1_001})
    assert (found["now"], found["since"]["event"]["offset"]) == (True, third)


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("asked", "status", "code", "words"),
    [
        ({}, 400, "BadRequest", "exactly one of fits, count, waiting and exists"),
        ({"fits": "a-5"}, 400, "BadRequest", "fits: 'a-5' is not NAMESPACE/NAME"),
        ({"fits": "shop/none"}, 404, "NotFound", "cannot find pod shop/none"),
        ({"exists": "n1"}, 400, "BadRequest", "exists: 'n1' is not KIND:NAME"),
        ({"exists": "secret:a"}, 400, "BadRequest", "exists: there is no kind secret; declared kinds:"),
        ({"waiting": {"atLeast": 0}}, 400, "BadRequest", "waiting.atLeast"),
        ({"candidates": "some"}, 400, "BadRequest", "invalid enum value 'some'; known: all, roomy"),
        ({"waiting": {}, "from": "x"}, 400, "BadRequest", "from: must be"),
        ({"waiting": {}, "to": "999999"}, 400, "BadRequest", "to: offset 999999 is beyond the head"),
        ({"waiting": {}, "from": "999999"}, 400, "BadRequest", "from: offset 999999 is beyond the head"),
        (
            {"waiting": {}, "from": "2099-01-01T00:00:00Z"},
            400,
            "BadRequest",
            "from: 2099-01-01T00:00:00.000Z is in the future",
        ),
        (
            {"waiting": {}, "from": "9", "to": "5"},
            400,
            "BadRequest",
            "from: offset 9 is after to, which is offset 5",
        ),
        ({"exists": "pod:a-5"}, 400, "BadRequest", "exists: 'pod:a-5' is not pod:NAMESPACE/NAME"),
        (
            {"exists": "workloadpolicies:spread"},
            400,
            "BadRequest",
            "exists: 'workloadpolicies:spread' is not workloadpolicies:NAMESPACE/NAME",
        ),
        ({"exists": "node:shop/n1"}, 400, "BadRequest", "exists: 'node:shop/n1' is not node:NAME"),
    ],
)
def test_a_mistake_is_named(
    six: api_worlds.World, asked: dict[str, Any], status: int, code: str, words: str
) -> None:
    assert_problem(post(six, "bisect", asked), status, code, words)
