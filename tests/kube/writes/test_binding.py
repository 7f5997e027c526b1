"""Binding a pod: the outcome after every reply, and after none."""

import json

import pytest

from app.domain import model
from app.kube import errors
from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.writes import binding
from app.simulation import populations
from app.simulation.apiserver import apiservers, faults, objects
from tests.support.kube import odd_replies

BINDINGS = faults.calls("POST", "/binding")


@pytest.fixture
def pod(client: clients.Client) -> model.Pod:
    body = json.dumps(populations.pod("ns", "p")).encode()
    return decoding.pod(client.post("/api/v1/namespaces/ns/pods", body))


def bind(client: clients.Client, pod: model.Pod, node: str = "n", *, timeout: float = 3.0) -> binding.Outcome:
    return binding.ApiBinder(client).bind(pod.namespace, pod.name, pod.uid, node, timeout=timeout)


def node_of(client: clients.Client, pod: model.Pod) -> str:
    found = binding.ApiBinder(client).get_pod(pod.namespace, pod.name)
    assert found is not None
    return found.pod.node


def test_a_pod_is_bound(client: clients.Client, pod: model.Pod) -> None:
    assert bind(client, pod) == binding.Bound()
    assert node_of(client, pod) == "n"


def test_the_same_binding_again_is_bound(client: clients.Client, pod: model.Pod) -> None:
    bind(client, pod)
    assert bind(client, pod) == binding.Bound()


def test_another_node_is_refused(client: clients.Client, pod: model.Pod) -> None:
    bind(client, pod, "n")
    outcome = bind(client, pod, "m")
    assert isinstance(outcome, binding.NotBound)
    assert "already bound to node n" in outcome.reason


def test_a_recreated_pod_is_refused(client: clients.Client, pod: model.Pod) -> None:
    client.delete("/api/v1/namespaces/ns/pods/p")
    client.post("/api/v1/namespaces/ns/pods", json.dumps(populations.pod("ns", "p")).encode())
    outcome = bind(client, pod)
    assert isinstance(outcome, binding.NotBound)
    assert f"with uid {pod.uid} is gone" in outcome.reason
    assert node_of(client, pod) == ""


def test_a_pod_that_is_gone_is_refused(client: clients.Client, pod: model.Pod) -> None:
    client.delete("/api/v1/namespaces/ns/pods/p")
    assert isinstance(bind(client, pod), binding.NotBound)
    assert binding.ApiBinder(client).get_pod("ns", "p") is None


UNBINDABLE: dict[str, tuple[dict[str, str], dict[str, object], str]] = {
    "terminating": ({"deletionTimestamp": "2026-07-01T10:00:00Z"}, {}, "is being deleted"),
    "gated": ({}, {"schedulingGates": [{"name": "example.org/gate"}]}, "schedulingGates"),
}
"""Fields of the metadata and of the spec of a pod that no Binding can bind, and the reason."""


@pytest.mark.parametrize("name", UNBINDABLE)
def test_a_conflict_that_the_pod_explains_is_refused(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, name: str
) -> None:
    metadata, spec, reason = UNBINDABLE[name]

    def edit(found: objects.Json) -> objects.Json:
        return {**found, "metadata": found["metadata"] | metadata, "spec": found["spec"] | spec}

    server.objects.change("pods", (pod.namespace, pod.name), edit)
    outcome = fenced(client, pod, current(client, pod).version)
    assert isinstance(outcome, binding.NotBound)
    assert reason in outcome.reason


@pytest.mark.parametrize("status", [409, 500])
def test_a_webhook_that_denies_a_binding_refuses_it_with_any_status(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, status: int
) -> None:
    """Admission precedes the write, so that nothing can be bound later."""
    message = 'admission webhook "quota.example.org" denied the request: not now'
    denied = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
    raw = odd_replies.answer(json.dumps(denied).encode(), status=b"%d Denied" % status)
    server.faults.add(faults.FaultKind.RAW, BINDINGS, raw=raw)
    outcome = fenced(client, pod, current(client, pod).version)
    assert outcome == binding.NotBound(f"the API server refused the binding: {status} {message}")


@pytest.mark.parametrize("with_version", [True, False])
def test_a_conflict_that_the_pod_does_not_explain_is_unknown(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, with_version: bool
) -> None:
    version = current(client, pod).version if with_version else ""
    server.faults.add(faults.FaultKind.FAIL, BINDINGS, status=409)
    assert isinstance(fenced(client, pod, version), binding.Unknown)


def test_a_lost_reply_is_resolved_by_reading_the_pod(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.FaultKind.LOSE, BINDINGS)
    assert bind(client, pod) == binding.Bound()
    assert node_of(client, pod) == "n"


def test_a_lost_request_is_sent_again(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.FaultKind.DROP, BINDINGS)
    assert bind(client, pod) == binding.Bound()
    assert node_of(client, pod) == "n"


def test_a_stalled_server_leaves_the_outcome_unknown(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.FaultKind.STALL, BINDINGS, times=2)
    outcome = bind(client, pod, timeout=4.0)
    assert isinstance(outcome, binding.Unknown)
    assert "not bound yet" in outcome.reason


def test_the_outcome_is_unknown_while_the_pod_cannot_be_read(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.FaultKind.LOSE, BINDINGS, times=2)
    server.faults.add(faults.FaultKind.DROP, faults.calls("GET", "/pods/p"), times=5)
    assert isinstance(bind(client, pod), binding.Unknown)


def test_an_error_that_may_hide_a_write_is_unknown(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.FaultKind.FAIL, BINDINGS, status=504)
    assert isinstance(bind(client, pod), binding.Unknown)


def test_a_refusal_leaves_the_pod_unbound(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.FaultKind.FAIL, BINDINGS, status=403)
    outcome = bind(client, pod)
    assert isinstance(outcome, binding.NotBound)
    assert "403" in outcome.reason


def test_no_server_binds_nothing(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.stop()
    outcome = bind(client, pod)
    assert isinstance(outcome, binding.NotBound)
    assert "cannot connect" in outcome.reason


def test_a_kept_connection_that_was_closed_is_replaced(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    assert node_of(client, pod) == ""
    server.disconnect()
    assert bind(client, pod) == binding.Bound()
    assert sum(map(BINDINGS, server.seen)) == 1


# -- the fence ---------------------------------------------------------------------------------


def current(client: clients.Client, pod: model.Pod) -> binding.Current:
    found = binding.ApiBinder(client).get_pod(pod.namespace, pod.name)
    assert found is not None
    return found


def touched(server: apiservers.ApiServer, pod: model.Pod) -> None:
    """Change the pod's status as another client."""

    def edit(found: objects.Json) -> objects.Json:
        found["status"]["message"] = "changed by a test"
        return found

    server.objects.change("pods", (pod.namespace, pod.name), edit)


def fenced(client: clients.Client, pod: model.Pod, version: str) -> binding.Outcome:
    return binding.ApiBinder(client).bind(
        pod.namespace, pod.name, pod.uid, "n", carried=binding.Carried(version)
    )


def test_a_pod_is_bound_for_its_version(client: clients.Client, pod: model.Pod) -> None:
    assert fenced(client, pod, current(client, pod).version) == binding.Bound()
    assert node_of(client, pod) == "n"


def test_a_pod_that_has_changed_is_not_bound_for_an_older_version(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    before = current(client, pod).version
    touched(server, pod)
    outcome = fenced(client, pod, before)
    assert isinstance(outcome, binding.Outdated)
    assert outcome.current == current(client, pod)
    assert outcome.current.version != before
    assert node_of(client, pod) == ""
    assert fenced(client, pod, outcome.current.version) == binding.Bound()


def test_a_binding_without_a_reply_is_void_once_the_pod_has_changed(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    before = current(client, pod).version
    server.faults.add(faults.FaultKind.FAIL, BINDINGS, status=504)
    assert isinstance(fenced(client, pod, before), binding.Unknown)
    touched(server, pod)
    server.faults.add(faults.FaultKind.FAIL, BINDINGS, status=504)
    assert isinstance(fenced(client, pod, before), binding.Outdated)


# -- what a reply proves ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_a_repetition_that_is_refused_proves_nothing_about_the_first_sending(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, status: int
) -> None:
    """The first was carried out, and the kept connection was closed without a reply."""
    assert node_of(client, pod) == ""
    server.faults.add(faults.FaultKind.LOSE, BINDINGS)
    server.faults.add(faults.FaultKind.FAIL, BINDINGS, status=status)
    assert bind(client, pod) == binding.Bound()
    assert sum(map(BINDINGS, server.seen)) == 2


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_a_repetition_that_is_refused_leaves_the_outcome_unknown_while_the_pod_is_unbound(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, status: int
) -> None:
    assert node_of(client, pod) == ""
    server.faults.add(faults.FaultKind.DROP, BINDINGS)
    server.faults.add(faults.FaultKind.FAIL, BINDINGS, status=status)
    assert isinstance(bind(client, pod), binding.Unknown)


@pytest.mark.parametrize("status", [200, 202, 204, 301, 307, 403, 404, 429, 500, 503])
@pytest.mark.parametrize("done", [True, False], ids=["carried out", "not carried out"])
def test_a_reply_that_is_not_the_api_servers_proves_nothing(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, status: int, done: bool
) -> None:
    """A proxy sent it, which proves nothing about the API server, so the pod is read."""
    kind = faults.FaultKind.LOSE if done else faults.FaultKind.DROP
    server.faults.add(kind, BINDINGS, proxy_status=status)
    outcome = bind(client, pod)
    assert outcome == binding.Bound() if done else isinstance(outcome, binding.Unknown)
    assert sum(map(BINDINGS, server.seen)) == 1


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_a_refusal_by_the_api_server_itself_is_definite(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, status: int
) -> None:
    server.faults.add(faults.FaultKind.FAIL, BINDINGS, status=status)
    assert isinstance(bind(client, pod), binding.NotBound)


@pytest.mark.parametrize("odd", [one for one in odd_replies.EVERY if b'"Success"' not in one])
def test_an_odd_reply_leaves_the_outcome_unknown(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, odd: bytes
) -> None:
    server.faults.add(faults.FaultKind.RAW, BINDINGS, raw=odd, times=2)
    assert isinstance(bind(client, pod), binding.Unknown)


@pytest.mark.parametrize("status", [b"202 Accepted", b"204 No Content", b"307 Temporary Redirect"])
def test_only_200_and_201_prove_that_a_pod_is_bound(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, status: bytes
) -> None:
    """Whatever the body states."""
    body = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'
    raw = odd_replies.answer(body, status=status)
    server.faults.add(faults.FaultKind.RAW, BINDINGS, raw=raw, times=2)
    assert isinstance(bind(client, pod), binding.Unknown)


def test_an_unfenced_binding_is_waited_for_longer_than_the_api_server_may_take() -> None:
    """kube-apiserver's --request-timeout is one minute by default; the request travels before that."""
    assert binding.UNFENCED >= 60.0 + 10.0


def test_a_404_of_a_proxy_is_not_a_missing_pod(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.FaultKind.DROP, faults.calls("GET", "/pods/p"), proxy_status=404)
    with pytest.raises(errors.ApiError):
        binding.ApiBinder(client).get_pod("ns", "p")


# -- what else a Binding writes ----------------------------------------------------------------

WRITES = binding.Carried(
    annotations={"example.org/devices": '{"gpu":[0]}', "example.org/both": "ours"}, labels={"pool": "a"}
)


def carrying(client: clients.Client, pod: model.Pod, carried: binding.Carried = WRITES) -> binding.Outcome:
    return binding.ApiBinder(client).bind(pod.namespace, pod.name, pod.uid, "n", carried=carried)


def metadata(server: apiservers.ApiServer, pod: model.Pod) -> objects.Json:
    found: objects.Json = server.objects.get("pods", (pod.namespace, pod.name))["metadata"]
    return found


def annotate(server: apiservers.ApiServer, pod: model.Pod, **annotations: str) -> None:
    def edit(found: objects.Json) -> objects.Json:
        found["metadata"].setdefault("annotations", {}).update(annotations)
        return found

    server.objects.change("pods", (pod.namespace, pod.name), edit)


def test_annotations_and_labels_are_written_with_the_node(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    annotate(server, pod, **{"example.org/both": "theirs", "example.org/kept": "theirs"})
    assert carrying(client, pod) == binding.Bound()
    found = metadata(server, pod)
    assert found["annotations"] == {**WRITES.annotations, "example.org/kept": "theirs"}
    assert found["labels"]["pool"] == "a"
    assert current(client, pod).annotations == found["annotations"]


@pytest.mark.parametrize("kind", [faults.FaultKind.LOSE, faults.FaultKind.DROP])
def test_a_repetition_writes_the_same(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, kind: faults.FaultKind
) -> None:
    server.faults.add(kind, BINDINGS)
    assert carrying(client, pod) == binding.Bound()
    assert WRITES.annotations.items() <= metadata(server, pod)["annotations"].items()


@pytest.mark.parametrize(
    "found", [{}, {"example.org/both": "ours"}, {**WRITES.annotations, "example.org/both": ""}]
)
def test_a_pod_on_the_node_without_the_annotations_was_bound_by_another_client(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod, found: dict[str, str]
) -> None:
    annotate(server, pod, **found)
    bind(client, pod)
    outcome = carrying(client, pod)
    assert isinstance(outcome, binding.BoundByOther)
    assert "pod ns/p was bound to node n by another client" in outcome.reason
    assert carrying(client, pod, binding.NOTHING) == binding.Bound()


def test_a_pod_with_further_annotations_was_bound_by_us(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    assert carrying(client, pod) == binding.Bound()
    annotate(server, pod, other="1")
    assert carrying(client, pod) == binding.Bound()
