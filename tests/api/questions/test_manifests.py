"""Pods of manifests as people write them: with the API server's defaults, without what admission adds."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.domain import events
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem
from tests.support.extender.questions import ask, manifest, post

GPU = "nvidia.com/gpu"
REASON = f"0 of 6 nodes fit by kube-scheduler's own rules: 6 Insufficient {GPU}"
UNADMITTED = (
    "not modelled: what admission adds to the pod of a manifest, such as requests of a LimitRange or overhead"
    " of a RuntimeClass"
)


def limited(name: str = "new", /, **spec: object) -> dict[str, Any]:
    """A pod with limits and no requests."""
    made = manifest(name)
    made["spec"] = {"containers": [{"name": "c", "resources": {"limits": {GPU: 8}}}], **spec}
    return made


def test_a_pod_requests_its_limits(six: api_worlds.World) -> None:
    """No node has a GPU, so a pod that requests none would fit anywhere."""
    six.append(api_worlds.policy(host=99))
    assert ask(six, "simulate", pod=limited(), candidates="roomy")["refused"][0]["reason"] == REASON
    assert ask(six, "simulate", pods=[limited()])["refused"][0]["reason"] == REASON
    assert ask(six, "fit", pod=limited(), candidates="roomy")["summary"] == REASON
    added = {"op": "addPods", "pod": limited("added")}
    answer = ask(six, "simulate", pending={"namespace": "shop"}, situation={"overrides": [added]})
    assert [one["reason"] for one in answer["refused"]] == [REASON]
    node = api_worlds.node("host-4", role="host").node
    capable = msgspec.structs.replace(node, allocatable=node.allocatable | {GPU: 8})
    six.append(events.NodeSeen(node=capable))
    both = ask(six, "simulate", pods=[limited("one"), limited("two")])
    assert [one["node"] for one in both["placed"]] == ["host-4"]
    assert [one["pod"] for one in both["refused"]] == ["shop/two"]


QUESTIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "pod": lambda pod: {"pod": pod},
    "pods": lambda pod: {"pods": ["shop/a-5", pod]},
    "override": lambda pod: {
        "pod": "shop/a-5",
        "situation": {"overrides": [{"op": "addPods", "pod": pod}]},
    },
}


@pytest.mark.parametrize(
    ("question", "asked"),
    [*(("simulate", asked) for asked in QUESTIONS), ("fit", "pod"), ("fit", "override")],
)
def test_what_admission_adds_is_named(six: api_worlds.World, question: str, asked: str) -> None:
    def limits(**spec: object) -> list[str]:
        found: list[str] = ask(six, question, **QUESTIONS[asked](limited(**spec)))["limits"]
        return found

    assert UNADMITTED in limits()
    assert not [one for one in limits() if "priorityClassName" in one]
    assert not [one for one in limits(priorityClassName="high", priority=7) if "priorityClassName" in one]
    assert limits(priorityClassName="high")[-1] == (
        "of pods with the priorityClassName high, the priority is taken as 0:"
        " PriorityClasses are not recorded; write spec.priority"
    )


@pytest.mark.parametrize("question", ["simulate", "fit"])
def test_pods_that_are_recorded_have_what_admission_adds(six: api_worlds.World, question: str) -> None:
    assert UNADMITTED not in ask(six, question, pod="shop/a-5")["limits"]


@pytest.mark.parametrize("field", ["creationTimestamp", "resourceVersion"])
def test_a_manifest_of_a_pod_that_exists_has_what_admission_adds(six: api_worlds.World, field: str) -> None:
    """As `kubectl get -o yaml` prints it; `kubectl create --dry-run=client` prints null."""
    given = limited()
    given["metadata"][field] = None
    assert UNADMITTED in ask(six, "simulate", pod=given)["limits"]
    given["metadata"][field] = {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7"}[field]
    assert UNADMITTED not in ask(six, "simulate", pod=given)["limits"]
    assert UNADMITTED in ask(six, "simulate", pods=[given, limited("other")])["limits"]


@pytest.mark.parametrize("name", [7, [], {"a": "b"}, "x" * 254])
@pytest.mark.parametrize("further", [{}, {"preemption": True}, {"candidates": "roomy"}])
def test_a_priority_class_has_a_name(six: api_worlds.World, name: object, further: dict[str, object]) -> None:
    response = post(six, "simulate", {"pod": limited(priorityClassName=name), **further})
    text = "pod.spec.priorityClassName: a text of at most 253 characters is required"
    assert_problem(response, 400, "BadRequest", text)


def test_a_dry_run_requires_the_priority_of_a_class(six: api_worlds.World) -> None:
    response = post(six, "simulate", {"pod": limited(priorityClassName="high"), "preemption": True})
    text = "pod.spec.priority: a dry run requires it: PriorityClass high is not recorded"
    assert_problem(response, 400, "BadRequest", text)
    answer = ask(six, "simulate", pod=limited(priorityClassName="high", priority=9), preemption=True)
    assert answer["preemption"]["priority"] == 9
