"""The commands that restart the processes of a pod, by what manages the pod."""

from collections.abc import Mapping
from typing import Any, Final

_MIRROR: Final = "kubernetes.io/config.mirror"
_HASH: Final = "pod-template-hash"
_RESTARTED: Final = ("StatefulSet", "DaemonSet")


def of_pod(pod: Mapping[str, Any]) -> str:
    """The command, or what to do on the node of a static pod."""
    metadata = pod["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    if _MIRROR in (metadata.get("annotations") or {}):
        node = pod["spec"].get("nodeName", "")
        return f"on node {node} move the manifest of pod {name} out of the kubelet's directory, and back"
    owners = [one for one in metadata.get("ownerReferences") or () if one.get("controller")]
    owner: Mapping[str, Any] = owners[0] if owners else {}
    kind, owned = str(owner.get("kind", "")), str(owner.get("name", ""))
    suffix = f"-{(metadata.get('labels') or {}).get(_HASH, '')}"
    if kind == "ReplicaSet" and suffix != "-" and owned.endswith(suffix):
        kind, owned = "Deployment", owned.removesuffix(suffix)
    elif kind not in _RESTARTED:
        return f"kubectl -n {namespace} delete pod {name}" + ("" if owner else ", and create it again")
    return f"kubectl -n {namespace} rollout restart {kind.lower()}/{owned}"
