"""The smallest change that would let a pod fit is shown in words, and helps."""

import dataclasses
from functools import partial

import msgspec
import pytest

from app import plugins
from app.domain import events, model, projections, snapshots
from app.framework import capabilities, cluster_changes, registry
from app.plugins.workload_policy import plugin as workload_policy
from app.plugins.workload_policy import policy_model
from app.verbs.explain import explanations
from tests.support import declared
from tests.support.decisions import fake_plugins

POLICY = "workload-policy/kosmos.io"
PLUGINS = registry.Registry([plugin() for plugin in plugins.USUAL])


def policy(**changed: object) -> policy_model.WorkloadPolicy:
    whole = policy_model.WorkloadPolicy(
        uid="p",
        namespace="ns",
        name="p",
        topology_key="role",
        selector=model.Selector(labels={"app": "web"}),
        allocations=(policy_model.Allocation("host", 2), policy_model.Allocation("member", 1)),
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
    return projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=PLUGINS.indexed()), [*nodes, *happened]
    )


def full(**changed: object) -> tuple[events.AnyEvent, ...]:
    seen = [events.PodSeen(pod=pod(f"on-{node}", node)) for node in ("h1", "h2", "m1")]
    return (declared.observed(policy(**changed)), *seen)


CASES = {
    "full": (
        full(),
        pod("w"),
        {
            "host needs 1 more replica in policy ns/p, or 1 counted pod fewer",
            "member needs 1 more replica in policy ns/p, or 1 counted pod fewer",
        },
    ),
    "the smaller of two": (
        full(allocations=(policy_model.Allocation("host", 0), policy_model.Allocation("member", 1))),
        pod("w"),
        {"member needs 1 more replica in policy ns/p, or 1 counted pod fewer"},
    ),
    "nothing to take away": (
        (declared.observed(policy(allocations=(policy_model.Allocation("host", 0),))),),
        pod("w"),
        {"host needs 1 more replica in policy ns/p"},
    ),
    "a nominated pod counts": (
        (
            declared.observed(policy(allocations=(policy_model.Allocation("host", 1),))),
            events.PodSeen(pod=pod("soon", nominated="h1", priority=9)),
        ),
        pod("w"),
        {"host needs 1 more replica in policy ns/p, or 1 counted pod fewer"},
    ),
    "unlisted": (
        (declared.observed(policy(allocations=(policy_model.Allocation("rack", 1),))),),
        pod("w"),
        None,
    ),
    "absent": (
        (),
        pod("w"),
        {f"workload policy ns/p, which the pod's label {POLICY} names, would have to be created"},
    ),
    "invalid": (
        (declared.observed(policy(errors=("replicas must not be negative",))),),
        pod("w"),
        {"policy ns/p would have to be valid: replicas must not be negative"},
    ),
    "empty label": (
        (),
        pod("w", labels={POLICY: ""}),
        {f"the pod's label {POLICY} is empty: it would have to name a policy, or to go"},
    ),
    "strict domains, which may be full": (
        (
            declared.observed(
                policy(
                    topology_key="zone",
                    type="Preferred",
                    strict_domains=True,
                    allocations=(policy_model.Allocation("a", 0),),
                )
            ),
        ),
        pod("w"),
        {"a node would need the label zone=a, such as h1"},
    ),
    "not selected": (
        (declared.observed(policy()),),
        pod("w", labels={POLICY: "p"}),
        {"the pod would need the label app=web to be selected by policy ns/p"},
    ),
    "not selected and full": (
        full(allocations=(policy_model.Allocation("member", 1),)),
        pod("w", labels={POLICY: "p"}),
        {
            "member needs 1 more replica in policy ns/p, or 1 counted pod fewer;"
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
def test_the_smallest_change_is_shown(case: str) -> None:
    happened, waiting, expected = CASES[case]
    explanation = explanations.presently(waiting, snapshot(*happened), PLUGINS)
    assert not explanation.fits
    if expected is None:
        assert any("rack" in change or "list host" in change for change in explanation.changes)
    else:
        assert set(explanation.changes) == expected


def test_the_change_that_is_shown_helps() -> None:
    before = snapshot(*full())
    raised = policy(allocations=(policy_model.Allocation("host", 3), policy_model.Allocation("member", 1)))
    after = projections.project(before, declared.observed(raised))
    assert not explanations.presently(pod("w"), before, PLUGINS).fits
    assert explanations.presently(pod("w"), after, PLUGINS).fits


def test_a_pod_that_fits_needs_no_change() -> None:
    assert explanations.presently(pod("w"), snapshot(declared.observed(policy())), PLUGINS).changes == ()


def test_a_cluster_without_nodes_is_shown_as_such() -> None:
    nowhere = snapshots.empty(schema=declared.SCHEMA, indexed=PLUGINS.indexed())
    explanation = explanations.presently(pod("w"), nowhere, PLUGINS)
    assert (explanation.summary, explanation.changes) == ("there is no node in the cluster", ())


# -- enforce: selected -------------------------------------------------------------------------

SELECTED = registry.Registry([workload_policy.WorkloadPolicy(enforce="selected")])


def test_a_pod_that_is_only_selected_is_shown_the_quota_to_raise() -> None:
    waiting = pod("w", labels={"app": "web"})
    assert explanations.presently(waiting, snapshot(*full()), PLUGINS).fits
    explanation = explanations.presently(waiting, snapshot(*full()), SELECTED)
    assert not explanation.fits
    assert set(explanation.changes) == {
        "host needs 1 more replica in policy ns/p, or 1 counted pod fewer",
        "member needs 1 more replica in policy ns/p, or 1 counted pod fewer",
    }


def test_a_pod_under_two_full_policies_is_shown_both_quotas_together() -> None:
    second = policy(uid="q", name="q", allocations=(policy_model.Allocation("host", 2),))
    first = full(allocations=(policy_model.Allocation("host", 2),))
    explanation = explanations.presently(pod("w"), snapshot(*first, declared.observed(second)), SELECTED)
    assert explanation.changes == (
        "host needs 1 more replica in policy ns/p, or 1 counted pod fewer;"
        " and host needs 1 more replica in policy ns/q, or 1 counted pod fewer",
    )


# -- what plugins propose ----------------------------------------------------------------------


REFUSED = "Filtering would have to accept one of the 3 nodes that it refuses: refused (3 held)"


def crowded(*proposed: cluster_changes.Hypothesis) -> fake_plugins.Advising:
    """Refuses every node that holds a pod."""
    return fake_plugins.Advising(crowded=True, proposed=proposed)


def gone(name: str) -> events.PodGone:
    return events.PodGone(uid=name, namespace="ns", name=name)


def proposal(message: str, cost: int, *names: str) -> cluster_changes.Hypothesis:
    return cluster_changes.Hypothesis(message, cost, tuple(partial(gone, name) for name in names))


def advised(*plugins: capabilities.Plugin) -> tuple[str, ...]:
    return explanations.presently(pod("w"), snapshot(*full()), registry.Registry(plugins)).changes


def test_only_changes_that_help_are_shown_the_cheapest_ones_first() -> None:
    plugin = crowded(
        proposal("b leaves", 2, "on-h2"),
        proposal("a leaves", 2, "on-h1"),
        proposal("another one leaves", 1, "on-another"),
        proposal("both leave", 3, "on-h1", "on-h2"),
    )
    assert advised(plugin) == ("a leaves", "b leaves")


def test_an_indirect_change_is_not_evaluated_alone() -> None:
    """It is where another plugin refuses nodes, or changes what the plugin reads."""
    plugin = crowded(dataclasses.replace(proposal("a leaves", 1, "on-h1"), indirect=True))
    refused = "Advising would have to accept one of the 3 nodes that it refuses: refused (3 held)"
    assert advised(plugin) == (refused,)
    other = fake_plugins.Filtering(name="Other", refused=frozenset(("m1",)))
    for beside in (other, fake_plugins.Transforming(), fake_plugins.TransformingNodes()):
        assert advised(plugin, beside) == ("a leaves",)
    # Beside another change it is.
    labelled = cluster_changes.Hypothesis("the pod waits", 2, pod=pod("w", priority=2))
    assert advised(dataclasses.replace(plugin, proposed=(*plugin.proposed, labelled))) == (
        "a leaves; and the pod waits",
    )


def test_two_changes_are_combined_where_no_single_one_helps() -> None:
    crowding = crowded(
        proposal("a leaves", 1, "on-h1"),
        cluster_changes.Hypothesis("the pod loses its label", 2, pod=pod("w", labels={"other": "yes"})),
    )
    other = fake_plugins.Filtering(name="Labelled", label="app", refused=frozenset(("h1", "h2", "m1")))
    assert advised(crowding, other) == ("a leaves; and the pod loses its label",)


def test_a_plugin_that_proposes_nothing_is_shown_with_its_reason() -> None:
    plugin = fake_plugins.Filtering(crowded=True)
    assert advised(plugin) == (
        "Filtering would have to accept one of the 3 nodes that it refuses: refused (3 held)",
    )


def test_a_plugin_that_refused_nothing_is_not_asked() -> None:
    helping = proposal("all leave", 1, "on-h1", "on-h2", "on-m1")
    asleep = fake_plugins.Advising(name="Asleep", proposed=(helping,))
    assert advised(fake_plugins.Filtering(crowded=True), asleep) == (REFUSED,)
    assert advised(crowded(helping), asleep) == ("all leave",)
