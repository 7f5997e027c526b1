"""Discovery documents and definitions: what the simulated API server serves."""

import json
from typing import Any

from app.simulation.apiserver import objects, requests

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"


def answer(store: objects.Objects, request: requests.Request) -> tuple[int, bytes] | None:
    """The reply to ``GET /apis``, ``GET /apis/GROUP/VERSION`` and to that of the definition of a custom
    resource, unless definitions are objects of the store; None for other requests."""
    served: dict[str, list[str]] = {}
    for resource in store.served():
        served.setdefault(resource.prefix, []).append(resource.plural or resource.name)
    if request.method != "GET":
        return None
    if request.path == "/apis":
        versions = [prefix.removeprefix("/apis/") for prefix in served if prefix.startswith("/apis/")]
        groups = [
            {
                "name": one.partition("/")[0],
                "versions": [{"groupVersion": one, "version": one.partition("/")[2]}],
            }
            for one in versions
        ]
        return 200, json.dumps({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}).encode()
    if request.path.startswith(DEFINITIONS):
        return _definition(store, request.path.removeprefix(DEFINITIONS))
    if request.path not in served or request.path.startswith("/api/"):
        return None
    found = {
        "kind": "APIResourceList",
        "groupVersion": request.path.removeprefix("/apis/"),
        "resources": [{"name": name} for name in served[request.path]],
    }
    return 200, json.dumps(found).encode()


def _definition(store: objects.Objects, name: str) -> tuple[int, bytes] | None:
    if store.resource("customresourcedefinitions", DEFINITIONS) is not None:
        return None
    for one in store.served():
        group, _, version = one.version.rpartition("/")
        plural = one.plural or one.name
        if one.custom and name == f"{plural}.{group}":
            served: dict[str, Any] = {"name": version, "served": True, "storage": True}
            if one.status:
                served["subresources"] = {"status": {}}
            found = {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": name},
                "spec": {
                    "group": group,
                    "names": {"kind": one.kind, "plural": plural},
                    "scope": "Namespaced" if one.namespaced else "Cluster",
                    "versions": [served],
                },
            }
            return 200, json.dumps(found).encode()
    return None
