"""Calls about more than a hundred nodes: whether kube-scheduler offers a sample of them (S02).

Each test has a scheduler of its own name, whose configuration is not read.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.doctor import witnessed


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[witnessed.Witnessed]:
    with witnessed.running(tmp_path_factory.mktemp("sampled")) as made:
        yield made


@pytest.fixture(scope="module")
def large(installed: witnessed.Witnessed) -> list[str]:
    """Names of 150 more nodes on which a pod fits."""
    made = [f"node-{number}" for number in range(150)]
    for name in made:
        installed.stage.node(name, role="a")
    return made


def test_a_sample_is_found_without_a_configuration(installed: witnessed.Witnessed, large: list[str]) -> None:
    one = witnessed.Scheduler(installed, "only-sampling")
    one.filter(one.pod("sampled"), large[:100])
    assert one.found(installed.doctor())["S02"] == "warning"


def test_a_sample_is_found_behind_calls_about_pods_that_the_log_does_not_have_yet(
    installed: witnessed.Witnessed, large: list[str]
) -> None:
    one = witnessed.Scheduler(installed, "hasty")
    pod = one.pod("sampled")
    one.filter(pod, large[:100])
    for number in range(3):
        new = {"name": f"{one.name}-new-{number}", "uid": f"{one.name}-new-{number}"}
        one.filter({**pod, "metadata": {**pod["metadata"], **new}}, large[:100])
    assert one.found(installed.doctor())["S02"] == "warning"


def test_a_sample_is_found_if_the_log_gets_each_pod_after_the_calls_about_it(
    installed: witnessed.Witnessed, large: list[str]
) -> None:
    one = witnessed.Scheduler(installed, "immediate")
    with installed.behind():
        one.filter(one.new("sampled"), large[:100])
    assert one.found(installed.doctor())["S02"] == "warning"


@pytest.mark.parametrize("change", ["added", "uncordoned"])
def test_nodes_that_came_after_a_call_are_no_evidence_of_a_sample(
    installed: witnessed.Witnessed, large: list[str], change: str
) -> None:
    one, stage = witnessed.Scheduler(installed, change), installed.stage
    before = one.pod("before")
    unseen = {"name": f"{one.name}-unseen", "uid": f"{one.name}-unseen"}
    pod = {**before, "metadata": {**before["metadata"], **unseen}}
    del pod["metadata"]["resourceVersion"]
    names = [f"{change}-{number}" for number in range(10)]

    def cordon(name: str, *, cordoned: bool) -> None:
        def edit(found: dict[str, Any]) -> dict[str, Any]:
            return {**found, "spec": {**found.get("spec", {}), "unschedulable": cordoned}}

        stage.api.objects.change("nodes", ("", name), edit)

    def add() -> None:
        for name in names:
            stage.node(name, role="a")
        stage.seen()

    if change == "uncordoned":
        add()
        for name in names:
            cordon(name, cordoned=True)
        stage.seen()
    one.filter(pod, [*large, *witnessed.NODES])
    if change == "uncordoned":
        for name in names:
            cordon(name, cordoned=False)
        stage.seen()
    else:
        add()
    stage.api.objects.create("pods", pod)
    verdict = one.found(installed.doctor())["S02"]
    for name in names:
        stage.api.objects.remove("nodes", ("", name))
    stage.seen()
    assert verdict == "unsure"


def test_a_pod_that_was_created_again_is_no_evidence_of_a_sample(
    installed: witnessed.Witnessed, large: list[str]
) -> None:
    one = witnessed.Scheduler(installed, "again")
    with installed.behind():
        gone = one.new("gone")
        one.filter(gone, large[:100])
        one.remove(gone)
        one.new("gone")
    assert one.found(installed.doctor())["S02"] == "unsure"


FEW: dict[str, Any] = {
    "selective": {"nodeSelector": {"kubernetes.io/hostname": "node-1"}},
    "spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "role", "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
}
"""Pods that kube-scheduler itself keeps from most nodes."""


@pytest.mark.parametrize("name", FEW)
def test_nodes_that_a_pod_may_not_run_on_are_no_evidence(
    installed: witnessed.Witnessed, large: list[str], name: str
) -> None:
    one = witnessed.Scheduler(installed, name)
    one.filter(one.pod("few", **FEW[name]), large[:120] if name == "spread" else large[1:2])
    assert one.found(installed.doctor())["S02"] == "unsure"
