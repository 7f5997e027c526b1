"""The policies that limit a pod under either value of ``enforce``, and the reason that names them."""

import pytest

from app.domain import events, model
from app.plugins.workload_policy import policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support import declared
from tests.support.decisions import commitments, scheduling_driver, small_clusters

NS, HOSTS, MEMBERS = small_clusters.NAMESPACE, small_clusters.HOSTS, small_clusters.MEMBERS
PLAIN = {"app": small_clusters.APP}
SELECTED = WorkloadPolicy(enforce="selected")
NAME = f"{NS}/{small_clusters.POLICY}"

COUNTED = {
    "unlabelled": small_clusters.pod("next", PLAIN),
    "overlapping": small_clusters.pod("next", {**PLAIN, small_clusters.LABEL: "other"}),
    "daemon": small_clusters.pod("next", small_clusters.REPLICA, owner="DaemonSet"),
}


def cluster(*things: scheduling_driver.Thing, plugin: WorkloadPolicy = SELECTED) -> scheduling_driver.Cluster:
    return scheduling_driver.Cluster(*small_clusters.f6(), *things, configured=[plugin])


def full(host: int = 1, **changed: str) -> list[scheduling_driver.Thing]:
    """A policy whose only domain is at its quota."""
    runs = [small_clusters.pod(f"runs-{n}", small_clusters.REPLICA, node=HOSTS[n]) for n in range(host)]
    other = small_clusters.policy({"host": 9}, name="other", required=True)
    return [small_clusters.policy({"host": host}, required=True), other, *runs]


@pytest.mark.parametrize("which", COUNTED)
def test_by_default_only_pods_that_name_the_policy_are_limited(which: str) -> None:
    small = cluster(*full(), plugin=WorkloadPolicy())
    assert not small.filter(COUNTED[which]).refused & set(HOSTS)
    small.place(COUNTED[which], HOSTS[1])
    assert small.why(small_clusters.pod("names-it", small_clusters.REPLICA)) == (
        f"workload policy {NAME}: no capacity (host 2/1)"
    )


@pytest.mark.parametrize("which", COUNTED)
def test_with_selected_every_counted_pod_is_limited(which: str) -> None:
    small = cluster(*full())
    assert small.why(COUNTED[which]) == f"workload policy {NAME}: no capacity (host 1/1)"
    claim = commitments.of(small.plugins, small._cycle(COUNTED[which], [HOSTS[1]]), HOSTS[1])
    assert claim.ceilings == {
        f"{NAME}|{small_clusters.KEY}=host": 1,
        f"{NS}/other|{small_clusters.KEY}=host": 9,
    }
    assert {f"policy:{NAME}", f"policy:{NS}/other"} <= set(claim.subjects)


@pytest.mark.parametrize(
    "policy",
    [
        small_clusters.policy({"host": 0}),
        small_clusters.policy({"host": 0}, strict=True),
        small_clusters.policy({"host": 0}, required=True, errors=("broken",)),
        small_clusters.policy({"host": 0}, required=True, namespace="other"),
        small_clusters.policy({"host": 0}, required=True, selector=model.Selector(labels={"app": "x"})),
    ],
    ids=["preferred", "strict", "invalid", "elsewhere", "not selecting"],
)
def test_policies_that_limit_no_pod_by_selection(policy: policy_model.WorkloadPolicy) -> None:
    small = cluster(policy)
    assert not small.filter(small_clusters.pod("next", PLAIN)).refused
    assert small.plugins.concerned(small_clusters.pod("next", PLAIN), small.snapshot) == ()


def test_a_policy_that_only_selects_a_pod_does_not_prefer() -> None:
    small = cluster(small_clusters.policy({"host": 3, "member": 1}, required=True, method="Fill"))
    small.see(small_clusters.pod("runs", PLAIN, node=HOSTS[0]))
    for which in ("unlabelled", "daemon"):
        assert set(small.score(COUNTED[which]).values()) == {0}
    assert small.score(small_clusters.pod("names-it", small_clusters.REPLICA))[HOSTS[1]] > 0


def test_a_problem_of_the_named_policy_comes_first() -> None:
    astray = small_clusters.pod("next", {**PLAIN, small_clusters.LABEL: "absent"})
    assert cluster(*full()).why(astray) == f"workload policy {NS}/absent: not found"
    ignoring = WorkloadPolicy(enforce="selected", missing_policy="ignore")
    assert cluster(*full(), plugin=ignoring).why(astray) == f"workload policy {NAME}: no capacity (host 1/1)"
    # The label of a DaemonSet's pod is ignored, whichever policy selects it.
    daemon = small_clusters.pod("next", {**PLAIN, small_clusters.LABEL: "absent"}, owner="DaemonSet")
    assert cluster(*full(), plugin=ignoring).why(daemon) == f"workload policy {NAME}: no capacity (host 1/1)"


def test_only_full_policies_are_named_if_there_are_any() -> None:
    small = cluster(*full())
    before = small.why(COUNTED["unlabelled"])
    # The count of the other policy changes; the reason does not, so the pod is not retried.
    small.see(small_clusters.policy({"host": 5}, name="other", required=True))
    assert small.why(COUNTED["unlabelled"]) == before
    small.see(small_clusters.policy({"host": 1}, name="other", required=True))
    both = (
        f"workload policy {NAME}: no capacity (host 1/1); workload policy {NS}/other: no capacity (host 1/1)"
    )
    assert set(small.why(COUNTED["unlabelled"]).split("; ")) == set(both.split("; "))
    assert small.why(COUNTED["unlabelled"]) == (
        f"workload policy {NS}/other: no capacity (host 1/1); workload policy {NAME}: no capacity (host 1/1)"
    )
    # The policy that the pod names is the first.
    assert small.why(small_clusters.pod("names-it", small_clusters.REPLICA)) == both


def test_policies_that_refuse_all_nodes_only_together_are_named_together() -> None:
    by_rack = small_clusters.policy({"r1": 1, "r2": 0}, name="racks", key="rack", required=True)
    zones = small_clusters.policy({"a": 1, "b": 0}, name="zones", key="zone", required=True)
    nodes = [
        small_clusters.node("n1", {"rack": "r1", "zone": "b"}),
        small_clusters.node("n2", {"rack": "r2", "zone": "a"}),
    ]
    small = scheduling_driver.Cluster(*nodes, by_rack, zones, configured=[SELECTED])
    trace = small.filter(small_clusters.pod("next", PLAIN))
    assert set(trace.reasons().values()) == {
        f"workload policy {NS}/racks: no capacity on these nodes (r1 0/1, r2 0/0);"
        f" workload policy {NS}/zones: no capacity on these nodes (a 0/1, b 0/0)"
    }
    assert trace.refused == {"n1", "n2"}
    assert trace.refusals[0].details == {
        f"{NS}/racks: r2: 0/0": frozenset({"n2"}),
        f"{NS}/zones: b: 0/0": frozenset({"n1"}),
    }


def test_a_reason_names_at_most_three_policies() -> None:
    many = [small_clusters.policy({"host": 0}, name=f"p{n}", required=True) for n in range(5)]
    reason = cluster(*many).why(small_clusters.pod("next", PLAIN))
    assert reason.count("no capacity (host 0/0)") == 3
    assert reason.endswith("; and 2 more workload policies")


def test_an_eviction_is_dropped_if_another_quota_still_refuses_the_pod() -> None:
    small = cluster(*full(), small_clusters.policy({"host": 0}, name="closed", required=True))
    victim = small_clusters.pod("runs-0", small_clusters.REPLICA, node=HOSTS[0])
    assert small.veto(COUNTED["unlabelled"], HOSTS[0], victim) == (
        f"workload policy {NS}/closed: no capacity (host 0/0)"
    )
    open_again = cluster(*full())
    assert open_again.veto(COUNTED["unlabelled"], HOSTS[0], victim) is None


def test_without_the_store_pods_of_a_known_required_policy_do_not_pass() -> None:
    small = cluster(small_clusters.policy({"host": 9}, required=True), small_clusters.policy(name="soft"))
    assert not SELECTED.soft(small_clusters.pod("next"), small.snapshot)  # an unlisted policy may select it
    small.take(
        *(events.Relisted(kind, since="", until="1", reason="first list") for kind in declared.SCHEMA.names)
    )
    soft = small_clusters.pod("next", {small_clusters.LABEL: "soft", "app": "x"})
    assert not SELECTED.soft(small_clusters.pod("next", PLAIN), small.snapshot)
    assert SELECTED.soft(small_clusters.pod("next"), small.snapshot)
    assert not SELECTED.soft(
        small_clusters.pod("next", {**PLAIN, small_clusters.LABEL: "soft"}), small.snapshot
    )
    assert not SELECTED.soft(soft, small.snapshot)  # its own policy does not select it
    assert not SELECTED.soft(
        small_clusters.pod("next"), scheduling_driver.Cluster(configured=[SELECTED]).snapshot
    )
