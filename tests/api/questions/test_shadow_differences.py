"""A shadow equals a replay of the same range, and a table that is computed without either."""

import dataclasses
import random
from collections import Counter
from typing import Any, cast

import pytest

from app import plugins
from app.domain import events, model, snapshots, verdicts
from app.framework import cycles, registry, transformer_chain
from app.plugins.workload_policy import kinds
from app.plugins.workload_policy.plugin import WorkloadPolicy
from app.store.decisions import records
from app.store.state import followers
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import Json, body, items
from tests.support.extender.questions import ask, f6

NODES = {"member": ["member-1", "member-2"], "host": ["host-1", "host-2", "host-3", "host-4"]}
HEAVIER = {"weights": {"JobAffinity": 2, "WorkloadPolicy": 3}}


def scale(host: int) -> list[dict[str, Any]]:
    return [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": host}}]


def put(world: api_worlds.World, name: str, **asked: object) -> int:
    """Set a shadow; returns the offset of its event."""
    response = world.client.put(f"/apis/v1/shadows/{name}", json=asked)
    assert response.status_code == 200, response.text
    return int(body(response)["since"])


def differences(world: api_worlds.World, name: str) -> Json:
    while world.shadows.step():
        pass
    return body(world.client.get(f"/apis/v1/shadows/{name}"))["differences"]


class Play:
    """Pods that come, are decided about, and end, under a policy that changes; and what is known of it.

    The policy is Required over member 1 and host N. The known answer of a filter is the domains whose nodes
    are kept.
    """

    def __init__(self, world: api_worlds.World, seed: int) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self.host = 3
        self.placed: dict[str, str] = {}
        self.tried: list[tuple[int, int, int, int]] = []
        """For each filter: the offset, the pods on members and on hosts, and the host's quota."""
        world.append(*(event for event in f6() if not isinstance(event, events.PodSeen)))

    def step(self, number: int) -> None:
        if self.rng.random() < 0.25:
            self.host = self.rng.randint(0, 4)
            self.world.append(api_worlds.policy(host=self.host, member=1))
        if self.placed and self.rng.random() < 0.35:
            name = self.rng.choice(sorted(self.placed))
            del self.placed[name]
            self.world.append(events.PodGone(uid=f"uid-{name}", namespace="shop", name=name))
        name = f"p-{number}"
        offset = self.world.append(api_worlds.pod_seen(name))
        api_worlds.decide(self.world, api_worlds.pod(name))
        on = Counter(self.placed.values())
        self.tried.append((offset, on["member"], on["host"], self.host))
        kept = capacities(on["member"], on["host"], self.host)
        if kept:
            chosen = self.placed[name] = self.rng.choice(kept)
            self.world.append(api_worlds.pod_seen(name, self.rng.choice(NODES[chosen])))

    def expected(self, since: int, host: int) -> dict[str, int]:
        """Class -> filters from an offset on, if the host's quota had always been another."""
        return dict(
            Counter(
                difference(member, hosts, was, host)
                for offset, member, hosts, was in self.tried
                if offset >= since
            )
        )


def capacities(member: int, host: int, quota: int) -> list[str]:
    """The domains with capacity."""
    return ["member"] * (member < 1) + ["host"] * (host < quota)


def difference(member: int, hosts: int, was: int, would: int) -> str:
    before, after = capacities(member, hosts, was), capacities(member, hosts, would)
    if bool(before) != bool(after):
        return "refused" if before else "admitted"
    if before != after:
        return "nodes"
    # The reason of a refusal names the quotas; where every node is kept there is none.
    return "reason" if len(before) < 2 and was != would else "same"


@pytest.mark.scenario("WI-9")
@pytest.mark.parametrize("seed", range(3))
def test_a_shadow_equals_a_replay_of_the_same_range_and_the_known_answers(
    process: api_worlds.Process, seed: int
) -> None:
    """However often the process that compares is replaced meanwhile."""
    world = api_worlds.world(process())
    play = Play(world, seed)
    since: dict[str, int] = {}
    situations: dict[str, dict[str, Any]] = {
        "tight": {"overrides": scale(1)},
        "wide": {"overrides": scale(4)},
        "heavy": {"configuration": HEAVIER},
        "both": {"overrides": scale(0), "configuration": HEAVIER},
    }
    for number in range(16):
        if number in (0, 3, 5, 8):
            name = list(situations)[len(since)]
            since[name] = put(world, name, **situations[name])
        play.step(number)
        if number % 5 == 1:
            world.shadows.step()
        if number % 5 == 4:
            world = play.world = api_worlds.world(world.store)
    for name, situation in situations.items():
        shown = differences(world, name)
        replayed = ask(
            world, "replay", **situation, **{"from": str(since[name])}, compare="scores", budget=20.0
        )
        assert replayed["complete"]
        for field in ("examined", "same", "classes", "skipped", "by", "idle", "unapplied"):
            assert shown[field] == replayed[field], (name, field)
        assert shown["items"] == sorted(replayed["items"], key=lambda one: one["id"], reverse=True)
        if name != "heavy":
            quota = situation["overrides"][0]["allocations"]["host"]
            known = play.expected(since[name], quota)
            found = {one: number for one, number in shown["classes"].items() if number and one != "scores"}
            assert found == {one: number for one, number in known.items() if one != "same"}
    assert differences(world, "heavy")["classes"]["scores"] > 0


def test_only_decisions_up_to_the_end_are_compared(world: api_worlds.World) -> None:
    since = put(world, "strict", overrides=scale(0), until="2100-01-01T00:00:00Z")
    last = world.append(api_worlds.pod_seen("web-4"))
    inside = len(api_worlds.decide(world, api_worlds.pod("web-4")))
    world.append(api_worlds.pod_seen("web-5"))
    assert len(api_worlds.decide(world, api_worlds.pod("web-5"))) > inside
    end = world.store.histories.appended_ms(last)
    assert end is not None
    ended = api_worlds.shadows_of(world.store, world.registry, milliseconds=lambda _: end)
    ended.step()
    report = ended.report("strict", model.Position(world.store.log.incarnation, since))
    replayed = ask(
        world, "replay", overrides=scale(0), **{"from": str(since), "to": str(last)}, compare="scores"
    )
    assert report is not None
    assert report.examined == replayed["examined"] == inside
    assert {name: report.classes[name] for name in replayed["classes"]} == replayed["classes"]
    assert differences(world, "strict")["examined"] > inside


def test_a_shadow_that_is_replaced_counts_again_and_one_that_is_deleted_is_forgotten(
    world: api_worlds.World,
) -> None:
    put(world, "strict", overrides=scale(0))
    api_worlds.decide(world, api_worlds.pod("web-3"))
    assert differences(world, "strict")["examined"] > 0
    world.append(api_worlds.pod_seen("web-4"))
    put(world, "strict", overrides=scale(1))
    assert body(world.client.get("/apis/v1/shadows/strict"))["differences"] is None
    assert differences(world, "strict")["examined"] == 0
    assert items(world.client.get("/apis/v1/shadows"))[0]["numbers"]["examined"] == 0
    world.client.delete("/apis/v1/shadows/strict")
    assert world.shadows.step() is False
    put(world, "strict", overrides=scale(1))
    assert body(world.client.get("/apis/v1/shadows/strict"))["differences"] is None


def test_a_plugin_that_fails_in_one_shadow_stops_no_other(
    six: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtering = WorkloadPolicy.filter

    def failing(plugin: WorkloadPolicy, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        policy = cycle.snapshot.get(kinds.POLICIES, "shop/spread")
        if policy is not None and any(one.replicas == 7 for one in policy.allocations):
            raise transformer_chain.TransformFailed("Growing", "it fails")
        return filtering(plugin, cycle)

    monkeypatch.setattr(WorkloadPolicy, "filter", failing)
    put(six, "a", overrides=scale(7))
    put(six, "b", overrides=scale(1))
    api_worlds.decide(six, api_worlds.pod("web-3"), api_worlds.pod("web-4"))
    compared, failed = differences(six, "b"), differences(six, "a")
    assert compared["examined"] > 0
    assert (compared["skipped"]["error"], compared["problem"]) == (0, None)
    assert failed["skipped"]["error"] > 0
    assert "it fails" in failed["problem"]


class Paused:
    """A follower whose thread gets no time: it has read what the last catch_up asked for."""

    def __init__(self, follower: followers.Follower) -> None:
        self._follower = follower
        self.snapshot = follower.catch_up()

    def catch_up(self, *, timeout: float) -> snapshots.Snapshot:
        self.snapshot = self._follower.catch_up(timeout=timeout)
        return self.snapshot


def test_decisions_of_a_configuration_that_comes_with_them_are_compared(
    six: api_worlds.World, process: api_worlds.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was recorded before them, but after the log had been read for them."""
    since = put(six, "a", overrides=scale(1))
    store = process()
    follower = cast(followers.Follower, Paused(store.follower))
    other = registry.Registry([plugin() for plugin in plugins.USUAL])
    compared = api_worlds.shadows_of(dataclasses.replace(store, follower=follower), other)
    read = store.decisions.since

    def come(identity: str, *, limit: int) -> list[records.Decision]:
        monkeypatch.setattr(store.decisions, "since", read)
        six.append(events.ConfigurationApplied(six.registry.configuration()))
        api_worlds.decide(six, api_worlds.pod("web-3"))
        return read(identity, limit=limit)

    monkeypatch.setattr(store.decisions, "since", come)
    compared.step()
    report = compared.report("a", model.Position(store.log.incarnation, since))
    assert report is not None
    assert report.examined > 0
    assert report.skipped["configuration"] == 0


@pytest.mark.parametrize("oldest", ["the first that is read", "a later one", "no record"])
def test_records_that_were_trimmed_unread_are_a_gap(
    six: api_worlds.World, monkeypatch: pytest.MonkeyPatch, oldest: str
) -> None:
    """Whatever is the oldest entry by the time that it is asked for."""
    store = six.store
    key, read = store.keys.decisions, store.decisions.since

    def trim(first: str | bytes) -> None:
        store.client.xtrim(key, minid=first, approximate=False)

    def trimmed_behind(identity: str, *, limit: int) -> list[records.Decision]:
        page = read(identity, limit=limit)
        if page:
            trim(unread[2])
        return page

    put(six, "a", overrides=scale(1))
    for name in ("web-3", "web-4"):
        api_worlds.decide(six, api_worlds.pod(name))
        assert differences(six, "a")["gap"] is False
    known = len(store.decisions.latest(limit=1000))
    unread = api_worlds.decide(six, api_worlds.pod("web-5"))[known:]
    if oldest == "no record":
        store.client.xadd(key, {"d": "{"})
    unread += api_worlds.decide(six, api_worlds.pod("web-6"), api_worlds.pod("web-7"))[known + len(unread) :]
    if oldest == "a later one":
        monkeypatch.setattr(store.decisions, "since", trimmed_behind)
    behind: Any = store.client.xrange(key, min=f"({unread[0]}", count=1)
    trim(behind[0][0])
    assert differences(six, "a")["gap"] is True


def test_without_shadows_the_store_is_not_read(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not world.store.follower.catch_up().shadows
    monkeypatch.setattr(world.store.decisions, "since", None)
    monkeypatch.setattr(world.store.follower, "catch_up", None)
    assert world.shadows.step() is False
