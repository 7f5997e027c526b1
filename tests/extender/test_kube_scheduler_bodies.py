"""Bodies as kube-scheduler sends them: recorded, of real size, and in any case of the keys."""

import json
import pathlib

import pytest

from tests.support.extender import stages, verb_answers

RECORDED = pathlib.Path(__file__).with_name("recorded.json").read_bytes().strip()
"""What kube-scheduler 1.37.0 sent for a pod's second attempt (docs/design/extender-contract.md, 1)."""
HEADERS = {"User-Agent": "Go-http-client/1.1", "Accept-Encoding": "gzip"}


@pytest.mark.scenario("RL-14")
def test_the_bodies_that_kube_scheduler_sends(stage: stages.Stage, own: str) -> None:
    caller, victim = stage.caller(), stage.pod(own, "victim", nodeName="n1")
    stage.seen()
    assert verb_answers.names_of(caller.post("/filter", RECORDED, HEADERS)) == [
        "n1",
        "n2",
        "n3",
        "n4",
        "n5",
    ]
    assert verb_answers.scores(caller.post("/prioritize", RECORDED, HEADERS)) == dict.fromkeys(
        ["n1", "n2", "n3", "n4", "n5"], 0
    )
    # Go ends a body with a newline where it is streamed.
    assert verb_answers.names_of(caller.post("/filter", RECORDED + b"\n", HEADERS)) == [
        "n1",
        "n2",
        "n3",
        "n4",
        "n5",
    ]
    meta = json.loads(RECORDED)["Pod"]["metadata"]
    bind = b'{"PodName":"a1","PodNamespace":"default","PodUID":"%b","Node":"n3"}' % meta["uid"].encode()
    assert caller.post("/bind", bind, HEADERS).json["Error"]
    pod = json.loads(RECORDED)["Pod"]
    pod["spec"] |= {"priorityClassName": "high", "priority": 1000}
    victims = {"n1": {"Pods": [{"UID": victim["metadata"]["uid"]}], "NumPDBViolations": 0}}
    asked = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    assert caller.post("/preempt", asked, HEADERS).json == {"NodeNameToMetaVictims": victims}


@pytest.mark.scenario("RL-14")
def test_a_pod_and_nodes_of_real_size_with_unknown_fields(stage: stages.Stage, own: str) -> None:
    node = stage.node(f"{own}-1")
    node["status"]["images"] = [
        {"names": [f"registry.example/{n}@sha256:{n:064}"], "sizeBytes": n} for n in range(50)
    ]
    node["metadata"]["managedFields"] = [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:x": {}}}}]
    pod = stage.pod(
        own, "pod", ephemeralThing={"of": ["tomorrow"]}, volumes=[{"name": f"v{n}"} for n in range(30)]
    )
    pod["metadata"]["labels"] = None
    pod["metadata"]["annotations"] = {"big": "x" * 100_000}
    stage.seen()
    asked = {"Pod": pod, "Nodes": {"metadata": {}, "items": [node]}, "NodeNames": None, "Weather": "fine"}
    reply = stage.caller().post("/filter", asked)
    assert reply.json["Nodes"]["items"] == [node]
    empty: stages.Json = {"Pod": pod, "Nodes": {"metadata": {}, "items": None}, "NodeNames": None}
    assert not stage.caller().post("/filter", empty).json["Nodes"]["items"]


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_golden_json_in_any_key_case(stage: stages.Stage, own: str, case: object) -> None:
    assert callable(case)
    node = stage.node(f"{own}-1")
    pod = stage.pod(own, "pod")
    stage.seen()
    caller = stage.caller()
    names = {case(key): value for key, value in stages.request(pod, f"{own}-1").items()}
    whole = {case("Pod"): pod, case("Nodes"): {"metadata": {}, "items": [node]}, case("NodeNames"): None}
    assert caller.post("/filter", names).json == {
        "Nodes": None,
        "NodeNames": [f"{own}-1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert caller.post("/filter", whole).json["Nodes"] == {"metadata": {}, "items": [node]}
    assert caller.post("/prioritize", names).items == [{"Host": f"{own}-1", "Score": 0}]
    bind = {case(key): value for key, value in stages.bind(pod, f"{own}-1").items()}
    assert caller.post("/bind", bind).json == {"Error": ""}
