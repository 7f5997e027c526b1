"""Numbers over time of the objects that plugins follow: after each event those of the cluster then."""

import dataclasses
import itertools
from collections.abc import Iterator
from unittest import mock

import pytest
from msgspec.structs import replace

from app import plugins
from app.domain import events
from app.framework import registry
from app.plugins.coscheduling import kinds
from app.plugins.coscheduling.membership import SIGS_LABEL
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota import kinds as quota_kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees.membership import LABEL
from app.plugins.workload_policy import kinds as policies
from app.plugins.workload_policy import policy_counts
from app.store.server import embedded
from tests.support import declared
from tests.support.decisions import small_gangs, small_quotas
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body


@pytest.fixture
def shop(store_server: embedded.Server, cluster: str) -> Iterator[api_worlds.World]:
    """With the plugin of gangs, too."""
    chosen = registry.Registry([*(plugin() for plugin in plugins.USUAL), Coscheduling()])
    with api_worlds.processes(store_server, cluster, chosen) as start:
        made = api_worlds.world(start(), chosen)
        made.append(
            *api_worlds.history(), kinds.SIGS.observed(small_gangs.sigs("train", 2, namespace="shop"))
        )
        yield made


def member(name: str, **changed: object) -> events.PodSeen:
    """A pod of the gang and of the job group, both of the name ``train``."""
    pod = api_worlds.pod(name)
    labels = {**pod.labels, SIGS_LABEL: "train", "rl-job-group": "train"}
    return events.PodSeen(pod=replace(pod, labels=labels, **changed))


def lines(world: api_worlds.World, of: str, first: int) -> dict[str, list[tuple[int, int, int | None]]]:
    """Line -> points."""
    response = world.client.get(f"/apis/v1/series?of={of}&from={first}&points=2000")
    assert response.status_code == 200, response.text
    return {one["name"]: [tuple(point) for point in one["points"]] for one in body(response)["lines"]}


@pytest.mark.parametrize("kind", ["gang", "group"])
def test_a_series_follows_every_change_of_a_member(shop: api_worlds.World, kind: str) -> None:
    """Also one that leaves the numbers of pods, placements and waiting pods as they are."""
    first = shop.store.follower.catch_up().offset
    gated = replace(member("train-2").pod, gated=True)
    last = shop.append(
        member("train-1", node="host-1"),
        events.PodSeen(pod=gated),
        api_worlds.node("between"),
        member("train-1", node="host-1", terminating=True),
        events.PodSeen(pod=replace(gated, terminating=True)),
        member("train-3", node="host-2", phase="Running"),
        member("train-3", node="host-2", phase="Succeeded"),
        events.PodSeen(pod=replace(gated, labels={})),
        events.placed(api_worlds.pod("other"), "host-1"),
        events.placed(member("train-4").pod, "host-2"),
        api_worlds.pod_seen("other"),
        member("train-4"),
        events.not_placed(member("train-4").pod, "host-2"),
        events.placed(member("train-4").pod, "host-1"),
        events.PodGone(uid=member("train-4").pod.uid, namespace="shop", name="train-4"),
    )
    assert_followed(shop, kind, "shop/train", first, last)


def assert_followed(world: api_worlds.World, kind: str, of: str, first: int, last: int) -> None:
    """The lines of the object have its numbers after each event."""
    followed = next(one for one in world.registry.followed if one.kind == kind)
    found = lines(world, f"{kind}:{of}", first)
    expected: dict[str, list[tuple[int, int | None]]] = {}
    for offset in range(first, last + 1):
        numbers = followed.numbers(world.store.histories.at(offset), of)
        for name in {*numbers, *expected}:
            steps = expected.setdefault(name, [])
            if not steps or steps[-1][1] != numbers.get(name):
                steps.append((offset, numbers.get(name)))
    assert {name: [(at, value) for at, _, value in points] for name, points in found.items()} == expected
    assert any(len(steps) > 3 for steps in expected.values())


@pytest.mark.parametrize(("kind", "of"), [("elasticquota", "team"), ("sigsquota", "shop/own")])
def test_a_series_follows_every_change_of_what_a_quota_counts(
    store_server: embedded.Server, cluster: str, kind: str, of: str
) -> None:
    chosen = registry.Registry([ElasticQuota()])
    pod = replace(api_worlds.pod("one"), labels={LABEL: "team"}, requests={"cpu": 2000})
    waiting = replace(pod, name="two", uid="uid-two", gated=True)
    own = namespace_quota.NamespaceQuota(uid="own", namespace="shop", name="own", min={"cpu": 4000})
    with api_worlds.processes(store_server, cluster, chosen) as start:
        shop = api_worlds.world(start(), chosen)
        first = shop.append(*api_worlds.history())
        last = shop.append(
            quota_kinds.QUOTAS.observed(small_quotas.quota("team", 4, 8)),
            namespace_quota.KIND.observed(own),
            events.PodSeen(pod=pod),
            events.placed(pod, "host-1"),
            events.PodSeen(pod=waiting),
            events.PodSeen(pod=replace(waiting, gated=False)),
            events.PodSeen(pod=replace(pod, node="host-1")),
            events.PodSeen(pod=replace(pod, node="host-1", requests={"cpu": 3000})),
            events.PodSeen(pod=replace(waiting, labels={})),
            quota_kinds.QUOTAS.observed(small_quotas.quota("team", 4, 6)),
            events.PodSeen(pod=replace(pod, node="host-1", phase="Succeeded")),
            events.PodGone(uid=pod.uid, namespace="shop", name="one"),
        )
        assert_followed(shop, kind, of, first, last)


@pytest.mark.parametrize("kind", ["gang", "group"])
def test_pods_of_nothing_that_is_followed_cost_nothing(
    shop: api_worlds.World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The window of a busy cluster has thousands of them, and a gang may have a thousand members."""
    (followed,) = (one for one in shop.registry.followed if one.kind == kind)
    counted = mock.Mock(wraps=followed.numbers)
    monkeypatch.setattr(shop.registry, "followed", (dataclasses.replace(followed, numbers=counted),))
    first = shop.append(member("train-1"))
    other = api_worlds.pod("other")
    shop.append(
        events.PodSeen(pod=other),
        events.placed(other, "host-1"),
        events.PodSeen(pod=replace(other, node="host-1")),
        events.PodSeen(pod=replace(other, node="host-1", phase="Running")),
        member("train-1", node="host-1"),
        events.PodGone(uid=other.uid, namespace="shop", name="other"),
    )
    lines(shop, f"{kind}:shop/train", first)
    assert counted.call_count == 2


def test_the_policies_beside_the_one_that_is_followed_cost_nothing(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster has dozens, each with a domain for every node, and thousands of events change a count."""
    spread = world.store.follower.catch_up().get(policies.POLICIES, "shop/spread")
    assert spread is not None
    others = [replace(spread, name=f"other-{at}", uid=f"uid-{at}") for at in range(9)]
    first = world.append(*(declared.observed(other) for other in others))
    placed = [api_worlds.pod(f"more-{at}") for at in range(5)]
    world.append(*(events.PodSeen(pod=replace(pod, node="host-1")) for pod in placed))
    counted = mock.Mock(wraps=policy_counts.count)
    monkeypatch.setattr(policy_counts, "count", counted)
    assert lines(world, "quota:shop/spread", first)["role=host placed"][-1][2] == 2 + len(placed)
    assert {call.args[1].key for call in counted.call_args_list} == {"shop/spread"}
    domains = list(world.store.follower.snapshot.topology["role"])
    assert counted.call_count == (1 + len(placed)) * len(domains)


def test_a_series_that_takes_too_long_is_refused(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of it is kept in place of the whole."""
    first = world.append(api_worlds.node("more"))
    world.append(*(api_worlds.node(f"more-{at}") for at in range(50)))
    path = f"/apis/v1/series?of=quota:shop/spread&from={first}"
    with monkeypatch.context() as patched:
        seconds = itertools.count()
        patched.setattr("app.api.v1.questions.bodies.monotonic", lambda: float(next(seconds)))
        assert_problem(world.client.get(path), 400, "TooMuch", "50 events", "20 s", "shorter window")
        assert next(seconds) < 25
    assert world.client.get(path).status_code == 200


@pytest.mark.parametrize("of", ["waiting", "quota:shop/spread", "group:shop/job"])
def test_the_first_point_has_the_time_of_its_event(still: api_worlds.World, of: str) -> None:
    for point in (points[0] for points in lines(still, of, 19).values()):
        offset, at_ms, _ = point
        assert (offset, at_ms) == (19, still.store.histories.appended_ms(19))


def test_before_the_first_event_there_is_no_time(still: api_worlds.World) -> None:
    assert lines(still, "nodes", 0)["nodes"][0] == (0, 0, 0)
