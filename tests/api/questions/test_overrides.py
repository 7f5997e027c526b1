"""The operations of a situation: which events each becomes, and mistakes in them with their paths."""

import itertools
from typing import Any

import msgspec
import pytest

from app.api.v1.questions import bodies
from app.domain import events, model, observations
from app.plugins.workload_policy import kinds
from app.verbs.questions import situations
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem
from tests.support.extender.questions import ask, manifest, post, scale

OPS: list[dict[str, Any]] = [
    {"op": "cordon", "nodes": ["host-1"]},
    {"op": "uncordon", "nodes": ["host-1"]},
    {"op": "addNodes", "count": 2, "labels": {"role": "host"}, "allocatable": {"cpu": "4"}},
    {"op": "removeNodes", "nodes": ["host-1"]},
    {"op": "labelNodes", "nodes": ["host-1"], "labels": {"role": None, "new": "x"}},
    {"op": "addPods", "pod": manifest("extra"), "count": 2, "node": "host-1"},
    {"op": "deletePods", "pods": {"namespace": "shop", "selector": {"app": "web"}}, "most": 1},
    {"op": "labelPods", "pods": ["shop/a-5"], "labels": {"tier": "x"}},
    {"op": "patchObject", "kind": "workloadpolicies", "name": "shop/spread", "patch": {"type": "Preferred"}},
    {"op": "deleteObject", "kind": "workloadpolicies", "name": "shop/spread"},
    {
        "op": "setObject",
        "kind": "workloadpolicies",
        "manifest": {
            "metadata": {"name": "spread", "namespace": "shop"},
            "spec": {
                "topologyKey": "role",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "allocationPolicy": [{"name": "host", "replicas": 5}],
                "allocationType": "Required",
            },
        },
    },
    scale(host=5),
]
BECOMES = {
    "cordon": {"NodeSeen": 1},
    "uncordon": {},
    "addNodes": {"NodeSeen": 2},
    "removeNodes": {"PodGone": 1, "NodeGone": 1},
    "labelNodes": {"NodeSeen": 1},
    "addPods": {"PodSeen": 2},
    "deletePods": {"PodGone": 1},
    "labelPods": {"PodSeen": 1},
    "patchObject": {"ObjectObserved": 1},
    "deleteObject": {"ObjectGone": 1},
    "setObject": {"ObjectObserved": 1},
    "scalePolicy": {"ObjectObserved": 1},
}


@pytest.mark.parametrize("override", OPS, ids=[one["op"] for one in OPS])
def test_every_operation_becomes_ordinary_events(six: api_worlds.World, override: dict[str, Any]) -> None:
    situation = ask(six, "simulate", pending={}, situation={"overrides": [override]})["situation"]
    assert situation["events"] == BECOMES[override["op"]]
    assert situation["idle"] == ([0] if override["op"] == "uncordon" else [])


@pytest.mark.parametrize("op", ["cordon", "uncordon", "removeNodes", "labelNodes"])
def test_nodes_are_selected_by_labels_as_by_their_names(six: api_worlds.World, op: str) -> None:
    hosts = sorted(name for name in six.store.follower.catch_up().nodes if name.startswith("host-"))
    for nodes in (hosts, {"selector": {"role": "host"}}, [*hosts, hosts[0]]):
        override = {"op": op, "nodes": nodes, **({"labels": {"x": "y"}} if op == "labelNodes" else {})}
        first = [{"op": "cordon", "nodes": hosts}] if op == "uncordon" else []
        answer = ask(six, "simulate", pending={}, situation={"overrides": [*first, override]})
        changed = sum(number for kind, number in answer["situation"]["events"].items() if "Node" in kind)
        assert changed == len(first) * len(hosts) + len(hosts) == (8 if first else 4)


def test_an_empty_selector_selects_all_nodes(six: api_worlds.World) -> None:
    override = {"op": "cordon", "nodes": {"selector": {}}}
    situation = ask(six, "simulate", pending={}, situation={"overrides": [override]})["situation"]
    assert situation["events"] == {"NodeSeen": 6}


LABELLING: dict[str, dict[str, Any]] = {
    "addNodes": {},
    "labelNodes": {"nodes": ["host-1"]},
    "labelPods": {"pods": ["shop/a-5"]},
}
MISTAKEN_OVERRIDES: list[tuple[dict[str, Any], str]] = [
    ({"op": "cordn", "nodes": ["host-1"]}, ".op: there is no operation 'cordn'; did you mean cordon?"),
    ({"nodes": ["host-1"]}, ".op: there is no operation 'None'"),
    ({"op": "cordon"}, ": object missing required field `nodes`"),
    ({"op": "cordon", "node": "host-1"}, "did you mean nodes?"),
    ({"op": "cordon", "nodes": ["host-1", "n9"]}, ".nodes[1]: there is no node n9 at"),
    ({"op": "removeNodes", "nodes": ["host-1", "host-1", "n9"]}, ".nodes[2]: there is no node n9 at"),
    (
        {"op": "removeNodes", "nodes": {"selector": {"role": "host", "zone": "z"}}},
        ".nodes.selector: no node has the labels role=host,zone=z at",
    ),
    ({"op": "cordon", "nodes": {}}, ".nodes: object missing required field `selector`"),
    ({"op": "cordon", "nodes": []}, ".nodes: expected `array` of length >= 1"),
    ({"op": "addNodes", "count": 5001}, ".count: expected `int` <= 5000"),
    ({"op": "addNodes", "like": "n9"}, ".like: there is no node n9 at"),
    ({"op": "addNodes", "allocatable": {"cpu": "four"}}, ".allocatable: "),
    ({"op": "addNodes", "allocatable": {"cpu": "-5"}}, ".allocatable: cpu is negative: -5"),
    ({"op": "addNodes", "allocatable": {"a b": "5"}}, ".allocatable: must be a qualified name"),
    *(
        ({"op": "addNodes", "prefix": prefix}, ".prefix: must be how a DNS subdomain begins")
        for prefix in ("a/b, c\n", "Rack", "-a", "a.", "a..b", "a\n")
    ),
    *(
        ({"op": op, **named, "labels": {key: "x"}}, ".labels: must be a qualified name")
        for op, named in LABELLING.items()
        for key in ("", "bad key!", "/x", "A.example/x", "a/b/c", "x\n", "x" * 64)
    ),
    *(
        ({"op": op, **named, "labels": {"x": value}}, ".labels[...]: must be a label value")
        for op, named in LABELLING.items()
        for value in ("x y", "-x", "x\n", "v" * 64)
    ),
    ({"op": "addPods", "like": "shop/none"}, ".like: there is no pod shop/none at"),
    ({"op": "addPods"}, ".pod: exactly one of pod and like"),
    ({"op": "deletePods", "pods": ["shop/none"]}, ".pods[0]: there is no pod shop/none at"),
    ({"op": "deletePods", "pods": {"namespce": "shop"}}, "namespce"),
    ({"op": "deleteObject", "kind": "secrets", "name": "a/b"}, ".kind: there is no kind secrets"),
    (
        {"op": "deleteObject", "kind": "workloadpolicies", "name": "a/b"},
        ".name: there is no workloadpolicies a/b",
    ),
    (
        {
            "op": "setObject",
            "kind": "workloadpolicies",
            "manifest": {"metadata": {"name": "x", "namespace": "shop"}, "spec": {}},
        },
        ".manifest: spec.topologyKey is missing",
    ),
    (
        {"op": "setObject", "kind": "workloadpolicies", "manifest": {"metadata": {"name": "x"}, "spec": {}}},
        ".manifest.metadata: a namespace is required",
    ),
    (
        {"op": "patchObject", "kind": "workloadpolicies", "name": "shop/spread", "patch": {"tpe": 1}},
        ".patch: workloadpolicies have no field tpe",
    ),
    (
        {"op": "patchObject", "kind": "workloadpolicies", "name": "shop/spread", "patch": {"name": "other"}},
        ".patch: the identity of an object cannot be changed",
    ),
    (
        {
            "op": "patchObject",
            "kind": "workloadpolicies",
            "name": "shop/spread",
            "patch": {"type": "required"},
        },
        ".patch: spec.allocationType must be one of Preferred, Required, not 'required'",
    ),
    (
        {
            "op": "patchObject",
            "kind": "workloadpolicies",
            "name": "shop/spread",
            "patch": {"selector": {"matchLabels": None}},
        },
        ".patch: workloadpolicies have no field selector.matchLabels",
    ),
    (
        {
            "op": "setObject",
            "kind": "poddisruptionbudgets",
            "manifest": {
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "in"}]}},
                "status": {"disruptionsAllowed": 1},
            },
        },
        ".manifest: operator must be one of In, NotIn, Exists, DoesNotExist, not 'in'",
    ),
    *(
        (
            {
                "op": "setObject",
                "manifest": {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": "web", "namespace": "shop"},
                    "spec": {"maxUnavailable": 5, "selector": {"matchLabels": {"app": "web"}}},
                    "status": status,
                },
            },
            ".manifest.status.disruptionsAllowed: a value is required: in a cluster, the disruption",
        )
        for status in (None, {}, {"disruptionsAllowed": None}, {"disruptionAllowed": 1})
    ),
    ({**scale(host=1), "policy": "spread"}, ".policy: must be NAMESPACE/NAME"),
    ({"op": "deletePods", "pods": ["shop/a-1", "a-2"]}, ".pods[1]: must be NAMESPACE/NAME"),
    (scale(hosst="+2"), ".allocations.hosst: the policy does not list the domain"),
    (scale(**{"not a label": 1}), ".allocations: spec.allocationPolicy"),
    (scale(**{f"d{at}": 1 for at in range(1_000)}), ".allocations: spec.allocationPolicy has 1002 entries"),
    (scale(host="lots"), ".allocations.host: 'lots' is neither a number nor a change"),
    (scale(host="-9"), ".allocations.host: -6 replicas are not between 0 and"),
    ({"op": "scalePolicy", "policy": "shop/none", "allocations": {"a": 1}}, ".policy: there is no workload"),
]


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(("override", "words"), MISTAKEN_OVERRIDES)
def test_a_mistaken_override_is_400_with_its_path(
    six: api_worlds.World, override: dict[str, Any], words: str
) -> None:
    overrides = [{"op": "cordon", "nodes": ["host-1"]}, override]
    response = post(six, "simulate", {"pending": {}, "situation": {"overrides": overrides}})
    assert_problem(response, 400, "BadRequest", "situation.overrides[1]", words)


@pytest.mark.parametrize("name", ["", "x", "v" * 63, "A_b.c-9"])
def test_names_that_kubernetes_accepts_are_accepted(six: api_worlds.World, name: str) -> None:
    labels = {"example.com/Key_1": name, "a" * 63: name, "gone": None}
    for op, named in LABELLING.items():
        override = {"op": op, **named, "labels": labels}
        ask(six, "simulate", pending={}, situation={"overrides": [override]})
    for prefix in ("a", "9-", "rack.example", "x" * 240):
        override = {"op": "addNodes", "prefix": prefix, "allocatable": {"example.com/gpu": "0", "cpu": "1"}}
        ask(six, "simulate", pending={}, situation={"overrides": [override]})


def test_an_invalid_policy_is_not_scaled(six: api_worlds.World) -> None:
    policy = six.store.follower.catch_up().get(kinds.POLICIES, "shop/spread")
    assert policy is not None
    six.append(kinds.POLICIES.observed(msgspec.structs.replace(policy, errors=("spec is odd",))))
    response = post(six, "simulate", {"pending": {}, "situation": {"overrides": [scale(host=2)]}})
    text = "situation.overrides[0].policy: shop/spread is invalid: spec is odd"
    assert_problem(response, 400, "BadRequest", text)


@pytest.mark.scenario("WI-11")
def test_bounds_hold_for_the_situation_as_a_whole(six: api_worlds.World) -> None:
    add = {"op": "addNodes", "count": 3000}
    response = post(six, "simulate", {"pending": {}, "situation": {"overrides": [add, add]}})
    assert_problem(response, 400, "TooMuch", "overrides[1]", "6000 added nodes", "at most 5000")
    pods = {"op": "addPods", "like": "shop/a-5", "count": 15_000, "node": "host-1"}
    more = post(six, "simulate", {"pending": {}, "situation": {"overrides": [pods, pods]}})
    assert_problem(more, 400, "TooMuch", "30000 added or deleted pods", "at most 20000")
    every = {"selector": {"role": "host"}}
    flip = [{"op": "labelNodes", "nodes": every, "labels": {"a": str(turn)}} for turn in range(9)]
    added = {"op": "addNodes", "count": 5000, "like": "host-1"}
    flips = post(six, "simulate", {"pod": "shop/a-5", "situation": {"overrides": [added, *flip]}})
    assert_problem(flips, 400, "TooMuch", "overrides[9]", "50001 changes or more", "at most 50000")
    many = [{"op": "cordon", "nodes": ["host-1"]}] * 101
    assert_problem(
        post(six, "simulate", {"pending": {}, "situation": {"overrides": many}}), 400, "BadRequest", "<= 100"
    )


@pytest.mark.scenario("WI-11")
def test_no_more_events_are_made_than_the_bound_allows(
    six: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    six.append(*(api_worlds.pod_seen(f"b-{at}") for at in range(100)))
    made: list[model.Pod] = []
    pod = observations.pod

    def counted(before: model.Pod | None, after: model.Pod) -> tuple[events.AnyEvent, ...]:
        made.append(after)
        return pod(before, after)

    monkeypatch.setattr(situations, "MAX_CHANGES", 5)
    monkeypatch.setattr(observations, "pod", counted)
    label = {"op": "labelPods", "pods": {}, "labels": {"x": "y"}}
    response = post(six, "simulate", {"pending": {}, "situation": {"overrides": [label]}})
    assert_problem(response, 400, "TooMuch", "overrides[0]", "6 changes or more", "at most 5")
    assert len(made) == 6


NOTHING: list[dict[str, Any]] = [
    {"op": "labelPods", "pods": {"namespace": "shop"}, "labels": {"x": None}},
    {"op": "deletePods", "pods": {"selector": {"none": "such"}}},
    {"op": "labelNodes", "nodes": {"selector": {}}, "labels": {"x": None}},
    {"op": "uncordon", "nodes": {"selector": {}}},
]


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize("override", NOTHING, ids=[one["op"] for one in NOTHING])
def test_what_is_read_is_bounded_also_if_nothing_is_changed(
    six: api_worlds.World, monkeypatch: pytest.MonkeyPatch, override: dict[str, Any]
) -> None:
    """There are six nodes and six pods."""
    monkeypatch.setattr(situations, "MAX_READ", 0)
    most = situations.MAX_TIMES_READ * 12
    questions: list[dict[str, Any]] = [{"pending": {}}, {"pod": "shop/a-5"}]
    for question in questions:
        asked = {**question, "situation": {"overrides": [override] * (most // 6)}}
        assert len(ask(six, "simulate", **asked)["situation"]["idle"]) == most // 6
        asked["situation"] = {"overrides": [override] * (most // 6 + 1)}
        response = post(six, "simulate", asked)
        assert_problem(response, 400, "TooMuch", f"overrides[{most // 6}]", f"at most {most}")


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize("question", ["simulate", "fit"])
def test_no_override_is_applied_once_the_budget_is_spent(
    six: api_worlds.World, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """All the same the first one is: a question with one override has an answer."""
    monkeypatch.setattr(bodies, "monotonic", itertools.count().__next__)
    asked = {"pod": "shop/a-5", "budget": 2.5, "situation": {"overrides": NOTHING * 2}}
    words = ("situation.overrides[3]", "the budget was spent on the 3 before it")
    assert_problem(post(six, question, asked), 400, "TooMuch", *words)
    ask(six, question, pod="shop/a-5", budget=0.1, situation={"overrides": NOTHING[:1]})


def test_a_question_may_name_as_many_pods_as_it_may_delete(six: api_worlds.World) -> None:
    deletion = {"op": "deletePods", "pods": ["shop/a-5"] * situations.MAX_CHANGED_PODS}
    answer = ask(six, "simulate", pending={}, situation={"overrides": [deletion]})
    assert [one["pod"] for one in answer["refused"]] == ["shop/a-6"]


def test_a_question_of_too_many_values_is_refused(six: api_worlds.World) -> None:
    deletion = {"op": "deletePods", "pods": ["s/a"] * 100_001}
    response = post(six, "simulate", {"pending": {}, "situation": {"overrides": [deletion]}})
    assert_problem(response, 400, "BadRequest", "JSON has more than 100000 values")
