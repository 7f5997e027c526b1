"""The smallest change that would let a pod fit: told in words, and true."""

import msgspec
import pytest

from app import plugins
from app.domain import events, model, projecting, snapshots
from app.framework import registry
from app.plugins.workload_policy import plugin as workload_policy
from app.verbs import explaining

POLICY = "workload-policy/kosmos.io"
PLUGINS = registry.Registry([plugin() for plugin in plugins.IN_TREE])


def policy(**changed: object) -> model.WorkloadPolicy:
    whole = model.WorkloadPolicy(
        uid="p",
        namespace="ns",
        name="p",
        topology_key="role",
        selector=model.Selector(labels={"app": "web"}),
        allocations=(model.Allocation("host", 2), model.Allocation("member", 1)),
        type="Required",
    )
    return msgspec.structs.replace(whole, **changed)


def pod(name: str, node: str = "", **changed: object) -> model.Pod:
    whole = model.Pod(
        uid=name, namespace="ns", name=name, node=node, labels={"app": "web", POLICY: "p"}, priority=1
    )
    return msgspec.structs.replace(whole, **changed)


def snapshot(*happened: events.AnyEvent) -> snapshots.Snapshot:
    nodes = [
        events.NodeSeen(node=model.Node(name=name, uid=name, labels=labels))
        for name, labels in {"h1": {"role": "host"}, "h2": {"role": "host"}, "m1": {"role": "member"}}.items()
    ]
    return projecting.project_all(snapshots.empty(indexed=PLUGINS.indexed()), [*nodes, *happened])


def full(**changed: object) -> tuple[events.AnyEvent, ...]:
    seen = [events.PodSeen(pod=pod(f"on-{node}", node)) for node in ("h1", "h2", "m1")]
    return (events.PolicySeen(policy=policy(**changed)), *seen)


CASES = {
    "full": (
        full(),
        pod("w"),
        {
            "host needs 1 more replica in policy ns/p, or 1 counted pod less",
            "member needs 1 more replica in policy ns/p, or 1 counted pod less",
        },
    ),
    "the smaller of two": (
        full(allocations=(model.Allocation("host", 0), model.Allocation("member", 1))),
        pod("w"),
        {"member needs 1 more replica in policy ns/p, or 1 counted pod less"},
    ),
    "nothing to take away": (
        (events.PolicySeen(policy=policy(allocations=(model.Allocation("host", 0),))),),
        pod("w"),
        {"host needs 1 more replica in policy ns/p"},
    ),
    "a nominated pod counts": (
        (
            events.PolicySeen(policy=policy(allocations=(model.Allocation("host", 1),))),
            events.PodSeen(pod=pod("soon", nominated="h1", priority=9)),
        ),
        pod("w"),
        {"host needs 1 more replica in policy ns/p, or 1 counted pod less"},
    ),
    "unlisted": (
        (events.PolicySeen(policy=policy(allocations=(model.Allocation("rack", 1),))),),
        pod("w"),
        None,
    ),
    "absent": (
        (),
        pod("w"),
        {f"workload policy ns/p, which the pod's label {POLICY} names, would have to be created"},
    ),
    "invalid": (
        (events.PolicySeen(policy=policy(errors=("replicas must not be negative",))),),
        pod("w"),
        {"policy ns/p would have to be valid: replicas must not be negative"},
    ),
    "empty label": (
        (),
        pod("w", labels={POLICY: ""}),
        {f"the pod's label {POLICY} is empty: it would have to name a policy, or to go"},
    ),
    "not selected": (
        (events.PolicySeen(policy=policy()),),
        pod("w", labels={POLICY: "p"}),
        {"the pod would need the label app=web to be selected by policy ns/p"},
    ),
    "not selected and full": (
        full(allocations=(model.Allocation("member", 1),)),
        pod("w", labels={POLICY: "p"}),
        {
            "member needs 1 more replica in policy ns/p, or 1 counted pod less;"
            " and the pod would need the label app=web to be selected by policy ns/p"
        },
    ),
    "no node labelled": (
        (),
        pod("w", labels={}, scheduler="i-scheduler-extender"),
        {"a node would need the label priority.lixueduan.com, such as h1"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_smallest_change_is_told(case: str) -> None:
    happened, waiting, expected = CASES[case]
    explanation = explaining.presently(waiting, snapshot(*happened), PLUGINS)
    assert not explanation.fits
    if expected is None:
        assert any("rack" in change or "list host" in change for change in explanation.changes)
    else:
        assert set(explanation.changes) == expected


def test_the_change_told_does_help() -> None:
    before = snapshot(*full())
    raised = policy(allocations=(model.Allocation("host", 3), model.Allocation("member", 1)))
    after = projecting.project(before, events.PolicySeen(policy=raised))
    assert not explaining.presently(pod("w"), before, PLUGINS).fits
    assert explaining.presently(pod("w"), after, PLUGINS).fits


def test_a_pod_that_fits_needs_no_change() -> None:
    assert explaining.presently(pod("w"), snapshot(events.PolicySeen(policy=policy())), PLUGINS).changes == ()


def test_a_cluster_without_nodes_says_so() -> None:
    nowhere = snapshots.empty(indexed=PLUGINS.indexed())
    assert explaining.presently(pod("w"), nowhere, PLUGINS).changes == ("there is no node in the cluster",)


# -- enforce: selected -------------------------------------------------------------------------

SELECTED = registry.Registry([workload_policy.WorkloadPolicy(enforce="selected")])


def test_a_pod_that_is_only_selected_is_told_which_quota_to_raise() -> None:
    waiting = pod("w", labels={"app": "web"})
    assert explaining.presently(waiting, snapshot(*full()), PLUGINS).fits
    explanation = explaining.presently(waiting, snapshot(*full()), SELECTED)
    assert not explanation.fits
    assert set(explanation.changes) == {
        "host needs 1 more replica in policy ns/p, or 1 counted pod less",
        "member needs 1 more replica in policy ns/p, or 1 counted pod less",
    }


def test_a_pod_under_two_full_policies_is_told_of_both_quotas_together() -> None:
    second = policy(uid="q", name="q", allocations=(model.Allocation("host", 2),))
    first = full(allocations=(model.Allocation("host", 2),))
    explanation = explaining.presently(pod("w"), snapshot(*first, events.PolicySeen(policy=second)), SELECTED)
    assert explanation.changes == (
        "host needs 1 more replica in policy ns/p, or 1 counted pod less;"
        " and host needs 1 more replica in policy ns/q, or 1 counted pod less",
    )
