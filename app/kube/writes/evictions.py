"""Evicts pods through the Eviction API (policy/v1), which honours PodDisruptionBudgets."""

import http

import msgspec

from app.domain import model
from app.kube import errors
from app.kube.client import clients

_BUDGET = "disruption budget"
"""In the message of every refusal because of a PodDisruptionBudget
(pkg/registry/core/pod/storage/eviction.go). A 429 without it means that the API server is busy."""

_encode = msgspec.json.Encoder().encode


def evict(client: clients.Client, pod: model.Pod, *, timeout: float = 5.0) -> str:
    """Evict the pod; why a PodDisruptionBudget does not allow it now, or an empty text.

    Raises ApiError (404: the pod is gone; 409: another pod has its name) or Unreachable: the pod may then
    have been evicted.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    try:
        client.post(path, _encode(body), timeout=timeout)
    except errors.ApiError as problem:
        full = problem.status == http.HTTPStatus.TOO_MANY_REQUESTS and problem.original
        if not (full and _BUDGET in problem.message):
            raise
        return problem.message
    return ""
