"""Members that a policy limits are judged once in each of its domains, if they are of one kind."""

import msgspec

from app.domain import model, projections
from app.plugins.workload_policy import logic, policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.decisions import call_counts, small_clusters
from tests.support.decisions.small_gangs import CORE, RACK, Cluster, decided, gang, node

HALL = "hall"
INDEX = "batch.kubernetes.io/job-completion-index"


def under_a_policy(in_r0: int, in_r1: int, *, minimum: int = 40) -> tuple[Cluster, list[model.Pod]]:
    """Forty members of an indexed job, which has a policy over two racks, of thirty nodes each."""
    asked = [
        msgspec.structs.replace(one, labels={logic.LABEL: "p", "app": "a", INDEX: str(at)})
        for at, one in enumerate(gang("g", 40, minimum=minimum))
    ]
    nodes = [node(f"n{at:02}", 1, {RACK: f"r{at // 30}"}) for at in range(60)]
    limit = small_clusters.policy(
        {"r0": in_r0, "r1": in_r1},
        name="p",
        namespace="x",
        key=RACK,
        required=True,
        selector=model.Selector({"app": "a"}),
    )
    return Cluster(*nodes, limit, *asked, beside=(WorkloadPolicy(),), layers=(RACK,)), asked


def test_members_of_one_kind_are_judged_once_in_each_domain_of_a_policy() -> None:
    small, asked = under_a_policy(40, 40)
    with call_counts.counted(WorkloadPolicy, "filter") as judged:
        assert small.planned(asked[0])
    assert judged.call_count <= 6


def test_members_over_the_limit_of_a_domain_go_together_to_the_next() -> None:
    small, asked = under_a_policy(15, 25)
    with call_counts.counted(WorkloadPolicy, "filter") as judged:
        found = decided(small, asked[0])
    assert found is not None
    racks = [small.snapshot.nodes[name].labels[RACK] for name in found.plan.seats.values()]
    assert (racks.count("r0"), racks.count("r1")) == (15, 25)
    assert judged.call_count <= 30


def test_members_are_counted_where_they_are_seated_and_not_placed() -> None:
    """What the other plugins read of them is sums."""
    small, asked = under_a_policy(15, 25)
    with call_counts.counted(projections, "project") as projected:
        assert small.planned(asked[0])
    assert projected.call_count == 0


def test_members_that_no_policy_limits_count_for_those_that_one_does() -> None:
    """They name none, and its selector selects them, each in the rack of its seat."""
    small, asked = under_a_policy(20, 10)
    apart, _ = under_a_policy(20, 10)
    apart.plugins.sums = {}
    for number, one in enumerate(asked):
        limited = number % 2 == 0
        seen = one if limited else msgspec.structs.replace(one, labels={"app": "a", INDEX: str(number)})
        small.see(seen)
        apart.see(seen)
    found = decided(small, asked[0])
    assert found is not None
    assert "r0 26/20" in found.reason
    assert found == decided(apart, asked[0])


def test_the_members_that_a_policy_admits_are_found_by_bisection() -> None:
    small, asked = under_a_policy(15, 20)
    with call_counts.counted(WorkloadPolicy, "filter") as judged:
        found = decided(small, asked[0])
    assert found is not None
    assert (found.plan.fitting, len(found.plan.seats)) == (35, 0)
    assert judged.call_count <= 30


def rack_policy(key: str, app: str, **places: int) -> policy_model.WorkloadPolicy:
    """A policy for the pods of an app, by a label of nodes."""
    selector = model.Selector({"app": app})
    return small_clusters.policy(places, name=app, namespace="x", key=key, required=True, selector=selector)


def test_a_member_that_fits_on_no_other_node_keeps_a_smaller_one_from_none() -> None:
    asked = [
        msgspec.structs.replace(one, labels={logic.LABEL: "a", "app": "a"}, requests={"cpu": cores * CORE})
        for one, cores in zip(gang("g", 4, minimum=2), (1, 1, 4, 1), strict=True)
    ]
    nodes = [node(f"n{at}", cores, {RACK: f"r{at // 4}"}) for at, cores in enumerate((4, 1, 1, 1, 1, 1))]
    limit = rack_policy(RACK, "a", r0=2, r1=2)
    small = Cluster(*nodes, limit, *asked, beside=(WorkloadPolicy(),), layers=(RACK,))
    found = decided(small, asked[0])
    assert found is not None
    assert {pod.name for pod in found.plan.pods} == {"g0", "g1", "g3"}


def test_a_node_that_a_member_leaves_is_free_for_the_next() -> None:
    """The second of app b finds it full, and the third gets it: a member of app a has left it."""
    asked = [
        msgspec.structs.replace(one, labels={logic.LABEL: app, "app": app})
        for one, app in zip(gang("g", 5), "abbab", strict=True)
    ]
    nodes = [
        node(f"n{at}", 1, {RACK: f"r{at // 5}", HALL: hall})
        for at, hall in enumerate(("m1", "m0", "m0", "m1", "m0", "m1", "m1"))
    ]
    limits = rack_policy(RACK, "a", r0=1, r1=9), rack_policy(HALL, "b", m0=1, m1=9)
    small = Cluster(*nodes, *limits, *asked, beside=(WorkloadPolicy(),), layers=(RACK,))
    found = decided(small, asked[0])
    assert found is not None
    seats = {pod.name: found.plan.seats[pod.uid] for pod in found.plan.pods}
    assert seats == {"g0": "n0", "g1": "n1", "g2": "n5", "g3": "n6", "g4": "n3"}
