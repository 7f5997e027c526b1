"""Binding a pod: what is known of it afterwards, whatever became of the answer."""

import json

import pytest

from app.domain import model
from app.kube import binding, clients, decoding
from app.simulation import apiservers, faults, populating

BINDINGS = faults.calls("POST", "/binding")


@pytest.fixture
def pod(client: clients.Client) -> model.Pod:
    body = json.dumps(populating.pod("ns", "p")).encode()
    return decoding.pod(client.post("/api/v1/namespaces/ns/pods", body))


def bind(client: clients.Client, pod: model.Pod, node: str = "n", *, timeout: float = 3.0) -> binding.Outcome:
    return binding.ApiBinder(client).bind(pod.namespace, pod.name, pod.uid, node, timeout=timeout)


def node_of(client: clients.Client, pod: model.Pod) -> str:
    found = binding.ApiBinder(client).get_pod(pod.namespace, pod.name)
    assert found is not None
    return found.node


def test_a_pod_is_bound(client: clients.Client, pod: model.Pod) -> None:
    assert bind(client, pod) == binding.Bound()
    assert node_of(client, pod) == "n"


def test_the_same_binding_again_is_bound(client: clients.Client, pod: model.Pod) -> None:
    bind(client, pod)
    assert bind(client, pod) == binding.Bound()


def test_another_node_is_refused(client: clients.Client, pod: model.Pod) -> None:
    bind(client, pod, "n")
    outcome = bind(client, pod, "m")
    assert isinstance(outcome, binding.Refused)
    assert "already bound to node n" in outcome.reason


def test_a_pod_made_anew_is_refused(client: clients.Client, pod: model.Pod) -> None:
    client.delete("/api/v1/namespaces/ns/pods/p")
    client.post("/api/v1/namespaces/ns/pods", json.dumps(populating.pod("ns", "p")).encode())
    outcome = bind(client, pod)
    assert isinstance(outcome, binding.Refused)
    assert f"with uid {pod.uid} is gone" in outcome.reason
    assert node_of(client, pod) == ""


def test_a_pod_that_is_gone_is_refused(client: clients.Client, pod: model.Pod) -> None:
    client.delete("/api/v1/namespaces/ns/pods/p")
    assert isinstance(bind(client, pod), binding.Refused)
    assert binding.ApiBinder(client).get_pod("ns", "p") is None


def test_a_lost_answer_is_found_out(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.Kind.LOSE, BINDINGS)
    assert bind(client, pod) == binding.Bound()
    assert node_of(client, pod) == "n"


def test_a_lost_request_is_sent_again(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.Kind.DROP, BINDINGS)
    assert bind(client, pod) == binding.Bound()
    assert node_of(client, pod) == "n"


def test_a_stalled_server_leaves_it_unknown(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.Kind.STALL, BINDINGS, times=2)
    outcome = bind(client, pod, timeout=0.5)
    assert isinstance(outcome, binding.Unknown)
    assert "not bound yet" in outcome.reason


def test_nobody_can_tell_while_the_pod_cannot_be_read(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.Kind.LOSE, BINDINGS, times=2)
    server.faults.add(faults.Kind.DROP, faults.calls("GET", "/pods/p"), times=5)
    assert isinstance(bind(client, pod), binding.Unknown)


def test_an_error_that_may_hide_a_write_is_unknown(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.faults.add(faults.Kind.FAIL, BINDINGS, status=504)
    assert isinstance(bind(client, pod), binding.Unknown)


def test_a_plain_refusal_is_one(server: apiservers.ApiServer, client: clients.Client, pod: model.Pod) -> None:
    server.faults.add(faults.Kind.FAIL, BINDINGS, status=403)
    outcome = bind(client, pod)
    assert isinstance(outcome, binding.Refused)
    assert "403" in outcome.reason


def test_no_server_binds_nothing(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    server.stop()
    outcome = bind(client, pod)
    assert isinstance(outcome, binding.Refused)
    assert "cannot connect" in outcome.reason


def test_a_kept_connection_that_was_closed_is_replaced(
    server: apiservers.ApiServer, client: clients.Client, pod: model.Pod
) -> None:
    assert node_of(client, pod) == ""
    server.disconnect()
    assert bind(client, pod) == binding.Bound()
    assert sum(map(BINDINGS, server.seen)) == 1
