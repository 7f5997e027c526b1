"""A condition on a pending pod: the one way to wake a pod that kube-scheduler has parked.

kube-scheduler has no event for room that Topolog's policies make. A changed status of the pod
itself wakes that pod alone, within 20 ms (extender-contract-checked N1), and needs no right to
change pods. The message is for people who describe the pod.
"""

from dataclasses import dataclass

import msgspec

from app.domain import model
from app.kube import clients

ROOM = "topolog.io/Room"
_LONGEST = 1024

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Condition:
    """What is said about the pod; nothing wakes a pod to which the same was said before."""

    type: str
    reason: str
    """CamelCase, for programs."""
    message: str
    at: str
    """RFC 3339, whole seconds."""


def set_condition(
    client: clients.Client, pod: model.Pod, condition: Condition, *, timeout: float = 5.0
) -> None:
    """Write the condition into the status of this very pod (uid); the other conditions stay.

    Raises ApiError (404: gone, 422: another pod has the name) or Unreachable.
    """
    said = {
        "type": condition.type,
        "status": "True",
        "reason": condition.reason,
        "message": condition.message[:_LONGEST],
        "lastTransitionTime": condition.at,
        "lastProbeTime": condition.at,
    }
    body = _encode({"metadata": {"uid": pod.uid}, "status": {"conditions": [said]}})
    client.patch(
        f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status",
        body,
        content=clients.STRATEGIC,
        timeout=timeout,
    )
