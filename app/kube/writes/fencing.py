"""Fences a Binding: writes to its pod, after which the Binding can no longer be carried out.

The API server refuses a Binding whose pod has another version than the Binding names (decision 8), and every
change of a pod gives it a new version. A patch without a change does not, so each fence writes a text that no
earlier one wrote. It is a condition, because that requires only the right to patch pods/status (decision 20).
"""

import http
from collections.abc import Callable
from typing import Final, Protocol

from app.domain import model
from app.kube import errors
from app.kube.client import clients
from app.kube.writes import pod_conditions

_CHANGED = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT)
_TIMEOUT: Final = 2.0
"""Seconds."""


class Fencer(Protocol):
    """Fences Bindings, for the controller."""

    def fence(self, pod: model.Pod, node: model.NodeName, version: str) -> bool:
        """Give the pod a new resourceVersion if it still has ``version``, the one in its Binding.

        Returns false, and writes nothing, if the pod has another version, was bound or is gone. Neither
        result is evidence that the pod is unbound: read the pod. Raises KubeError; the write may then take
        effect, even later. ``node``: the node of the Binding, for people.
        """
        ...


class ApiFencer:
    """Fencer over a client."""

    def __init__(self, client: clients.Client, *, now: Callable[[], str]) -> None:
        """``now``: RFC 3339, whole seconds."""
        self._client = client
        self._now = now

    def fence(self, pod: model.Pod, node: model.NodeName, version: str) -> bool:
        """See Fencer."""
        # A version is never used again, so the message makes every fence a change.
        message = f"the Binding to node {node} for version {version} of the pod can no longer be carried out"
        condition = pod_conditions.Condition(pod_conditions.FENCED, "OutcomeUnknown", message, self._now())
        try:
            pod_conditions.set_condition(self._client, pod, condition, version=version, timeout=_TIMEOUT)
        except errors.ApiError as refused:
            # Another pod of this name: the API server refuses the uid as a change of an immutable field.
            if refused.status in _CHANGED or "metadata.uid" in refused.message:
                return False
            raise
        return True
