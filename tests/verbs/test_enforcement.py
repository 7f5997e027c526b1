"""Which pods a Required quota limits, at filter and at bind, with a real store between the replicas.

Topolog counts every pod that the selector selects. By default it limits those that name the policy; with
``enforce: selected`` all of them.
"""

import random
import secrets
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import pytest

from app.domain import model
from app.simulation.apiserver import faults
from app.store.server import embedded
from app.verbs import errors
from tests.support.extender import replicas
from tests.support.store import crash_safe_server, materialised

BINDING = faults.calls("POST", "/binding")
OTHER = {"app": "web", replicas.LABEL: "other"}
FULL = "topolog: workload policy shop/spread: no capacity (host 1/1)"
COUNTED = ("unlabelled", "overlapping", "daemon")


def counted(shop: replicas.Cluster, which: str, number: int = 0) -> model.Pod:
    """A pod that the policy ``spread`` counts and that does not name it."""
    name = f"{which}-{number}"
    match which:
        case "unlabelled":
            return shop.pod(name, {"app": "web"})
        case "overlapping":
            return shop.pod(name, OTHER)
        case _:
            return shop.pod(name, owner="DaemonSet")


@pytest.fixture
def shop(store_server: embedded.Server, cluster: str) -> Iterator[replicas.Cluster]:
    """Capacity for one in ``spread``, for many in ``other``, which selects the same pods."""
    with replicas.cluster(store_server.url, cluster) as made:
        for host in ("h1", "h2", "h3", "h4"):
            made.node(host, role="host")
        made.policy({"host": 1})
        made.policy({"host": 9}, name="other")
        made.see()
        yield made


@pytest.mark.parametrize("which", COUNTED)
def test_by_default_a_counted_pod_that_does_not_name_the_policy_is_not_limited(
    shop: replicas.Cluster, which: str
) -> None:
    one, first, other, last = shop.replica(), shop.pod("web-1"), counted(shop, which), shop.pod("web-2")
    shop.see()
    assert one.bind(first, "h1") == ""
    assert not one.filter(other).trace.refused
    assert one.bind(other, "h2") == ""
    assert one.count("host") == 2
    # The pods that name the policy find it full.
    assert not one.filter(last).trace.kept
    assert one.bind(last, "h3") == "topolog: workload policy shop/spread: no capacity (host 2/1)"


def test_by_default_the_three_together_take_a_quota_of_one_to_three(shop: replicas.Cluster) -> None:
    one, others = shop.replica(), [counted(shop, which) for which in COUNTED]
    shop.see()
    assert [one.bind(pod, "h1") for pod in others] == ["", "", ""]
    assert one.count("host") == 3


@pytest.mark.parametrize("which", COUNTED)
def test_with_selected_whatever_is_counted_is_limited(shop: replicas.Cluster, which: str) -> None:
    one, first, other = shop.replica(enforce="selected"), shop.pod("web-1"), counted(shop, which)
    shop.see()
    assert len(one.filter(other).trace.kept) == 4
    assert one.bind(first, "h1") == ""
    answer = one.filter(other)
    assert not answer.trace.kept
    assert set(answer.trace.reasons().values()) == {FULL.removeprefix("topolog: ")}
    assert one.bind(other, "h2") == FULL
    assert (one.count("host"), shop.bound(other)) == (1, "")


@pytest.mark.parametrize("which", COUNTED)
def test_with_selected_the_store_refuses_what_a_replica_that_is_behind_would_give(
    shop: replicas.Cluster, which: str
) -> None:
    """The ceiling, not the snapshot, keeps the quota: the last place is taken after the filter."""
    one, rival = shop.replica(enforce="selected"), shop.replica(enforce="selected")
    first, other = shop.pod("web-1"), counted(shop, which)
    shop.see()
    late = replicas.Behind(one)
    assert rival.bind(first, "h1") == ""
    one.context = replicas.with_state(one, late)
    assert one.bind(other, "h2") == FULL
    assert (one.count("host"), shop.bound(other)) == (1, "")


def test_a_pod_under_two_policies_raises_both_counts_under_both_ceilings(shop: replicas.Cluster) -> None:
    shop.policy({"host": 2}, name="wide")
    one, pod = shop.replica(enforce="selected"), shop.pod("plain", {"app": "web"})
    shop.see()
    assert one.bind(pod, "h1") == ""
    counts = {key.partition("|")[0]: number for key, number in materialised.counts(one.store).items()}
    assert counts == {"shop/spread": 1, "shop/other": 1, "shop/wide": 1}


def test_the_state_does_not_depend_on_the_setting(shop: replicas.Cluster) -> None:
    by_name, by_selection = shop.replica(), shop.replica(enforce="selected")
    pods = [*(counted(shop, which) for which in COUNTED), shop.pod("web-1")]
    shop.see()
    for number, pod in enumerate(pods):
        (by_name, by_selection)[number % 2].bind(pod, f"h{number + 1}")
    shop.see()
    one, other = by_name.snapshot(), by_selection.snapshot()
    for part in ("position", "pods", "objects", "placements", "counts", "versions", "labelled", "waiting"):
        assert getattr(one, part) == getattr(other, part), part
    assert dict(by_name.snapshot().counts) == materialised.counts(by_name.store)


@pytest.mark.parametrize("seed", range(3))
def test_replicas_that_race_keep_every_quota_that_counts_a_pod(
    store_server: embedded.Server, cluster: str, seed: int
) -> None:
    dice = random.Random(seed)
    with replicas.cluster(store_server.url, cluster) as shop:
        for host in ("h1", "h2", "h3", "h4"):
            shop.node(host, role="host")
        shop.policy({"host": 10})
        shop.policy({"host": 7}, name="other")
        pods = [counted(shop, which, number) for which in COUNTED for number in range(10)]
        pods += [shop.pod(f"web-{number}") for number in range(10)]
        shop.see()
        both = [shop.replica(enforce="selected"), shop.replica(enforce="selected")]
        shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=403, times=2)
        shop.api.faults.add(faults.FaultKind.LOSE, BINDING, times=2)
        plan = [(pod, dice.choice(both), dice.choice(("h1", "h2", "h3", "h4"))) for pod in pods]
        dice.shuffle(plan)
        with futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: attempted(*one), plan))
        for pod, replica, host in plan:
            attempted(pod, replica, host)
        shop.see()
        assert shop.most("host") == 7, "the smaller quota holds for every pod"
        assert sum(shop.bound(pod) != "" for pod in pods) == 7
        assert dict(both[0].snapshot().counts) == dict(both[1].snapshot().counts)


def attempted(pod: model.Pod, replica: replicas.Replica, node: str) -> None:
    if node in replica.filter(pod).trace.kept:
        replica.bind(pod, node)


# -- while the store is away -------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[embedded.Server]:
    made = crash_safe_server.CrashSafeServer(tmp_path, append_only=True)
    yield made
    made.stop()


@pytest.fixture
def away(server: embedded.Server) -> Iterator[replicas.Cluster]:
    with replicas.cluster(server.url, f"c{secrets.token_hex(4)}") as made:
        made.node("h1", role="host")
        made.node("bare")
        made.policy({"host": 1})
        made.see()
        yield made


@pytest.mark.parametrize("node", ["h1", "bare"])
def test_without_the_store_a_selected_pod_waits(
    away: replicas.Cluster, server: embedded.Server, node: str
) -> None:
    """Also on a node of no domain, where nothing would be counted and the policy refuses the pod."""
    one, pod = away.replica(state=1.0, patience=1.0, enforce="selected"), counted(away, "unlabelled")
    away.see()
    one.snapshot()
    server.kill()
    with pytest.raises(errors.StateAway):
        one.filter_known(pod)
    assert "the store is away" in one.bind(pod, node)
    assert away.bound(pod) == ""


def test_without_the_store_a_pod_that_no_policy_selects_goes_on(
    away: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = away.replica(state=1.0, patience=1.0, enforce="selected"), away.pod("plain", {"app": "plain"})
    away.see()
    one.snapshot()
    server.kill()
    assert not one.filter_known(pod).trace.refused
    assert one.bind(pod, "h1") == ""


def test_without_the_store_a_replica_that_never_read_it_lets_nothing_pass(
    away: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = away.replica(state=1.0, patience=1.0, enforce="selected"), away.pod("plain", {"app": "plain"})
    server.kill()
    with pytest.raises(errors.StateAway):
        one.filter_known(pod)
