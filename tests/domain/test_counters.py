"""Which pods count in which domain, in short histories of events."""

import msgspec
import pytest

from app.domain import events, model, projections, selectors, snapshots
from app.plugins.workload_policy import policy_counts, policy_model
from tests.support import declared

HOST = model.Node(name="h1", uid="h1", labels={"zone": "host"})
OTHER = model.Node(name="h2", uid="h2", labels={"zone": "host"})
MEMBER = model.Node(name="m1", uid="m1", labels={"zone": "member"})


def policy(name: str = "p", namespace: str = "test", **changes: object) -> policy_model.WorkloadPolicy:
    made = policy_model.WorkloadPolicy(
        uid=f"{namespace}-{name}",
        namespace=namespace,
        name=name,
        topology_key="zone",
        selector=model.Selector(labels={"app": "mix"}),
        allocations=(policy_model.Allocation("host", 3), policy_model.Allocation("member", 1)),
    )
    return msgspec.structs.replace(made, **changes)


def pod(uid: str, node: str = "", **changes: object) -> model.Pod:
    made = model.Pod(uid=uid, namespace="test", name=uid, labels={"app": "mix"}, node=node)
    return msgspec.structs.replace(made, **changes)


def after(*history: events.AnyEvent) -> snapshots.Snapshot:
    start: tuple[events.AnyEvent, ...] = tuple(events.NodeSeen(node=node) for node in (HOST, OTHER, MEMBER))
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA), (*start, *history))


def seen(uid: str, node: str = "", **changes: object) -> events.PodSeen:
    return events.PodSeen(pod=pod(uid, node, **changes))


@pytest.mark.scenario("WP-5")
def test_pods_without_a_node_do_not_count() -> None:
    snapshot = after(declared.observed(policy()), *(seen(f"u{i}") for i in range(6)))
    assert dict(snapshot.counts) == {}
    assert len(snapshot.waiting) == 6


BARE = model.Node(name="bare", uid="bare")


@pytest.mark.parametrize(
    ("changes", "node", "invalid", "raised"),
    [
        ({}, HOST, False, "test/p|zone=host"),
        ({"labels": {"app": "mix", "more": "x"}}, MEMBER, False, "test/p|zone=member"),
        ({"labels": {"app": "other"}}, HOST, False, None),
        ({"phase": "Succeeded"}, HOST, False, None),
        ({"terminating": True}, HOST, False, None),
        ({}, BARE, False, None),
        ({}, HOST, True, None),
    ],
)
def test_the_count_that_a_pod_raises_is_the_one_of_the_fold(
    changes: dict[str, object], node: model.Node, invalid: bool, raised: str | None
) -> None:
    chosen = policy(errors=("spec is invalid",)) if invalid else policy()
    bound = pod("u1", node.name, **changes)
    snapshot = after(events.NodeSeen(node=BARE), declared.observed(chosen), events.PodSeen(pod=bound))
    assert policy_counts.counted_by(chosen, bound, node) == raised
    assert dict(snapshot.counts) == ({} if raised is None else {raised: 1})
    # What selects it does not depend on the node.
    selected = bound.counted and bound.labels["app"] == "mix" and not invalid
    assert declared.SCHEMA.selects(bound, snapshot.objects) is selected


@pytest.mark.scenario("WP-6")
def test_only_the_policys_namespace_counts_and_no_policy_label_is_needed() -> None:
    snapshot = after(
        declared.observed(policy()),
        seen("u1", "h1", namespace="elsewhere"),
        seen("u2", "h1", labels={"app": "mix", "workload-policy/kosmos.io": "p"}),
        seen("u3", "h2", labels={"app": "mix"}),
        seen("u4", "m1", labels={"app": "other"}),
    )
    assert dict(snapshot.counts) == {"test/p|zone=host": 2}


@pytest.mark.scenario("WP-11")
def test_pods_of_a_daemon_set_count() -> None:
    owner = model.Owner(kind="DaemonSet", name="d", uid="d", controller=True)
    snapshot = after(declared.observed(policy()), seen("u1", "m1", owners=(owner,)))
    assert dict(snapshot.counts) == {"test/p|zone=member": 1}


@pytest.mark.scenario("WP-12")
def test_a_relabelled_node_takes_its_pods_to_the_other_domain() -> None:
    start = after(
        declared.observed(policy()),
        *(seen("u1", "h1"), seen("u2", "h2"), seen("u3", "h2"), seen("u4", "m1")),
    )
    assert dict(start.counts) == {"test/p|zone=host": 3, "test/p|zone=member": 1}
    moved = model.Node(name="h1", uid="h1", labels={"zone": "member"})
    relabelled = projections.project(start, events.NodeSeen(node=moved))
    assert dict(relabelled.counts) == {"test/p|zone=host": 2, "test/p|zone=member": 2}
    unlabelled = projections.project(start, events.NodeSeen(node=model.Node(name="h1", uid="h1")))
    assert dict(unlabelled.counts) == {"test/p|zone=host": 2, "test/p|zone=member": 1}


@pytest.mark.scenario("WP-12")
def test_the_pods_of_a_deleted_node_leave_the_count_and_return_with_it() -> None:
    start = after(declared.observed(policy()), seen("u1", "h1"), seen("u2", "h2"))
    gone = projections.project(start, events.NodeGone(name="h2", uid="h2"))
    assert dict(gone.counts) == {"test/p|zone=host": 1}
    again = projections.project(gone, events.NodeSeen(node=OTHER))
    assert dict(again.counts) == {"test/p|zone=host": 2}


def test_a_pod_observed_before_its_node_counts_once_the_node_is_observed() -> None:
    early = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA),
        [declared.observed(policy()), seen("u1", "h1"), seen("u2", "h1")],
    )
    assert dict(early.counts) == {}
    assert dict(projections.project(early, events.NodeSeen(node=HOST)).counts) == {"test/p|zone=host": 2}


@pytest.mark.scenario("WP-20")
def test_policies_with_overlapping_selectors_count_each_by_its_own() -> None:
    wide = policy("wide", selector=model.Selector())
    snapshot = after(
        declared.observed(policy()),
        declared.observed(wide),
        seen("u1", "h1"),
        seen("u2", "h1", labels={"app": "other"}),
    )
    assert dict(snapshot.counts) == {"test/p|zone=host": 1, "test/wide|zone=host": 2}


@pytest.mark.scenario("WP-7")
def test_a_policy_counts_the_pods_that_ran_before_it() -> None:
    snapshot = after(seen("u1", "h1"), seen("u2", "m1"), declared.observed(policy()))
    assert dict(snapshot.counts) == {"test/p|zone=host": 1, "test/p|zone=member": 1}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"terminating": True}, id="on its way out"),
        pytest.param({"phase": "Succeeded"}, id="run to its end"),
        pytest.param({"phase": "Failed"}, id="failed"),
        pytest.param({"labels": {"app": "other"}}, id="no longer selected"),
    ],
)
def test_a_pod_stops_counting(change: dict[str, object]) -> None:
    start = after(declared.observed(policy()), seen("u1", "h1"))
    assert dict(start.counts) == {"test/p|zone=host": 1}
    assert dict(projections.project(start, seen("u1", "h1", **change)).counts) == {}


def test_an_invalid_policy_counts_nothing_until_it_is_corrected() -> None:
    broken = after(declared.observed(policy(errors=("no allocation",))), seen("u1", "h1"))
    assert dict(broken.counts) == {}
    mended = projections.project(broken, declared.observed(policy()))
    assert dict(mended.counts) == {"test/p|zone=host": 1}


@pytest.mark.scenario("WP-13")
def test_an_edited_policy_counts_by_its_new_key_and_selector() -> None:
    start = after(declared.observed(policy()), seen("u1", "h1"), seen("u2", "m1"))
    other_key = projections.project(start, declared.observed(policy(topology_key="rack")))
    assert dict(other_key.counts) == {}
    unmatched = model.Selector(labels={"app": "unmatched"})
    assert dict(projections.project(start, declared.observed(policy(selector=unmatched))).counts) == {}
    gone = declared.POLICIES.gone(namespace="test", name="p", uid="test-p")
    assert dict(projections.project(start, gone).counts) == {}


# -- selectors -----------------------------------------------------------------------------

LABELS = {"app": "mix", "tier": "front"}


@pytest.mark.scenario("WP-8")
@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (model.Requirement("app", "In", ("mix", "other")), True),
        (model.Requirement("app", "In", ("other",)), False),
        (model.Requirement("missing", "In", ("mix",)), False),
        (model.Requirement("app", "NotIn", ("other",)), True),
        (model.Requirement("app", "NotIn", ("mix",)), False),
        (model.Requirement("missing", "NotIn", ("mix",)), True),
        (model.Requirement("tier", "Exists"), True),
        (model.Requirement("missing", "Exists"), False),
        (model.Requirement("missing", "DoesNotExist"), True),
        (model.Requirement("tier", "DoesNotExist"), False),
        (model.Requirement("app", "Equals", ("mix",)), False),
    ],
)
def test_a_requirement_matches_as_in_kubernetes(requirement: model.Requirement, holds: bool) -> None:
    assert selectors.matches(model.Selector(expressions=(requirement,)), LABELS) is holds
    both = model.Selector(labels={"app": "mix"}, expressions=(requirement,))
    assert selectors.matches(both, LABELS) is holds
    # Every part must match: the labels exclude what the expressions would allow.
    neither = model.Selector(labels={"app": "other"}, expressions=(requirement,))
    assert not selectors.matches(neither, LABELS)


@pytest.mark.scenario("WP-8")
def test_an_expression_decides_what_is_counted() -> None:
    selector = model.Selector(expressions=(model.Requirement("app", "NotIn", ("other",)),))
    snapshot = after(
        declared.observed(policy(selector=selector)),
        *(seen("u1", "h1"), seen("u2", "h1", labels={"app": "other"}), seen("u3", "h1", labels={})),
    )
    assert dict(snapshot.counts) == {"test/p|zone=host": 2}
