"""What pods count in quotas, computed again from the facts of a snapshot. Shares no code with the product."""

import math
from collections.abc import Iterator

from app.domain import model, snapshots
from app.plugins.elastic_quota.quota_model import Quota
from tests.support.decisions import recomputation

LABEL = "quota.scheduling.koordinator.sh/name"
BUILT_IN = {f"koordinator-{name}-quota" for name in ("root", "default", "system")}


def counts(snapshot: snapshots.Snapshot, quotas: list[Quota], spaces: set[str]) -> dict[str, int]:
    """Key -> count; zeros are left out. ``spaces``: namespaces with a quota of their own."""
    found = _of_namespaces(snapshot, spaces)
    used: dict[str, Quota] = {}
    for quota in sorted(quotas, key=lambda one: (one.created, one.uid)):
        if quota.name != "koordinator-root-quota":
            used.setdefault(quota.name, quota)
    for pod, node in recomputation.pods_and_nodes(snapshot).values():
        if not quotas or pod.phase in ("Succeeded", "Failed"):
            continue
        name = _quota(pod, used)
        limited = name in used and name not in BUILT_IN
        for resource, amount in pod.requests.items():
            if limited and resource not in used[name].max:
                continue
            units = math.ceil(amount / 64) if resource == "memory" else amount
            for above in _upwards(name, used) if node else (name,):
                tree = used[above].tree if above in used and above not in BUILT_IN else ""
                for firm in ("", "np|") if pod.labels.get(_FIRM) == "false" else ("",):
                    key = f"quota|{tree}|{above}|{'' if node else 'pending|'}{firm}{resource}"
                    found[key] = found.get(key, 0) + units
    return {key: count for key, count in found.items() if count}


def _of_namespaces(snapshot: snapshots.Snapshot, spaces: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod, node in recomputation.pods_and_nodes(snapshot).values():
        ended = pod.phase in ("Succeeded", "Failed")
        if pod.namespace not in spaces or ended or not node:
            continue
        for resource, amount in pod.requests.items():
            units = math.ceil(amount / 64) if resource == "memory" else amount
            for space in ("", pod.namespace):
                key = f"sigsquota|{space}|{resource}"
                found[key] = found.get(key, 0) + units
    return found


_FIRM = "quota.scheduling.koordinator.sh/preemptible"


def _quota(pod: model.Pod, used: dict[str, Quota]) -> str:
    named = pod.labels.get(LABEL, "")
    if named and named != "koordinator-root-quota":
        return named if named in used or named in BUILT_IN else "koordinator-default-quota"
    if pod.namespace in used and used[pod.namespace].namespace == pod.namespace:
        return pod.namespace
    listing = sorted(name for name, quota in used.items() if pod.namespace in quota.namespaces)
    return listing[0] if listing else "koordinator-default-quota"


def _upwards(name: str, used: dict[str, Quota]) -> Iterator[str]:
    yield name
    seen = {name}
    while name in used and name not in BUILT_IN:
        name = used[name].parent
        if not name or name in seen or name not in used:
            return
        seen.add(name)
        yield name
