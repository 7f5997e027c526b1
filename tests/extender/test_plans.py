"""A plan of several pods through real processes: two extenders with a planning plugin, one without it."""

import functools
import os
import sys
from collections.abc import Iterator

import pytest

from app.simulation.apiserver import faults
from tests.support import polling
from tests.support.decisions import pod_sets
from tests.support.extender import stages
from tests.support.store import materialised

PLANNING = (sys.executable, "-m", "tests.support.extender.planning_topolog")
ENABLED = "NodeLabelPriority,JobAffinity,WorkloadPolicy,PodSets"
SEATS = ("n1", "n1", "n2")
BINDING = faults.calls("POST", "/binding")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stages.Stage]:
    with stages.raised(tmp_path_factory.mktemp("plans")) as made:
        yield made


def planning(stage: stages.Stage, name: str) -> int:
    """Start an extender with the plugin; its number."""
    made = stage.extend(name, program=PLANNING, TOPOLOG_PLUGINS_ENABLED=ENABLED, PYTHONPATH=os.getcwd())
    made.ready()
    return len(stage.replicas) - 1


def binds(caller: stages.Caller, pod: stages.Json, node: str) -> bool:
    """Whether a bind of the pod succeeds now."""
    return caller.post("/bind", stages.bind(pod, node)).json == {"Error": ""}


def test_a_plan_survives_the_extender_that_made_it(stage: stages.Stage) -> None:
    for node in sorted(set(SEATS)):
        stage.node(node, role="host")
    stage.policy("shop", "spread", stages.spec(host=len(SEATS)))
    pods = []
    for number, seat in enumerate(SEATS):
        labels = {pod_sets.POD_SET: "c", pod_sets.SEAT: seat, "app": "web", stages.POLICY_LABEL: "spread"}
        pods.append(stage.pod("shop", f"web-{number}", labels))
    rival = stage.pod("shop", "rival", {"app": "web", stages.POLICY_LABEL: "spread"})
    stage.seen()
    first = planning(stage, "planning-1")
    caller = stage.caller(replica=first)
    for pod, seat in zip(pods, SEATS, strict=True):
        reply = caller.post("/filter", stages.request(pod, "n1", "n2")).json
        assert reply["NodeNames"] == [seat]

    # The first Binding is lost, and with it the extender that sent it.
    stage.api.faults.add(faults.FaultKind.FAIL, BINDING, status=500)
    assert "not known" in caller.post("/bind", stages.bind(pods[0], "n1")).json["Error"]
    caller.close()
    stage.replicas[first].process.kill()

    # Another extender, without the plugin, has the plan.
    other = stage.caller()
    refused = other.post("/filter", stages.request(rival, "n1", "n2")).json
    assert set(refused["FailedAndUnresolvableNodes"]) == {"n1", "n2"}
    viewer = stage.caller("viewer")
    decided = []
    for pod, seat in zip(pods, SEATS, strict=True):
        shown = viewer.ask("GET", f"/apis/v1/pods/shop/{pod['metadata']['name']}").json
        assert (shown["state"], shown["node"]) == ("placed", seat)
        assert shown["placement"]["planned"] == (pod is not pods[0])
        assert shown["placement"]["data"]["PodSets"]["decided"]["with"] == 2
        decided.append(shown["placement"]["annotations"][pod_sets.TICKET])
    assert len(set(decided)) == len(SEATS)

    # A new extender binds every pod, as it was decided; kube-scheduler has noted the failure meanwhile.
    meta = pods[0]["metadata"]

    def noted(found: stages.Json) -> stages.Json:
        found["status"]["message"] = "not bound"
        return found

    stage.api.objects.change("pods", (meta["namespace"], meta["name"]), noted)
    caller = stage.caller(replica=planning(stage, "planning-2"))
    for pod, seat in zip(pods, SEATS, strict=True):
        polling.eventually(functools.partial(binds, caller, pod, seat), f"a pod is bound to {seat}")
    for pod, seat, ticket in zip(pods, SEATS, decided, strict=True):
        made = stage.api.objects.get("pods", ("shop", pod["metadata"]["name"]))
        assert made["spec"]["nodeName"] == seat
        assert made["metadata"]["annotations"][pod_sets.TICKET] == ticket
    snapshot = stage.seen()
    assert not snapshot.placements
    assert dict(snapshot.counts) == materialised.counts(stage.store) == {"shop/spread|role=host": len(SEATS)}
