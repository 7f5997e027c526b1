"""The view of nominations: pods that wait for the evictions on a node."""

from collections.abc import Mapping

from app.domain import model, snapshots
from app.framework import views


def nominations(snapshot: snapshots.Snapshot, _: Mapping[str, str]) -> views.Listed:
    """The unbound pods with a nominated node, by node and name."""
    found = {(pod.nominated, pod.key): pod for uid in snapshot.nominated if (pod := snapshot.pod(uid))}

    def item(key: tuple[str, str]) -> object:
        return _shown(snapshot, found[key])

    return views.Listed(found, item)


def _shown(snapshot: snapshots.Snapshot, pod: model.Pod) -> object:
    return {
        "node": pod.nominated,
        "known": pod.nominated in snapshot.nodes,
        "pod": pod.key,
        "uid": pod.uid,
        "priority": pod.priority,
    }


EXAMPLE = [{"node": "n1", "known": True, "pod": "shop/urgent-1", "uid": "5b2c0f5e", "priority": 1000}]
TABLES = (
    views.Table(
        "nominations",
        "nominations",
        "pods that are nominated for a node",
        {"NODE": "node", "POD": "pod", "PRIORITY": "priority", "NODE KNOWN": "known"},
    ),
)


def shown() -> views.Shown:
    """The view of the nominations."""
    summary = "Unbound pods with a nominated node"
    return views.Shown(endpoints=(views.Endpoint("nominations", summary, nominations, EXAMPLE),))
