"""Which policies limit a pod under either value of ``enforce``, and the one sentence that says so."""

import pytest

from app.domain import events, model
from app.framework import running
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.scenarios import clusters, driving

NS, HOSTS, MEMBERS = clusters.NAMESPACE, clusters.HOSTS, clusters.MEMBERS
PLAIN = {"app": clusters.APP}
SELECTED = WorkloadPolicy(enforce="selected")
NAME = f"{NS}/{clusters.POLICY}"

COUNTED = {
    "unlabelled": clusters.pod("next", PLAIN),
    "overlapping": clusters.pod("next", {**PLAIN, clusters.LABEL: "other"}),
    "daemon": clusters.pod("next", clusters.REPLICA, owner="DaemonSet"),
}


def cluster(*things: driving.Thing, plugin: WorkloadPolicy = SELECTED) -> driving.Cluster:
    return driving.Cluster(*clusters.f6(), *things, configured=[plugin])


def full(host: int = 1, **changed: str) -> list[driving.Thing]:
    """A policy whose only domain holds what it may."""
    runs = [clusters.pod(f"runs-{n}", clusters.REPLICA, node=HOSTS[n]) for n in range(host)]
    other = clusters.policy({"host": 9}, name="other", required=True)
    return [clusters.policy({"host": host}, required=True), other, *runs]


@pytest.mark.parametrize("which", COUNTED)
def test_by_default_only_pods_that_name_the_policy_are_limited(which: str) -> None:
    small = cluster(*full(), plugin=WorkloadPolicy())
    assert not small.filter(COUNTED[which]).refused & set(HOSTS)
    small.place(COUNTED[which], HOSTS[1])
    assert small.why(clusters.pod("names-it", clusters.REPLICA)) == (
        f"workload policy {NAME}: no room (host 2/1)"
    )


@pytest.mark.parametrize("which", COUNTED)
def test_with_selected_every_counted_pod_is_limited(which: str) -> None:
    small = cluster(*full())
    assert small.why(COUNTED[which]) == f"workload policy {NAME}: no room (host 1/1)"
    claim = running.claim(small.plugins, small._cycle(COUNTED[which], [HOSTS[1]]), HOSTS[1])
    assert claim.ceilings == {f"{NAME}|{clusters.KEY}=host": 1, f"{NS}/other|{clusters.KEY}=host": 9}
    assert {f"policy:{NAME}", f"policy:{NS}/other"} <= set(claim.subjects)


@pytest.mark.parametrize(
    "policy",
    [
        clusters.policy({"host": 0}),
        clusters.policy({"host": 0}, strict=True),
        clusters.policy({"host": 0}, required=True, errors=("broken",)),
        clusters.policy({"host": 0}, required=True, namespace="other"),
        clusters.policy({"host": 0}, required=True, selector=model.Selector(labels={"app": "x"})),
    ],
    ids=["preferred", "strict", "invalid", "elsewhere", "not selecting"],
)
def test_what_limits_nobody_by_selection(policy: model.WorkloadPolicy) -> None:
    small = cluster(policy)
    assert not small.filter(clusters.pod("next", PLAIN)).refused
    assert small.plugins.concerned(clusters.pod("next", PLAIN), small.snapshot) == ()


def test_a_policy_that_only_selects_a_pod_does_not_prefer() -> None:
    small = cluster(clusters.policy({"host": 3, "member": 1}, required=True, method="Fill"))
    small.see(clusters.pod("runs", PLAIN, node=HOSTS[0]))
    for which in ("unlabelled", "daemon"):
        assert set(small.score(COUNTED[which]).values()) == {0}
    assert small.score(clusters.pod("names-it", clusters.REPLICA))[HOSTS[1]] > 0


def test_what_is_wrong_with_the_named_policy_comes_first() -> None:
    astray = clusters.pod("next", {**PLAIN, clusters.LABEL: "absent"})
    assert cluster(*full()).why(astray) == f"workload policy {NS}/absent: not found"
    ignoring = WorkloadPolicy(enforce="selected", missing_policy="ignore")
    assert cluster(*full(), plugin=ignoring).why(astray) == f"workload policy {NAME}: no room (host 1/1)"
    # The label of a DaemonSet's pod is not read, whatever selects it.
    daemon = clusters.pod("next", {**PLAIN, clusters.LABEL: "absent"}, owner="DaemonSet")
    assert cluster(*full(), plugin=ignoring).why(daemon) == f"workload policy {NAME}: no room (host 1/1)"


def test_policies_that_are_full_speak_and_the_others_do_not_matter() -> None:
    small = cluster(*full())
    before = small.why(COUNTED["unlabelled"])
    # The count of the other policy moves; the sentence does not, and the pod is not woken.
    small.see(clusters.policy({"host": 5}, name="other", required=True))
    assert small.why(COUNTED["unlabelled"]) == before
    small.see(clusters.policy({"host": 1}, name="other", required=True))
    both = f"workload policy {NAME}: no room (host 1/1); workload policy {NS}/other: no room (host 1/1)"
    assert set(small.why(COUNTED["unlabelled"]).split("; ")) == set(both.split("; "))
    assert small.why(COUNTED["unlabelled"]) == (
        f"workload policy {NS}/other: no room (host 1/1); workload policy {NAME}: no room (host 1/1)"
    )
    # The policy that the pod names is the first.
    assert small.why(clusters.pod("names-it", clusters.REPLICA)) == both


def test_policies_that_close_all_nodes_only_together_speak_together() -> None:
    by_rack = clusters.policy({"r1": 1, "r2": 0}, name="racks", key="rack", required=True)
    zones = clusters.policy({"a": 1, "b": 0}, name="zones", key="zone", required=True)
    nodes = [
        clusters.node("n1", {"rack": "r1", "zone": "b"}),
        clusters.node("n2", {"rack": "r2", "zone": "a"}),
    ]
    small = driving.Cluster(*nodes, by_rack, zones, configured=[SELECTED])
    trace = small.filter(clusters.pod("next", PLAIN))
    assert set(trace.reasons().values()) == {
        f"workload policy {NS}/racks: no room on these nodes (r1 0/1, r2 0/0);"
        f" workload policy {NS}/zones: no room on these nodes (a 0/1, b 0/0)"
    }
    assert trace.refused == {"n1", "n2"}
    assert trace.refusals[0].details == {
        f"{NS}/racks: r2: 0/0": frozenset({"n2"}),
        f"{NS}/zones: b: 0/0": frozenset({"n1"}),
    }


def test_of_many_policies_three_are_spelled_out() -> None:
    many = [clusters.policy({"host": 0}, name=f"p{n}", required=True) for n in range(5)]
    reason = cluster(*many).why(clusters.pod("next", PLAIN))
    assert reason.count("no room (host 0/0)") == 3
    assert reason.endswith("; and 2 more workload policies")


def test_an_eviction_that_one_of_several_quotas_makes_useless_is_dropped() -> None:
    small = cluster(*full(), clusters.policy({"host": 0}, name="closed", required=True))
    victim = clusters.pod("runs-0", clusters.REPLICA, node=HOSTS[0])
    assert small.veto(COUNTED["unlabelled"], HOSTS[0], victim) == (
        f"workload policy {NS}/closed: no room (host 0/0)"
    )
    open_again = cluster(*full())
    assert open_again.veto(COUNTED["unlabelled"], HOSTS[0], victim) is None


def test_without_the_store_only_what_no_known_required_policy_selects_passes() -> None:
    small = cluster(clusters.policy({"host": 9}, required=True), clusters.policy(name="soft"))
    assert not SELECTED.soft(clusters.pod("next"), small.snapshot)  # what is not listed may select it
    small.take(*(events.Relisted(kind, since="", until="1", reason="first list") for kind in model.KINDS))
    soft = clusters.pod("next", {clusters.LABEL: "soft", "app": "x"})
    assert not SELECTED.soft(clusters.pod("next", PLAIN), small.snapshot)
    assert SELECTED.soft(clusters.pod("next"), small.snapshot)
    assert not SELECTED.soft(clusters.pod("next", {**PLAIN, clusters.LABEL: "soft"}), small.snapshot)
    assert not SELECTED.soft(soft, small.snapshot)  # its own policy does not select it
    assert not SELECTED.soft(clusters.pod("next"), driving.Cluster(configured=[SELECTED]).snapshot)
