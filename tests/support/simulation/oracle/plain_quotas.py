"""A second, plain computation of the use of elastic quotas, without the code of the plugin.

It covers what simulations contain: one tree, labels on every pod of a quota, requests of cpu in max.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from app.domain import model

Quota = dict[str, Any]
"""An ElasticQuota as it is in the log."""

LABEL = "quota.scheduling.koordinator.sh/name"
FIRM = "quota.scheduling.koordinator.sh/preemptible"
"""``"false"`` on a pod that must stay within min."""
DEFAULT = "koordinator-default-quota"
RESOURCE = "cpu"


def by_name(quotas: Iterable[Quota]) -> dict[str, Quota]:
    """Name -> quota; names are unique."""
    return {quota["name"]: quota for quota in quotas}


def of(pod: model.Pod, quotas: Mapping[str, Quota]) -> str:
    """The quota that the pod counts in."""
    named = pod.labels.get(LABEL, "")
    return named if named in quotas else DEFAULT


def upwards(name: str, quotas: Mapping[str, Quota]) -> Iterator[str]:
    """The quota and those above it that exist."""
    yield name
    while name in quotas and quotas[name].get("parent", "") in quotas:
        name = quotas[name]["parent"]
        yield name


def firm(pod: model.Pod) -> bool:
    """Whether the pod must stay within min."""
    return pod.labels.get(FIRM) == "false"


def request(pod: model.Pod, name: str, quotas: Mapping[str, Quota]) -> dict[str, int]:
    """The requests that count in the quota: the resources of max, all in the default quota."""
    return {
        resource: units(resource, amount)
        for resource, amount in pod.requests.items()
        if amount and (name not in quotas or resource in quotas[name].get("max", {}))
    }


def units(resource: str, amount: int) -> int:
    """A request as it is counted: memory in units of 64 bytes."""
    return -(-amount // 64) if resource == "memory" else amount


def counts(pods: Iterable[tuple[model.Pod, str]], quotas: Mapping[str, Quota]) -> dict[str, int]:
    """Every count of the quotas, without zeros."""
    found: dict[str, int] = {}
    for pod, node in pods:
        for key, amount in keys(pod, node, quotas).items():
            found[key] = found.get(key, 0) + amount
    return found


def keys(pod: model.Pod, node: str, quotas: Mapping[str, Quota]) -> dict[str, int]:
    """Count -> the amount that one pod contributes."""
    if not quotas or pod.phase in ("Succeeded", "Failed"):
        return {}
    name = of(pod, quotas)
    parts = ("", "np|") if firm(pod) else ("",)
    return {
        f"quota||{above}|{'' if node else 'pending|'}{part}{resource}": amount
        for resource, amount in request(pod, name, quotas).items()
        for above in (upwards(name, quotas) if node else (name,))
        for part in parts
    }


def of_namespaces(pods: Iterable[tuple[model.Pod, str]], spaces: Collection[str]) -> dict[str, int]:
    """Every count of the quotas of these namespaces, of each and of all together."""
    found: dict[str, int] = {}
    for pod, node in pods:
        if pod.namespace not in spaces or pod.phase in ("Succeeded", "Failed") or not node:
            continue
        for resource, amount in pod.requests.items():
            for space in ("", pod.namespace) if amount else ():
                key = f"sigsquota|{space}|{resource}"
                found[key] = found.get(key, 0) + units(resource, amount)
    return found
