"""Objects with mistakes: each is shown with its reason, and all others go on."""

import json

from app.simulation import populations
from tests.support import polling
from tests.support.extender import stages


def test_bad_policies_are_shown_with_their_reasons(stage: stages.Stage, own: str) -> None:
    stage.node(f"{own}-1", role="host")
    bad = {
        "none": None,
        "negative": {**stages.spec(host=1), "allocationPolicy": [{"name": "host", "replicas": -1}]},
        "twice": {**stages.spec(host=1), "allocationPolicy": [{"name": "host", "replicas": 1}] * 2},
        "empty": {**stages.spec(host=1), "allocationPolicy": []},
        "type": {**stages.spec(host=1), "allocationType": "require"},
        "shape": {**stages.spec(host=1), "labelSelector": ["app"]},
    }
    for name, wrong in bad.items():
        stage.policy(own, name, wrong)
    pods = {name: stage.pod(own, f"web-{name}", {"app": "web", stages.POLICY_LABEL: name}) for name in bad}
    stage.seen()
    viewer, caller = stage.caller("viewer"), stage.caller()
    for name, pod in pods.items():
        shown = viewer.ask("GET", f"/apis/v1/plugins/WorkloadPolicy/policies/{own}/{name}").json
        assert shown["valid"] is False
        assert shown["errors"]
        reply = caller.post("/filter", stages.request(pod, f"{own}-1")).json
        (sentence,) = reply["FailedAndUnresolvableNodes"].values()
        assert sentence.startswith(f"workload policy {own}/{name}: invalid: ")
        assert (reply["Error"], reply["NodeNames"]) == ("", [])


def test_a_poison_object_is_an_event_and_the_stream_goes_on(stage: stages.Stage, own: str) -> None:
    stage.node(f"{own}-1")
    before = stage.seen().offset
    poison = {"metadata": {"namespace": own, "name": "poison", "uid": "u", "labels": {"a": ["no", "text"]}}}
    stage.api.objects.send_raw("pods", json.dumps({"type": "ADDED", "object": poison}).encode())
    stage.pod(own, "after")
    stage.seen()
    viewer = stage.caller("viewer", replica=1)

    def quarantined() -> list[stages.Json]:
        found = viewer.ask("GET", f"/apis/v1/events?from={before}&type=Quarantined").json["items"]
        return [event["data"] for event in found if event["data"].get("object") == f"{own}/poison"]

    (event,) = polling.eventually(quarantined, "the event of the poison object")
    assert event["kind"] == "pods"
    assert "labels" in event["reason"]
    assert viewer.ask("GET", f"/apis/v1/pods/{own}/after").status == 200
    assert viewer.ask("GET", f"/apis/v1/pods/{own}/poison").status == 404


def test_a_pod_that_is_too_large_is_refused_with_the_reason_and_the_others_go_on(
    stage: stages.Stage, own: str
) -> None:
    """The cost is a log line and a small record for each attempt."""
    stage.node(f"{own}-1")
    before = stage.seen().offset
    labels = {f"label-{number}": "x" * 60 for number in range(4_000)}
    large = populations.pod(own, "large", labels)
    large["metadata"]["uid"] = f"uid-{own}-large"
    stage.api.objects.send_raw("pods", json.dumps({"type": "ADDED", "object": large}).encode())
    viewer, caller = stage.caller("viewer"), stage.caller()
    reply = caller.post("/filter", stages.request(large, f"{own}-1"))
    assert (reply.status, reply.json["NodeNames"]) == (200, None)
    assert "labels have" in reply.json["Error"]
    assert "the limit is 16384" in reply.json["Error"]
    assert caller.post("/prioritize", stages.request(large, f"{own}-1")).status == 400
    other = caller.post("/filter", stages.request(stage.pod(own, "other"), f"{own}-1")).json
    assert (other["Error"], other["NodeNames"]) == ("", [f"{own}-1"])

    def shown() -> stages.Json:
        answer = viewer.ask("GET", f"/apis/v1/pods/{own}/large/explain")
        return answer.json if answer.status == 200 else {}

    explained = polling.eventually(shown, "the decision is on record")
    assert "labels have" in explained["difference"]
    assert explained["decision"]["outcome"] == "error"
    stage.seen()
    found = viewer.ask("GET", f"/apis/v1/events?from={before}&type=Quarantined").json["items"]
    (event,) = [one["data"] for one in found if one["data"].get("object") == f"{own}/large"]
    assert "labels have" in event["reason"]
    raws = stage.store.log.raws(before, stage.store.log.head().offset)
    assert max(len(bytes(raw.e)) for raw in raws) < 2_000
