"""WorkloadPolicies as an API server stores them, for the simulation and the demo."""

from collections.abc import Mapping
from typing import Any

from app.plugins.workload_policy import kinds, logic

Json = dict[str, Any]

COLLECTION = kinds.POLICIES.resource
"""The plural under which they are stored."""
VIEWS = "plugins/WorkloadPolicy/policies"
"""Where the introspection API shows them."""
LABEL = logic.LABEL
"""Pod label that names a policy."""


def policy(namespace: str, name: str, spec: Json | None) -> Json:
    """A policy; invalid if it has no specification."""
    made: Json = {"metadata": {"namespace": namespace, "name": name}}
    return made if spec is None else {**made, "spec": spec}


def spec(key: str, app: str, quotas: Mapping[str, int], *, kind: str = "", method: str = "") -> Json:
    """A specification: quotas per value of the node label ``key`` for the pods with the label ``app``."""
    made: Json = {
        "topologyKey": key,
        "labelSelector": {"matchLabels": {"app": app}},
        "allocationPolicy": [{"name": name, "replicas": replicas} for name, replicas in quotas.items()],
    }
    if kind:
        made["allocationType"] = kind
    if method:
        made["allocationMethod"] = method
    return made


def quotas(made: Json) -> dict[str, int]:
    """Domain -> replicas of a policy."""
    return {one["name"]: one["replicas"] for one in made["spec"]["allocationPolicy"]}
