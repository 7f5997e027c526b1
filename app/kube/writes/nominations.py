"""Nominates a pending pod for a node (status.nominatedNodeName), as kube-scheduler does when it preempts.

kube-scheduler and Topolog leave the room of a nominated pod to it and to more important ones.
"""

import msgspec

from app.domain import model
from app.kube.client import clients

_encode = msgspec.json.Encoder().encode


def nominate(client: clients.Client, pod: model.Pod, node: model.NodeName, *, timeout: float = 5.0) -> None:
    """Nominate the pod with this uid.

    Raises ApiError (404: the pod is gone, 409 or 422: another pod has the name) or Unreachable.
    """
    body = _encode({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}})
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
    client.patch(path, body, content=clients.STRATEGIC, timeout=timeout)
