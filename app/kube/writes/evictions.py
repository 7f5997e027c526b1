"""Evicts pods through the Eviction API (policy/v1), which honours PodDisruptionBudgets."""

import http
from collections.abc import Mapping
from typing import Final

import msgspec

from app.domain import model
from app.kube import errors
from app.kube.client import clients

_REFUSALS: Mapping[int, str] = {
    http.HTTPStatus.TOO_MANY_REQUESTS: "disruption budget",
    http.HTTPStatus.INTERNAL_SERVER_ERROR: "more than one PodDisruptionBudget",
}
"""Status -> a part of the message of every refusal because of PodDisruptionBudgets
(pkg/registry/core/pod/storage/eviction.go): none is left, or several select the pod, which is not supported.
Without it the API server is busy or has failed."""

_TIMEOUT: Final = 5.0
"""Seconds."""

_encode = msgspec.json.Encoder().encode


def evict(client: clients.Client, pod: model.Pod) -> str:
    """Evict the pod; why PodDisruptionBudgets do not allow it now, or an empty text.

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
        client.post(path, _encode(body), timeout=_TIMEOUT)
    except errors.ApiError as problem:
        text = _REFUSALS.get(problem.status)
        if text is None or text not in problem.message or not problem.original:
            raise
        return problem.message
    return ""
