"""The defaults that the API server gives a pod when it is created.

Watched pods have them; a manifest as people write it does not. Here are those that decide where a pod fits,
of SetDefaults_Pod (pkg/apis/core/v1/defaults.go) and DefaultPodLevelResources (pkg/api/pod/util.go,
Kubernetes 1.37). What admission adds depends on objects that are not watched: LimitRange, RuntimeClass,
PriorityClass.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Json = dict[str, Any]

_CONTAINERS = ("containers", "initContainers")


def defaulted(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod with its defaults. A part that has another shape is left as it is: decoding refuses it."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    exposed = spec.get("hostNetwork") is True
    containers = {
        part: [_container(one, exposed=exposed) for one in spec[part]]
        for part in _CONTAINERS
        if isinstance(spec.get(part), list)
    }
    made = {**spec, **containers}
    if isinstance(spec.get("resources"), dict):
        every = itertools.chain.from_iterable(containers.values())
        made["resources"] = _requesting(spec["resources"], frozenset(_requested(every)))
    return {**pod, "spec": made}


def _container(given: object, *, exposed: bool) -> object:
    """The container with its requests; ``exposed``: its ports are those of the node."""
    if not isinstance(given, dict):
        return given
    made = dict(given)
    if isinstance(given.get("resources"), dict):
        made["resources"] = _requesting(given["resources"])
    if exposed and isinstance(given.get("ports"), list):
        made["ports"] = [_exposed(port) for port in given["ports"]]
    return made


def _exposed(port: object) -> object:
    if not isinstance(port, dict) or port.get("hostPort"):
        return port
    return {**port, "hostPort": port.get("containerPort")}


def _requesting(resources: Json, known: frozenset[str] = frozenset()) -> Json:
    """The resources with a request for each limit that has none.

    ``known``: the resources that containers of a pod request. Of these, their sum is what the pod requests
    (huge pages excepted), as it is without a request of the pod.
    """
    limits, requests = resources.get("limits"), resources.get("requests")
    if not isinstance(limits, dict) or not isinstance(requests, dict | None):
        return resources
    wanted = {
        name: limit
        for name, limit in limits.items()
        if limit is not None and (name not in known or name.startswith("hugepages-"))
    }
    return {**resources, "requests": {**wanted, **(requests or {})}}


def _requested(containers: Iterable[object]) -> Iterator[str]:
    """The resources that containers request."""
    for one in containers:
        resources = one.get("resources") if isinstance(one, dict) else None
        requests = resources.get("requests") if isinstance(resources, dict) else None
        if isinstance(requests, dict):
            yield from requests
