"""Fencing a Binding: the result for each reply. The contract covers the effect on the pod."""

import json

import pytest

from app.kube import errors
from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.writes import binding, fencing
from app.simulation import populations
from app.simulation.apiserver import apiservers, faults

FENCE = faults.calls("PATCH", "/status")


def fence(client: clients.Client, current: binding.Current) -> bool:
    fencer = fencing.ApiFencer(client, now=lambda: "2026-07-01T10:00:00Z")
    return fencer.fence(current.pod, "n", current.version)


def current(client: clients.Client) -> binding.Current:
    found = binding.ApiBinder(client).get_pod("ns", "p")
    assert found is not None
    return found


@pytest.fixture
def pod(client: clients.Client) -> binding.Current:
    body = json.dumps(populations.pod("ns", "p")).encode()
    return binding.Current(*decoding.pod_seen(client.post("/api/v1/namespaces/ns/pods", body)), {})


def test_a_pod_is_fenced_once_for_a_version(client: clients.Client, pod: binding.Current) -> None:
    assert fence(client, pod)
    after = current(client)
    assert (after.pod, after.version != pod.version) == (pod.pod, True), "no field that Topolog reads changes"
    assert not fence(client, pod)
    assert current(client) == after
    assert fence(client, after)


@pytest.mark.parametrize("status", [401, 403, 422, 429, 500, 503])
def test_a_refusal_that_is_not_about_the_version_is_raised(
    client: clients.Client, server: apiservers.ApiServer, pod: binding.Current, status: int
) -> None:
    server.faults.add(faults.FaultKind.FAIL, FENCE, status=status)
    with pytest.raises(errors.ApiError) as refused:
        fence(client, pod)
    assert refused.value.status == status
    assert current(client) == pod


@pytest.mark.parametrize("kind", [faults.FaultKind.DROP, faults.FaultKind.LOSE])
def test_a_lost_reply_is_an_error(
    client: clients.Client, server: apiservers.ApiServer, pod: binding.Current, kind: faults.FaultKind
) -> None:
    server.faults.add(kind, FENCE)
    with pytest.raises(errors.Unreachable):
        fence(client, pod)
    assert (current(client).version != pod.version) == (kind is faults.FaultKind.LOSE)
