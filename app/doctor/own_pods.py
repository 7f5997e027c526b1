"""The pods of Topolog: which they are, and of which process."""

from collections.abc import Mapping
from typing import Any, Final

from app.doctor import api_reader

_NAME: Final = "app.kubernetes.io/name"
_COMPONENT: Final = "app.kubernetes.io/component"
_REVISION: Final = "controller-revision-hash"
HEALTH: Final = "health"
"""Name of the port with readiness and metrics."""
_ENDED: Final = ("Succeeded", "Failed")
"""Phases of pods that run nothing again. An evicted pod stays as Failed, and keeps the name of its node."""
_INSTALLED: Final = ("topolog", "topolog-bootstrap", "topolog-valkey")
"""Names of what an installation runs: Topolog's processes, what makes its Secrets, and its bundled store."""


def of_namespace(reader: api_reader.ApiReader, namespace: str) -> list[Mapping[str, Any]]:
    """The pods of Topolog that have not ended. Raises Unseen."""
    return [pod for pod in reader.items(f"/api/v1/namespaces/{namespace}/pods") if is_own(pod)]


def of_installation(reader: api_reader.ApiReader, namespace: str) -> list[Mapping[str, Any]]:
    """The pods of Topolog, of its bootstrap and of its bundled store that have not ended. Raises Unseen."""
    found = reader.items(f"/api/v1/namespaces/{namespace}/pods")
    return [pod for pod in found if _labels(pod).get(_NAME) in _INSTALLED and not ended(pod)]


def is_own(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is one of Topolog that has not ended."""
    return belongs(pod) and not ended(pod)


def terminates(pod: Mapping[str, Any]) -> bool:
    """Whether a pod was deleted and its containers may still run; probes fail until they have ended."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def outdated(pod: Mapping[str, Any], revisions: Mapping[str, str]) -> bool:
    """Whether a pod of a StatefulSet was made from a former template.

    ``revisions``: name of a StatefulSet -> the revision of its current template (status.updateRevision).
    """
    owners = [one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
    current = next((revisions.get(str(one["name"])) for one in owners if one["kind"] == "StatefulSet"), None)
    return current is not None and _labels(pod).get(_REVISION) != current


def ended(pod: Mapping[str, Any]) -> bool:
    """Whether the containers of a pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in _ENDED


def belongs(one: Mapping[str, Any]) -> bool:
    """Whether an object is part of Topolog."""
    return _labels(one).get(_NAME) == "topolog"


def component(pod: Mapping[str, Any]) -> str:
    """The process of a pod; empty if its labels name none."""
    return str(_labels(pod).get(_COMPONENT, ""))


def account(pod: Mapping[str, Any]) -> str:
    """The service account of a pod."""
    return str(pod["spec"].get("serviceAccountName") or "default")


def serving(pod: Mapping[str, Any]) -> tuple[str, int]:
    """The container of the process, and its health port."""
    for one in pod["spec"]["containers"]:
        for port in one.get("ports") or ():
            if port.get("name") == HEALTH:
                return one["name"], int(port["containerPort"])
    return pod["spec"]["containers"][0]["name"], 8081


def _labels(one: Mapping[str, Any]) -> Mapping[str, str]:
    return one["metadata"].get("labels") or {}
