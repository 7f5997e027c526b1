"""The discovery documents of the simulated API server: which groups, versions and resources it serves."""

import json

from app.simulation.apiserver import objects, requests


def answer(store: objects.Objects, request: requests.Request) -> tuple[int, bytes] | None:
    """The reply to ``GET /apis`` and ``GET /apis/GROUP/VERSION``; None for other requests."""
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
    if request.path not in served or request.path.startswith("/api/"):
        return None
    found = {
        "kind": "APIResourceList",
        "groupVersion": request.path.removeprefix("/apis/"),
        "resources": [{"name": name} for name in served[request.path]],
    }
    return 200, json.dumps(found).encode()
