"""The Eviction API of the simulated API server: pkg/registry/core/pod/storage/eviction.go of Kubernetes."""

from typing import Any

import msgspec

from app.domain import selectors
from app.simulation.apiserver import objects, operations, status_replies

Json = dict[str, Any]

_BUDGETS = "poddisruptionbudgets"
_PATH = f"/apis/policy/v1/{_BUDGETS}"
_TOO_MANY = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(store: objects.Objects, pods: objects.Resource, key: objects.Key, body: bytes) -> bytes:
    """POST of an Eviction: uses up the budget of the pod, and deletes it with its grace."""
    options = operations.parsed(body).get("deleteOptions") or {}
    with store.changed:
        pod = store.get(pods.name, key)
        operations.refuse_unmet(pods, pod, options)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            _use_up(store, pod)
            store.change(pods.name, key, _disrupted)
        operations.delete(store, pods, key, msgspec.json.encode(options))
    return status_replies.SUCCESS


def _use_up(store: objects.Objects, pod: Json) -> None:
    """Count the eviction in the budget of the pod. Raises StatusError if there is none left."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    kept = store.all(_BUDGETS) if store.resource(_BUDGETS, _PATH) is not None else ()
    found = [one for one in kept if one["metadata"]["namespace"] == namespace and _selects(one, pod)]
    if len(found) > 1:
        why = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise status_replies.StatusError(500, "InternalError", why)
    if not found:
        return
    metadata, status = found[0]["metadata"], found[0].get("status", {})
    observed = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    if not observed or status.get("disruptionsAllowed", 0) <= 0:
        raise status_replies.StatusError(429, "TooManyRequests", _TOO_MANY)

    def count(budget: Json) -> Json:
        held = budget["status"]
        disrupted = (held.get("disruptedPods") or {}) | {name: objects.now()}
        allowed = held["disruptionsAllowed"] - 1
        return budget | {"status": held | {"disruptionsAllowed": allowed, "disruptedPods": disrupted}}

    store.change(_BUDGETS, (namespace, metadata["name"]), count)


def _selects(budget: Json, pod: Json) -> bool:
    selector = selectors.decoded(budget.get("spec", {}).get("selector") or {})
    return selectors.matches(selector, pod["metadata"].get("labels") or {})


def _disrupted(pod: Json) -> Json:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": objects.now(),
    }
    pod["status"]["conditions"] = [*pod["status"].get("conditions", []), condition]
    return pod
