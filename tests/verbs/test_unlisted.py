"""Before every kind was listed the running pods are unknown: nothing is placed."""

from collections.abc import Iterator

import pytest

from app.store.server import embedded
from app.verbs import candidates, errors, filtering, preempting, prioritizing
from tests.support import declared
from tests.support.extender import replicas


@pytest.fixture
def starting(store_server: embedded.Server, cluster: str) -> Iterator[replicas.Cluster]:
    """A new log beside a cluster whose quota of two is full of running pods."""
    with replicas.cluster(store_server.url, cluster) as made:
        made.node("h1", role="host")
        made.policy({"host": 2})
        for number in range(2):
            made.put(made.pod(f"runs-{number}"), "h1")
        yield made


@pytest.mark.parametrize("missing", sorted(declared.SCHEMA.names))
def test_nothing_is_given_away_before_every_kind_was_listed(starting: replicas.Cluster, missing: str) -> None:
    starting.see(declared.SCHEMA.names - {missing})
    replica, pods = starting.replica(), [starting.pod(f"web-{number}") for number in range(2)]
    for pod in pods:
        assert f"still listing: {missing}" in replica.bind(pod, "h1")
        with pytest.raises(errors.StateAway, match=f"still listing: {missing}"):
            filtering.run(replica.context, pod, candidates.Candidates(["h1"]))
    starting.see()
    assert [replica.bind(pod, "h1") for pod in pods] == [
        "topolog: workload policy shop/spread: no capacity (host 2/2)"
    ] * len(pods)
    assert starting.quotas_used() == {"shop/spread|role=host": 2}


@pytest.mark.parametrize("missing", sorted(declared.SCHEMA.names))
def test_nothing_is_evicted_or_scored_before_every_kind_was_listed(
    starting: replicas.Cluster, missing: str
) -> None:
    starting.see(declared.SCHEMA.names - {missing})
    replica, pod = starting.replica(), starting.pod("web-0")
    replica.snapshot()
    reason = f"the store is away (the cluster is not fully recorded yet; still listing: {missing})"
    assert preempting.run(replica.context, pod, {"h1": []}).dropped == {"h1": reason}
    scored = prioritizing.run(replica.context, pod, candidates.Candidates(["h1"]))
    assert scored.trace.ratings == ()


def test_a_pod_that_no_plugin_is_interested_in_is_answered_and_not_bound(starting: replicas.Cluster) -> None:
    """The policies are unknown too, and whether one of them counts the pod."""
    starting.see({"nodes"})
    replica, pod = starting.replica(), starting.pod("plain", {"app": "plain"})
    assert replica.filter(pod).trace.kept == {"h1"}
    assert "still listing" in replica.bind(pod, "h1")
    assert starting.bound(pod) == ""
    starting.see()
    assert replica.bind(pod, "h1") == ""
