"""``/apis/v1/status``: nodes, pods, the groups of pending pods, and the lines of the plugins."""

import collections
from typing import Any

from app.domain import model, snapshots
from app.framework import registry, views
from app.store import stores
from tests.support.decisions import fake_plugins
from tests.support.extender import api_worlds

Json = dict[str, Any]
POLICY = api_worlds.POLICY_LABEL


def status(world: api_worlds.World, **query: str) -> Json:
    reply = world.client.get("/apis/v1/status", query_string=query)
    assert reply.status_code == 200, reply.text
    found: Json = reply.get_json()
    return found


def pending(world: api_worlds.World) -> list[Json]:
    found: list[Json] = world.client.get("/apis/v1/pending?limit=1000").get_json()["items"]
    return found


def test_the_groups_contain_every_pending_pod_once(world: api_worlds.World) -> None:
    named = [*(api_worlds.pod_seen(f"absent-{at}", **{POLICY.replace("-", "_"): "none"}) for at in range(5))]
    world.append(*named, *(api_worlds.pod_seen(f"more-{at}") for at in range(3)))
    found, pods = status(world), pending(world)
    assert found["pods"]["pending"] == len(pods) == sum(group["pods"] for group in found["pending"])
    assert found["reasons"] == len(found["pending"])
    # The list gives a reason with numbers of nodes for each pod: equal texts are one group.
    sizes = collections.Counter(one["reason"] for one in pods)
    assert sorted(group["pods"] for group in found["pending"]) == sorted(sizes.values())
    assert [group["pods"] for group in found["pending"]] == sorted(sizes.values(), reverse=True)
    names = {f"{one['namespace']}/{one['name']}" for one in pods}
    assert all(group["example"] in names for group in found["pending"])


def test_a_pod_that_no_plugin_refuses_has_the_reason_of_kube_scheduler(world: api_worlds.World) -> None:
    free = model.Pod(uid="u", namespace="other", name="big", unscheduled="0/6 nodes: 6 Insufficient cpu")
    new = model.Pod(uid="v", namespace="other", name="new")
    world.append(*(type(api_worlds.pod_seen("x"))(pod=pod) for pod in (free, new)))
    by = {group["example"]: (group["by"], group["reason"]) for group in status(world)["pending"]}
    assert by["other/big"] == ("kube-scheduler", "0/6 nodes: 6 Insufficient cpu")
    assert by["other/new"][0] == "none"


def test_the_numbers_are_those_of_the_lists(world: api_worlds.World) -> None:
    found = status(world)
    nodes = world.client.get("/apis/v1/nodes?limit=1000").get_json()["items"]
    assert found["nodes"] == len(nodes)
    assert found["schedulable"] == sum(one["ready"] and not one["unschedulable"] for one in nodes)
    flying = [one for one in pending(world) if one["name"] == "none"]
    assert flying == []
    assert found["pods"]["inFlight"] == 1


def test_the_plugins_report_their_state(world: api_worlds.World) -> None:
    (policies,) = [one for one in status(world)["plugins"] if one["name"] == "policies"]
    (policy,) = world.client.get("/apis/v1/plugins/WorkloadPolicy/policies").get_json()["items"]
    assert policies["seen"] == f"1, {policy['count']} of {policy['desired']} pods placed"
    world.append(api_worlds.policy(host=0, member=0))
    (policies,) = [one for one in status(world)["plugins"] if one["name"] == "policies"]
    assert policies["wrong"] == "1 above a quota: shop/spread"


def test_the_past_can_be_shown(world: api_worlds.World) -> None:
    before = status(world)
    world.append(api_worlds.pod_seen("later"))
    assert status(world)["pods"]["pending"] == before["pods"]["pending"] + 1
    offset = before["position"].rpartition("/")[2]
    assert status(world, at=offset)["pods"] == before["pods"]


class _Reporting(fake_plugins.Idle):
    tables = ()

    def shown(self) -> views.Shown:
        return views.Shown(
            summary=lambda snapshot: (views.StatusLine("seats", str(len(snapshot.nodes)), "wet"),)
        )


def test_a_plugin_of_another_distribution_reports_too(store: stores.Store) -> None:
    world = api_worlds.world(store, registry.Registry([_Reporting(name="Seating")]))
    world.append(*api_worlds.history())
    assert isinstance(world.store.follower.snapshot, snapshots.Snapshot)
    (line,) = status(world)["plugins"]
    nodes = len(world.client.get("/apis/v1/nodes").get_json()["items"])
    assert line == {"plugin": "Seating", "name": "seats", "seen": str(nodes), "wrong": "wet"}
