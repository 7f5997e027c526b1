"""Writes conditions of pending pods: to wake a pod that kube-scheduler has parked, or to fence a Binding.

kube-scheduler has no event for capacity under Topolog's policies. A change of the pod's own status wakes that
pod alone, within 20 ms, if an extender has refused it, and requires no right to change pods. It also gives
the pod a new resourceVersion (fencing). The message is for people who describe the pod.
"""

from dataclasses import dataclass

import msgspec

from app.domain import model
from app.kube.client import clients

CAPACITY_AVAILABLE = "topolog.io/CapacityAvailable"
FENCED = "topolog.io/BindingFenced"
_MAX_MESSAGE = 1024

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod. Writing the same one again changes nothing and so wakes no pod."""

    type: str
    reason: str
    """CamelCase, for programs."""
    message: str
    at: str
    """RFC 3339, whole seconds."""


def set_condition(
    client: clients.Client,
    pod: model.Pod,
    condition: Condition,
    *,
    version: str = "",
    timeout: float = 5.0,
) -> None:
    """Write the condition into the status of the pod with this uid; the other conditions stay.

    ``version``: the pod's resourceVersion as a precondition; empty for no precondition. Raises ApiError (404:
    the pod is gone, 409: another version, 422: another pod has the name) or Unreachable.
    """
    written = {
        "type": condition.type,
        "status": "True",
        "reason": condition.reason,
        "message": condition.message[:_MAX_MESSAGE],
        "lastTransitionTime": condition.at,
        "lastProbeTime": condition.at,
    }
    metadata = {"uid": pod.uid} | ({"resourceVersion": version} if version else {})
    body = _encode({"metadata": metadata, "status": {"conditions": [written]}})
    client.patch(
        f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status",
        body,
        content=clients.STRATEGIC,
        timeout=timeout,
    )
